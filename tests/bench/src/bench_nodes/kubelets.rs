//! The kubelets of a large cluster: they register Nodes, which grow to their usual size of 10 KiB, and post that they live.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use mooring_test_cluster::objects::NodeBuilder;

/// How often a kubelet posts its status although nothing has changed.
const POSTS_EVERY: Duration = Duration::from_secs(300);
/// How long after its registration a Node is Ready.
const READY_AFTER: Duration = Duration::from_secs(10);
/// How many images a new machine brings along, and how many its kubelet reports in the end, which is
/// as many as it ever does. They are most of what a Node is, in bytes.
const IMAGES: (usize, usize) = (5, 50);
/// How many conditions are changed side by side.
const AT_ONCE: usize = 64;

/// All of them.
#[derive(Clone)]
pub(super) struct Kubelets {
    admin: Client,
    names: Arc<Vec<String>>,
    /// Those whose conditions are changed by the bench post nothing meanwhile.
    silent: Arc<Vec<AtomicBool>>,
}

impl Kubelets {
    pub(super) fn new(admin: Client, names: Arc<Vec<String>>) -> Self {
        Self {
            silent: Arc::new(names.iter().map(|_| AtomicBool::new(true)).collect()),
            admin,
            names,
        }
    }

    /// Registers a Node, as its kubelet does: tainted, not Ready yet, with all that a kubelet reports
    /// in one request.
    pub(super) async fn register(&self, index: usize) -> Result<()> {
        let name = &self.names[index];
        let nodes = Api::<Node>::all(self.admin.clone());
        let created = nodes.create(&PostParams::default(), &node(name)?).await;
        created.with_context(|| format!("registering {name}"))?;
        Ok(())
    }

    /// Makes a Node Ready when it has had its time to get there.
    pub(super) async fn get_ready(&self, index: usize) -> Result<()> {
        tokio::time::sleep(READY_AFTER).await;
        self.post(index, "True").await?;
        self.silent[index].store(false, Ordering::Relaxed);
        Ok(())
    }

    async fn post(&self, index: usize, ready: &str) -> Result<()> {
        NodeBuilder::set_condition(&self.admin, &self.names[index], "Ready", ready).await?;
        Ok(())
    }

    /// From now on every kubelet posts as often as real ones do, spread evenly. Ends when the handle
    /// is aborted.
    pub(super) fn live(&self) -> JoinHandle<()> {
        let kubelets = self.clone();
        let share = POSTS_EVERY / u32::try_from(self.names.len()).unwrap_or(u32::MAX).max(1);
        tokio::spawn(async move {
            let mut turns = interval(share);
            turns.set_missed_tick_behavior(MissedTickBehavior::Skip);
            for index in (0..kubelets.names.len()).cycle() {
                turns.tick().await;
                if !kubelets.silent[index].load(Ordering::Relaxed) {
                    // A kubelet that is not heard tries again at its next turn.
                    let _ = kubelets.post(index, "True").await;
                }
            }
        })
    }

    /// The kubelets of these Nodes fall silent, and the control plane says so of the Nodes.
    pub(super) async fn fall_silent(&self, indices: &[usize]) -> Result<()> {
        for index in indices {
            self.silent[*index].store(true, Ordering::Relaxed);
        }
        self.post_all(indices, "Unknown").await
    }

    /// They are back.
    pub(super) async fn come_back(&self, indices: &[usize]) -> Result<()> {
        self.post_all(indices, "True").await?;
        for index in indices {
            self.silent[*index].store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn post_all(&self, indices: &[usize], ready: &str) -> Result<()> {
        each(indices, async |index| self.post(index, ready).await).await
    }

    /// All machines have pulled images, and their kubelets say so.
    pub(super) async fn pull_images(&self) -> Result<()> {
        let images: Vec<Value> = (0..IMAGES.1).map(image).collect();
        let patch = Patch::Merge(json!({ "status": { "images": images } }));
        let nodes = Api::<Node>::all(self.admin.clone());
        let all: Vec<usize> = (0..self.names.len()).collect();
        each(&all, async |index| {
            let name = &self.names[index];
            nodes
                .patch_status(name, &PatchParams::default(), &patch)
                .await?;
            Ok(())
        })
        .await
    }
}

async fn each(indices: &[usize], act: impl AsyncFn(usize) -> Result<()>) -> Result<()> {
    futures::stream::iter(indices.iter().map(|index| Ok(*index)))
        .try_for_each_concurrent(AT_ONCE, |index| act(index))
        .await
}

/// A Node as a kubelet registers it.
fn node(name: &str) -> Result<Node> {
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": format!("Kubelet{kind}"),
            "message": format!("kubelet says of {kind}: {status}"),
            "lastHeartbeatTime": "2026-01-02T03:04:05Z",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        })
    };
    let resources = json!({
        "cpu": "2", "memory": "4015592Ki", "pods": "110", "ephemeral-storage": "82431180Ki",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0",
    });
    let node = json!({
        "metadata": { "name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
        }},
        "spec": { "taints": [{
            "key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true",
            "effect": "NoSchedule",
        }]},
        "status": {
            "capacity": resources, "allocatable": resources,
            "conditions": [
                condition("MemoryPressure", "False"), condition("DiskPressure", "False"),
                condition("PIDPressure", "False"), condition("Ready", "False"),
            ],
            "nodeInfo": {
                "machineID": uuid::Uuid::new_v4().simple().to_string(),
                "systemUUID": uuid::Uuid::new_v4().to_string(),
                "bootID": uuid::Uuid::new_v4().to_string(),
                "kernelVersion": "6.12.0-amd64", "osImage": "Debian GNU/Linux 13 (trixie)",
                "containerRuntimeVersion": "containerd://2.1.4", "kubeletVersion": "v1.36.0",
                "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
            },
            "images": (0..IMAGES.0).map(image).collect::<Vec<_>>(),
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
        },
    });
    Ok(serde_json::from_value(node)?)
}

fn image(number: usize) -> Value {
    let repository = format!("registry.example.com/platform/component-{number:02}");
    let digest = format!("{:064x}", 0x9E37_79B9_7F4A_7C15_u128 * (number as u128 + 1));
    json!({
        "names": [format!("{repository}@sha256:{digest}"), format!("{repository}:v1.{number}.0")],
        "sizeBytes": 50_000_000 + number,
    })
}
