//! Somebody has the token of one daemon: from a backup, a log, a machine.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use mooring_common::l2_network::{L2Network, Voters};
use mooring_common::names::{NAMESPACE, labels, node_lease, reasons};
use serde_json::{Value, json};

use super::{Attack, Demo, refused_by};
use mooring_test_cluster::attacks::{about, approval, event, refused, voters};
use mooring_test_cluster::control_plane::client_from;
use mooring_test_netlab::failover::{APP, FailoverCluster};
use mooring_test_netlab::netlab_cluster::NETWORK;

const WHO: &str = "a stolen token";

/// How often a Lease may be renewed by its daemon between a look and the write that follows.
const ATTEMPTS: usize = 20;

struct Thief<'a> {
    cluster: &'a FailoverCluster,
    /// The Node whose daemon's token it is.
    node: String,
    /// Another one.
    other: String,
    client: Client,
}

/// All that is tried with it.
pub(super) async fn attack(demo: &mut Demo<'_>, cluster: &FailoverCluster) -> Result<()> {
    let names = cluster.voters().await?;
    let [node, other, ..] = names.as_slice() else {
        anyhow::bail!("there are fewer than two voters: {names:?}");
    };
    demo.console
        .chapter(&format!("A stolen token: that of the daemon on {node}"));
    let spec = cluster.specs.get(node).context("its daemon runs")?;
    let mut arguments = spec.args.iter();
    let kubeconfig = arguments.find_map(|argument| argument.strip_prefix("--kubeconfig="));
    let kubeconfig = kubeconfig.context("its daemon has a kubeconfig")?;
    let thief = Thief {
        cluster,
        node: node.clone(),
        other: other.clone(),
        client: client_from(Path::new(kubeconfig)).await?,
    };
    thief.rewrite_voters(demo).await?;
    thief.approve_as_another(demo).await?;
    thief.forge_events(demo).await?;
    thief.hold_its_lease(demo).await?;
    thief.write_another_node(demo).await
}

impl Thief<'_> {
    async fn rewrite_voters(&self, demo: &mut Demo<'_>) -> Result<()> {
        let attack = Attack {
            who: WHO,
            tried: "makes itself the only voter in status.voters",
            before: "taken: one write, and it alone decided who speaks",
            limit: 10,
        };
        demo.withstand(attack, async |_| {
            let before = self.voters().await?;
            let alone = self.alone(&before);
            let message = refused(self.write_status(&voters(&alone)).await)?;
            let after = self.voters().await?;
            ensure!(after.nodes == before.nodes, "{before:?} became {after:?}");
            refused_by("mooring-node-own-segment-entry", &message)
        })
        .await
    }

    async fn approve_as_another(&self, demo: &mut Demo<'_>) -> Result<()> {
        let attack = Attack {
            who: WHO,
            tried: "approves that in the name of another node",
            before: "not needed: nobody was asked",
            limit: 10,
        };
        demo.withstand(attack, async |_| {
            let alone = self.alone(&self.voters().await?);
            let forged = approval(&self.other, &alone);
            let message = refused(self.write_status(&forged).await)?;
            refused_by("mooring-node-own-segment-entry", &message)
        })
        .await
    }

    async fn forge_events(&self, demo: &mut Demo<'_>) -> Result<()> {
        let attack = Attack {
            who: WHO,
            tried: "reports that a Service's load balancer was deleted, and that another node is not ready",
            before: "taken, and shown by kubectl describe",
            limit: 10,
        };
        demo.withstand(attack, async |_| {
            let mut said = String::new();
            for (about, reason) in [
                (
                    about("Service", Some(APP), "web"),
                    reasons::DELETED_LOAD_BALANCER,
                ),
                (about("Node", None, &self.other), "NodeNotReady"),
            ] {
                let namespace = about.namespace.clone();
                let namespace = namespace.as_deref().unwrap_or("default");
                let events = Api::<Event>::namespaced(self.client.clone(), namespace);
                let forged = serde_json::from_value(event(&self.node, &about, reason))?;
                let message = refused(events.create(&PostParams::default(), &forged).await)?;
                said = refused_by("mooring-node-own-events", &message)?;
            }
            Ok(said)
        })
        .await
    }

    async fn hold_its_lease(&self, demo: &mut Demo<'_>) -> Result<()> {
        let attack = Attack {
            who: WHO,
            tried: "puts a finalizer on its Lease, which then outlives the Node",
            before: "taken",
            limit: 10,
        };
        demo.withstand(attack, async |_| {
            let leases = Api::<Lease>::namespaced(self.client.clone(), NAMESPACE);
            let name = node_lease(&self.node);
            let params = PostParams::default();
            for _ in 0..ATTEMPTS {
                let mut lease = leases.get(&name).await?;
                lease.metadata.finalizers = Some(vec!["example.com/stay".to_owned()]);
                match leases.replace(&name, &params, &lease).await {
                    // Its daemon was faster.
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    answer => return refused_by("mooring-node-own-lease", &refused(answer)?),
                }
            }
            anyhow::bail!("its daemon renewed the Lease {name} each time before the write")
        })
        .await
    }

    async fn write_another_node(&self, demo: &mut Demo<'_>) -> Result<()> {
        let attack = Attack {
            who: WHO,
            tried: "changes the zone of another Node",
            before: "refused, too",
            limit: 10,
        };
        demo.withstand(attack, async |_| {
            let zone = json!({ "metadata": { "labels": { labels::ZONE: "rack-1" } } });
            let nodes = Api::<Node>::all(self.client.clone());
            let (params, patch) = (PatchParams::default(), Patch::Merge(&zone));
            let message = refused(nodes.patch(&self.other, &params, &patch).await)?;
            refused_by("mooring-node-own-node", &message)
        })
        .await
    }

    /// The next set, with its own node alone.
    fn alone(&self, before: &Voters) -> Value {
        json!({ "generation": before.generation + 1, "nodes": [self.node], "primary": null })
    }

    async fn voters(&self) -> Result<Voters> {
        let networks = Api::<L2Network>::all(self.cluster.netlab.admin.clone());
        let status = networks.get(NETWORK).await?.status.unwrap_or_default();
        status.voters.context("there are no voters")
    }

    async fn write_status(&self, patch: &Value) -> kube::Result<L2Network> {
        Api::<L2Network>::all(self.client.clone())
            .patch_status(NETWORK, &PatchParams::default(), &Patch::Merge(patch))
            .await
    }
}
