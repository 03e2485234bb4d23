//! Routes to Pods: ranges on the interfaces of Linodes.

use http::StatusCode;
use mooring_cloud_sim::{Fault, When};
use mooring_common::names::reasons;
use mooring_test_cluster::objects::unique;
use mooring_test_support::wait::eventually;
use serde_json::json;

use super::pod_network::{AT_LAST, GENERATIONS, VpcCluster, foreign, network_unavailable};

/// What is on the interface besides stays, and is written along.
#[tokio::test]
async fn rt_01_pod_cidrs_are_ranges_on_interfaces_of_both_generations() {
    let cluster = VpcCluster::start().await;
    let _central = cluster.with_routes().try_start().await;
    let outside = "10.64.0.0/24";
    for (number, generation) in GENERATIONS.into_iter().enumerate() {
        let (name, cidr) = (unique("n"), format!("10.128.{number}.0/24"));
        let member = cluster.machine(&name, generation, &format!("10.0.0.{}", number + 2));
        if number == 0 {
            cluster.linode().set_ranges(member.number, &[outside]);
        }
        cluster.join(&member, &[&cidr]).await;
        cluster.is_routed(&name).await;
        let all = [outside, &cidr];
        let all = if number == 0 { &all[..] } else { &all[1..] };
        cluster.has_ranges(&member, all).await;
        let path = match generation {
            "linode" => format!("**/instances/{}/interfaces/*", member.number),
            _ => format!("**/instances/{}/configs/*/interfaces/*", member.number),
        };
        let expected = match generation {
            "linode" => json!({ "vpc": { "ipv4": { "ranges": [{ "range": cidr }] } } }),
            _ => json!({ "ip_ranges": [outside, cidr] }),
        };
        let bodies = cluster.cloud.calls().to(&path).writes().bodies();
        assert_eq!(bodies, [expected]);
    }
    // The name of a Linode is nothing to its routes.
    let calls = cluster.cloud.calls().writes().len();
    for member in cluster.nodes().list(&Default::default()).await.unwrap() {
        let id = member.spec.and_then(|spec| spec.provider_id).unwrap();
        let number = id.trim_start_matches("linode://").parse().unwrap();
        cluster
            .linode()
            .set(number, "label", format!("renamed-{number}"));
    }
    cluster.pass(9).await;
    assert_eq!(cluster.cloud.calls().writes().len(), calls + 1);
    cluster.finish().await;
}

#[tokio::test]
async fn rt_02_a_node_without_pod_cidr_has_no_route() {
    let cluster = VpcCluster::start().await;
    let name = unique("n");
    let member = cluster.with_node(&name, "linode", "10.0.0.2", &[]).await;
    let _central = cluster.with_routes().try_start().await;
    cluster.says(&name, "True", "NoRouteCreated").await;
    cluster.pass(1).await;
    assert!(cluster.linode().ranges(member.number).is_empty());
    // Said once, and nobody is warned of what is still to come.
    let written = cluster.written_on(&name).await;
    let conditions = written.filter(|record| {
        record
            .body
            .as_ref()
            .is_some_and(|body| body.to_string().contains("NetworkUnavailable"))
    });
    assert_eq!(conditions.len(), 1, "{}", written.summary());
    assert!(
        cluster
            .events(&name, reasons::FAILED_TO_CREATE_ROUTE)
            .await
            .is_empty()
    );
    cluster.finish().await;
}

/// A range that the Linode has is a route; one that it lacks is refused once, and asked for never.
#[tokio::test]
async fn rt_03_both_families_are_routed_or_the_node_is_not() {
    for generation in GENERATIONS {
        let cluster = VpcCluster::start().await;
        let name = unique("n");
        let cidrs = ["10.128.1.0/24", "2600:3c03:e001:7:0:c::/112"];
        let member = cluster
            .with_node(&name, generation, "10.0.0.2", &cidrs)
            .await;
        let _central = cluster.with_routes().try_start().await;
        cluster.has_ranges(&member, &cidrs[..1]).await;
        cluster.says(&name, "True", "NoRouteCreated").await;
        let note = cluster.told(&name, reasons::FAILED_TO_CREATE_ROUTE).await;
        assert!(
            note.contains(cidrs[1]) && note.contains("--allocate-node-cidrs"),
            "{note}"
        );
        for number in 2..5 {
            cluster.pass(number).await;
        }
        let events = cluster.events(&name, reasons::FAILED_TO_CREATE_ROUTE).await;
        assert_eq!((events.len(), events[0].count), (1, 1), "{events:?}");
        let path = format!("**/instances/{}/**", member.number);
        let own = cluster.cloud.calls().writes().to(&path);
        assert_eq!(own.len(), 1, "{}", own.summary());
        cluster
            .linode()
            .set_ipv6_range(member.number, "2600:3c03:e001:7::/64");
        cluster.is_routed(&name).await;
        cluster.finish().await;
    }
}

#[tokio::test]
async fn rt_04_the_route_of_a_deleted_node_goes() {
    let cluster = VpcCluster::start().await;
    let _central = cluster.with_routes().try_start().await;
    for (number, generation) in GENERATIONS.into_iter().enumerate() {
        let (name, address) = (unique("n"), format!("10.0.0.{}", number + 2));
        let member = cluster.machine(&name, generation, &address);
        cluster
            .linode()
            .set_ranges(member.number, &["10.64.0.0/24"]);
        cluster.join(&member, &["10.128.1.0/24"]).await;
        cluster.is_routed(&name).await;
        cluster.delete(&name).await;
        cluster.has_ranges(&member, &["10.64.0.0/24"]).await;
        cluster.linode().set_ranges(member.number, &[]);
        // Whoever makes it again does that by hand: it is no route of that Node any more.
        cluster
            .linode()
            .set_ranges(member.number, &["10.128.1.0/24"]);
        cluster.pass(u8::try_from(number).unwrap() + 7).await;
        cluster.has_ranges(&member, &["10.128.1.0/24"]).await;
        cluster.linode().set_ranges(member.number, &[]);
    }
    cluster.finish().await;
}

/// Inside and outside of the cluster CIDR: what no Node ever called for stays, and is told in the log.
#[tokio::test]
async fn rt_05_hand_made_ranges_are_left_alone() {
    let cluster = VpcCluster::start().await;
    let name = unique("n");
    let member = cluster.machine(&name, "linode", "10.0.0.2");
    let by_hand = ["10.64.0.0/24", "10.128.77.0/24"];
    cluster.linode().set_ranges(member.number, &by_hand);
    cluster.join(&member, &["10.128.1.0/24"]).await;
    let elsewhere = cluster.machine(&unique("no-node"), "linode", "10.0.0.3");
    cluster
        .linode()
        .set_ranges(elsewhere.number, &["10.128.78.0/24"]);
    let central = cluster.with_routes().try_start().await;
    cluster.is_routed(&name).await;
    cluster.pass(2).await;
    let all = [by_hand[0], by_hand[1], "10.128.1.0/24"];
    cluster.has_ranges(&member, &all).await;
    cluster.has_ranges(&elsewhere, &["10.128.78.0/24"]).await;
    assert!(
        central.log().contains("10.128.77.0/24"),
        "{}",
        central.log()
    );
    // Asked for, it goes: from the machines of Nodes alone.
    drop(central);
    let _central = cluster
        .with_routes()
        .flag("--delete-orphans")
        .try_start()
        .await;
    cluster
        .has_ranges(&member, &[by_hand[0], "10.128.1.0/24"])
        .await;
    cluster.pass(3).await;
    cluster.has_ranges(&elsewhere, &["10.128.78.0/24"]).await;
    cluster.finish().await;
}

#[tokio::test]
async fn rt_07_a_creation_that_fails_is_told_and_tried_again() {
    let cluster = VpcCluster::start().await;
    let name = unique("n");
    let member = cluster
        .with_node(&name, "legacy_config", "10.0.0.2", &["10.128.1.0/24"])
        .await;
    let failing = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    let failing = cluster
        .cloud
        .faults()
        .inject(When::write("**/interfaces/*"), failing);
    let _central = cluster.with_routes().try_start().await;
    cluster.says(&name, "True", "NoRouteCreated").await;
    let note = cluster.told(&name, reasons::FAILED_TO_CREATE_ROUTE).await;
    assert!(
        note.starts_with("Could not create route 10.128.1.0/24 for node"),
        "{note}"
    );
    eventually("it is tried again", AT_LAST, async || failing.hits() >= 3).await;
    failing.lift();
    cluster.is_routed(&name).await;
    cluster.has_ranges(&member, &["10.128.1.0/24"]).await;
    let events = cluster.events(&name, reasons::FAILED_TO_CREATE_ROUTE).await;
    assert_eq!(events.len(), 1, "{events:?}");
    cluster.finish().await;
}

#[tokio::test]
async fn nodes_of_others_and_machines_outside_of_the_vpc() {
    let cluster = VpcCluster::start().await;
    let (others, outside) = (unique("others"), unique("outside"));
    foreign(&others)
        .pod_cidrs(&["10.128.1.0/24"])
        .create(&cluster.admin)
        .await
        .unwrap();
    let id = cluster
        .cloud
        .add(mooring_cloud_sim::cloud::Server::named(&outside).public("192.0.2.9"));
    let node = cluster
        .known(&outside, &id)
        .ready()
        .pod_cidrs(&["10.128.2.0/24"]);
    node.create(&cluster.admin).await.unwrap();
    let _central = cluster.with_routes().try_start().await;
    cluster.says(&outside, "True", "NoRouteCreated").await;
    let note = cluster
        .told(&outside, reasons::FAILED_TO_CREATE_ROUTE)
        .await;
    assert!(note.contains("--vpc-names"), "{note}");
    cluster.pass(3).await;
    let node = cluster.node(&others).await.unwrap();
    assert_eq!(network_unavailable(&node), None);
    assert!(cluster.written_on(&others).await.is_empty());
    // It gets an interface, and its route without another word.
    let number = id.trim_start_matches("linode://").parse().unwrap();
    cluster.linode().attach(number, cluster.subnet, "10.0.0.9");
    cluster.is_routed(&outside).await;
    cluster.finish().await;
}

/// A CNI may own the condition.
#[tokio::test]
async fn without_routes_the_condition_is_never_touched() {
    for flag in [
        "--enable-route-controller=false",
        "--configure-cloud-routes=false",
        "--controllers=*,-route",
    ] {
        let cluster = VpcCluster::start().await;
        let name = unique("n");
        let member = cluster
            .with_node(&name, "linode", "10.0.0.2", &["10.128.1.0/24"])
            .await;
        let _central = cluster.with_routes().flag(flag).try_start().await;
        let new = cluster.machine(&unique("n"), "linode", "10.0.0.3");
        cluster.tainted(&new.name).await;
        cluster.initialized(&new.name).await;
        let node = cluster.node(&name).await.unwrap();
        assert_eq!(network_unavailable(&node), None, "{flag}");
        assert!(cluster.linode().ranges(member.number).is_empty(), "{flag}");
        cluster.finish().await;
    }
}

#[tokio::test]
async fn routes_need_a_cluster_cidr() {
    let cluster = VpcCluster::start().await;
    let central = cluster
        .with_routes()
        .flag("--cluster-cidr=")
        .try_start()
        .await;
    assert_eq!(central.wait_for_code(AT_LAST).await, 1);
    let log = central.log();
    assert!(log.contains("--cluster-cidr: routes need it"), "{log}");
    cluster.finish().await;
}
