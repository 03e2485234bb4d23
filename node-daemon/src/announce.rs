//! Announcing: on each layer-2 segment one node answers ARP and neighbour discovery for each service
//! address.
//!
//! ```text
//!   cluster::Snapshot ──► plan, permitted ──► segments, witness ◄── wire::links
//!      (the API objects)  (what there is,          │ (what to do here)
//!                          who may have it)        ▼
//!   cluster: Lease, status ◄── entries ◄────── supervisor ──► Events, metrics, state_file
//!   cluster::voters ◄────────── questions ─────────┤
//!                                 desired, answers  ▼  reports
//!                                              responder, one thread for all segments
//! ```
//!
//! No address is put on an interface: the [`crate::responder`] answers in user space. An address is gone
//! with the process that announced it, and nothing has to be cleaned up. The service proxy takes the
//! traffic. Only where an L2Network asks for it does the kernel get an address, for two seconds at a time:
//! see [`crate::vlan::kernel_address`].
//!
//! # Who speaks
//! The daemons of a segment agree among themselves, by messages on the segment and on the node network
//! ([`crate::protocol`]). Each takes from the API objects what there is to speak for and who may. A change
//! of that needs the API server; a fail-over does not.
//!
//! # Guarantees
//! * At one instant at most one node has the right to speak for an address. The right ends by itself
//!   where a majority of the voters does not hear the daemon.
//! * While the API server is away, addresses stay where they are, unless their node fails. A daemon that
//!   starts meanwhile uses what the last one knew ([`state_file`]).
//! * A daemon that ends hands over first. A daemon that another process on the node replaces passes its
//!   state on ([`upgrade`]).
//! * Nothing is written or announced before [`crate::fence`] permits it.
//! * A daemon without a key to sign heartbeats with takes no part in a segment, unless it is told that it
//!   may. The status of the L2Network says so.
//!
//! # Caveats
//! A machine whose hypervisor stops it and lets it go on may send for an address for as long as its
//! right had still to run.

pub mod control_plane;
pub mod control_plane_entry;
pub mod entries;
pub mod forwarding;
pub mod kernel_answers;
pub mod leaving;
pub mod permitted;
pub mod plan;
pub mod segments;
pub mod spoken;
pub mod state_file;
pub mod supervisor;
pub mod upgrade;
pub mod witness;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use mooring_common::k8s::EventKind;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::supervisor::Supervisor;
use self::upgrade::UpgradeSocket;
use crate::cluster::lease::{self, LeaseKeeper};
use crate::cluster::service_proxy::{self, ServiceProxy, UnservedServices};
use crate::cluster::snapshot::Snapshot;
use crate::cluster::state_dir;
use crate::cluster::status_writer::StatusWriter;
use crate::cluster::voters::VoterStore;
use crate::cluster::watches::Watches;
use crate::fence::WritePermit;
use crate::livez::health_file;
use crate::responder::metrics::Metrics;
use crate::vlan;
use crate::wire::keys::{self, KeyRing};
use crate::wire::links;

/// How long the last write of this Node's status may take, at the end.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_millis(1500);

/// Takes Events. It must not wait: it is called between decisions.
pub trait EventSink: Send + Sync + 'static {
    /// Reports one Event about an object.
    fn event(&self, about: ObjectReference, kind: EventKind, reason: &'static str, note: String);
}

/// What a person may set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of the daemons' Leases.
    pub namespace: String,
    /// How long a Lease holds without renewal.
    pub lease_duration: Duration,
    /// Where what outlives the process lies.
    pub state_dir: PathBuf,
    /// The UDP port of heartbeats on the node network. The same on all nodes.
    pub heartbeat_port: u16,
    /// The file or folder with the secrets that heartbeats are signed with.
    pub heartbeat_keys: Option<PathBuf>,
    /// Whether to take part in segments without any secret.
    pub allow_unsigned: bool,
    /// How VLAN interfaces are made.
    pub vlan: vlan::Options,
    /// Where the service proxy says how it is.
    pub service_proxy: SocketAddr,
    /// Whether `healthCheckNodePort`s, which are its, are taken while it is silent.
    pub health_check_node_ports: bool,
    /// Whether it is asked about single Services too.
    pub read_through: bool,
}

/// What announcing needs.
pub struct Announcer<E> {
    /// The connection to the API server.
    pub client: Client,
    /// The Node that this daemon runs on.
    pub node_name: String,
    /// How it announces.
    pub settings: Settings,
    /// The secrets that heartbeats are signed with, as they were read at the start.
    pub secrets: KeyRing,
    /// Where Events go.
    pub events: E,
    /// Where to count.
    pub metrics: Metrics,
    /// Where to count what is done about VLAN interfaces.
    pub vlan_metrics: vlan::Metrics,
    /// Where the snapshot goes, which also answers `/livez`.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
    /// Opens once anything may be written or announced. Watches run before that.
    pub permit: WritePermit,
    /// Cancelled once this process is the Node's daemon: there was none before it, or that has ended.
    pub in_charge: CancellationToken,
    /// Ends it.
    pub cancel: CancellationToken,
}

/// Watches, decides and announces until cancelled; then it hands over what it holds, which takes a few
/// seconds at most, and falls silent.
///
/// Failures do not end it: what cannot be done is logged, told by an Event, and tried again.
pub async fn run<E: EventSink>(announcer: Announcer<E>) {
    let Announcer {
        client,
        node_name,
        settings,
        secrets,
        events,
        metrics,
        vlan_metrics,
        snapshot,
        permit,
        in_charge,
        cancel,
    } = announcer;
    let (published, publications) = watch::channel(0);
    let (links_sender, links) = watch::channel(Arc::default());
    let (proxy_sender, service_proxy) = watch::channel(ServiceProxy::default());
    let (refused_sender, refused) = watch::channel(None);
    let (confirmed_sender, confirmed) = watch::channel(service_proxy::Confirmed::default());
    let (desired_lease, desired_leases) = watch::channel(lease::DesiredLease::None);
    let (entries, wanted_entries) = watch::channel(BTreeMap::new());
    let (state, states) = watch::channel(None);
    let folder = state_dir::folder(&settings.state_dir, &node_name);
    let secrets = Arc::new(ArcSwap::from_pointee(secrets));
    let vlan_faults = vlan::Faults::default();
    let (vlan_segments, vlans) = watch::channel(None);
    let select_vlans = follow_vlans(Arc::clone(&snapshot), publications.clone(), vlan_segments);
    let keep_vlans = vlan::keep(
        settings.vlan.clone(),
        vlans,
        vlan_faults.clone(),
        vlan_metrics,
    );
    let watches = Watches {
        client: client.clone(),
        node_name: node_name.clone(),
        snapshot: Arc::clone(&snapshot),
        published,
        permit,
        vlan_faults,
        service_proxy,
        refused,
        confirmed,
        saved_health: health_file::read(&folder, &node_name).map(Arc::new),
    };
    let keep_health = health_file::keep(
        folder.clone(),
        node_name.clone(),
        Arc::clone(&snapshot),
        publications.clone(),
    );
    let about_services = Arc::clone(&snapshot);
    let services = follow_services(settings.read_through, &about_services, refused_sender);
    let endpoints = service_proxy::follow_endpoints(
        Arc::clone(&snapshot),
        publications.clone(),
        confirmed_sender,
        metrics.service_proxy_late.clone(),
    );
    let status_writer = StatusWriter::new(client.clone(), &node_name);
    let lease_keeper = LeaseKeeper::new(
        client.clone(),
        &settings.namespace,
        &node_name,
        &lease::new_holder(&node_name),
        settings.lease_duration,
        metrics.lease_renew_failures.clone(),
    );
    let supervisor = Supervisor {
        voter_store: VoterStore::new(client, &settings.namespace, &node_name),
        node_name,
        snapshot,
        published: publications,
        links,
        desired_lease,
        entries,
        state,
        folder: folder.clone(),
        control_plane_folder: settings.state_dir,
        upgrade_socket: UpgradeSocket::default(),
        in_charge,
        heartbeat_port: settings.heartbeat_port,
        secrets: Arc::clone(&secrets),
        allow_unsigned: settings.allow_unsigned,
        events,
        metrics,
    };
    let work = async {
        tokio::join!(
            lease_keeper.keep(desired_leases, cancel.clone()),
            supervisor.run(cancel.clone()),
        );
    };
    let write_status = status_writer.run(wanted_entries);
    tokio::pin!(write_status);
    let status_written = tokio::select! {
        () = work => false,
        () = &mut write_status => true,
        () = watches.follow() => false,
        () = links::follow(links_sender) => false,
        () = service_proxy::follow(settings.service_proxy, settings.health_check_node_ports, proxy_sender) => false,
        () = services => false,
        () = endpoints => false,
        () = keep_health => false,
        () = state_file::keep(folder, states) => false,
        () = follow_secrets(settings.heartbeat_keys, secrets) => false,
        () = select_vlans => false,
        () = keep_vlans => false,
    };
    // Nothing else is wanted of the status writer; what was wanted last it still writes.
    if !status_written && timeout(LAST_WRITE_TIMEOUT, write_status).await.is_err() {
        tracing::debug!("the last status of this Node was not written in time");
    }
}

async fn follow_secrets(keys: Option<PathBuf>, secrets: Arc<ArcSwap<KeyRing>>) {
    match keys {
        Some(keys) => keys::follow(keys, secrets).await,
        None => std::future::pending().await,
    }
}

/// Asks the service proxy about single Services, if that is wanted.
async fn follow_services(
    wanted: bool,
    snapshot: &Arc<ArcSwap<Snapshot>>,
    refused: watch::Sender<UnservedServices>,
) {
    if wanted {
        service_proxy::follow_services(Arc::clone(snapshot), refused).await;
    }
    std::future::pending::<()>().await;
}

/// Keeps `segments` as the snapshot has them, for as long as the future is polled.
async fn follow_vlans(
    snapshot: Arc<ArcSwap<Snapshot>>,
    mut published: watch::Receiver<u64>,
    segments: watch::Sender<vlan::keeper::Segments>,
) {
    loop {
        let now = segments::with_vlan(&snapshot.load());
        segments.send_if_modified(|known| {
            let changed = *known != now;
            *known = now;
            changed
        });
        if published.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}
