use mooring_common::engine::Step as _;
use mooring_common::k8s::{ObjectKey, Slim};
use mooring_common::l2_network::{
    L2Network, L2NetworkSpec, PreferredNodes, SegmentInterface, Subnet,
};
use mooring_common::node_addresses::{AddressType, NodeAddress};
use mooring_common::node_view::NodeView;
use serde_json::json;

use super::*;
use crate::announce::plan::assign;
use crate::cluster::snapshot::{L2NetworkView, PeerNode, ServiceView, SliceView};
use crate::protocol::mac::Mac;
use crate::protocol::{Candidates, Group, Key, Wanted};

fn mac(last: u8) -> Mac {
    Mac::new([2, 0, 0, 0, 0, last])
}

fn network(edit: impl FnOnce(&mut L2NetworkSpec)) -> Arc<L2NetworkView> {
    let mut spec = L2NetworkSpec {
        subnets: vec![
            Subnet {
                cidr: "192.0.2.0/24".into(),
                gateway: Some("192.0.2.1".into()),
            },
            Subnet {
                cidr: "2001:db8::/64".into(),
                gateway: None,
            },
        ],
        ranges: vec!["192.0.2.16/28".into(), "2001:db8::100/120".into()],
        ..L2NetworkSpec::default()
    };
    edit(&mut spec);
    Arc::new(L2NetworkView::read(L2Network::new("public", spec), "me"))
}

/// Node `me` with the label `rack=1`, and one L2Network.
fn snapshot(network: Arc<L2NetworkView>) -> Snapshot {
    let node = json!({"metadata": {"name": "me", "uid": "u", "labels": {"rack": "1"}}});
    let view = NodeView::slim(serde_json::from_value(node).unwrap());
    Snapshot {
        node: Some(Arc::new(view)),
        networks: Arc::new([(ObjectKey::cluster_wide("public"), network)].into()),
        ..Snapshot::default()
    }
}

fn eth(up: bool) -> Vec<Link> {
    vec![Link {
        name: "eth0".into(),
        index: 2,
        mac: Some(mac(1)),
        up,
        addresses: vec!["192.0.2.5/24".parse().unwrap()],
        default_route: None,
        stack: crate::wire::links::Stack::default(),
    }]
}

#[test]
fn role_follows_selector_and_interface() {
    let links = eth(true);
    let nowhere = BTreeSet::new();
    let roles = |snapshot: &Snapshot| {
        roles(snapshot, &links, &nowhere, &LastInterfaces::new())
            .into_keys()
            .count()
    };
    let found = super::roles(
        &snapshot(network(|_| ())),
        &links,
        &nowhere,
        &LastInterfaces::new(),
    );
    assert_eq!(found["public"], Role::Speaker(&links[0]));
    let selecting = |rack: &str| {
        let selector = json!({"matchLabels": {"rack": rack}});
        network(|spec| spec.node_selector = Some(serde_json::from_value(selector).unwrap()))
    };
    assert_eq!(roles(&snapshot(selecting("1"))), 1);
    assert_eq!(roles(&snapshot(selecting("2"))), 0);
    let offered = ["public".to_owned()].into();
    let witness = super::roles(
        &snapshot(selecting("2")),
        &links,
        &offered,
        &LastInterfaces::new(),
    );
    assert_eq!(witness["public"], Role::Witness);
    let member = super::roles(
        &snapshot(selecting("1")),
        &links,
        &offered,
        &LastInterfaces::new(),
    );
    assert_eq!(member["public"], Role::Speaker(&links[0]));
    let mut nodeless = snapshot(network(|_| ()));
    nodeless.node = None;
    assert_eq!(roles(&nodeless), 0);
}

#[test]
fn vlan_segment_waits_for_its_interface() {
    let mut links = eth(true);
    let snapshot = snapshot(network(|spec| spec.vlan = Some(100)));
    let told = |links: &[Link]| match &roles(
        &snapshot,
        links,
        &BTreeSet::new(),
        &LastInterfaces::new(),
    )["public"]
    {
        Role::Speaker(link) => Ok(link.name.clone()),
        Role::Hindered(fault) | Role::Awaiting(fault) => Err(fault.clone()),
        Role::Witness | Role::Keyless => panic!("it speaks there, and has a key"),
    };
    let waiting = told(&links).unwrap_err();
    assert!(
        waiting.contains("VLAN 100 on \"eth0\" is not there yet"),
        "{waiting}"
    );
    let fault = "the kernel has no VLANs".to_owned();
    snapshot
        .vlan_faults
        .set([("public".to_owned(), fault.clone())].into());
    assert_eq!(told(&links), Err(fault));
    let mut vlan = links[0].clone();
    vlan.name = "moor100".into();
    vlan.index = 3;
    vlan.stack.vlan = Some(Vlan { parent: 2, id: 100 });
    vlan.addresses.clear();
    links.push(vlan);
    assert_eq!(told(&links), Ok("moor100".to_owned()));
    links[1].stack.vlan = Some(Vlan { parent: 2, id: 101 });
    assert!(told(&links).is_err());
}

#[test]
fn selects_own_vlans_once_all_is_synced() {
    let mut snapshot = snapshot(network(|spec| spec.vlan = Some(100)));
    assert_eq!(with_vlan(&snapshot), None);
    snapshot.may_write = true;
    snapshot.synced.networks = true;
    snapshot.synced.node = true;
    let ids = |snapshot: &Snapshot| -> Vec<Option<u16>> {
        let segments = with_vlan(snapshot).unwrap();
        segments.iter().map(|segment| segment.vlan).collect()
    };
    assert_eq!(ids(&snapshot), [Some(100)]);
    snapshot.networks = Arc::new(BTreeMap::new());
    assert_eq!(ids(&snapshot), []);
    snapshot.node = None;
    assert_eq!(with_vlan(&snapshot), None);
}

#[test]
fn skips_invalid_network() {
    let broken = network(|spec| spec.ranges = vec!["nonsense".into()]);
    let none = BTreeSet::new();
    assert!(roles(&snapshot(broken), &eth(true), &none, &LastInterfaces::new()).is_empty());
}

/// What is desired of `me` on `public`, where `web` has an address of each family.
fn desired_with(edit: impl FnOnce(&mut Snapshot), links: &[Link]) -> Arc<DesiredSegment> {
    let mut snapshot = snapshot(network(|_| ()));
    let key = ObjectKey::new("shop", "web");
    let service = ServiceView {
        uid: String::new(),
        network: Some("public".into()),
        addresses: vec![
            "192.0.2.17".parse().unwrap(),
            "2001:db8::117".parse().unwrap(),
        ],
        ..ServiceView::default()
    };
    snapshot.services = Arc::new([(key.clone(), Arc::new(service))].into());
    let slice = SliceView {
        any_ready: true,
        ..SliceView::default()
    };
    snapshot.slices = Arc::new([(key, vec![Arc::new(slice)])].into());
    edit(&mut snapshot);
    let spoken = BTreeMap::new();
    let here = LocalState {
        spoken: &spoken,
        node_name: "me",
        links,
        heartbeat_port: 10268,
        service_proxy_works: true,
        ending: false,
    };
    let roles = roles(&snapshot, links, &BTreeSet::new(), &LastInterfaces::new());
    Arc::clone(&desired(&snapshot, &roles, &assign(&snapshot), here)["public"])
}

/// Changes the one L2Network.
fn edit_network(snapshot: &mut Snapshot, edit: impl FnOnce(&mut L2NetworkView)) {
    let networks = Arc::make_mut(&mut snapshot.networks);
    edit(Arc::make_mut(networks.values_mut().next().unwrap()));
}

#[test]
fn desired_segment_carries_addresses_and_candidates() {
    let desired = desired_with(|_| (), &eth(true));
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let (four, six) = (address("192.0.2.17"), address("2001:db8::117"));
    let keys = [four, six].map(|address| Key::of("public", address));
    let addresses = [
        (keys[0], [(four, Some(address("192.0.2.1")))].into()),
        (keys[1], [(six, None)].into()),
    ];
    assert_eq!(desired.addresses, addresses.into());
    let wanted = Wanted {
        spoken_here: false,
        candidates: Candidates::All,
        group: Group::of("shop/web"),
        ready: true,
    };
    let wanted = keys.map(|key| (key, wanted.clone()));
    assert_eq!(desired.view.keys, wanted.into());
    assert_eq!(desired.attachment.as_ref().unwrap().mac, mac(1));
    assert_eq!(desired.groups, ["ff02::1:ff00:117".parse().unwrap()].into());
    assert_eq!(desired.gateways, ["192.0.2.1".parse().unwrap()].into());
    assert_eq!(
        desired.own_addresses,
        ["192.0.2.5".parse::<IpAddr>().unwrap()]
    );
    assert!(!desired.draining && !desired.witness && desired.survive_via_api);
    assert!(!desired.tells_routers, "the interface has addresses");
}

#[test]
fn stays_on_segment_while_vlan_is_made() {
    let vlan = |snapshot: &mut Snapshot| {
        edit_network(snapshot, |network| {
            network.segment.as_mut().unwrap().vlan = Some(100);
        });
    };
    let desired = desired_with(vlan, &eth(true));
    assert_eq!(desired.attachment, None);
    assert!(!desired.witness && !desired.addresses.is_empty());
}

#[test]
fn desired_segment_carries_peers_and_voters() {
    let desired = desired_with(
        |snapshot| {
            edit_network(snapshot, |network| {
                let other = PeerNode {
                    address: Some("10.0.0.2".parse().unwrap()),
                    mac: Some(mac(2)),
                    witness: false,
                };
                network.others.insert("n2".into(), other);
                network.voters = Some(Voters {
                    generation: 4,
                    nodes: vec!["me".into(), "n2".into()],
                    primary: Some("n2".into()),
                });
            });
        },
        &eth(true),
    );
    let (me, n2) = (NodeId::of("me"), NodeId::of("n2"));
    let contact = &desired.view.known[&n2];
    assert_eq!(
        contact.node_network,
        Some("10.0.0.2:10268".parse().unwrap())
    );
    assert_eq!(contact.mac, Some(mac(2)));
    let voters = desired.view.voters.as_ref().unwrap();
    assert_eq!((voters.generation, voters.primary), (4, Some(n2)));
    assert_eq!(voters.voters, [me, n2].into());
}

#[test]
fn kernel_mode_puts_addresses_on_interface() {
    let places = |mode: Option<AddressMode>, links: &[Link]| {
        let edit = |snapshot: &mut Snapshot| {
            edit_network(snapshot, |network| {
                network.segment.as_mut().unwrap().address_mode = mode.unwrap_or_default();
            });
        };
        let desired = desired_with(edit, links);
        on_interfaces(&[("public".to_owned(), desired)].into())
    };
    let kernel = Some(AddressMode::Kernel);
    let both = ["192.0.2.17", "2001:db8::117"].map(|address| (2, address.parse().unwrap()));
    assert_eq!(places(kernel, &eth(true)), both.into());
    assert_eq!(places(kernel, &eth(false)), BTreeSet::new());
    assert_eq!(places(None, &eth(true)), BTreeSet::new());
}

#[test]
fn kernel_mode_does_not_speak_where_interfaces_may_not_be_changed() {
    for (mode, forbidden, speaks) in [
        (AddressMode::Kernel, true, false),
        (AddressMode::Kernel, false, true),
        (AddressMode::default(), true, true),
    ] {
        let mut snapshot = snapshot(network(|_| ()));
        edit_network(&mut snapshot, |network| {
            network.segment.as_mut().unwrap().address_mode = mode;
        });
        snapshot.vlan_faults.set_forbidden(forbidden);
        let links = eth(true);
        let roles = roles(&snapshot, &links, &BTreeSet::new(), &LastInterfaces::new());
        match &roles["public"] {
            Role::Speaker(_) => assert!(speaks, "{mode:?}"),
            Role::Hindered(fault) => assert!(!speaks && fault.contains("NET_ADMIN"), "{fault}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn service_address_is_not_own_address() {
    let mut links = eth(true);
    let service = "192.0.2.17/24".parse().unwrap();
    links[0].addresses.insert(0, service);
    let desired = desired_with(|_| (), &links);
    assert_eq!(
        desired.own_addresses,
        ["192.0.2.5".parse::<IpAddr>().unwrap()]
    );
}

#[test]
fn node_network_uses_node_address() {
    let address = |internal: &[&str], links: &[Link]| {
        let edit = |snapshot: &mut Snapshot| {
            let node = Arc::make_mut(snapshot.node.as_mut().unwrap());
            node.addresses = internal
                .iter()
                .map(|text| NodeAddress::new(AddressType::InternalIP, *text))
                .collect();
        };
        desired_with(edit, links)
            .node_address
            .map(|ip| ip.to_string())
    };
    let routed = Link {
        name: "eth1".into(),
        index: 3,
        addresses: vec!["10.0.0.7/24".parse().unwrap()],
        default_route: Some(0),
        ..eth(true).remove(0)
    };
    let links = [eth(true).remove(0), routed];
    let address = |internal: &[&str]| address(internal, &links).unwrap();
    assert_eq!(address(&["203.0.113.9", "192.0.2.5"]), "192.0.2.5");
    // Others reach it there by translation, and no other would be permitted.
    assert_eq!(address(&["203.0.113.9"]), "203.0.113.9");
    assert_eq!(address(&[]), "10.0.0.7");
}

#[test]
fn link_that_is_down_is_not_attached() {
    assert_eq!(desired_with(|_| (), &eth(false)).attachment, None);
}

#[test]
fn steps_lead_to_desired_orders() {
    let speaking = |addresses: &[&str], weight| {
        let addresses = addresses.iter().map(|a| (a.parse().unwrap(), None));
        Arc::new(DesiredSegment {
            addresses: [(Key(1), addresses.collect())].into(),
            weight: Weight::new(0, weight),
            ..DesiredSegment::default()
        })
    };
    let running: BTreeMap<String, Arc<DesiredSegment>> = [
        ("a".to_owned(), speaking(&["192.0.2.1"], 1)),
        ("b".to_owned(), speaking(&["192.0.2.2", "192.0.2.3"], 1)),
        ("c".to_owned(), speaking(&[], 1)),
        ("d".to_owned(), speaking(&["192.0.2.9"], 1)),
    ]
    .into();
    let wanted = [
        ("a".to_owned(), speaking(&["192.0.2.1"], 1)),
        ("b".to_owned(), speaking(&["192.0.2.3", "192.0.2.4"], 2)),
        ("d".to_owned(), speaking(&["192.0.2.9"], 2)),
        ("e".to_owned(), speaking(&["192.0.2.5"], 1)),
    ]
    .into();
    let plan = steps(&running, &wanted);
    let told: Vec<_> = plan
        .steps()
        .iter()
        .map(|step| (step.to_string(), step.impact()))
        .collect();
    let expected = [
        ("close segment c", Impact::Brief),
        ("on segment b 1 addresses come and 1 go", Impact::Brief),
        ("open segment e with 1 addresses", Impact::None),
    ];
    assert_eq!(
        told,
        expected.map(|(text, impact)| (text.to_owned(), impact))
    );
    assert!(steps(&wanted, &wanted).is_empty());
}

#[test]
fn daemon_without_key_takes_no_role() {
    let links = eth(true);
    let public = BTreeSet::from(["public".to_owned()]);
    let selecting = |rack: &str| {
        let rack = rack.to_owned();
        snapshot(network(|spec| {
            let selector = json!({"matchLabels": {"rack": rack}});
            spec.node_selector = Some(serde_json::from_value(selector).unwrap());
        }))
    };
    let member = selecting("1");
    let silent = without_key(super::roles(
        &member,
        &links,
        &public,
        &LastInterfaces::new(),
    ));
    assert_eq!(silent["public"], Role::Keyless);
    let spoken = BTreeMap::new();
    let here = LocalState {
        spoken: &spoken,
        node_name: "me",
        links: &links,
        heartbeat_port: 1,
        service_proxy_works: true,
        ending: false,
    };
    assert!(desired(&member, &silent, &assign(&member), here).is_empty());
    let witness = selecting("2");
    assert!(
        without_key(super::roles(
            &witness,
            &links,
            &public,
            &LastInterfaces::new()
        ))
        .is_empty()
    );
}

#[test]
fn remembers_interface_until_l2network_names_another() {
    let entry = |interface: &str| {
        let entry = json!({"name": "me", "ready": true, "reason": "Ready", "interface": interface});
        Some(serde_json::from_value(entry).unwrap())
    };
    let told = |interface: &str| {
        let mut told = snapshot(network(|_| ()));
        edit_network(&mut told, |network| network.entry = entry(interface));
        told
    };
    let of = |snapshot: &Snapshot, before: &LastInterfaces| {
        last_interfaces(snapshot, before)["public"].clone()
    };
    let before = |interface: Option<&str>| -> LastInterfaces {
        [("public".to_owned(), interface.map(str::to_owned))].into()
    };
    let eth1 = Some("eth1".to_owned());
    assert_eq!(of(&snapshot(network(|_| ())), &LastInterfaces::new()), None);
    assert_eq!(
        of(&told("eth1"), &LastInterfaces::new()),
        eth1,
        "of an earlier start"
    );
    assert_eq!(of(&told("eth2"), &before(Some("eth1"))), eth1);
    assert_eq!(
        of(&told("moor100"), &before(None)),
        None,
        "it was on a VLAN"
    );
    let named = snapshot(network(|spec| spec.parent = Some("eth2".into())));
    assert_eq!(of(&named, &before(Some("eth1"))), None);
    let mut gone = told("eth1");
    gone.networks = Arc::default();
    assert_eq!(
        last_interfaces(&gone, &before(Some("eth1"))),
        LastInterfaces::new()
    );

    // It has lost its address: nothing leads to the default route's any more.
    let mut links = eth(true);
    links[0].default_route = Some(0);
    let mut eth1 = links[0].clone();
    (eth1.name, eth1.index) = ("eth1".into(), 3);
    (eth1.addresses, eth1.default_route) = (Vec::new(), None);
    links[0].addresses.clear();
    links.push(eth1);
    let snapshot = snapshot(network(|_| ()));
    let on = |last_interfaces: &LastInterfaces| {
        roles(&snapshot, &links, &BTreeSet::new(), last_interfaces)
    };
    assert_eq!(on(&before(None))["public"], Role::Speaker(&links[0]));
    assert_eq!(
        on(&before(Some("eth1")))["public"],
        Role::Speaker(&links[1])
    );
    let Role::Hindered(fault) = &on(&before(Some("eth9")))["public"] else {
        panic!("another network may be there");
    };
    assert!(
        fault.contains("\"eth9\"") && fault.contains("spec.parent"),
        "{fault}"
    );
}

#[test]
fn labels_choose_interface_and_preference() {
    let selector =
        |value: &str| serde_json::from_value(json!({"matchLabels": {"rack": value}})).unwrap();
    let listed = network(|spec| {
        let entry = |name: &str, rack: &str| SegmentInterface {
            name: name.to_owned(),
            node_selector: Some(selector(rack)),
        };
        spec.interfaces = vec![entry("eth0", "2"), entry("wan*", "1")];
        let preferred = |weight, rack: &str| PreferredNodes {
            weight,
            node_selector: selector(rack),
        };
        spec.preferred_nodes = vec![preferred(70, "2"), preferred(30, "1"), preferred(5, "1")];
    });
    let mut links = eth(true);
    let mut wan = links[0].clone();
    (wan.name, wan.index) = ("wan1".into(), 3);
    links.push(wan);
    let snapshot = snapshot(listed);
    let roles = roles(&snapshot, &links, &BTreeSet::new(), &LastInterfaces::new());
    assert_eq!(roles["public"], Role::Speaker(&links[1]));
    let spoken = BTreeMap::new();
    let here = LocalState {
        spoken: &spoken,
        node_name: "me",
        links: &links,
        heartbeat_port: 10_268,
        service_proxy_works: true,
        ending: false,
    };
    let desired = desired(&snapshot, &roles, &assign(&snapshot), here);
    assert_eq!(desired["public"].weight, Weight::new(35, 25));
}
