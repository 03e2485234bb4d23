//! Brings the responder to what is wanted, and ends it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Instant;

use mooring_common::engine::Step as _;
use tokio::sync::mpsc;

use super::{SupervisorState, send_if_new};
use crate::announce::EventSink;
use crate::announce::segments::{closed, on_interfaces, steps};
use crate::announce::state_file::State;
use crate::announce::upgrade::Successor;
use crate::protocol::Parameters;
use crate::responder::upgrade_state::UpgradeState;
use crate::responder::{DesiredSegments, Report, Responder, Setup};

impl<E: EventSink> SupervisorState<E> {
    /// Does what differs from what is wanted, and reports it.
    pub(super) async fn apply(&mut self, inherited: &mut Option<UpgradeState>, ending: bool) {
        let Some(wanted) = self.wanted.clone() else {
            return;
        };
        self.drop_dead_responder();
        let desired = self.leaving.desired(&self.running, &wanted, Instant::now());
        for step in steps(&self.running, &desired).steps() {
            tracing::info!(%step, impact = %step.impact(), "announcing");
        }
        let gone: Vec<String> = closed(&self.running, &desired).cloned().collect();
        match &self.responder {
            Some(responder) if *self.running != desired => {
                responder.set_desired(Arc::new(desired.clone()));
                self.running = Arc::new(desired);
            }
            Some(_) => {}
            None if desired.is_empty() && inherited.is_none() => {}
            None => self.start(desired, inherited.take()),
        }
        self.kernel.set(on_interfaces(&self.running));
        self.configure_connections();
        for segment in gone {
            self.reporter.closed(&segment);
            self.asked_about.remove(&segment);
        }
        if self.decided() {
            let state = State::of(
                &self.context.node_name,
                &wanted,
                &self.interfaces,
                &self.last_interfaces,
            );
            // What is handed over at the end is still what the next process needs to know.
            if !ending {
                send_if_new(&self.context.state, Some(Arc::new(state)));
            }
            self.write_to_api_server(ending);
        }
    }

    fn start(&mut self, desired: DesiredSegments, inherited: Option<UpgradeState>) {
        let desired = Arc::new(desired);
        let setup = Setup {
            node: self.context.node,
            desired: Arc::clone(&desired),
            reports: self.context.sender.clone(),
            metrics: self.context.metrics.clone(),
            seed: RandomState::new().build_hasher().finish(),
            heartbeat_port: self.context.heartbeat_port,
            secrets: Arc::clone(&self.context.secrets),
            parameters: Parameters::default(),
            inherited,
            prepared: std::mem::take(&mut self.prepared),
            rights: self.rights.clone(),
        };
        match Responder::start(setup) {
            Ok(responder) => {
                self.responder = Some(responder);
                self.running = desired;
            }
            Err(error) => tracing::error!(%error, "cannot start a thread"),
        }
    }

    /// A thread that ended by itself has panicked. Another one starts as after a crash.
    fn drop_dead_responder(&mut self) {
        if self.responder.as_ref().is_some_and(Responder::has_died) {
            tracing::error!("the thread of the segments has died, starting another");
            self.responder = None;
            for segment in std::mem::take(&mut self.running).keys() {
                self.reporter.closed(segment);
            }
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.responder.is_none() || self.leaving.have_ended(&self.running)
    }

    /// Stops speaking, and passes the state on to the successor if there is one. Otherwise what could be
    /// handed over has been.
    pub(super) async fn end(
        &mut self,
        successor: Option<Successor>,
        reports: &mut mpsc::Receiver<(String, Report)>,
    ) {
        let Some(responder) = self.responder.take() else {
            return;
        };
        let mut saves = false;
        if successor.is_some() {
            self.kernel.leave();
            // Most of it while this process still answers.
            saves = self.connections.saved().await;
        }
        // It waits for the thread's last frame, which is a matter of microseconds.
        let left = tokio::task::spawn_blocking(|| responder.export()).await;
        // Nobody answers now: who did not save in time is not waited for again.
        if self.handle_all(reports) && saves {
            self.connections.saved().await;
        }
        match (left, successor) {
            (Ok(Some(state)), Some(successor)) => successor.inherit(&state).await,
            (Ok(_), _) => self.write_stopped(),
            (Err(error), _) => tracing::error!(%error, "cannot end the segments' thread"),
        }
        let segments: Vec<String> = self.running.keys().cloned().collect();
        for segment in segments {
            self.reporter.closed(&segment);
        }
    }
}
