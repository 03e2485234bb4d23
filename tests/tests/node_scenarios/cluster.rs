//! A cluster whose Nodes are machines of one simulated cloud.

use std::ops::Deref;
use std::time::Instant;

use k8s_openapi::api::core::v1::Node;
use mooring_cloud_sim::cloud::{CloudSim, Server};
use mooring_common::names::{reasons, taints::UNINITIALIZED};
use mooring_test_cluster::cluster::{Cluster, Launch, MARKER_LIMIT, addresses, has_taint};
use mooring_test_cluster::objects::{NodeBuilder, unique};
use mooring_test_support::wait::eventually;
use serde_json::json;

use super::CLOUD;

/// One test's cluster and its cloud.
pub(crate) struct CloudCluster {
    cluster: Cluster,
    /// The cloud.
    pub(crate) cloud: CloudSim,
}

impl Deref for CloudCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl CloudCluster {
    /// In the cloud there is one machine that is no Node: a listing without any proves nothing.
    pub(crate) async fn start() -> Self {
        let cluster = Self {
            cluster: Cluster::exclusive_with_controllers().await,
            cloud: CloudSim::start(CLOUD).await,
        };
        cluster
            .cloud
            .add(Server::named("somebody-elses").private("10.250.0.1"));
        cluster
    }

    pub(crate) async fn finish(self) {
        self.cluster.finish().await;
    }

    pub(crate) const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Central for this cloud.
    pub(crate) fn for_cloud(&self) -> Launch<'_> {
        self.cluster.central().cloud(&self.cloud)
    }

    /// Makes a Node that is Ready and waits to be initialised.
    pub(crate) async fn tainted(&self, name: &str) -> Node {
        let node = NodeBuilder::new(name).tainted().ready();
        node.create(&self.admin).await.unwrap()
    }

    /// A machine with an address, and its initialised, Ready Node. Gives its provider ID.
    pub(crate) async fn member(&self, name: &str, address: &str) -> String {
        let id = self.cloud.add(Server::named(name).private(address));
        self.known(name, &id)
            .ready()
            .create(&self.admin)
            .await
            .unwrap();
        id
    }

    /// An initialised Node of this machine, that needs no write; its conditions are still to come.
    pub(crate) fn known(&self, name: &str, id: &str) -> NodeBuilder {
        NodeBuilder::new(name).provider_id(id)
    }

    /// Sets the condition Ready.
    pub(crate) async fn set_ready(&self, name: &str, status: &str) {
        NodeBuilder::set_condition(&self.admin, name, "Ready", status)
            .await
            .unwrap();
    }

    /// Waits until so many listings of all machines have been answered since then.
    pub(crate) async fn listings_since(&self, start: Instant, count: usize) {
        let what = format!("{count} more listings");
        eventually(&what, MARKER_LIMIT, async || {
            let listings = self.cloud.listings().since(start);
            listings.filter(|call| call.took.is_some()).len() >= count
        })
        .await;
    }

    /// Asserts that a Node was never asked to go or tainted, and nothing said of it. (Its
    /// addresses and labels may have been written.)
    pub(crate) async fn is_kept(&self, name: &str) {
        assert!(self.node(name).await.is_some(), "{name} is gone");
        let writes = self.written_on(name).await.with_verb("delete");
        assert!(writes.is_empty(), "{}", writes.summary());
        let events = self.events(name, reasons::DELETING_NODE).await;
        assert!(events.is_empty(), "{events:?}");
    }

    /// Asserts that a Node is still as its kubelet has made it, and was not written on.
    pub(crate) async fn is_uninitialized(&self, name: &str) {
        let node = self.node(name).await.expect("the Node is kept");
        assert!(has_taint(&node, UNINITIALIZED));
        let labels = node.metadata.labels.unwrap_or_default();
        let ours = labels.keys().find(|key| key.contains("instance-type"));
        assert_eq!(ours, None);
        let writes = self.written_on(name).await;
        assert!(writes.is_empty(), "{}", writes.summary());
    }
}

/// A Node whose machine is gone, made last: when it has been deleted, all Nodes before it have
/// been judged.
pub(crate) struct Gone(String);

impl Gone {
    pub(crate) fn new() -> Self {
        Self(unique("marker"))
    }

    /// Waits for so many passes over all Nodes.
    pub(crate) async fn passes(&self, cluster: &CloudCluster, count: u32) {
        for _ in 0..count {
            // Without any condition, so that it is whole at once.
            let node = NodeBuilder::new(&self.0).provider_id(CLOUD.nobodys_id());
            node.create(&cluster.admin).await.unwrap();
            cluster.is_gone(&self.0).await;
        }
    }
}

/// A Node that is there to prove that time has passed: each time that its addresses are spoiled
/// and corrected, a period has passed for every Node.
pub(crate) struct Clock {
    name: String,
    id: String,
}

impl Clock {
    const ADDRESS: &str = "10.99.0.1";

    /// Makes the machine and its Node, and waits until it has its address.
    pub(crate) async fn start(cluster: &CloudCluster) -> Self {
        let name = unique("clock");
        let id = cluster
            .cloud
            .add(Server::named(&name).private(Self::ADDRESS));
        cluster.tainted(&name).await;
        cluster.initialized(&name).await;
        let clock = Self { name, id };
        clock.has(cluster, Self::ADDRESS).await;
        clock
    }

    async fn has(&self, cluster: &CloudCluster, address: &str) {
        let expected = Server::named(&self.name).private(address).addresses(CLOUD);
        let what = format!("at {address}");
        cluster
            .is(&self.name, &what, |node| addresses(node) == expected)
            .await;
    }

    /// Waits until so many periods have passed, and one more has begun.
    pub(crate) async fn periods(&self, cluster: &CloudCluster, count: u32) {
        for _ in 0..=count {
            cluster.set_addresses(&self.name, &json!(null)).await;
            self.has(cluster, Self::ADDRESS).await;
        }
    }

    /// Waits until what the cloud says now has been taken up for every Node.
    pub(crate) async fn cloud_is_read(&self, cluster: &CloudCluster) {
        for address in ["10.99.0.2", Self::ADDRESS] {
            let server = Server::named(&self.name).private(address);
            cluster.cloud.readdress(&self.id, server);
            self.has(cluster, address).await;
        }
    }
}
