//! What the API server is told, and what it is asked for segments.

use std::collections::BTreeMap;
use std::time::Instant;

use super::{Answered, QUESTIONS, Work, send_if_new};
use crate::announce::EventSink;
use crate::announce::entries;
use crate::announce::segments::{Footing, Role};
use crate::cluster::lease::{Content, Wish};
use crate::cluster::snapshot::Snapshot;
use crate::cluster::voters::About;
use crate::protocol::{ApiAnswer, Moment, Request};

impl<E: EventSink> Work<E> {
    /// The Lease, and the entries in L2Networks.
    pub(super) fn tell_the_api_server(&mut self, ending: bool) {
        let snapshot = self.desk.snapshot.load();
        let links = self.links.borrow().clone();
        let (witness_of, _) = self.offers.look(&snapshot, Instant::now());
        let footing = self
            .desk
            .footing(&snapshot, &links, &witness_of, &self.homes);
        self.tell_lease(&snapshot, &footing);
        self.teller.look(
            self.desk.secrets.load().is_empty(),
            snapshot.service_proxy.may_work(),
            Instant::now(),
        );
        if ending {
            return;
        }
        let wanted = entries::changes(
            &snapshot,
            &self.desk.node_name,
            &footing,
            &self.running,
            self.teller.standing(),
        );
        send_if_new(&self.desk.entries, wanted);
    }

    /// A draining node keeps its Lease and lists no segment in it. One without a key to sign with takes
    /// no part in any, and its Lease must not say that it lives.
    fn tell_lease(&self, snapshot: &Snapshot, footing: &Footing<'_>) {
        let wish = match &snapshot.node {
            Some(node) if footing.values().any(|role| *role != Role::Keyless) => {
                Wish::Hold(Content {
                    node_uid: node.uid.clone(),
                    segments: if snapshot.draining() {
                        BTreeMap::new()
                    } else {
                        let standing = self.teller.standing().iter();
                        standing
                            .filter_map(|(segment, standing)| {
                                Some((segment.clone(), standing.on_air?))
                            })
                            .collect()
                    },
                })
            }
            // An earlier run may have held it. Where there is no L2Network it says nothing to anybody,
            // and is not worth a request of each daemon.
            _ if !snapshot.networks.is_empty() => Wish::LetGo,
            _ => Wish::None,
        };
        send_if_new(&self.desk.wish, wish);
    }

    /// Asks about the L2Network of this UID: there may be another of its name by now.
    pub(super) fn ask(&mut self, segment: &str, uid: String, request: Request, asked: Moment) {
        if self.questions.len() >= QUESTIONS {
            if let Some(station) = &self.station {
                station.answer(segment, ApiAnswer::Unreachable, asked);
            }
            return;
        }
        let registry = self.desk.registry.clone();
        let names = self.names.clone();
        let segment = segment.to_owned();
        self.questions.spawn(async move {
            let about = About {
                name: &segment,
                uid: &uid,
            };
            let answer = registry.answer(about, request, &names).await;
            (segment, answer, asked)
        });
    }

    pub(super) fn pass_on(&self, answered: Result<Answered, tokio::task::JoinError>) {
        match (answered, &self.station) {
            (Ok((segment, answer, asked)), Some(station)) => {
                station.answer(&segment, answer, asked);
            }
            (Ok(_), None) => {}
            (Err(error), _) => tracing::error!(%error, "a question to the API server was lost"),
        }
    }

    pub(super) fn say_farewell(&mut self) {
        let snapshot = self.desk.snapshot.load();
        if !snapshot.decides_speakers() {
            return;
        }
        let links = self.links.borrow().clone();
        let (witness_of, _) = self.offers.look(&snapshot, Instant::now());
        let footing = self
            .desk
            .footing(&snapshot, &links, &witness_of, &self.homes);
        let farewell = entries::farewell(&snapshot, &footing);
        self.desk.entries.send_replace(farewell);
    }
}
