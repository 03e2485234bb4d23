//! Central to oneself: for suites that start, stop and kill `mooring-central`.
//!
//! Central looks after *all* objects of its API server, so two tests that each run one cannot use
//! the same control plane at the same time. They take turns on it: a turn costs next to nothing, a
//! control plane of one's own costs seconds.

use std::ops::Deref;
use std::sync::OnceLock;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams};
use mooring_common::names::{LEADER_LEASE, LEADER_LEASE_NAMESPACE};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::control_plane::{ControlPlane, Options};
use crate::shipped::{Central, CentralFlags, Shipped};

/// One test's turn on the control plane of its test program. There is no kube-controller-manager.
pub struct Turn {
    /// The control plane.
    pub cp: &'static ControlPlane,
    /// The manifests in force.
    pub shipped: Shipped,
    _turn: MutexGuard<'static, ()>,
}

impl Turn {
    /// Waits for this test's turn. Nobody is leader then.
    pub async fn take() -> Self {
        static TURN: Mutex<()> = Mutex::const_new(());
        let turn = TURN.lock().await;
        let (cp, shipped) = installed().await;
        let leases = Api::<Lease>::namespaced(cp.admin(), LEADER_LEASE_NAMESPACE);
        match leases.delete(LEADER_LEASE, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            other => drop(other.expect("the leader's Lease can be deleted")),
        }
        Self {
            cp,
            shipped,
            _turn: turn,
        }
    }

    /// Starts central under its ServiceAccount.
    pub async fn central(&self, flags: CentralFlags) -> Central {
        let started = self.shipped.start_central(self.cp, flags).await;
        started.expect("central starts")
    }

    /// Asserts that central was not refused anything, and ends the turn.
    pub async fn leave(self) {
        self.shipped.assert_no_forbidden(self.cp).await;
    }
}

impl Deref for Turn {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        self.cp
    }
}

/// One control plane for all turns of this test program, with the shipped manifests in force.
async fn installed() -> (&'static ControlPlane, Shipped) {
    static CONTROL_PLANE: OnceLock<ControlPlane> = OnceLock::new();
    static SHIPPED: OnceCell<Shipped> = OnceCell::const_new();
    let cp = CONTROL_PLANE.get_or_init(|| {
        ControlPlane::start_blocking(Options::default()).expect("the control plane starts")
    });
    let shipped = SHIPPED
        .get_or_init(async || Shipped::install(cp).await.expect("the shipped manifests"))
        .await;
    (cp, *shipped)
}
