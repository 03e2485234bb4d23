//! The HTTP server, on a thread of its own: what holds up the rest of the daemon holds up no health
//! check, and no flood of health checks holds up the rest.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::listen::{Bound, ListenError};
use super::metrics::Metrics;
use super::ports;
use super::serve::{DetailNetworks, ListenerRole, Shared, serve};
use crate::cluster::snapshot::Snapshot;

/// How long to go on at the end, so that the next process listens already.
const OVERLAP: Duration = Duration::from_millis(500);
/// How often a daemon that is to take over looks whether it can answer.
const LOOK: Duration = Duration::from_millis(10);

/// What to serve.
#[derive(Debug)]
pub struct Options {
    /// Where load balancers ask.
    pub bound: Bound,
    /// Where the kubelet asks, besides.
    pub probes: Option<Bound>,
    /// Whose clients are told all about a Service.
    pub detail: DetailNetworks,
    /// Whether `healthCheckNodePort`s are served where no service proxy does.
    pub health_check_node_ports: bool,
    /// What answers are made from.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
    /// Cancelled once no other process of this Node's daemon goes on.
    pub in_charge: CancellationToken,
    /// Where to count.
    pub metrics: Metrics,
}

/// The thread.
#[derive(Debug)]
pub struct Server {
    stop: CancellationToken,
    ended: oneshot::Receiver<Result<(), ListenError>>,
}

/// Why health checks are answered no more.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The thread could not be started.
    #[error("cannot start a thread for health checks")]
    Thread(#[source] io::Error),
    /// There is no listener.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// It is a mistake in this program.
    #[error("the thread of health checks has died")]
    Died,
}

impl Server {
    /// Starts to serve, once this daemon can answer or is the only one.
    ///
    /// # Errors
    /// [`ServeError::Thread`].
    pub fn start(options: Options) -> Result<Self, ServeError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ServeError::Thread)?;
        let stop = CancellationToken::new();
        let (tell_end, ended) = oneshot::channel();
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("livez".to_owned());
        let work = move || {
            // If nobody wants to know any more, the daemon has ended.
            let _ = tell_end.send(runtime.block_on(run(options, stopped)));
        };
        thread.spawn(work).map_err(ServeError::Thread)?;
        Ok(Self { stop, ended })
    }

    /// Waits until it fails.
    pub async fn failed(&mut self) -> ServeError {
        match (&mut self.ended).await {
            Ok(Err(error)) => error.into(),
            Ok(Ok(())) | Err(_) => ServeError::Died,
        }
    }

    /// Ends: the next process on this node, if there is one, is given time to listen, and clients to
    /// come to it.
    pub async fn finish(self) {
        self.stop.cancel();
        let _ = self.ended.await;
    }
}

async fn run(options: Options, stop: CancellationToken) -> Result<(), ListenError> {
    let Options {
        bound,
        probes,
        detail,
        health_check_node_ports,
        snapshot,
        in_charge,
        metrics,
    } = options;
    tokio::select! {
        () = our_turn(&snapshot, &in_charge) => {}
        () = stop.cancelled() => return Ok(()),
    }
    let shared = Shared::new(snapshot, metrics, detail);
    // Apart from `stop`: listeners go on for a while.
    let (close, tracker) = (CancellationToken::new(), TaskTracker::new());
    // Each listener has connections of its own: nobody who asks at one takes those of another.
    for bound in [Some(bound), probes].into_iter().flatten() {
        let listener = bound.listen()?;
        let serving = serve(
            listener,
            ListenerRole::Node,
            Arc::clone(&shared),
            close.clone(),
        );
        tracker.spawn(serving);
    }
    if health_check_node_ports {
        let keeping = ports::keep(Arc::clone(&shared), tracker.clone(), close.clone());
        tracker.spawn(keeping);
    }
    stop.cancelled().await;
    shared.closing.store(true, Ordering::Relaxed);
    sleep(OVERLAP).await;
    close.cancel();
    tracker.close();
    tracker.wait().await;
    Ok(())
}

/// Who cannot answer yet leaves health checks to the process before it, as long as that goes on.
async fn our_turn(snapshot: &ArcSwap<Snapshot>, in_charge: &CancellationToken) {
    while !snapshot.load().answers_health() && !in_charge.is_cancelled() {
        sleep(LOOK).await;
    }
}
