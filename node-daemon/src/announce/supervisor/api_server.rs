//! What is written to the API server, and what it is asked for segments.

use std::time::Instant;

use super::{Answered, QUESTIONS, SupervisorState, send_if_new};
use crate::announce::EventSink;
use crate::announce::entries;
use crate::announce::segments::{Role, Roles};
use crate::cluster::lease::{Content, DesiredLease};
use crate::cluster::snapshot::Snapshot;
use crate::cluster::voters::About;
use crate::protocol::{ApiAnswer, Moment, Request};

impl<E: EventSink> SupervisorState<E> {
    /// The Lease, and the entries in L2Networks.
    pub(super) fn write_to_api_server(&mut self, ending: bool) {
        let snapshot = self.context.snapshot.load_full();
        let links = self.links.borrow().clone();
        let (witness_of, _) = self.witness_candidates.look(&snapshot, Instant::now());
        let roles = self
            .context
            .roles(&snapshot, &links, &witness_of, &self.last_interfaces);
        self.update_lease(&snapshot, &roles);
        self.look_at_control_plane(&snapshot, Instant::now());
        self.reporter.look(
            self.context.secrets.load().is_empty(),
            snapshot.service_proxy.may_work(),
            Instant::now(),
        );
        if ending {
            return;
        }
        let wanted = entries::changes(
            &snapshot,
            &self.context.node_name,
            &roles,
            &self.running,
            self.reporter.status(),
            self.reporter.found_about_control_plane(),
        );
        send_if_new(&self.context.entries, wanted);
    }

    /// A draining node keeps its Lease and lists no segment in it that it drains on. One without a key to sign with takes
    /// no part in any, and its Lease must not say that it lives.
    fn update_lease(&self, snapshot: &Snapshot, roles: &Roles<'_>) {
        let desired_lease = match &snapshot.node {
            Some(node) if roles.values().any(|role| *role != Role::Keyless) => {
                DesiredLease::Hold(Content {
                    node_uid: node.uid.clone(),
                    segments: {
                        let status = self.reporter.status().iter();
                        let speaking = status.filter_map(|(segment, status)| {
                            Some((segment.clone(), status.responding_from?))
                        });
                        let stays = |(segment, _): &(String, _)| !snapshot.drains_on_named(segment);
                        speaking.filter(stays).collect()
                    },
                })
            }
            // An earlier run may have held it. Where there is no L2Network it says nothing to anybody,
            // and is not worth a request of each daemon.
            _ if !snapshot.networks.is_empty() => DesiredLease::LetGo,
            _ => DesiredLease::None,
        };
        send_if_new(&self.context.desired_lease, desired_lease);
    }

    /// Asks about the L2Network of this UID: there may be another of its name by now.
    pub(super) fn ask(&mut self, segment: &str, uid: String, request: Request, asked: Moment) {
        if self.questions.len() >= QUESTIONS {
            if let Some(responder) = &self.responder {
                responder.answer(segment, ApiAnswer::Unreachable, asked);
            }
            return;
        }
        let voter_store = self.context.voter_store.clone();
        let names = self.names.clone();
        let segment = segment.to_owned();
        self.questions.spawn(async move {
            let about = About {
                name: &segment,
                uid: &uid,
            };
            let answer = voter_store.answer(about, request, &names).await;
            (segment, answer, asked)
        });
    }

    pub(super) fn pass_on(&self, answered: Result<Answered, tokio::task::JoinError>) {
        match (answered, &self.responder) {
            (Ok((segment, answer, asked)), Some(responder)) => {
                responder.answer(&segment, answer, asked);
            }
            (Ok(_), None) => {}
            (Err(error), _) => tracing::error!(%error, "a question to the API server was lost"),
        }
    }

    pub(super) fn write_stopped(&mut self) {
        let snapshot = self.context.snapshot.load();
        if !snapshot.decides_speakers() {
            return;
        }
        let links = self.links.borrow().clone();
        let (witness_of, _) = self.witness_candidates.look(&snapshot, Instant::now());
        let roles = self
            .context
            .roles(&snapshot, &links, &witness_of, &self.last_interfaces);
        let stopped = entries::stopped(&snapshot, &roles);
        self.context.entries.send_replace(stopped);
    }
}
