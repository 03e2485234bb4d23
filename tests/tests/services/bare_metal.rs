//! What the chart gives without any value: no cloud, addresses of L2Networks, and Nodes left alone.

use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use mooring_common::names::{
    CLOUDLESS_LEADER_LEASE, LEADER_LEASE, LEADER_LEASE_NAMESPACE, annotations, reasons,
};
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::objects::{NodeBuilder, ServiceBuilder, put_lease};
use mooring_test_cluster::shipped::{CENTRAL_USER, CentralFlags, Shipped};
use mooring_test_cluster::test_namespace::{SOON, TestNamespace, ingress, is_untouched};
use mooring_test_support::wait::eventually;
use serde_json::json;

/// Makes a Service of this class.
async fn create_of_class(namespace: &TestNamespace, name: &str, class: &str) {
    let service = ServiceBuilder::load_balancer(&namespace.name, name).class(class);
    let service = service.port(80, 8080);
    service.create(&namespace.client).await.unwrap();
}

#[tokio::test]
async fn the_chart_without_values_gives_addresses_and_leaves_nodes_alone() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let shipped = Shipped::install_without_cloud(&control_plane)
        .await
        .unwrap();
    let admin = control_plane.admin();
    // Another cloud's controller leads, and a Node waits for it.
    let now = SignedDuration::ZERO;
    put_lease(&admin, LEADER_LEASE_NAMESPACE, LEADER_LEASE, "another", now)
        .await
        .unwrap();
    let nodes = Api::<Node>::all(admin.clone());
    let foreign = NodeBuilder::new("n1").tainted().provider_id("aws:///z/i-1");
    foreign.create(&admin).await.unwrap();
    NodeBuilder::new("n2")
        .tainted()
        .create(&admin)
        .await
        .unwrap();
    let mut before = Vec::new();
    for name in ["n1", "n2"] {
        before.push(nodes.get(name).await.unwrap());
    }
    let flags = CentralFlags::replica().with("--cloud-provider=none");
    let _central = shipped.start_central(&control_plane, flags).await.unwrap();
    let namespace = TestNamespace::with_network(admin.clone(), 4).await;
    for (name, class) in [
        ("ours", "mooring.dev/l2"),
        ("theirs", "example.org/other"),
        ("clouds", "mooring.dev/linode"),
    ] {
        create_of_class(&namespace, name, class).await;
    }
    namespace.create("plain").await;
    namespace.served("plain").await;
    namespace.served("ours").await;
    for name in ["theirs", "clouds"] {
        let service = namespace.get(name).await;
        assert!(is_untouched(&service), "{service:?}");
    }
    namespace.delete("ours").await;
    namespace.gone("ours").await;
    let lease = Api::<Lease>::namespaced(admin.clone(), LEADER_LEASE_NAMESPACE);
    lease.get(CLOUDLESS_LEADER_LEASE).await.unwrap();
    for before in before {
        let name = before.metadata.name.as_deref().unwrap();
        assert_eq!(nodes.get(name).await.unwrap(), before);
    }
    let log = control_plane.audit_settled().await;
    let written = log.writes_by(CENTRAL_USER).of("nodes");
    assert!(written.is_empty(), "{}", written.summary());
    shipped.assert_no_forbidden(&control_plane).await;
}

/// As kubeadm labels the one Node of a cluster.
#[tokio::test]
async fn where_all_nodes_are_excluded_an_event_names_the_field() {
    let cluster = Cluster::exclusive().await;
    let key = "node.kubernetes.io/exclude-from-external-load-balancers";
    let node = NodeBuilder::new("n1").ready().label(key, "");
    node.create(&cluster.admin).await.unwrap();
    let namespace = TestNamespace::with_network(cluster.admin.clone(), 3).await;
    let flags = CentralFlags::alone().with("--cloud-provider=none");
    let _central = cluster.start_central(flags).await;
    namespace.create("web").await;
    namespace.served("web").await;
    let words = format!(
        "spec.includeExcludedNodes of the L2Network {}",
        namespace.network
    );
    let told = namespace.told_with("web", reasons::UNAVAILABLE_LOAD_BALANCER, &words);
    told.await;
    let include = Patch::Merge(json!({"spec": {"includeExcludedNodes": true}}));
    let networks = namespace.networks();
    let params = PatchParams::default();
    let patched = networks
        .patch(&namespace.network, &params, &include)
        .await
        .unwrap();
    // Central has read that when it says so of this generation.
    eventually("the network is looked at anew", SOON, async || {
        let network = networks.get(&namespace.network).await?;
        let conditions = network.status.unwrap_or_default().conditions;
        let seen = conditions.iter().find_map(|one| one.observed_generation);
        anyhow::ensure!(seen == patched.metadata.generation, "{seen:?}");
        Ok(())
    })
    .await;
    namespace.create("late").await;
    namespace.told("late", reasons::ENSURED_LOAD_BALANCER).await;
    assert_eq!(namespace.warnings("late").await, []);
    cluster.finish().await;
}

#[tokio::test]
async fn implementations_live_side_by_side_by_class() {
    let cluster = Cluster::exclusive().await;
    NodeBuilder::new("n1")
        .ready()
        .create(&cluster.admin)
        .await
        .unwrap();
    let namespace = TestNamespace::with_network(cluster.admin.clone(), 3).await;
    // The other implementation serves those without a class, from a range that overlaps ours.
    namespace.create("theirs").await;
    let status = json!({ "loadBalancer": { "ingress": [{ "ip": namespace.address(0) }] } });
    namespace.patch_status("theirs", &status).await;
    namespace.create("waits").await;
    let flags = CentralFlags::alone()
        .with("--cloud-provider=none")
        .with("--concurrent-service-syncs=1")
        .with("--serve-classless-services=false")
        .with("--load-balancer-class=mooring.dev/a,mooring.dev/b");
    let _central = cluster.start_central(flags).await;
    for (name, class) in [("first", "mooring.dev/a"), ("second", "mooring.dev/b")] {
        create_of_class(&namespace, name, class).await;
        namespace.served(name).await;
    }
    // Of three addresses, one is theirs.
    create_of_class(&namespace, "third", "mooring.dev/l2").await;
    let refused = namespace.told_with("third", "SyncLoadBalancerFailed", "no free IPv4 address");
    refused.await;
    assert!(is_untouched(&namespace.get("waits").await));
    namespace.delete("first").await;
    namespace.gone("first").await;
    namespace.served("third").await;
    // One moves over with its address: a class can be set when it becomes a load balancer.
    let away = json!({"spec": {"type": "ClusterIP", "loadBalancerClass": null}});
    namespace.patch("theirs", &away).await;
    let own = namespace.address(0);
    let here = json!({
        "metadata": {"annotations": {annotations::ADDRESSES_REQUEST: own}},
        "spec": {"type": "LoadBalancer", "loadBalancerClass": "mooring.dev/l2"},
    });
    namespace.patch("theirs", &here).await;
    namespace.served_with("theirs", &[own]).await;
    cluster.finish().await;
}

/// As the load balancer of k3s does for every Service without a class.
#[tokio::test]
async fn another_load_balancer_that_gives_addresses_of_nodes_is_told() {
    let cluster = Cluster::exclusive().await;
    let node = NodeBuilder::new("n1")
        .ready()
        .address("InternalIP", "10.1.2.3");
    node.create(&cluster.admin).await.unwrap();
    let namespace = TestNamespace::with_network(cluster.admin.clone(), 3).await;
    namespace.create("before").await;
    let of_nodes = json!({ "loadBalancer": { "ingress": [{ "ip": "10.1.2.3" }] } });
    namespace.patch_status("before", &of_nodes).await;
    let flags = CentralFlags::alone().with("--cloud-provider=none");
    let _central = cluster.start_central(flags).await;
    let reason = reasons::OTHER_LOAD_BALANCER;
    let told = namespace
        .told_with("before", reason, "--disable=servicelb")
        .await;
    assert!(told.note.contains("10.1.2.3"), "{told:?}");
    assert_eq!(ingress(&namespace.get("before").await), ["10.1.2.3"]);
    // One that Mooring serves: it writes its own address again.
    namespace.create("web").await;
    let own = namespace.served("web").await;
    namespace.patch_status("web", &of_nodes).await;
    namespace.told_with("web", reason, "10.1.2.3").await;
    namespace.served_with("web", &own).await;
    // And again, but not at once: both would write without end.
    namespace.patch_status("web", &of_nodes).await;
    namespace.served_with("web", &own).await;
    let log = cluster.audit().await;
    let web = log.of("services").named("web").with_verb("patch");
    let of_central = web.filter(|record| record.user.ends_with(":mooring-central"));
    let of_central = of_central.filter(|record| record.subresource == "status");
    let [.., first, second] = &of_central[..] else {
        panic!("{}", of_central.summary());
    };
    let gap = second.received.duration_since(first.at);
    assert!(gap >= SignedDuration::from_secs(4), "{gap:?}");
    // What is nobody's is left alone without a word.
    let foreign = json!({ "loadBalancer": { "ingress": [{ "ip": "203.0.113.7" }] } });
    namespace.create("foreign").await;
    namespace.served("foreign").await;
    namespace.patch_status("foreign", &foreign).await;
    namespace.served("foreign").await;
    assert_eq!(namespace.warnings("foreign").await, []);
    cluster.finish().await;
}
