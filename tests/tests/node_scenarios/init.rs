//! Initialisation (NI-…) from the cloud's listing.

use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::Node;
use kube::api::DeleteParams;
use mooring_cloud_sim::Fault;
use mooring_cloud_sim::cloud::Server;
use mooring_common::names::{labels, reasons};
use mooring_common::work_queue::Backoff;
use mooring_test_cluster::api_proxy::ApiProxy;
use mooring_test_cluster::cluster::{MARKER_LIMIT, SOON, addresses, label, provider_id};
use mooring_test_cluster::objects::{NodeBuilder, unique};
use mooring_test_support::wait::eventually;

use super::CLOUD;
use super::cluster::CloudCluster;

fn server(name: &str) -> Server {
    Server::named(name)
        .public("192.0.2.1")
        .public("2001:db8::1")
        .private("10.1.0.1")
}

#[tokio::test]
async fn ni_02_a_tainted_node_from_before_the_start_is_initialised() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let server = server(&name).kind("large-4");
    let id = cluster.cloud.add(server.clone());
    cluster.tainted(&name).await;
    let _central = cluster.for_cloud().try_start().await;

    let node = cluster.initialized(&name).await;
    assert_eq!(provider_id(&node), Some(&*id));
    let (region, zone) = CLOUD.region_and_zone();
    for (key, expected) in [
        (labels::INSTANCE_TYPE, Some("large-4")),
        (labels::INSTANCE_TYPE_BETA, Some("large-4")),
        (labels::REGION, Some(region)),
        (labels::REGION_BETA, Some(region)),
        (labels::ZONE, zone),
        (labels::ZONE_BETA, zone),
    ] {
        assert_eq!(label(&node, key), expected, "{key}");
    }
    assert_eq!(addresses(&node), server.addresses(CLOUD));
    cluster.told(&name, reasons::SYNCED).await;
    cluster.finish().await;
}

#[tokio::test]
async fn ni_03_a_node_without_a_machine_stays_tainted_and_is_kept() {
    let cluster = CloudCluster::start().await;
    let (name, marker) = (unique("n"), unique("marker"));
    cluster.cloud.add(server("another"));
    let _central = cluster.for_cloud().try_start().await;
    cluster.tainted(&name).await;
    cluster.cloud.add(server(&marker));
    cluster.tainted(&marker).await;
    cluster.initialized(&marker).await;
    cluster.listings_since(Instant::now(), 3).await;
    cluster.is_uninitialized(&name).await;
    cluster.finish().await;
}

#[tokio::test]
async fn ni_04_three_failures_are_retried_with_growing_gaps() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    cluster.cloud.add(server(&name));
    let failing = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    let failing = cluster
        .cloud
        .faults()
        .inject(cluster.cloud.listing().times(3), failing);
    cluster.tainted(&name).await;
    // No period may help.
    let central = cluster
        .for_cloud()
        .flag("--node-status-update-frequency=1h");
    let _central = central.flag("--node-monitor-period=1h").try_start().await;
    eventually("it is initialised", MARKER_LIMIT, async || {
        provider_id(&cluster.node(&name).await?).map(ToOwned::to_owned)
    })
    .await;
    assert_eq!(failing.hits(), 3);
    let calls = cluster.cloud.listings();
    let gaps: Vec<Duration> = calls.windows(2).map(|w| w[1].at - w[0].at).collect();
    assert!(gaps.len() >= 3, "{}", calls.summary());
    // No less than the delay: how much more depends on the machine. What others write on a new Node
    // is a reason to try once more at once.
    for (failures, gap) in (1..).zip(&gaps[..3]).skip(1) {
        let delay = Backoff::NODES.after(failures);
        assert!(*gap >= delay, "the gaps do not grow: {gaps:?}");
    }
    cluster.finish().await;
}

#[tokio::test]
async fn ni_05_the_kubelets_provider_id_stays_and_finds_the_machine() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let id = cluster.cloud.add(server("named-otherwise").kind("large-4"));
    cluster.cloud.add(server(&name).kind("small-1"));
    let node = NodeBuilder::new(&name).tainted().ready().provider_id(&id);
    node.create(&cluster.admin).await.unwrap();
    let _central = cluster.for_cloud().try_start().await;
    let node = cluster.initialized(&name).await;
    assert_eq!(provider_id(&node), Some(&*id));
    assert_eq!(label(&node, labels::INSTANCE_TYPE), Some("large-4"));
    cluster.finish().await;
}

fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let taints = taints.into_iter().flatten();
    taints
        .map(|t| {
            let value = t.value.as_deref().unwrap_or("");
            format!("{}={value}:{}", t.key, t.effect)
        })
        .collect()
}

#[tokio::test]
async fn ni_06_other_taints_stay_as_they_are() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    cluster.cloud.add(server(&name));
    let node = NodeBuilder::new(&name)
        .taint("example.com/x", "1", "NoExecute")
        .tainted()
        .taint("example.com/y", "", "PreferNoSchedule");
    let before = taints(&node.ready().create(&cluster.admin).await.unwrap());
    let _central = cluster.for_cloud().try_start().await;
    let node = cluster.initialized(&name).await;
    let mut expected = before;
    expected.retain(|taint| !taint.contains("uninitialized"));
    assert!(expected.len() >= 2, "{expected:?}");
    assert_eq!(taints(&node), expected);
    cluster.finish().await;
}

#[tokio::test]
async fn ni_12_a_node_that_is_deleted_while_the_listing_hangs_is_let_go() {
    let cluster = CloudCluster::start().await;
    let (name, marker) = (unique("n"), unique("marker"));
    cluster.cloud.add(server(&name));
    cluster.cloud.add(server(&marker));
    let hang = cluster
        .cloud
        .faults()
        .inject(cluster.cloud.listing(), Fault::hang());
    cluster.tainted(&name).await;
    let central = cluster.for_cloud().try_start().await;
    hang.struck(1).await;
    let params = DeleteParams::default();
    cluster.nodes().delete(&name, &params).await.unwrap();
    hang.lift();
    cluster.tainted(&marker).await;
    cluster.initialized(&marker).await;
    cluster.listings_since(Instant::now(), 2).await;
    assert!(cluster.node(&name).await.is_none(), "the Node is back");
    assert!(cluster.written_on(&name).await.is_empty());
    assert!(central.is_running());
    cluster.finish().await;
}

/// One listing answers for all Nodes. What is asked for one machine alone is the second proof
/// before a deletion.
#[tokio::test]
async fn ni_15_a_machine_whose_lookup_hangs_does_not_hold_up_another_node() {
    let cluster = CloudCluster::start().await;
    let (stuck, other) = (unique("stuck"), unique("other"));
    let hang = cluster
        .cloud
        .faults()
        .inject(cluster.cloud.lookup(), Fault::hang());
    let central = cluster.for_cloud().flag("--concurrent-node-syncs=2");
    let _central = central.try_start().await;
    let node = NodeBuilder::new(&stuck).provider_id(CLOUD.nobodys_id());
    node.not_ready().create(&cluster.admin).await.unwrap();
    eventually("the lookup hangs", SOON, async || hang.hits() > 0).await;
    cluster.cloud.add(server(&other));
    cluster.tainted(&other).await;
    cluster.initialized(&other).await;
    assert!(cluster.node(&stuck).await.is_some());
    hang.lift();
    cluster.is_gone(&stuck).await;
    cluster.finish().await;
}

#[tokio::test]
async fn ni_18_the_taint_stays_until_the_addresses_are_set() {
    let cluster = CloudCluster::start().await;
    let proxy = ApiProxy::start(&cluster).await.unwrap();
    let name = unique("n");
    let server = server(&name);
    cluster.cloud.add(server.clone());
    let status = format!("/nodes/{name}/status");
    proxy.fail(Method::PATCH, &status, 1, StatusCode::INTERNAL_SERVER_ERROR);
    let second_try = proxy.hold(Method::PATCH, &status);
    let _central = cluster.for_cloud().by_way_of(&proxy).try_start().await;
    cluster.tainted(&name).await;
    second_try.reached().await;
    let node = cluster.node(&name).await.unwrap();
    assert!(mooring_test_cluster::cluster::has_taint(
        &node,
        mooring_common::names::taints::UNINITIALIZED
    ));
    assert!(addresses(&node).is_empty());
    second_try.open();
    let node = cluster.initialized(&name).await;
    assert_eq!(addresses(&node), server.addresses(CLOUD));
    cluster.finish().await;
}

#[tokio::test]
async fn ni_19_addresses_come_first_in_two_patches_and_one_event() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    cluster.cloud.add(server(&name));
    cluster.tainted(&name).await;
    let _central = cluster.for_cloud().try_start().await;
    cluster.initialized(&name).await;
    cluster.told(&name, reasons::SYNCED).await;
    cluster.listings_since(Instant::now(), 3).await;
    let writes = cluster.written_on(&name).await;
    let verbs: Vec<_> = writes
        .iter()
        .map(|write| (write.verb.as_str(), write.subresource.as_str()))
        .collect();
    assert_eq!(
        verbs,
        [("patch", "status"), ("patch", "")],
        "{}",
        writes.summary()
    );
    let events = cluster.event_writes(&name).await;
    assert_eq!(events.len(), 1, "{}", events.summary());
    cluster.finish().await;
}

#[tokio::test]
async fn ni_21_a_machine_that_becomes_known_is_taken_up_without_a_nudge() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    cluster.cloud.add(server("another"));
    // No period may help.
    let central = cluster
        .for_cloud()
        .flag("--node-status-update-frequency=1h");
    let _central = central.flag("--node-monitor-period=1h").try_start().await;
    cluster.listings_since(Instant::now(), 1).await;
    let start = Instant::now();
    cluster.tainted(&name).await;
    cluster.listings_since(start, 1).await;
    cluster.is_uninitialized(&name).await;
    cluster.cloud.add(server(&name));
    cluster.initialized(&name).await;
    cluster.finish().await;
}

#[tokio::test]
async fn ni_22_two_machines_of_one_name_are_told_and_none_is_chosen() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let first = cluster.cloud.add(server(&name));
    let second = cluster.cloud.add(server(&name));
    let _central = cluster.for_cloud().try_start().await;
    cluster.tainted(&name).await;
    let note = cluster.told(&name, reasons::AMBIGUOUS_INSTANCE).await;
    for id in [&first, &second] {
        assert!(note.contains(id.as_str()), "{id} is missing: {note}");
    }
    cluster.listings_since(Instant::now(), 3).await;
    cluster.is_uninitialized(&name).await;
    let events = cluster.event_writes(&name).await;
    assert_eq!(events.len(), 1, "{}", events.summary());

    // With a provider ID it is no question which one it is.
    let known = unique("known");
    let node = NodeBuilder::new(&known).tainted().ready();
    let node = node.provider_id(&second).create(&cluster.admin);
    node.await.unwrap();
    cluster.initialized(&known).await;
    cluster.finish().await;
}
