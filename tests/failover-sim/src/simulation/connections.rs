//! To whom each node's kernel passes frames on, as its keeper of connections would have it.
//!
//! What a node has saved outlives its daemon, and here also its boot; nothing ends by time. So there is more
//! to go round in than there would be.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use mooring_node::announce::forwarding::state::{Device, Forwarding};
use mooring_node::protocol::mac::Mac;
use mooring_node::protocol::{AnnounceMode, Awaited, Cause, ConnectionEvent, Key, Moment, NodeId};

use super::{Simulation, What};
use crate::clock::MILLISECOND;
use crate::engine::Engine;
use crate::invariants::Violation;
use crate::node::Input;

/// `spec.keepConnections`
const KEEP: Duration = Duration::from_secs(15 * 60);

impl<E: Engine> Simulation<E> {
    /// What the nodes of the cluster pass on at the beginning: nothing.
    pub(super) fn nothing_passed_on(macs: &[Option<Mac>]) -> Vec<Forwarding> {
        let of = |mac: &Option<Mac>| {
            let mut forwarding = Forwarding::default();
            let device = mac.map(|mac| Device {
                name: "eth0".to_owned(),
                mac,
            });
            forwarding.configure(device, KEEP);
            forwarding
        };
        macs.iter().map(of).collect()
    }

    /// A node speaks for a key.
    pub(super) fn connections_began(
        &mut self,
        node: usize,
        (key, former): (Key, Option<NodeId>),
        mode: AnnounceMode,
        cause: Cause,
    ) {
        let is_announced = mode == AnnounceMode::Unsolicited && cause != Cause::Inherited;
        self.change(node, key, |forwarding, address, now| {
            forwarding.began(address, former, is_announced, now);
        });
    }

    /// A node announces a key that it speaks for.
    pub(super) fn connections_announced(&mut self, node: usize, key: Key) {
        self.change(node, key, |forwarding, address, _| {
            forwarding.announced(address);
        });
    }

    /// A node speaks for a key no more.
    pub(super) fn connections_stopped(&mut self, node: usize, key: Key) {
        self.change(node, key, |forwarding, address, _| {
            forwarding.stopped(address);
        });
    }

    /// What a machine says of connections.
    pub(super) fn connections_told(&mut self, node: usize, run: u32, event: &ConnectionEvent) {
        match *event {
            ConnectionEvent::Offered { key, former } => {
                // Now and then the kernel refuses, or is too slow.
                if self.chance.u8(0..5) == 0 {
                    return;
                }
                self.change(node, key, |forwarding, address, now| {
                    forwarding.prepare(address, former, now);
                });
                self.answer_later(node, run, Awaited::Offer(former), key);
            }
            ConnectionEvent::HandingOn { key, to } => {
                self.change(node, key, |forwarding, address, now| {
                    forwarding.handing_on(address, to, now);
                });
                self.answer_later(node, run, Awaited::HandOver(to), key);
            }
            ConnectionEvent::HandedOn {
                key,
                to,
                is_announced: true,
            } => self.change(node, key, |forwarding, address, now| {
                forwarding.handed_on(address, to, now);
            }),
            ConnectionEvent::HandedOn { key, .. } => {
                self.change(node, key, |forwarding, address, _| {
                    forwarding.left_unannounced(address);
                });
            }
            ConnectionEvent::Gone(former) => {
                if let Some(forwarding) = self.forwarding.get_mut(node) {
                    forwarding.gone(former);
                }
            }
            ConnectionEvent::Counted { .. } => {}
        }
    }

    /// A node's keeper of connections has done what it was told.
    fn answer_later(&mut self, node: usize, run: u32, awaited: Awaited, key: Key) {
        let at = self.now + self.chance.u64(0..250 * MILLISECOND);
        let input = Input::Prepared(awaited, key);
        self.push(at, What::Answers { node, run, input });
    }

    fn change(
        &mut self,
        node: usize,
        key: Key,
        change: impl FnOnce(&mut Forwarding, IpAddr, Moment),
    ) {
        let Some(number) = self.number_of(key) else {
            return;
        };
        if !self.shape.parameters.keep_connections || E::IS_WHOLE {
            return;
        }
        let stations = self.nodes.iter().take(self.own());
        let members = stations.filter_map(|node| Some((node.id, node.contact.mac?)));
        let members = members.collect();
        let Some(forwarding) = self.forwarding.get_mut(node) else {
            return;
        };
        let address = address_of(number);
        forwarding.set_members(members);
        change(forwarding, address, Moment(self.now));
        self.frames_come_to_rest(number);
    }

    /// A client's frame for a key comes to rest, whichever node it is sent to.
    fn frames_come_to_rest(&mut self, key: usize) {
        let (address, now) = (address_of(key), Moment(self.now));
        for entered in 0..self.own() {
            let (mut at, mut from, mut hops) = (entered, None, 0);
            loop {
                let groups = self.forwarding.get(at).map(|here| here.groups(now));
                let group = groups.into_iter().flatten().find(|group| {
                    group.addresses.contains_key(&address)
                        && from.is_none_or(|from| !group.never_from.contains(&from))
                });
                let Some(group) = group else { break };
                let mut stations = self.nodes.iter().take(self.own());
                let Some(next) = stations.position(|node| node.contact.mac == Some(group.former))
                else {
                    break;
                };
                hops += 1;
                self.tally.hops = self.tally.hops.max(hops);
                if hops > self.own() {
                    self.watch
                        .violated(Violation::Circle { key, node: entered });
                    return;
                }
                from = self.nodes.get(at).and_then(|node| node.contact.mac);
                at = next;
            }
        }
    }
}

fn address_of(key: usize) -> IpAddr {
    let last = u8::try_from(key).unwrap_or(u8::MAX);
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))
}
