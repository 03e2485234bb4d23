//! Announcing: on each layer-2 segment one node answers, for every service address, the question
//! which station it is at.
//!
//! ```text
//!  Services  EndpointSlices  L2Networks  Leases  own Node        netlink
//!      └───────────┴──────┬──────┴─────────┴────────┘               │
//!                      watches                                    links
//!                         ▼                                         ▼
//!                     Snapshot ──► members ──► plan ────────► segments
//!                         │       (who lives) (who speaks)   (what to do here)
//!                         ▼                                         ▼
//!                       livez                                     apply ──► lease, herald, Events,
//!                                                                   ▼       metrics
//!                                            one thread a segment: station
//!                                                 speaker ◄──► wire (AF_PACKET)
//! ```
//!
//! No address is ever put on an interface: a responder in this process answers ARP and neighbour
//! discovery, so that an address is gone with the process that announced it, and nothing has to be
//! cleaned up. Traffic that comes in is the service proxy's.
//!
//! # Who speaks
//! Every daemon on a segment keeps a Lease that lists the segment. From the same objects each
//! computes the same speaker for an address by rendezvous hashing over the daemons that are alive
//! and whose node can serve it. Nothing is negotiated, and nothing is written per address. A daemon
//! whose node is on no segment keeps no Lease.
//!
//! # Guarantees
//! * For one view of the objects there is at most one speaker of an address.
//! * Where views differ for a moment, whoever hears another daemon announce an address of its own
//!   is silent until its next renewal has confirmed its view.
//! * While the API server is away, nothing moves.
//!
//! # Caveats
//! A node that dies is noticed when its Lease expires. Two halves of a segment that is cut may
//! both speak, each in its own half, until it is joined again. [`speaker::Mandate`] is where a
//! faster and stricter protocol goes.

pub mod apply;
pub mod entries;
pub mod frames;
pub mod groups;
pub mod herald;
pub mod lease;
pub mod links;
pub mod mac;
pub mod members;
pub mod metrics;
pub mod observe;
pub mod plan;
pub mod protocol;
pub mod rendezvous;
pub mod segments;
pub mod speaker;
pub mod station;
pub mod watches;
pub mod wire;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use mooring_common::k8s::EventKind;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use self::apply::Conductor;
use self::herald::Herald;
use self::lease::Keeper;
use self::members::Members;
pub use self::metrics::Metrics;
pub use self::observe::Snapshot;
use self::watches::Watches;
use crate::fence::Gate;
use crate::vlan;

/// Takes Events. It must not wait: it is called between decisions.
pub trait EventSink: Send + Sync + 'static {
    /// Reports one Event about an object.
    fn event(&self, about: ObjectReference, kind: EventKind, reason: &'static str, note: String);
}

/// What announcing needs.
pub struct Announcer<E> {
    /// The connection to the API server.
    pub client: Client,
    /// The Node that this daemon runs on.
    pub node_name: String,
    /// The namespace of the daemons' Leases.
    pub namespace: String,
    /// How long a Lease holds without renewal. The same on all nodes.
    pub lease_duration: Duration,
    /// Where Events go.
    pub events: E,
    /// Where to count.
    pub metrics: Metrics,
    /// How VLAN interfaces are made.
    pub vlan: vlan::Options,
    /// Where to count what is done about VLAN interfaces.
    pub vlan_metrics: vlan::Metrics,
    /// Where the snapshot goes, which also answers `/livez`.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
    /// Opens once anything may be written or announced. Watches run before that.
    pub gate: Gate,
    /// Ends it.
    pub cancel: CancellationToken,
}

/// Watches, decides and announces until cancelled; then it releases the Lease, waits up to a
/// second for others to take over, and falls silent.
///
/// Failures do not end it: what cannot be done is logged, told by an Event, and tried again.
pub async fn run<E: EventSink>(announcer: Announcer<E>) {
    let Announcer {
        client,
        node_name,
        namespace,
        lease_duration,
        events,
        metrics,
        vlan: vlan_options,
        vlan_metrics,
        snapshot,
        gate,
        cancel,
    } = announcer;
    let holder = lease::new_holder(&node_name);
    let (published, publications) = watch::channel(0);
    let (links_sender, links) = watch::channel(Arc::default());
    let (wish, wishes) = watch::channel(lease::Wish::None);
    let (entries, wanted_entries) = watch::channel(BTreeMap::new());
    let renew_now = Arc::new(Notify::new());
    let vlan_faults = vlan::Faults::default();
    let (vlan_segments, vlans) = watch::channel(None);
    let tell_vlans = follow_vlans(Arc::clone(&snapshot), publications.clone(), vlan_segments);
    let keep_vlans = vlan::keep(vlan_options, vlans, vlan_faults.clone(), vlan_metrics);
    let watches = Watches {
        client: client.clone(),
        node_name: node_name.clone(),
        namespace: namespace.clone(),
        snapshot: Arc::clone(&snapshot),
        published,
        gate,
        vlan_faults,
    };
    let herald = Herald::new(client.clone(), &node_name);
    let keeper = Keeper::new(
        client,
        &namespace,
        &node_name,
        &holder,
        lease_duration,
        metrics.lease_renew_failures.clone(),
    );
    let conductor = Conductor {
        members: Members::new(&node_name, &holder, lease_duration),
        node_name,
        snapshot,
        published: publications,
        links,
        wish,
        entries,
        renew_now: Arc::clone(&renew_now),
        lease_duration,
        events,
        metrics,
        seed: RandomState::new().build_hasher().finish(),
    };
    let work = async {
        tokio::join!(
            keeper.keep(wishes, renew_now, cancel.clone()),
            conductor.run(cancel.clone()),
        );
    };
    // It ends with the work, whatever it is about: what it says can wait for the next run.
    let tell = async {
        herald.tell(wanted_entries).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = work => {}
        () = tell => {}
        () = watches.follow() => {}
        () = links::follow(links_sender) => {}
        () = tell_vlans => {}
        () = keep_vlans => {}
    }
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
