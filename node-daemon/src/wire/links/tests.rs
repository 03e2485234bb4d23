use mooring_common::l2_network::{L2Network, L2NetworkSpec, SegmentInterface, Subnet};

use super::*;

fn segment(parent: Option<&str>) -> Segment {
    let spec = L2NetworkSpec {
        parent: parent.map(str::to_owned),
        subnets: vec![Subnet {
            cidr: "192.0.2.0/24".into(),
            gateway: None,
        }],
        ranges: vec!["192.0.2.16/28".into()],
        ..L2NetworkSpec::default()
    };
    Segment::try_from(&L2Network::new("public", spec)).unwrap()
}

fn link(index: u32, addresses: &[&str], default_route: Option<u32>) -> Link {
    Link {
        name: format!("eth{index}"),
        index,
        mac: Some(Mac::new([2, 0, 0, 0, 0, 1])),
        up: true,
        addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
        default_route,
        stack: Stack::default(),
    }
}

fn chosen(parent: Option<&str>, links: &[Link]) -> Result<u32, NoLink> {
    chosen_from(parent, links, None)
}

fn chosen_from(parent: Option<&str>, links: &[Link], home: Option<&str>) -> Result<u32, NoLink> {
    choose(&segment(parent), links, home).map(|link| link.index)
}

#[test]
fn prefers_named_parent_then_subnet_then_default_route() {
    let links = [
        link(1, &["198.51.100.1/24"], Some(100)),
        link(2, &["192.0.2.5/24"], None),
        link(3, &[], None),
    ];
    assert_eq!(chosen(Some("eth3"), &links), Ok(3));
    assert_eq!(chosen(None, &links), Ok(2));
    assert_eq!(chosen(None, &links[..1]), Ok(1));
    assert_eq!(chosen(None, &links[2..]), Err(NoLink::Unknown));
}

#[test]
fn ignores_service_address_on_other_interface() {
    let links = [
        link(1, &["192.0.2.17/32"], None),
        link(2, &["192.0.2.5/24"], None),
    ];
    assert_eq!(chosen(None, &links), Ok(2));
}

#[test]
fn takes_best_default_route() {
    let links = [link(1, &[], Some(200)), link(2, &[], Some(100))];
    assert_eq!(chosen(None, &links), Ok(2));
}

#[test]
fn skips_interfaces_without_arp() {
    let mut ipvs = link(1, &["192.0.2.5/24"], None);
    ipvs.mac = None;
    assert_eq!(
        chosen(None, std::slice::from_ref(&ipvs)),
        Err(NoLink::Unknown)
    );
    let named = chosen(Some("eth1"), &[ipvs]);
    assert_eq!(named, Err(NoLink::NoEthernet("eth1".into())));
    assert_eq!(
        chosen(Some("eth9"), &[]),
        Err(NoLink::Missing("eth9".into()))
    );
}

#[tokio::test]
async fn kernel_lists_loopback() {
    let sender = watch::Sender::new(Arc::new(Vec::new()));
    let mut links = sender.subscribe();
    let known = tokio::select! {
        () = follow(sender) => unreachable!(),
        known = timeout(Duration::from_secs(5), links.changed()) => known,
    };
    known.unwrap().unwrap();
    let links = links.borrow();
    let loopback = links.iter().find(|link| link.name == "lo").unwrap();
    assert_eq!(loopback.mac, None);
}

#[test]
fn vlan_parent_is_untagged_and_whole() {
    let vlan_of = |index, parent, id, default_route| {
        let mut vlan = link(index, &[], default_route);
        vlan.stack.vlan = Some(Vlan { parent, id });
        vlan
    };
    let part_of = |index, master| {
        let mut part = link(index, &[], None);
        part.stack.master = Some(master);
        part
    };
    let parent = |named: Option<&str>, links: &[Link]| {
        choose_parent(&segment(named), links).map(|link| link.index)
    };
    // bond0 is 1, its part is 2, the default route is by a VLAN of it.
    let links = [
        link(1, &[], None),
        part_of(2, 1),
        vlan_of(3, 1, 7, Some(100)),
    ];
    assert_eq!(parent(None, &links), Ok(1));
    assert_eq!(parent(Some("eth2"), &links), Ok(1));
    assert_eq!(
        parent(Some("eth3"), &links),
        Ok(3),
        "a VLAN in a VLAN, if it is asked for"
    );
    assert_eq!(
        parent(Some("eth9"), &links),
        Err(NoLink::Missing("eth9".into()))
    );
    // What is no whole with Ethernet (a VRF, say) does not count.
    let mut links = links;
    links[0].mac = None;
    assert_eq!(parent(Some("eth2"), &links), Ok(2));
}

#[test]
fn segment_stays_on_existing_interface() {
    let links = [
        link(1, &["198.51.100.1/24"], Some(100)),
        link(2, &[], None),
        link(3, &["192.0.2.17/32"], None),
    ];
    let chosen = |links: &[Link]| chosen_from(None, links, Some("eth2"));
    assert_eq!(chosen(&links), Ok(2), "it has lost its address");
    assert_eq!(
        chosen(&links[..1]),
        Err(NoLink::Gone("eth2".into())),
        "the default route may lead to another network"
    );
    let mut links = links;
    links[1].addresses = vec!["192.0.2.5/24".parse().unwrap()];
    links[2].addresses = vec!["192.0.2.6/24".parse().unwrap()];
    assert_eq!(chosen(&links), Ok(2));
    assert_eq!(chosen_from(None, &links, Some("eth3")), Ok(3));
    links[1].addresses.clear();
    assert_eq!(chosen(&links), Ok(3), "the address has moved there");
    links[2].addresses.clear();
    links[1].stack.master = Some(3);
    assert_eq!(chosen(&links), Ok(3), "it has become a part of that");
    assert_eq!(chosen_from(Some("eth1"), &links, Some("eth2")), Ok(1));
}

#[test]
fn vlan_keeps_parent_when_default_route_moves() {
    let of_vlan = |index, parent| {
        let mut vlan = link(index, &[], None);
        vlan.stack.vlan = Some(Vlan { parent, id: 7 });
        vlan
    };
    let mut links = vec![
        link(1, &[], Some(200)),
        link(2, &[], Some(100)),
        of_vlan(3, 1),
    ];
    let mut tagged = segment(None);
    tagged.vlan = Some(7);
    let parent = |links: &[Link]| choose_parent(&tagged, links).map(|link| link.index);
    assert_eq!(parent(&links[..2]), Ok(2));
    assert_eq!(parent(&links), Ok(1));
    links.push(of_vlan(4, 2));
    assert_eq!(parent(&links), Ok(2), "nothing tells which it was");
}

/// A segment of which these interfaces are listed.
fn listing(names: &[&str], vlan: Option<u16>) -> Segment {
    let mut spec = L2NetworkSpec {
        vlan,
        subnets: vec![Subnet {
            cidr: "192.0.2.0/24".into(),
            gateway: None,
        }],
        ranges: vec!["192.0.2.16/28".into()],
        ..L2NetworkSpec::default()
    };
    let entries = names.iter().map(|name| SegmentInterface {
        name: (*name).to_owned(),
        node_selector: None,
    });
    spec.interfaces = entries.collect();
    Segment::try_from(&L2Network::new("public", spec)).unwrap()
}

fn listed(names: &[&str], links: &[Link], home: Option<&str>) -> Result<u32, NoLink> {
    choose(&listing(names, None), links, home).map(|link| link.index)
}

#[test]
fn takes_first_listed_interface_that_is_there() {
    let links = [
        link(1, &["192.0.2.5/24"], Some(100)),
        link(2, &[], None),
        link(3, &[], None),
    ];
    assert_eq!(listed(&["bond*", "eth3", "eth*"], &links, None), Ok(3));
    assert_eq!(
        listed(&["eth*"], &links, None),
        Ok(1),
        "it is in the subnet"
    );
    assert_eq!(listed(&["eth*"], &links[1..], None), Ok(2), "the first");
    assert_eq!(
        listed(&["eth*"], &links[1..], Some("eth3")),
        Ok(3),
        "as before"
    );
    let missing = NoLink::NotListed {
        names: "bond* or ens3".to_owned(),
        there: "eth1, eth2, eth3".to_owned(),
    };
    assert_eq!(listed(&["bond*", "ens3"], &links, None), Err(missing));
    let mut nothing = listing(&["eth1"], None);
    nothing.interfaces = Some(Vec::new());
    assert_eq!(choose(&nothing, &links, None), Err(NoLink::NoEntry));
}

/// What nothing shows to be on the same network does not take the place of what is gone.
#[test]
fn listed_interface_that_is_gone_is_replaced_if_address_shows_it() {
    let mut links = vec![link(2, &[], None), link(3, &[], None)];
    let gone = Err(NoLink::Gone("eth1".to_owned()));
    assert_eq!(
        listed(&["eth1", "eth2", "eth3"], &links, Some("eth1")),
        gone
    );
    assert_eq!(listed(&["eth*"], &links, Some("eth1")), gone);
    assert_eq!(
        listed(&["eth2", "eth1"], &links, Some("eth1")),
        Ok(2),
        "it comes before"
    );
    assert_eq!(
        listed(&["eth2", "eth3"], &links, Some("eth1")),
        Ok(2),
        "eth1 is listed no more"
    );
    links[1].addresses = vec!["192.0.2.5/24".parse().unwrap()];
    assert_eq!(
        listed(&["eth1", "eth2", "eth3"], &links, Some("eth1")),
        Ok(3)
    );
    links.insert(0, link(1, &[], None));
    assert_eq!(
        listed(&["eth1", "eth2", "eth3"], &links, Some("eth3")),
        Ok(1)
    );
}

#[test]
fn bond_takes_place_of_its_listed_part() {
    let mut links = vec![link(1, &[], None), link(2, &[], None)];
    links[1].stack.master = Some(1);
    assert_eq!(listed(&["eth2"], &links, None), Ok(1));
    assert_eq!(listed(&["eth2"], &links, Some("eth1")), Ok(1));
}

#[test]
fn vlan_is_on_listed_interface() {
    let of_vlan = |index, parent, addresses: &[&str]| {
        let mut vlan = link(index, addresses, None);
        vlan.stack.vlan = Some(Vlan { parent, id: 7 });
        vlan
    };
    let parent = |names: &[&str], links: &[Link]| {
        choose_parent(&listing(names, Some(7)), links).map(|link| link.index)
    };
    let mut links = vec![link(1, &[], None), link(2, &[], None)];
    assert_eq!(parent(&["eth2", "eth1"], &links), Ok(2));
    assert_eq!(parent(&["eth?"], &links), Ok(1));
    links.push(of_vlan(30, 2, &[]));
    assert_eq!(
        parent(&["eth?"], &links),
        Ok(2),
        "the VLAN's interface is there"
    );
    links.push(of_vlan(31, 1, &["192.0.2.5/24"]));
    assert_eq!(
        parent(&["eth?"], &links),
        Ok(1),
        "the VLAN's address is there"
    );
    assert_eq!(parent(&["eth2"], &links), Ok(2));
}
