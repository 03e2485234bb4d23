//! Pod CIDRs of Nodes.

use std::collections::HashSet;

use http::StatusCode;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use mooring_cloud_sim::linode::Instance;
use mooring_cloud_sim::{Fault, When};
use mooring_common::names::reasons;
use mooring_test_cluster::cluster::Launch;
use mooring_test_cluster::objects::{NodeBuilder, unique};
use mooring_test_support::process::Process;
use mooring_test_support::wait::eventually;

use super::pod_network::{AT_LAST, GENERATIONS, VpcCluster, foreign, pod_cidrs};

/// IPv4 alone.
fn allocating(cluster: &VpcCluster) -> Launch<'_> {
    let central = cluster.in_vpc().flag("--allocate-node-cidrs");
    central.flag("--disable-ipv6-node-cidr-allocation")
}

async fn gets(cluster: &VpcCluster, name: &str, cidrs: &[&str]) {
    let what = format!("given {cidrs:?}");
    cluster
        .is(name, &what, |node| pod_cidrs(node) == cidrs)
        .await;
    let node = cluster.node(name).await.unwrap();
    let first = node.spec.and_then(|spec| spec.pod_cidr);
    assert_eq!(first.as_deref(), cidrs.first().copied());
}

/// Waits until all Nodes have pod CIDRs, and gives them.
async fn all_have(cluster: &VpcCluster) -> Vec<String> {
    eventually("all Nodes have pod CIDRs", AT_LAST, async || {
        let nodes = cluster.nodes().list(&ListParams::default()).await.unwrap();
        let cidrs: Vec<_> = nodes.iter().map(pod_cidrs).collect();
        let lacking = cidrs.iter().filter(|cidrs| cidrs.is_empty()).count();
        if lacking == 0 {
            Ok(cidrs.concat())
        } else {
            Err(lacking)
        }
    })
    .await
}

fn no_cidr_twice(cidrs: &[String]) {
    let distinct: HashSet<&String> = cidrs.iter().collect();
    assert_eq!(distinct.len(), cidrs.len(), "{cidrs:?}");
}

/// What Nodes have is kept and given to nobody else, whichever family comes first.
#[tokio::test]
async fn existing_pod_cidrs_are_kept_and_occupied() {
    let cluster = VpcCluster::start().await;
    let (first, second, third, outside) = (unique("a"), unique("b"), unique("c"), unique("d"));
    let taken: [(&str, &[&str]); 4] = [
        (&first, &["10.128.0.0/24"]),
        (&second, &["fd00:1::/64", "10.128.1.0/24"]),
        (&third, &["10.128.2.0/23"]),
        (&outside, &["192.168.7.0/24"]),
    ];
    for (name, cidrs) in taken {
        NodeBuilder::new(name)
            .pod_cidrs(cidrs)
            .create(&cluster.admin)
            .await
            .unwrap();
    }
    let _central = allocating(&cluster).try_start().await;
    let new = unique("new");
    NodeBuilder::new(&new).create(&cluster.admin).await.unwrap();
    gets(&cluster, &new, &["10.128.4.0/24"]).await;
    for (name, cidrs) in taken {
        assert_eq!(pod_cidrs(&cluster.node(name).await.unwrap()), cidrs);
    }
    // A Node of another provider needs one as well.
    let others = unique("others");
    foreign(&others).create(&cluster.admin).await.unwrap();
    gets(&cluster, &others, &["10.128.5.0/24"]).await;
    cluster.finish().await;
}

#[tokio::test]
async fn ipv6_comes_from_the_interface_in_the_vpc_of_both_generations() {
    let cluster = VpcCluster::start().await;
    let _central = cluster
        .in_vpc()
        .flag("--allocate-node-cidrs")
        .try_start()
        .await;
    for (number, generation) in GENERATIONS.into_iter().enumerate() {
        let (name, address) = (unique("n"), format!("10.0.0.{}", number + 2));
        let member = cluster.machine(&name, generation, &address);
        let range = format!("2600:3c03:e001:{}::/64", number + 1);
        cluster.linode().set_ipv6_range(member.number, &range);
        cluster.tainted(&name).await;
        let expected = [
            format!("10.128.{number}.0/24"),
            format!("2600:3c03:e001:{}:0:c::/112", number + 1),
        ];
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        gets(&cluster, &name, &expected).await;
        cluster.initialized(&name).await;
    }
    cluster.finish().await;
}

/// Half an allocation takes nothing away, and asks the cloud again less and less often.
#[tokio::test]
async fn a_machine_without_ipv6_range_takes_no_ipv4_block() {
    let cluster = VpcCluster::start().await;
    let without = cluster
        .with_node(&unique("a"), "linode", "10.0.0.2", &[])
        .await;
    let central = cluster.in_vpc().flag("--allocate-node-cidrs");
    let _central = central
        .flag("--node-cidr-mask-size-ipv4=17")
        .try_start()
        .await;
    let note = cluster
        .told(&without.name, reasons::CIDR_NOT_AVAILABLE)
        .await;
    assert!(
        note.contains("--disable-ipv6-node-cidr-allocation"),
        "{note}"
    );
    let asked = || cluster.cloud.calls().to("**/instances/*/interfaces").len();
    eventually("it is asked for again", AT_LAST, async || asked() >= 3).await;
    assert!(pod_cidrs(&cluster.node(&without.name).await.unwrap()).is_empty());
    // Both of the two blocks are still there.
    for number in 1..=2u8 {
        let member = cluster.machine(&unique("b"), "linode", &format!("10.0.1.{number}"));
        let range = format!("2600:3c03:e001:{number}::/64");
        cluster.linode().set_ipv6_range(member.number, &range);
        cluster.join(&member, &[]).await;
        let block = ["10.128.0.0/17", "10.128.128.0/17"][usize::from(number) - 1];
        let ipv6 = format!("2600:3c03:e001:{number}:0:c::/112");
        gets(&cluster, &member.name, &[block, &ipv6]).await;
    }
    let events = cluster
        .events(&without.name, reasons::CIDR_NOT_AVAILABLE)
        .await;
    assert_eq!(events[0].count, 1, "{events:?}");
    cluster.finish().await;
}

#[tokio::test]
async fn exhaustion_is_told_with_figures_and_ends_when_a_node_goes() {
    let cluster = VpcCluster::start().await;
    let central = allocating(&cluster).flag("--node-cidr-mask-size-ipv4=17");
    let _central = central.try_start().await;
    let names = ["a", "b", "c"].map(unique);
    for name in &names[..2] {
        NodeBuilder::new(name).create(&cluster.admin).await.unwrap();
    }
    let given = all_have(&cluster).await;
    no_cidr_twice(&given);
    NodeBuilder::new(&names[2])
        .create(&cluster.admin)
        .await
        .unwrap();
    let note = cluster.told(&names[2], reasons::CIDR_NOT_AVAILABLE).await;
    assert!(
        note.contains("2 of the 2 blocks of /17 in --cluster-cidr=10.128.0.0/16"),
        "{note}"
    );
    assert!(cluster.written_on(&names[2]).await.is_empty());
    let freed = pod_cidrs(&cluster.node(&names[0]).await.unwrap());
    cluster.delete(&names[0]).await;
    gets(&cluster, &names[2], &[&freed[0]]).await;
    let events = cluster.events(&names[2], reasons::CIDR_NOT_AVAILABLE).await;
    assert_eq!((events.len(), events[0].count), (1, 1), "{events:?}");
    cluster.finish().await;
}

/// Linode keeps the end of a subnet for itself.
#[tokio::test]
async fn the_block_at_the_end_of_the_subnet_is_reserved() {
    let cluster = VpcCluster::start().await;
    let central = allocating(&cluster).flag("--cluster-cidr=10.128.0.0/9");
    let central = central
        .flag("--node-cidr-mask-size-ipv4=10")
        .try_start()
        .await;
    let (first, second) = (unique("a"), unique("b"));
    NodeBuilder::new(&first)
        .create(&cluster.admin)
        .await
        .unwrap();
    gets(&cluster, &first, &["10.128.0.0/10"]).await;
    NodeBuilder::new(&second)
        .create(&cluster.admin)
        .await
        .unwrap();
    let note = cluster.told(&second, reasons::CIDR_NOT_AVAILABLE).await;
    assert!(note.contains("2 of the 2 blocks"), "{note}");
    drop(central);
    cluster.finish().await;
}

/// What kube-controller-manager or a person gives in the same moment wins.
#[tokio::test]
async fn a_pod_cidr_is_never_overwritten() {
    let cluster = VpcCluster::start().await;
    let _central = cluster
        .in_vpc()
        .flag("--allocate-node-cidrs")
        .try_start()
        .await;
    let member = cluster
        .with_node(&unique("n"), "linode", "10.0.0.2", &[])
        .await;
    cluster
        .told(&member.name, reasons::CIDR_NOT_AVAILABLE)
        .await;
    let by_hand = serde_json::json!({ "spec": { "podCIDR": "10.128.9.0/24", "podCIDRs": ["10.128.9.0/24"] } });
    cluster.patch(&member.name, &by_hand).await;
    cluster
        .linode()
        .set_ipv6_range(member.number, "2600:3c03:e001:1::/64");
    let other = cluster.machine(&unique("n"), "linode", "10.0.0.3");
    cluster
        .linode()
        .set_ipv6_range(other.number, "2600:3c03:e001:2::/64");
    cluster.join(&other, &[]).await;
    gets(
        &cluster,
        &other.name,
        &["10.128.0.0/24", "2600:3c03:e001:2:0:c::/112"],
    )
    .await;
    gets(&cluster, &member.name, &["10.128.9.0/24"]).await;
    cluster.finish().await;
}

fn replica(cluster: &VpcCluster) -> Launch<'_> {
    let central = allocating(cluster).flag("--leader-elect=true");
    let central = central.flag("--leader-elect-lease-duration=3s");
    let central = central.flag("--leader-elect-renew-deadline=2s");
    central.flag("--leader-elect-retry-period=250ms")
}

/// The leader is killed in the middle, again and again.
#[tokio::test]
async fn no_pod_cidr_is_given_twice_by_two_replicas() {
    let cluster = VpcCluster::start().await;
    let mut replicas: Vec<Process> = Vec::new();
    for _ in 0..2 {
        replicas.push(replica(&cluster).try_start().await);
    }
    let mut names: Vec<String> = Vec::new();
    for round in 0..3 {
        for _ in 0..20 {
            let name = unique("n");
            NodeBuilder::new(&name)
                .create(&cluster.admin)
                .await
                .unwrap();
            names.push(name);
        }
        let given = async || {
            let nodes = cluster.nodes().list(&ListParams::default()).await.unwrap();
            nodes
                .iter()
                .filter(|node: &&Node| !pod_cidrs(node).is_empty())
                .count()
        };
        eventually("some have theirs", AT_LAST, async || {
            given().await > round * 20
        })
        .await;
        drop(replicas.remove(0));
        replicas.push(replica(&cluster).try_start().await);
    }
    let cidrs = all_have(&cluster).await;
    assert_eq!(cidrs.len(), names.len());
    no_cidr_twice(&cidrs);
    cluster.finish().await;
}

/// The cloud does not answer when a leader begins, nor later: nobody gets half of anything.
#[tokio::test]
async fn a_cloud_that_fails_costs_time_alone() {
    let cluster = VpcCluster::start().await;
    let fault = || Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    let subnet = cluster
        .cloud
        .faults()
        .inject(When::get("**/subnets/*"), fault());
    let interfaces = cluster
        .cloud
        .faults()
        .inject(When::get("**/instances/*/configs"), fault());
    let _central = cluster
        .in_vpc()
        .flag("--allocate-node-cidrs")
        .try_start()
        .await;
    let member = cluster.machine(&unique("n"), "legacy_config", "10.0.0.2");
    cluster
        .linode()
        .set_ipv6_range(member.number, "2600:3c03:e001:1::/64");
    cluster.join(&member, &[]).await;
    eventually("the start fails twice", AT_LAST, async || {
        subnet.hits() >= 2
    })
    .await;
    subnet.lift();
    eventually("the range cannot be read", AT_LAST, async || {
        interfaces.hits() >= 2
    })
    .await;
    assert!(
        cluster
            .written_on(&member.name)
            .await
            .with_verb("patch")
            .filter(|record| {
                record
                    .body
                    .as_ref()
                    .is_some_and(|body| body.to_string().contains("podCIDR"))
            })
            .is_empty()
    );
    interfaces.lift();
    gets(
        &cluster,
        &member.name,
        &["10.128.0.0/24", "2600:3c03:e001:1:0:c::/112"],
    )
    .await;
    cluster.finish().await;
}

#[tokio::test]
async fn allocation_needs_one_ipv4_range() {
    let cluster = VpcCluster::start().await;
    cluster.linode().add(Instance::labelled("one"));
    let central = allocating(&cluster)
        .flag("--cluster-cidr=fd00::/48")
        .try_start()
        .await;
    assert_eq!(central.wait_for_code(AT_LAST).await, 1);
    let log = central.log();
    assert!(
        log.contains("--allocate-node-cidrs needs exactly one IPv4 range"),
        "{log}"
    );
    cluster.finish().await;
}
