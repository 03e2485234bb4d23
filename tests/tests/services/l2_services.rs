//! Services of type LoadBalancer, as one `mooring-central` serves them on a real API server under
//! the shipped permissions. What takes stopping and starting central is in `services_alone`.

mod life;
mod ownership;
mod requests;

use std::sync::OnceLock;

use mooring_tests::control_plane::{ControlPlane, Options};
use mooring_tests::objects::NodeBuilder;
use mooring_tests::shipped::{Central, CentralFlags, Shipped};
use mooring_tests::stage::{MARKER_LIMIT, Stage, is_served};
use mooring_tests::wait::never;
use tokio::sync::OnceCell;

/// What all tests of this suite share.
#[derive(Clone, Copy)]
struct Scene {
    cp: &'static ControlPlane,
    shipped: Shipped,
}

impl Scene {
    /// One central, two Nodes. It has one worker, so that it works off Services in the order of
    /// their creation: that makes a later Service a marker.
    async fn enter() -> Self {
        static CLUSTER: OnceCell<(ControlPlane, Shipped, Central)> = OnceCell::const_new();
        let (cp, shipped, _) = CLUSTER
            .get_or_init(async || {
                let started = ControlPlane::start_blocking(Options::default());
                let cp = started.expect("the control plane starts");
                let shipped = Shipped::install(&cp).await.expect("the shipped manifests");
                for name in ["n1", "n2"] {
                    let node = NodeBuilder::new(name).ready().create(&cp.admin()).await;
                    node.expect("a Node");
                }
                let flags = CentralFlags::alone().with("--concurrent-service-syncs=1");
                let central = shipped.start_central(&cp, flags).await.expect("central");
                (cp, shipped, central)
            })
            .await;
        let shipped = *shipped;
        Self { cp, shipped }
    }

    /// A stage of one test, whose network has this many IPv4 addresses.
    async fn stage(&self, addresses: u16) -> Stage {
        let stage = Stage::new(self.cp.admin(), addresses).await;
        stage.network_is(&stage.network, true).await;
        stage
    }

    async fn leave(self) {
        self.shipped.assert_no_forbidden(self.cp).await;
    }
}

/// Asserts that something does not happen on a stage, until central has served a Service that was
/// made later, on a stage of its own.
async fn never_meanwhile(
    what: &str,
    scene: &Scene,
    violation: impl AsyncFnMut() -> Option<String>,
) {
    static MARKERS: OnceLock<OnceCell<Stage>> = OnceLock::new();
    let stages = MARKERS.get_or_init(OnceCell::new);
    // The client belongs to this test's runtime, the network to all tests.
    let shared = stages.get_or_init(|| scene.stage(200)).await;
    let mut stage = shared.clone();
    stage.client = scene.cp.admin();
    let marker = mooring_tests::objects::unique("marker");
    stage.create(&marker).await;
    let reached = async || is_served(&stage.get(&marker).await).is_ok();
    never(what, MARKER_LIMIT, reached, violation).await;
}
