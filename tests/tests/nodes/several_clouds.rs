//! One cluster with machines of Linode, of cloudscale.ch and of a file: no cloud touches another's
//! Nodes.

mod services;
mod tenants;

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use mooring_cloud_sim::cloud::{Cloud, CloudSim, Server};
use mooring_cloud_sim::{Fault, When};
use mooring_common::names::{labels, reasons, taints::UNINITIALIZED};
use mooring_test_cluster::cluster::{
    Cluster, MARKER_LIMIT, addresses, has_taint, label, provider_id,
};
use mooring_test_cluster::machines_file::{Machine, Machines, MachinesFile};
use mooring_test_cluster::objects::{NodeBuilder, unique};
use mooring_test_support::process::Process;
use mooring_test_support::wait::eventually;

const NO_GUARD: &str = "--max-node-deletions-percent=100";
const AT_LAST: Duration = Duration::from_secs(60);
/// A request that gets no answer is given up after 30 s.
const NOT_HELD_UP: Duration = Duration::from_secs(20);

struct SeveralClouds {
    cluster: Cluster,
    linode: CloudSim,
    cloudscale: CloudSim,
    file: MachinesFile,
}

impl SeveralClouds {
    /// Each cloud has a machine that is no Node: a listing without any proves nothing.
    async fn start(machines: impl IntoIterator<Item = Machine>) -> Self {
        let machines = machines
            .into_iter()
            .chain([Machine::named("somebody-elses").internal("10.250.0.1")]);
        let cluster = Self {
            cluster: Cluster::exclusive_with_controllers().await,
            linode: CloudSim::start(Cloud::Linode).await,
            cloudscale: CloudSim::start(Cloud::Cloudscale).await,
            file: MachinesFile::new(&Machines::of(machines)).expect("a machines file"),
        };
        for cloud in cluster.clouds() {
            cloud.add(server("somebody-elses", "10.250.0.1"));
        }
        cluster
    }

    async fn central(&self) -> Process {
        let central = self.cluster.central().machines(&self.file);
        let central = central.and_cloud(&self.linode).and_cloud(&self.cloudscale);
        let central = central.flag("--cloud-provider=linode,cloudscale,cloudlycke");
        let central = central
            .flag("--cloud-api-qps=1000")
            .flag("--cloud-api-burst=1000");
        central.flag(NO_GUARD).try_start().await
    }

    fn clouds(&self) -> [&CloudSim; 2] {
        [&self.linode, &self.cloudscale]
    }

    async fn tainted(&self, name: &str) -> Node {
        let node = NodeBuilder::new(name).tainted().ready();
        node.create(&self.cluster.admin).await.unwrap()
    }

    async fn with_id(&self, name: &str, id: &str) -> NodeBuilder {
        NodeBuilder::new(name).provider_id(id)
    }

    /// Waits until both clouds have been listed so often since then.
    async fn listings_since(&self, start: Instant, count: usize) {
        for cloud in self.clouds() {
            eventually("listings", AT_LAST, async || {
                cloud.listings().since(start).len() >= count
            })
            .await;
        }
    }

    async fn is_kept(&self, name: &str) {
        assert!(self.cluster.node(name).await.is_some(), "{name} is gone");
        let deletions = self.cluster.written_on(name).await.with_verb("delete");
        assert!(deletions.is_empty(), "{}", deletions.summary());
    }

    async fn is_uninitialized(&self, name: &str) {
        let node = self.cluster.node(name).await.expect("the Node is kept");
        assert!(has_taint(&node, UNINITIALIZED));
        let writes = self.cluster.written_on(name).await;
        assert!(writes.is_empty(), "{}", writes.summary());
    }
}

fn server(name: &str, address: &str) -> Server {
    Server::named(name).private(address)
}

#[tokio::test]
async fn each_node_is_initialised_from_its_own_cloud() {
    let [on_linode, on_cloudscale, in_file] = ["linode", "scale", "file"].map(unique);
    let machine = Machine::named(&in_file).internal("10.3.0.1");
    let cluster = SeveralClouds::start([machine.placed("from-file", "attic", "home")]).await;
    let first = cluster
        .linode
        .add(server(&on_linode, "10.1.0.1").kind("from-linode"));
    let second = cluster
        .cloudscale
        .add(server(&on_cloudscale, "10.2.0.1").kind("from-scale"));
    let third = format!("cloudlycke://{in_file}");
    let _central = cluster.central().await;
    for (name, id, kind, address) in [
        (&on_linode, &first, "from-linode", "10.1.0.1"),
        (&on_cloudscale, &second, "from-scale", "10.2.0.1"),
        (&in_file, &third, "from-file", "10.3.0.1"),
    ] {
        cluster.tainted(name).await;
        let node = cluster.cluster.initialized(name).await;
        assert_eq!(provider_id(&node), Some(&**id));
        assert_eq!(label(&node, labels::INSTANCE_TYPE), Some(kind));
        let found = addresses(&node);
        assert!(
            found.contains(&format!("InternalIP {address}")),
            "{found:?}"
        );
    }
    cluster.cluster.finish().await;
}

/// A Node of each cloud whose machine is gone is deleted, and its silent neighbours of the other
/// clouds are not: of them only their own cloud is asked.
#[tokio::test]
async fn silent_nodes_are_judged_by_their_own_cloud_only() {
    let names = ["linode", "scale", "file"].map(unique);
    let cluster = SeveralClouds::start([Machine::named(&names[2])]).await;
    let ids = [
        cluster.linode.add(server(&names[0], "10.1.0.1")),
        cluster.cloudscale.add(server(&names[1], "10.2.0.1")),
        format!("cloudlycke://{}", names[2]),
    ];
    for (name, id) in names.iter().zip(&ids) {
        let node = cluster.with_id(name, id).await.not_ready();
        node.create(&cluster.cluster.admin).await.unwrap();
    }
    let _central = cluster.central().await;
    for cloud in [Cloud::Linode, Cloud::Cloudscale] {
        let lost = unique("lost");
        let node = cluster.with_id(&lost, cloud.nobodys_id()).await;
        node.create(&cluster.cluster.admin).await.unwrap();
        cluster.cluster.is_gone(&lost).await;
        for name in &names {
            cluster.is_kept(name).await;
        }
    }
    for cloud in cluster.clouds() {
        let scheme = cloud.kind().nobodys_id().split_once("://").unwrap().1;
        let lookups = cloud.lookups();
        let foreign = lookups.filter(|call| !call.path.ends_with(scheme));
        assert!(foreign.is_empty(), "{}", lookups.summary());
        assert!(!lookups.is_empty(), "it was asked for the second proof");
    }
    cluster.linode.remove(&ids[0]);
    cluster.cluster.is_gone(&names[0]).await;
    for name in &names[1..] {
        cluster.is_kept(name).await;
    }
    cluster.cluster.finish().await;
}

#[tokio::test]
async fn an_outage_of_one_cloud_does_not_stop_the_others() {
    let [silent, fresh, in_file, known] = ["silent", "fresh", "file", "known"].map(unique);
    let cluster = SeveralClouds::start([Machine::named(&in_file).internal("10.3.0.1")]).await;
    let lost = cluster.linode.add(server(&silent, "10.1.0.1"));
    let node = cluster.with_id(&silent, &lost).await.ready();
    node.create(&cluster.cluster.admin).await.unwrap();
    let _central = cluster.central().await;
    cluster.listings_since(Instant::now(), 1).await;
    cluster.linode.set_down(true);
    cluster.linode.remove(&lost);
    NodeBuilder::set_condition(&cluster.cluster.admin, &silent, "Ready", "Unknown")
        .await
        .unwrap();
    let id = cluster.cloudscale.add(server(&known, "10.2.0.1"));
    let node = cluster.with_id(&known, &id).await.tainted().ready();
    node.create(&cluster.cluster.admin).await.unwrap();
    cluster.cluster.initialized(&known).await;
    cluster.cloudscale.add(server(&fresh, "10.2.0.2"));
    for name in [&fresh, &in_file] {
        cluster.tainted(name).await;
        cluster.cluster.initialized(name).await;
    }
    let gone = unique("gone");
    let node = cluster.with_id(&gone, Cloud::Cloudscale.nobodys_id()).await;
    node.create(&cluster.cluster.admin).await.unwrap();
    cluster.cluster.is_gone(&gone).await;
    cluster.is_kept(&silent).await;
    cluster.linode.set_down(false);
    eventually("its own cloud is back", AT_LAST, async || {
        cluster.cluster.node(&silent).await.is_none()
    })
    .await;
    cluster.cluster.finish().await;
}

/// More Nodes wait for the cloud that does not answer than there are workers.
#[tokio::test]
async fn a_cloud_that_hangs_does_not_hold_up_new_nodes_of_another() {
    let cluster = SeveralClouds::start([]).await;
    let _central = cluster.central().await;
    cluster.listings_since(Instant::now(), 1).await;
    let hang = Fault::slow(Duration::from_secs(300));
    cluster.linode.faults().inject(When::everything(), hang);
    for number in 0..20 {
        let name = unique("waits");
        let id = cluster
            .linode
            .add(server(&name, &format!("10.1.0.{number}")));
        let node = cluster.with_id(&name, &id).await.tainted().ready();
        node.create(&cluster.cluster.admin).await.unwrap();
    }
    let begun = Instant::now();
    let fresh = unique("fresh");
    let id = cluster.cloudscale.add(server(&fresh, "10.2.0.1"));
    let node = cluster.with_id(&fresh, &id).await.tainted().ready();
    node.create(&cluster.cluster.admin).await.unwrap();
    cluster.cluster.initialized(&fresh).await;
    let took = begun.elapsed();
    assert!(took < NOT_HELD_UP, "it took {took:?}");
    cluster.cluster.finish().await;
}

#[tokio::test]
async fn a_node_of_nobody_is_left_alone_with_one_event() {
    let cluster = SeveralClouds::start([]).await;
    let _central = cluster.central().await;
    let (name, marker) = (unique("n"), unique("marker"));
    for cloud in cluster.clouds() {
        cloud.add(server(&name, "10.1.0.1"));
    }
    let node = cluster
        .with_id(&name, "aws:///eu/i-1")
        .await
        .tainted()
        .not_ready();
    node.create(&cluster.cluster.admin).await.unwrap();
    cluster
        .cluster
        .told(&name, reasons::UNKNOWN_PROVIDER_ID)
        .await;
    cluster.linode.add(server(&marker, "10.1.0.2"));
    cluster.tainted(&marker).await;
    cluster.cluster.initialized(&marker).await;
    cluster.listings_since(Instant::now(), 3).await;
    cluster.is_uninitialized(&name).await;
    cluster.is_kept(&name).await;
    let events = cluster.cluster.event_writes(&name).await;
    assert_eq!(events.len(), 1, "{}", events.summary());
    cluster.cluster.finish().await;
}

#[tokio::test]
async fn ni_22_machines_of_one_name_in_two_clouds_are_told_and_none_is_chosen() {
    let cluster = SeveralClouds::start([]).await;
    let _central = cluster.central().await;
    let name = unique("n");
    let ids = cluster
        .clouds()
        .map(|cloud| cloud.add(server(&name, "10.1.0.1")));
    cluster.tainted(&name).await;
    let note = cluster
        .cluster
        .told(&name, reasons::AMBIGUOUS_INSTANCE)
        .await;
    for cloud in [Cloud::Linode, Cloud::Cloudscale] {
        assert!(
            note.contains(cloud.name()),
            "{} is missing: {note}",
            cloud.name()
        );
    }
    cluster.listings_since(Instant::now(), 3).await;
    cluster.is_uninitialized(&name).await;
    let events = cluster.cluster.event_writes(&name).await;
    assert_eq!(events.len(), 1, "{}", events.summary());

    // A provider ID settles it.
    cluster
        .cluster
        .patch(
            &name,
            &serde_json::json!({ "spec": { "providerID": ids[1] } }),
        )
        .await;
    let node = cluster.cluster.initialized(&name).await;
    assert_eq!(provider_id(&node), Some(&*ids[1]));
    let (region, zone) = Cloud::Cloudscale.region_and_zone();
    let found = [labels::REGION, labels::ZONE].map(|key| label(&node, key));
    assert_eq!(found, [Some(region), zone]);
    cluster.cluster.finish().await;
}

#[tokio::test]
async fn two_nodes_with_one_provider_id_are_refused() {
    let cluster = SeveralClouds::start([]).await;
    let _central = cluster.central().await;
    let (first, second, marker) = (unique("first"), unique("second"), unique("marker"));
    let id = cluster.linode.add(server(&first, "10.1.0.1"));
    for name in [&first, &second] {
        let node = cluster.with_id(name, &id).await.tainted().ready();
        node.create(&cluster.cluster.admin).await.unwrap();
    }
    let note = cluster
        .cluster
        .told(&second, reasons::DUPLICATE_PROVIDER_ID)
        .await;
    assert!(note.contains(&first) && note.contains(&id), "{note}");
    cluster.cloudscale.add(server(&marker, "10.1.0.2"));
    cluster.tainted(&marker).await;
    cluster.cluster.initialized(&marker).await;
    cluster.listings_since(Instant::now(), 3).await;
    cluster.is_uninitialized(&second).await;
    let told = cluster
        .cluster
        .events(&second, reasons::DUPLICATE_PROVIDER_ID)
        .await;
    assert_eq!(told.len(), 1, "{told:?}");

    let params = kube::api::DeleteParams::default();
    cluster
        .cluster
        .nodes()
        .delete(&first, &params)
        .await
        .unwrap();
    eventually("the other is initialised", MARKER_LIMIT, async || {
        let node = cluster.cluster.node(&second).await;
        node.is_some_and(|node| !has_taint(&node, UNINITIALIZED))
    })
    .await;
    cluster.cluster.finish().await;
}
