//! Keeps the sockets at the interface that is desired, and the machine informed of this node.

use std::net::SocketAddr;
use std::time::Duration;

use mooring_common::errors::with_causes;

use super::Segment;
use super::open_link::OpenLink;
use crate::protocol::{Contact, Local, Moment};
use crate::responder::Report;
use crate::responder::shared::Shared;

/// How soon to try again to attach to an interface.
const RETRY: Duration = Duration::from_secs(1);

impl Segment {
    pub(super) fn update_local(&mut self, shared: &Shared, now: Moment) {
        let desired = &self.desired;
        let socket = desired.node_address.zip(shared.node_network_port);
        let local = Local {
            link_up: self.link.is_some(),
            draining: desired.draining,
            ending: desired.ending,
            service_proxy_works: desired.service_proxy_works,
            weight: desired.weight,
            contact: Contact {
                mac: self.link.as_ref().map(|link| link.attachment.mac),
                own_addresses: desired.own_addresses.clone(),
                node_network: socket.map(SocketAddr::from),
                zone: desired.zone,
            },
            secrets: shared.ring.ids(),
            has_gateway: !desired.gateways.is_empty(),
        };
        if self.local.as_ref() != Some(&local) {
            self.local = Some(local.clone());
            self.machine.set_local(local, now);
        }
    }

    pub(super) fn choose_secret(&mut self, shared: &Shared, now: Moment) {
        self.secret = shared.ring.signing(self.peers.secrets(now)).cloned();
    }

    /// Brings the sockets to the interface that is desired.
    pub(super) fn reattach(&mut self, shared: &Shared, now: Moment) {
        let wanted = self.desired.attachment.clone();
        if let (Some(link), Some(wanted)) = (&mut self.link, &wanted)
            && link.attachment.index == wanted.index
        {
            if link.attachment != *wanted {
                link.attachment = wanted.clone();
                self.responder.set_link(Some(wanted.mac), now);
                self.report(shared, Report::Responding(Some(wanted.mac)));
            }
            return;
        }
        if self.link.is_some() {
            self.detach(shared, now);
            // What was said there counts no more: it is let go before anything is said elsewhere.
            self.update_local(shared, now);
            self.settle(shared, now);
        }
        self.attach(shared, now);
    }

    pub(super) fn attach(&mut self, shared: &Shared, now: Moment) {
        self.next_try = now + RETRY;
        let Some(attachment) = self.desired.attachment.clone() else {
            return;
        };
        let mac = attachment.mac;
        let prepared = shared.prepared(&attachment);
        let (groups, system) = (&self.desired.groups, shared.system.as_ref());
        match OpenLink::open(attachment, prepared, system, groups, now) {
            Ok(link) => {
                self.link = Some(link);
                self.rights.change();
                self.has_fault = false;
                self.responder.set_link(Some(mac), now);
                self.report(shared, Report::Responding(Some(mac)));
            }
            Err(error) => {
                if !std::mem::replace(&mut self.has_fault, true) {
                    self.report(shared, Report::Fault(with_causes(&error)));
                }
            }
        }
    }

    pub(super) fn detach(&mut self, shared: &Shared, now: Moment) {
        if self.link.take().is_some() {
            self.rights.change();
            self.routers.forget();
            self.responder.set_link(None, now);
            self.report(shared, Report::Responding(None));
        }
    }
}
