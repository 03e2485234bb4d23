//! Playing a kubelet.

use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinHandle;

use mooring_test_cluster::control_plane::ControlPlane;
use mooring_test_cluster::objects::{NodeBuilder, renew_kubelet_lease};

/// How often the Lease is renewed. (A kubelet: 10 s.)
const RENEWAL: Duration = Duration::from_secs(5);

/// Posts that the Node is ready with every so many renewals.
const POST_EVERY: u32 = 2;

/// What a kubelet tells the API server: that its Node exists, lives, and is ready. Dropping it is
/// the end of the kubelet; the Node stays.
#[derive(Debug)]
pub struct Kubelet {
    work: JoinHandle<()>,
}

impl Kubelet {
    /// Registers the Node with the taint `uninitialized`, under the identity of its kubelet, and
    /// keeps it ready from then on.
    pub async fn register(control_plane: &ControlPlane, node: &str) -> Result<Self> {
        Self::register_as(control_plane, node, NodeBuilder::new(node).tainted()).await
    }

    /// Registers this Node under the identity of its kubelet, and keeps it ready from then on.
    pub async fn register_as(
        control_plane: &ControlPlane,
        node: &str,
        described: NodeBuilder,
    ) -> Result<Self> {
        let user = format!("system:node:{node}");
        let client = control_plane
            .client_for_user(&user, Some("system:nodes"))
            .await?;
        let machine_id = uuid::Uuid::new_v4().simple().to_string();
        let system_uuid = uuid::Uuid::new_v4().to_string();
        described
            .ready()
            .system(&machine_id, &system_uuid)
            .create(&client)
            .await?;
        renew_kubelet_lease(&client, node).await?;
        let work = tokio::spawn(live(client, node.to_owned()));
        Ok(Self { work })
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.work.abort();
    }
}

/// Failures are those of an API server that is away: the next turn tries again.
async fn live(client: kube::Client, node: String) {
    let mut turns = tokio::time::interval(RENEWAL);
    turns.tick().await;
    for turn in 1_u32.. {
        turns.tick().await;
        let _ = renew_kubelet_lease(&client, &node).await;
        if turn.is_multiple_of(POST_EVERY) {
            let _ = NodeBuilder::set_condition(&client, &node, "Ready", "True").await;
        }
    }
}
