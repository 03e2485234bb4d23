use std::collections::BTreeMap;
use std::time::Duration;

use mooring_common::engine::{Impact, Step as _};
use mooring_common::l2_network::{L2Network, L2NetworkSpec, Segment, Subnet};

use super::*;
use crate::protocol::mac::Mac;
use crate::vlan::nft::{Firewall, NftRule};
use crate::vlan::reconcile_state::GRACE;
use crate::vlan::step::{Device, IPV4};
use crate::vlan::sysctl::Ipv6Settings;
use crate::vlan::wanted::resolve;
use crate::vlan::{ALIAS, GROUP, ROUTE_TABLES};
use crate::wire::links::{Ipv4Settings, Link, Stack, Vlan};

fn link(index: u32, name: &str, stack: Stack) -> Link {
    Link {
        name: name.to_owned(),
        index,
        mac: Some(Mac::new([2, 0, 0, 0, 0, 1])),
        up: true,
        addresses: vec!["fe80::ff:fe00:1/64".parse().unwrap()],
        default_route: None,
        stack,
    }
}

fn nic(index: u32) -> Link {
    let stack = Stack {
        mtu: 1500,
        set_up: true,
        ..Stack::default()
    };
    link(index, &format!("eth{index}"), stack)
}

fn vlan(index: u32, name: &str, parent: u32, id: u16, alias: &str) -> Link {
    let stack = Stack {
        vlan: Some(Vlan { parent, id }),
        alias: alias.to_owned(),
        mtu: 1500,
        set_up: true,
        ipv4: Some(IPV4),
        ..Stack::default()
    };
    link(index, name, stack)
}

fn segment(name: &str, id: u16, mtu: Option<u16>, subnets: &[(&str, Option<&str>)]) -> Segment {
    let spec = L2NetworkSpec {
        vlan: Some(id),
        parent: Some("eth2".into()),
        mtu,
        subnets: subnets
            .iter()
            .map(|(cidr, gateway)| Subnet {
                cidr: (*cidr).into(),
                gateway: gateway.map(str::to_owned),
            })
            .collect(),
        ranges: vec![],
        ..L2NetworkSpec::default()
    };
    Segment::try_from(&L2Network::new(name, spec)).unwrap()
}

const SUBNETS: [(&str, Option<&str>); 2] = [
    ("192.0.2.0/24", Some("192.0.2.1")),
    ("2001:db8::/64", Some("2001:db8::1")),
];

/// A machine on which steps are taken as if they always succeeded.
struct Machine {
    observed: Observed,
    reconcile_state: ReconcileState,
    now: Instant,
}

impl Machine {
    fn new(links: Vec<Link>) -> Self {
        let observed = Observed {
            links,
            ..Observed::default()
        };
        Self {
            observed,
            reconcile_state: ReconcileState::default(),
            now: Instant::now(),
        }
    }

    fn plan(&mut self, segments: &[Segment]) -> Planned {
        let wanted = resolve(segments, &self.observed.links);
        self.reconcile_state.note(&wanted, &self.observed, self.now);
        plan(
            &wanted,
            &self.observed,
            &self.reconcile_state,
            MarkMask::default(),
            self.now,
        )
    }

    fn told(&mut self, segments: &[Segment]) -> Vec<String> {
        let planned = self.plan(segments);
        planned
            .plan
            .steps()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn settle(&mut self, segments: &[Segment]) -> Vec<Step> {
        let mut taken = Vec::new();
        for _ in 0..10 {
            let steps = self.plan(segments).plan.steps().to_vec();
            if steps.is_empty() {
                return taken;
            }
            for step in &steps {
                self.take(step);
            }
            taken.extend(steps);
        }
        panic!("it never settles: {taken:?}");
    }

    fn take(&mut self, step: &Step) {
        let links = &mut self.observed.links;
        let mut edit = |device: &Device, edit: &dyn Fn(&mut Link)| {
            links
                .iter_mut()
                .filter(|l| l.index == device.index)
                .for_each(edit);
        };
        match step {
            Step::Create {
                vlan: of,
                name,
                mtu,
            } => {
                let index = links.iter().map(|link| link.index).max().unwrap() + 1;
                let mut made = vlan(index, name, of.parent, of.id, ALIAS);
                made.stack.mtu = *mtu;
                made.stack.ipv4 = Some(Ipv4Settings::default());
                made.stack.set_up = false;
                made.up = false;
                made.addresses.clear();
                links.push(made);
                let ipv6 = Ipv6Settings {
                    accept_ra: 1,
                    forwarding: 0,
                    disable_ipv6: 1,
                };
                self.observed.ipv6.insert(index, ipv6);
            }
            Step::Mark(device) => edit(device, &|link| {
                link.stack.alias = ALIAS.to_owned();
                link.stack.group = 0;
            }),
            Step::SetMtu(device, mtu) => edit(device, &|link| link.stack.mtu = *mtu),
            Step::SetIpv4(device) => edit(device, &|link| link.stack.ipv4 = Some(IPV4)),
            Step::SetUp(device) => edit(device, &|link| {
                link.stack.set_up = true;
                link.up = true;
            }),
            Step::AddLinkLocal(device, address) => edit(device, &|link| {
                link.addresses
                    .push(format!("{address}/64").parse().unwrap());
            }),
            Step::SetIpv6(device, settings) => {
                self.observed.ipv6.insert(device.index, *settings);
            }
            Step::Delete(device) => links.retain(|link| link.index != device.index),
            Step::AddRoute(_, route) => self.observed.routes.push(route.clone()),
            Step::DeleteRoute(route) => self.observed.routes.retain(|other| other != route),
            Step::AddRule(rule) => self.observed.rules.push(rule.clone()),
            Step::DeleteRule(rule) => self.observed.rules.retain(|other| other != rule),
            Step::ReplaceTable(rules) => {
                let comments = rules.iter().map(NftRule::comment).collect();
                self.observed.firewall = Firewall::Table(comments);
            }
            Step::DeleteTable => self.observed.firewall = Firewall::Absent,
        }
    }
}

#[test]
fn plan_converges_from_nothing() {
    let mut machine = Machine::new(vec![nic(2)]);
    let public = [segment("public", 100, None, &SUBNETS)];
    let told: Vec<_> = machine
        .settle(&public)
        .iter()
        .map(ToString::to_string)
        .collect();
    let expected = [
        "make moor100, VLAN 100 on interface number 2, MTU 1500",
        "set the IPv4 settings of moor100",
        "set the IPv6 settings of moor100",
        "set moor100 up",
        "send what comes in by moor100 with mark 0x10 to table 254",
        "send packets with mark 0x10 to table 5210001",
        "send what comes in by moor100 with mark 0x20 to table 254",
        "send packets with mark 0x20 to table 5210002",
        "make the nftables table anew, with 6 rules",
        "add fe80::ff:fe00:1 to moor100",
        "add a route to 0.0.0.0/0 by moor100 and 192.0.2.1, in table 5210001",
        "add a route to 192.0.2.0/24 by moor100, in table 5210001",
        "add a route to ::/0 by moor100 and 2001:db8::1, in table 5210002",
        "add a route to 2001:db8::/64 by moor100, in table 5210002",
    ];
    assert_eq!(told, expected);
    assert_eq!(machine.told(&public), Vec::<String>::new());
}

#[test]
fn never_touches_foreign_interface() {
    let stranger = vlan(3, "eth2.100", 2, 100, "by hand");
    let mut machine = Machine::new(vec![nic(2), stranger.clone()]);
    let public = segment("public", 100, Some(1280), &SUBNETS);
    let taken = machine.settle(std::slice::from_ref(&public));
    assert!(
        taken
            .iter()
            .any(|step| matches!(step, Step::ReplaceTable(_)))
    );
    machine.settle(&[]);
    machine.now += GRACE * 2;
    machine.settle(&[]);
    assert_eq!(machine.observed.links, [nic(2), stranger]);
    assert_eq!(machine.observed.firewall, Firewall::Absent);
    assert_eq!(
        (machine.observed.rules.len(), machine.observed.routes.len()),
        (0, 0)
    );
}

#[test]
fn deletes_unneeded_interface_after_grace_period() {
    let mut machine = Machine::new(vec![nic(2)]);
    let (a, b) = (
        segment("a", 100, None, &SUBNETS),
        segment("b", 100, None, &SUBNETS),
    );
    machine.settle(&[a.clone(), b]);
    machine.settle(std::slice::from_ref(&a));
    assert_eq!(
        machine.reconcile_state.next_deletion(),
        None,
        "one still needs it"
    );
    machine.settle(&[]);
    let due = machine.reconcile_state.next_deletion().unwrap();
    assert_eq!(due, machine.now + GRACE);
    machine.now = due - Duration::from_millis(1);
    assert!(machine.plan(&[]).plan.is_empty());
    // It is needed again: the minute begins anew.
    machine.settle(&[a]);
    machine.now = due;
    machine.settle(&[]);
    assert_eq!(machine.observed.links.len(), 2);
    machine.now += GRACE;
    let planned = machine.plan(&[]);
    assert_eq!(planned.plan.impact(), Impact::Considerable);
    assert_eq!(machine.told(&[]), ["delete moor100"]);
}

#[test]
fn restores_own_alias_but_marks_no_foreign_interface() {
    let mut machine = Machine::new(vec![nic(2), vlan(3, "moor100", 2, 100, ALIAS)]);
    let public = [segment("public", 100, None, &[("192.0.2.0/24", None)])];
    machine.settle(&public);
    machine.observed.links[1].stack.alias.clear();
    assert_eq!(machine.told(&public), ["mark moor100 as Mooring's"]);
    // Wiped while no daemon ran: it is not provably ours any more.
    machine.reconcile_state = ReconcileState::default();
    assert!(machine.plan(&public).plan.is_empty());
}

/// An interface of a daemon that ended between making it and naming it.
fn unnamed() -> Link {
    let mut link = vlan(3, "moor100", 2, 100, "");
    link.stack.group = GROUP;
    link
}

#[test]
fn next_daemon_names_half_made_interface() {
    let mut machine = Machine::new(vec![nic(2), unnamed()]);
    let public = [segment("public", 100, None, &[("192.0.2.0/24", None)])];
    assert_eq!(machine.told(&public)[0], "mark moor100 as Mooring's");
    machine.settle(&public);
    let stack = &machine.observed.links[1].stack;
    assert_eq!((stack.alias.as_str(), stack.group), (ALIAS, 0));
}

#[test]
fn deletes_half_made_interface_that_nothing_needs() {
    let mut machine = Machine::new(vec![nic(2), unnamed()]);
    machine.settle(&[]);
    machine.now += GRACE;
    assert_eq!(machine.told(&[]), ["delete moor100"]);
}

#[test]
fn group_marks_only_unnamed_vlan_interfaces() {
    let mut named = unnamed();
    named.stack.alias = "by hand".to_owned();
    let mut machine = Machine::new(vec![nic(2), named.clone()]);
    machine.settle(&[segment("public", 100, Some(1280), &SUBNETS)]);
    assert_eq!(machine.observed.links, [nic(2), named]);
    let mut plain = nic(3);
    plain.stack.group = GROUP;
    let mut machine = Machine::new(vec![nic(2), plain]);
    machine.settle(&[]);
    assert_eq!(machine.reconcile_state.next_deletion(), None);
}

#[test]
fn mtu_is_least_requested_and_at_most_parents() {
    let mut machine = Machine::new(vec![nic(2)]);
    let of = |mtu| segment(&format!("{mtu:?}"), 100, mtu, &[("192.0.2.0/24", None)]);
    machine.settle(&[of(Some(9000))]);
    assert_eq!(machine.observed.links[1].stack.mtu, 1500);
    assert_eq!(
        machine.told(&[of(Some(9000)), of(Some(1400))]),
        ["set the MTU of moor100 to 1400"]
    );
    machine.observed.links[0].stack.mtu = 9000;
    assert_eq!(
        machine.told(&[of(None)]),
        ["set the MTU of moor100 to 9000"]
    );
}

#[test]
fn taken_name_gets_parent_number() {
    let mut machine = Machine::new(vec![nic(2), nic(3), vlan(4, "moor100", 3, 100, ALIAS)]);
    let told = machine.told(&[segment("public", 100, None, &[("192.0.2.0/24", None)])]);
    assert_eq!(
        told,
        ["make moor100p2, VLAN 100 on interface number 2, MTU 1500"]
    );
    assert!("moor4094p999999".len() <= 15);
}

#[test]
fn paths_keep_their_numbers() {
    let mut machine = Machine::new(vec![nic(2)]);
    let of = |id: u16| {
        let (cidr, gateway) = (format!("10.0.{id}.0/24"), format!("10.0.{id}.1"));
        segment(
            &id.to_string(),
            id,
            None,
            &[(cidr.as_str(), Some(gateway.as_str()))],
        )
    };
    let marks = |machine: &Machine| -> BTreeMap<u32, u32> {
        let routers = machine
            .observed
            .routes
            .iter()
            .filter(|r| r.router.is_some());
        let of = |device: u32| {
            let link = machine.observed.links.iter().find(|l| l.index == device);
            u32::from(link.unwrap().stack.vlan.unwrap().id)
        };
        routers
            .map(|r| (of(r.device), r.table - ROUTE_TABLES))
            .collect()
    };
    machine.settle(&[of(5), of(6)]);
    assert_eq!(marks(&machine), [(5, 1), (6, 2)].into());
    machine.settle(&[of(6), of(7)]);
    assert_eq!(marks(&machine), [(6, 2), (7, 1)].into());
    // The next daemon knows them from the table.
    machine.reconcile_state = ReconcileState::default();
    machine.settle(&[of(4), of(6), of(7)]);
    assert_eq!(marks(&machine), [(4, 3), (6, 2), (7, 1)].into());
    let many: Vec<_> = (1..=20).map(of).collect();
    machine.settle(&many);
    assert_eq!(machine.plan(&many).without_mark.len(), 5);
}

#[test]
fn without_nftables_makes_interface_but_no_return_path() {
    for firewall in [Firewall::Unsupported, Firewall::Forbidden] {
        let mut machine = Machine::new(vec![nic(2)]);
        machine.observed.firewall = firewall;
        machine.settle(&[segment("public", 100, None, &SUBNETS)]);
        assert_eq!(machine.observed.links.len(), 2);
        assert_eq!(
            (machine.observed.rules.len(), machine.observed.routes.len()),
            (0, 0)
        );
    }
}

#[test]
fn deletes_duplicate_rule() {
    let mut machine = Machine::new(vec![nic(2)]);
    let public = [segment("public", 100, None, &SUBNETS)];
    machine.settle(&public);
    let rule = machine.observed.rules[0].clone();
    machine.observed.rules.push(rule);
    assert_eq!(machine.told(&public), ["delete the rule for mark 0x10"]);
}

#[test]
fn reports_parent_that_is_down_or_missing() {
    let mut down = nic(2);
    down.stack.set_up = false;
    let public = [segment("public", 100, None, &SUBNETS)];
    let wanted = resolve(&public, &[down]);
    assert!(wanted.faults["public"].contains("\"eth2\", which VLAN 100 is on, is down"));
    let wanted = resolve(&public, &[nic(3)]);
    assert!(wanted.faults["public"].contains("there is no interface \"eth2\""));
    assert!(wanted.vlans.is_empty());
}

#[test]
fn refused_sysctl_blocks_nothing_else() {
    let mut machine = Machine::new(vec![nic(2)]);
    machine.reconcile_state.sysctl_refused = true;
    let taken = machine.settle(&[segment("public", 100, None, &SUBNETS)]);
    assert!(!taken.iter().any(|step| matches!(step, Step::SetIpv6(..))));
    assert!(machine.observed.links[1].up);
}

#[test]
fn counts_only_restored_settings_as_repair() {
    let mut machine = Machine::new(vec![nic(2)]);
    let steps = machine.settle(&[segment("public", 100, None, &SUBNETS)]);
    assert!(steps.iter().all(|step| step.subject().is_some()));
    assert!(steps.iter().all(|step| step.impact() == Impact::None));
    let gone = machine.settle(&[]);
    assert!(gone.iter().all(|step| step.subject().is_none()), "{gone:?}");
}
