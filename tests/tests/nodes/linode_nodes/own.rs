//! What is Linode's own: pages, its labels and annotations, ids.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use k8s_openapi::api::core::v1::Node;
use mooring_cloud_sim::cloud::Server;
use mooring_cloud_sim::linode::{Instance, Limits, Linode};
use mooring_cloud_sim::{Fault, When};
use mooring_common::names::{annotations, labels};
use mooring_test_cluster::cluster::{MARKER_LIMIT, addresses, label, provider_id};
use mooring_test_cluster::objects::{NodeBuilder, unique};
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::linode_nodes::cluster::{Clock, CloudCluster, Gone};

const NO_GUARD: &str = "--max-node-deletions-percent=100";
const LISTING: &str = "**/linode/instances";
const AT_LAST: Duration = Duration::from_secs(60);

fn linode(cluster: &CloudCluster) -> &Linode {
    cluster.cloud.linode().expect("this is the suite of Linode")
}

fn annotation<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    let annotations = node.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// Machines that are no Nodes: so many that a listing has three pages.
fn crowd(linode: &Linode) {
    for index in 0..1_100 {
        linode.add(Instance::labelled(&format!("crowd-{index}")).ipv4("192.0.2.9"));
    }
}

/// A Node whose machine is on the last of three pages; then a listing is not to be believed.
async fn not_believed(spoil: impl Fn(&Linode)) {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    crowd(linode(&cluster));
    let id = cluster.member(&name, "10.1.0.1").await;
    let _central = cluster.for_cloud().flag(NO_GUARD).try_start().await;
    Clock::start(&cluster).await;
    spoil(linode(&cluster));
    let start = Instant::now();
    eventually("one was spoilt", AT_LAST, async || {
        cluster
            .cloud
            .calls()
            .since(start)
            .iter()
            .any(|call| call.faulty)
    })
    .await;
    cluster.cloud.remove(&id);
    cluster.set_ready(&name, "Unknown").await;
    let start = Instant::now();
    eventually(
        "two more were begun, and one has ended",
        AT_LAST,
        async || cluster.cloud.listings().since(start).len() >= 2,
    )
    .await;
    cluster.is_kept(&name).await;
    linode(&cluster).faults().clear();
    eventually("a whole listing is believed", AT_LAST, async || {
        cluster.node(&name).await.is_none()
    })
    .await;
    cluster.finish().await;
}

#[tokio::test]
async fn lc_17_a_listing_whose_second_page_fails_is_none() {
    not_believed(|linode| {
        let failing = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
        linode.faults().inject(When::get(LISTING).page(2), failing);
    })
    .await;
}

#[tokio::test]
async fn lc_17_a_listing_whose_last_page_is_cut_off_is_none() {
    not_believed(|linode| {
        linode
            .faults()
            .inject(When::get(LISTING).page(3), Fault::cut_off());
    })
    .await;
}

#[tokio::test]
async fn lc_17_a_listing_whose_last_page_does_not_exist_is_none() {
    not_believed(|linode| {
        let missing = Fault::status(StatusCode::NOT_FOUND);
        linode.faults().inject(When::get(LISTING).page(3), missing);
    })
    .await;
}

#[tokio::test]
async fn lc_17_a_listing_that_counts_other_rows_than_it_has_is_none() {
    not_believed(|linode| {
        let wrong = Fault::rewritten(|page| page["results"] = json!(5_000));
        linode.faults().inject(When::get(LISTING), wrong);
    })
    .await;
}

#[tokio::test]
async fn lc_17_a_page_that_is_empty_makes_a_listing_none() {
    not_believed(|linode| {
        let empty = Fault::rewritten(|page| page["data"] = json!([]));
        linode.faults().inject(When::get(LISTING).page(3), empty);
    })
    .await;
}

#[tokio::test]
async fn lc_17_a_listing_that_gives_one_page_twice_is_none() {
    not_believed(|linode| {
        // The last page's rows are those of another: as many rows, but not all machines.
        let twice = Fault::rewritten(|page| {
            let first = page["data"][0].clone();
            for row in page["data"].as_array_mut().into_iter().flatten() {
                *row = first.clone();
            }
        });
        linode.faults().inject(When::get(LISTING).page(2), twice);
    })
    .await;
}

/// Rows shift between two pages so that one machine is in neither, although the numbers agree. The
/// second proof keeps its Node.
#[tokio::test]
async fn lc_18_a_row_that_slips_between_two_pages_costs_no_node() {
    let cluster = CloudCluster::start().await;
    let (name, marker) = (unique("n"), Gone::new());
    crowd(linode(&cluster));
    let slipped: u64 = {
        let instance = Instance::labelled(&name).ipv4("10.1.0.1");
        linode(&cluster).add(instance)
    };
    let id = format!("linode://{slipped}");
    cluster
        .known(&name, &id)
        .ready()
        .create(&cluster.admin)
        .await
        .unwrap();
    let _central = cluster.for_cloud().flag(NO_GUARD).try_start().await;
    Clock::start(&cluster).await;
    // In its place in the last page there is another machine.
    let place = Arc::new(slipped);
    let shift = Fault::rewritten(move |page| {
        for row in page["data"].as_array_mut().into_iter().flatten() {
            if row["id"] == json!(*place) {
                row["id"] = json!(1);
                row["label"] = json!("came-meanwhile");
            }
        }
    });
    linode(&cluster).faults().inject(When::get(LISTING), shift);
    cluster.set_ready(&name, "Unknown").await;
    marker.passes(&cluster, 3).await;
    cluster.is_kept(&name).await;
    cluster.finish().await;
}

/// What the Go controller writes beside the rest: a label and two annotations, which follow.
#[tokio::test]
async fn la_08_the_host_and_the_addresses_are_written_as_the_go_controller_does() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let instance = Instance::labelled(&name)
        .ipv4("192.0.2.1")
        .ipv4("192.168.130.7");
    let instance = instance.ipv6("2600:3c03::1").with("host_uuid", "host-one");
    let id = linode(&cluster).add(instance);
    let _central = cluster.for_cloud().try_start().await;
    // Somebody's own value is overwritten: it is the provider's label.
    let node = NodeBuilder::new(&name).tainted().ready();
    let node = node.label(labels::LINODE_HOST_UUID, "somebody-elses");
    node.create(&cluster.admin).await.unwrap();
    let node = cluster.initialized(&name).await;
    assert_eq!(label(&node, labels::LINODE_HOST_UUID), Some("host-one"));
    let private = annotation(&node, annotations::LINODE_PRIVATE_IP);
    assert_eq!(private, Some("192.168.130.7"));
    let public = annotation(&node, annotations::LINODE_PUBLIC_IPV6);
    assert_eq!(public, Some("2600:3c03::1/128"));
    linode(&cluster).set(id, "host_uuid", "host-two");
    let moved = |node: &Node| label(node, labels::LINODE_HOST_UUID) == Some("host-two");
    cluster.is(&name, "on another host", moved).await;
    // Annotations are never taken away.
    linode(&cluster).set(id, "ipv6", json!(null));
    Clock::start(&cluster).await.cloud_is_read(&cluster).await;
    let node = cluster.node(&name).await.unwrap();
    let public = annotation(&node, annotations::LINODE_PUBLIC_IPV6);
    assert_eq!(public, Some("2600:3c03::1/128"));
    cluster.finish().await;
}

/// InternalIPs that the kubelet reported and the cloud does not know are kept, last.
#[tokio::test]
async fn addresses_that_only_the_kubelet_knows_are_kept() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let server = Server::named(&name).public("192.0.2.1").private("10.1.0.1");
    cluster.cloud.add(server.clone());
    let node = NodeBuilder::new(&name).tainted().ready();
    let node = node
        .address("InternalIP", "172.16.0.9")
        .address("InternalIP", "10.1.0.1");
    // All at once, as a kubelet reports; what is built here takes two requests.
    node.create(&cluster.admin).await.unwrap();
    let _central = cluster.for_cloud().try_start().await;
    let node = cluster.initialized(&name).await;
    let mut expected = server.addresses(crate::linode_nodes::CLOUD);
    expected.push("InternalIP 172.16.0.9".to_owned());
    assert_eq!(addresses(&node), expected);
    let written = cluster.written_on(&name).await.len();
    Clock::start(&cluster).await.periods(&cluster, 3).await;
    let writes = cluster.written_on(&name).await;
    assert_eq!(writes.len(), written, "{}", writes.summary());
    cluster.finish().await;
}

/// A Node whose name is no label of an instance is found by a public address of it.
#[tokio::test]
async fn a_node_is_found_by_its_public_address() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let id = cluster
        .cloud
        .add(Server::named("called-otherwise").public("192.0.2.77"));
    cluster
        .cloud
        .add(Server::named("another").public("192.0.2.78"));
    let _central = cluster.for_cloud().try_start().await;
    let node = NodeBuilder::new(&name).tainted().ready();
    let node = node.address("ExternalIP", "192.0.2.77");
    node.create(&cluster.admin).await.unwrap();
    let node = cluster.initialized(&name).await;
    assert_eq!(provider_id(&node), Some(&*id));
    cluster.finish().await;
}

/// The documented limits are obeyed as the cloud states them.
#[tokio::test]
async fn t13_the_clouds_own_limit_is_obeyed() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    cluster.cloud.add(Server::named(&name).private("10.1.0.1"));
    let window = Duration::from_secs(4);
    linode(&cluster).limit(Limits::per(window, 100, 2));
    let _central = cluster.for_cloud().try_start().await;
    cluster.tainted(&name).await;
    cluster.initialized(&name).await;
    let refused = async || {
        cluster
            .cloud
            .calls()
            .answered(StatusCode::TOO_MANY_REQUESTS)
    };
    eventually("it was refused twice", MARKER_LIMIT, async || {
        refused().await.len() >= 2
    })
    .await;
    let refused = refused().await;
    let gap = refused[1].at - refused[0].at;
    let calls = cluster.cloud.calls();
    assert!(gap >= window.mul_f64(0.7), "{gap:?}:\n{}", calls.summary());
    cluster.finish().await;
}
