//! An API server with the shipped manifests in force, and Mooring's programs on it.
//!
//! ```no_run
//! # use mooring_test_cluster::cluster::Cluster;
//! # use mooring_test_cluster::shipped::CentralFlags;
//! # async fn example() {
//! let cluster = Cluster::exclusive().await;
//! let central = cluster.start_central(CentralFlags::alone()).await;
//! // ... what the test is about ...
//! cluster.finish().await;
//! # }
//! ```
//!
//! Central looks after *all* objects of its API server. A test that starts one needs the cluster for
//! itself: it waits until one of a few is free, and gets it empty. That costs milliseconds; a control
//! plane of its own costs seconds. Tests that start no central, or one for all of them, share a cluster
//! and keep apart by namespaces and names. Which it is, [`Options`] say.
//!
//! Central runs as `mooring-central`, a daemon as `mooring-node` with the token of a Pod on its Node.
//! [`Cluster::finish`] fails the test if either was refused something.

mod install;
mod launch;
mod nodes;
mod permissions;
mod pool;

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use kube::Client;
use mooring_common::names::NAMESPACE;
use tokio::sync::OnceCell;

pub use launch::{Initializer, Launch, logged};
pub use nodes::{addresses, event_writes, has_taint, label, provider_id, requests_about};

use self::install::Installed;
use self::pool::{Lent, Pool};
use crate::api_proxy::ApiProxy;
use crate::control_plane::{AuditLog, ControlPlane};
use crate::endpoints::Endpoints;
use crate::objects::{PodBuilder, unique};
use crate::shipped::{Central, CentralFlags, Shipped};
use crate::test_namespace::TestNamespace;

/// What "eventually" means to these suites.
pub const SOON: Duration = Duration::from_secs(10);

/// How long to wait for what "never" waits for: a busy machine must not turn it red.
pub const MARKER_LIMIT: Duration = Duration::from_secs(30);

/// A label of the machines file that daemons are permitted to set where there is a controller manager.
pub const ADDITIONAL_LABEL: &str = "example.com/rack";

const CENTRAL: &str = "mooring-central";
const DAEMON: &str = "mooring-node";

static PLAIN: Pool<Installed> = Pool::empty();
static WITH_CONTROLLERS: Pool<Installed> = Pool::empty();

/// How a cluster is started.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Options {
    exclusive: bool,
    controller_manager: bool,
}

impl Options {
    /// Nobody else has it until the test ends; it begins without any Node, Service or leader.
    pub const fn exclusive() -> Self {
        Self {
            exclusive: true,
            controller_manager: false,
        }
    }

    /// All tests of the test program that ask for it have the same one, with kube-controller-manager.
    pub const fn shared() -> Self {
        Self {
            exclusive: false,
            controller_manager: true,
        }
    }

    /// With kube-controller-manager, and [`ADDITIONAL_LABEL`] among the labels that daemons may set.
    pub const fn with_controller_manager(mut self) -> Self {
        self.controller_manager = true;
        self
    }
}

/// A cluster. Dropping it gives it back, or ends it if it is the test's own.
pub struct Cluster {
    installed: Holding,
    /// The manifests.
    pub shipped: Shipped,
    /// A client with all rights.
    pub admin: Client,
    /// When the test began.
    pub start: Timestamp,
    audit_mark: u64,
}

enum Holding {
    Lent(Lent<Installed>),
    Shared(&'static Installed),
    Own(Installed),
}

impl Deref for Holding {
    type Target = Installed;

    fn deref(&self) -> &Installed {
        match self {
            Self::Lent(lent) => lent.value(),
            Self::Shared(installed) => installed,
            Self::Own(installed) => installed,
        }
    }
}

impl Deref for Cluster {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        self.control_plane()
    }
}

impl Cluster {
    /// [`Self::start`] with [`Options::exclusive`].
    pub async fn exclusive() -> Self {
        Self::start(Options::exclusive()).await
    }

    /// [`Self::start`] with a kube-controller-manager too.
    pub async fn exclusive_with_controllers() -> Self {
        Self::start(Options::exclusive().with_controller_manager()).await
    }

    /// [`Self::start`] with [`Options::shared`].
    pub async fn shared() -> Self {
        Self::start(Options::shared()).await
    }

    /// Waits until there is such a cluster for this test.
    ///
    /// # Panics
    /// If it does not start, or cannot be cleared.
    pub async fn start(options: Options) -> Self {
        if !options.exclusive {
            static SHARED: OnceCell<Installed> = OnceCell::const_new();
            let shared = SHARED.get_or_init(Installed::shared).await;
            return Self::of(Holding::Shared(shared));
        }
        let lent = if options.controller_manager {
            WITH_CONTROLLERS.lend(Installed::with_controllers).await
        } else {
            PLAIN.lend(Installed::plain).await
        };
        let cleared = install::clear(lent.value().control_plane()).await;
        cleared.expect("the cluster can be cleared");
        Self::of(Holding::Lent(lent))
    }

    /// Applies the shipped manifests on a control plane of the test's own.
    ///
    /// # Errors
    /// If a manifest is refused, or not in force in time.
    pub async fn on(control_plane: ControlPlane) -> Result<Self> {
        let installed = Installed::on(control_plane).await?;
        Ok(Self::of(Holding::Own(installed)))
    }

    fn of(installed: Holding) -> Self {
        let control_plane = installed.control_plane();
        Self {
            shipped: installed.shipped,
            admin: control_plane.admin(),
            start: control_plane.now(),
            audit_mark: control_plane.audit_mark(),
            installed,
        }
    }

    /// The control plane.
    pub fn control_plane(&self) -> &ControlPlane {
        self.installed.control_plane()
    }

    /// A namespace, and an L2Network with this many IPv4 addresses.
    pub async fn namespace_with_network(&self, addresses: u16) -> TestNamespace {
        TestNamespace::with_network(self.admin.clone(), addresses).await
    }

    /// A namespace.
    pub async fn namespace(&self) -> TestNamespace {
        TestNamespace::without_network(self.admin.clone()).await
    }

    // --- the programs -------------------------------------------------------------------------

    /// Starts central under its ServiceAccount.
    ///
    /// # Panics
    /// If it cannot be started.
    pub async fn start_central(&self, flags: CentralFlags) -> Central {
        let started = self.shipped.start_central(self, flags).await;
        started.expect("central starts")
    }

    /// Starts central under its ServiceAccount, so that it reaches the API server by this proxy.
    ///
    /// # Panics
    /// If it cannot be started.
    pub async fn start_central_by(&self, proxy: &ApiProxy, flags: CentralFlags) -> Central {
        let started = self.shipped.start_central_by(self, proxy, flags).await;
        started.expect("central starts")
    }

    /// Central as a user starts it for this provider, alone, with intervals made short and without
    /// any node daemon to wait for.
    pub fn central(&self) -> Launch<'_> {
        Launch::new(self, Initializer::Central, "")
    }

    /// The daemon of this Node, for what concerns the Node alone: it announces nothing.
    pub fn daemon<'a>(&'a self, node: &'a str) -> Launch<'a> {
        Launch::new(self, Initializer::Daemon, node)
    }

    /// Whichever of the two is to initialise this Node, without the other.
    pub fn initializer<'a>(&'a self, which: Initializer, node: &'a str) -> Launch<'a> {
        Launch::new(self, which, node)
    }

    /// Endpoints on a free port, for central to serve on.
    ///
    /// # Panics
    /// If no port is free.
    pub fn endpoints(&self) -> Endpoints {
        Endpoints::on_free_port().expect("a free port")
    }

    async fn daemon_kubeconfig(&self, node: &str) -> PathBuf {
        let pod = unique(DAEMON);
        PodBuilder::new(NAMESPACE, &pod)
            .node(node)
            .service_account(DAEMON)
            .create(&self.admin)
            .await
            .expect("a Pod for the daemon");
        let pod = Some((NAMESPACE, pod.as_str()));
        self.kubeconfig_for_service_account(NAMESPACE, DAEMON, pod)
            .await
            .expect("a token for the daemon")
    }

    // --- what was asked of the API server -----------------------------------------------------

    /// All requests since this test began, complete up to now.
    pub async fn audit(&self) -> AuditLog {
        let log = self.audit_settled_from(self.audit_mark).await;
        log.since(self.start)
    }

    /// Asserts that neither program was refused anything (403) since this test began.
    ///
    /// # Panics
    /// If one was.
    pub async fn assert_nothing_refused(&self) {
        let refused = self.shipped.forbidden(&self.audit().await);
        let refused = refused.filter(|record| !self.was_starting(record.received));
        assert!(
            refused.is_empty(),
            "the shipped permissions are too narrow, or a program does what it must not:\n{}",
            refused.summary()
        );
    }

    /// [`Self::assert_nothing_refused`], and gives the cluster back.
    pub async fn finish(self) {
        self.assert_nothing_refused().await;
    }
}
