use std::time::{Duration, Instant};

use mooring_common::engine::Step as _;
use mooring_common::k8s::{ObjectKey, Slim};
use mooring_common::l2_network::{L2Network, L2NetworkSpec, Subnet};
use mooring_common::node_view::NodeView;
use serde_json::json;

use super::super::mac::Mac;
use super::super::observe::{LeaseView, NetworkView, ServiceView, SliceView, TrafficPolicy};
use super::super::plan::assign;
use super::*;

fn mac(last: u8) -> Mac {
    Mac::new([2, 0, 0, 0, 0, last])
}

fn network(edit: impl FnOnce(&mut L2NetworkSpec)) -> Arc<NetworkView> {
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
    Arc::new(NetworkView::read(L2Network::new("public", spec), "me"))
}

/// Node `me` with the label `rack=1`, and one L2Network.
fn snapshot(network: Arc<NetworkView>) -> Snapshot {
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
        stack: crate::announce::links::Stack::default(),
    }]
}

#[test]
fn a_segment_is_where_the_selector_says_and_the_interface_is() {
    let links = eth(true);
    let found = footing(&snapshot(network(|_| ())), &links);
    assert_eq!(found["public"].as_ref().unwrap().name, "eth0");
    let selecting = |rack: &str| {
        let selector = json!({"matchLabels": {"rack": rack}});
        network(|spec| spec.node_selector = Some(serde_json::from_value(selector).unwrap()))
    };
    assert_eq!(footing(&snapshot(selecting("1")), &links).len(), 1);
    assert_eq!(footing(&snapshot(selecting("2")), &links).len(), 0);
    let mut nodeless = snapshot(network(|_| ()));
    nodeless.node = None;
    assert_eq!(footing(&nodeless, &links).len(), 0);
}

#[test]
fn a_segment_with_a_vlan_is_on_its_interface_once_that_is_there() {
    let mut links = eth(true);
    let snapshot = snapshot(network(|spec| spec.vlan = Some(100)));
    let told = |links: &[Link]| {
        let found = footing(&snapshot, links);
        found["public"].clone().map(|link| link.name.clone())
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
fn vlans_are_made_for_the_segments_of_this_node_once_all_is_known() {
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
fn a_network_that_cannot_be_read_is_left_to_central() {
    let broken = network(|spec| spec.ranges = vec!["nonsense".into()]);
    assert!(footing(&snapshot(broken), &eth(true)).is_empty());
}

/// The orders of `me` on `public`, where `web` has an address of each family, and the daemons that
/// these Leases tell of are there.
fn orders_with(leases: Vec<LeaseView>, links: &[Link]) -> Arc<Orders> {
    let mut snapshot = snapshot(network(|_| ()));
    let key = ObjectKey::new("shop", "web");
    let service = ServiceView {
        uid: String::new(),
        network: Some("public".into()),
        addresses: vec![
            "192.0.2.17".parse().unwrap(),
            "2001:db8::117".parse().unwrap(),
        ],
        policy: TrafficPolicy::Cluster,
    };
    snapshot.services = Arc::new([(key.clone(), Arc::new(service))].into());
    let slice = SliceView {
        any_ready: true,
        ..SliceView::default()
    };
    snapshot.slices = Arc::new([(key, vec![Arc::new(slice)])].into());
    let mut members = Members::new("me", "me_1", Duration::from_secs(30));
    let leases: Vec<_> = leases.into_iter().map(Arc::new).collect();
    members.observe(&leases, Instant::now());
    let assignment = assign(&snapshot, members.live(), &Assignment::default());
    let footing = footing(&snapshot, links);
    Arc::clone(&orders("me", &footing, &members, &assignment)["public"])
}

#[test]
fn orders_name_what_is_ours_and_who_else_is_there() {
    let me = || LeaseView::test("me", "me_1", 1).on("public", 1);
    let alone = orders_with(vec![me()], &eth(true));
    assert_eq!(
        alone.view.mine,
        [
            (
                "192.0.2.17".parse().unwrap(),
                Some("192.0.2.1".parse().unwrap())
            ),
            ("2001:db8::117".parse().unwrap(), None),
        ]
        .into()
    );
    assert_eq!(alone.attachment.as_ref().unwrap().mac, mac(1));
    assert_eq!(alone.groups, ["ff02::1:ff00:117".parse().unwrap()].into());
    assert_eq!((alone.view.members.len(), alone.view.renewals), (0, 1));

    let others = vec![
        me(),
        LeaseView::test("alive", "x", 1).on("public", 2),
        LeaseView::test("gone", "", 1).on("public", 3),
        LeaseView::test("elsewhere", "y", 1).on("private", 4),
    ];
    let orders = orders_with(others, &eth(true));
    let expected = [(mac(2), Standing::Alive), (mac(3), Standing::Gone)];
    assert_eq!(orders.view.members, expected.into());
}

#[test]
fn groups_are_joined_before_an_address_is_ours() {
    // Not a candidate: our Lease does not list the segment yet.
    let other = LeaseView::test("other", "x", 1).on("public", 2);
    let orders = orders_with(vec![LeaseView::test("me", "me_1", 1), other], &eth(true));
    assert!(orders.view.mine.is_empty());
    assert_eq!(orders.groups.len(), 1);
}

#[test]
fn a_link_that_is_down_is_no_attachment() {
    assert_eq!(orders_with(Vec::new(), &eth(false)).attachment, None);
}

#[test]
fn steps_lead_from_what_is_to_what_should_be() {
    let speaking = |addresses: &[&str], renewals| {
        let mut orders = Orders::default();
        orders.view.mine = addresses
            .iter()
            .map(|a| (a.parse().unwrap(), None))
            .collect();
        orders.view.renewals = renewals;
        Arc::new(orders)
    };
    let running: BTreeMap<String, Arc<Orders>> = [
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
        ("on segment b take 1 addresses and leave 1", Impact::Brief),
        ("on segment d take 0 addresses and leave 0", Impact::None),
        ("open segment e with 1 addresses", Impact::None),
    ];
    assert_eq!(
        told,
        expected.map(|(text, impact)| (text.to_owned(), impact))
    );
    assert!(steps(&wanted, &wanted).is_empty());
}
