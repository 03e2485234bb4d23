//! A whole daemon: what follows from its own view of the API's objects and from its links, as
//! `apply.rs` of the daemon has it follow, and the loop of its thread, with the simulation's clock and
//! sockets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use mooring_common::k8s::ObjectKey;
use mooring_common::l2_network::{AddressMode, Preference, QuorumLoss, Segment, Voters};
use mooring_common::machines::Identity;
use mooring_common::names::annotations;
use mooring_common::node_view::{NodeView, Readiness};
use mooring_node::announce::leaving::Leaving;
use mooring_node::announce::plan::assign;
use mooring_node::announce::segments::{
    self, LastInterfaces, Role, desired, last_interfaces, roles,
};
use mooring_node::announce::state_file::State;
use mooring_node::announce::upgrade;
use mooring_node::cluster::snapshot::{
    L2NetworkView, PeerNode, ServiceView, SliceView, Snapshot, Synced, TrafficPolicy,
};
use mooring_node::protocol::{
    Decision, Destination, Moment, NodeId, Path, Transition, VoterSet, Weight,
};
use mooring_node::responder::metrics::Metrics;
use mooring_node::responder::upgrade_state::UpgradeState;
use mooring_node::responder::{
    DesiredSegments, OpenedSockets, Report, Rights, Setup, SteppedResponder,
};
use mooring_node::wire::codec::{self, SegmentId};
use mooring_node::wire::keys::KeyRing;
use mooring_node::wire::links::{Link, Stack};
use tokio::sync::mpsc;

use super::engine::{Birth, Engine, Here, Output};
use super::lines::{NODE_NETWORK, PORT, SEGMENT, Shared};
use super::node::{Input, Packet};
use super::objects::{NETWORK, Objects, address, each_spot, spot_of};

/// How many reports may wait until they are read, which is at once.
const REPORTS: usize = 4096;
/// The label that the segment's selector asks for.
const LABEL: &str = "rack";
/// The interface that the segment is on.
const INTERFACE: &str = "eth0";

thread_local! {
    /// What is counted is not looked at.
    static METRICS: Metrics = Metrics::register(&mut prometheus_client::registry::Registry::default());
}

/// A daemon.
pub struct Daemon {
    birth: Birth,
    lines: Shared,
    station: Option<SteppedResponder>,
    sender: mpsc::Sender<(String, Report)>,
    reports: mpsc::Receiver<(String, Report)>,
    objects: Option<Arc<Objects>>,
    saved_health: Option<Arc<Objects>>,
    here: Option<Here>,
    inherited: Option<UpgradeState>,
    running: Arc<DesiredSegments>,
    leaving: Leaving,
    last_interfaces: LastInterfaces,
    ending: bool,
    /// An instant of the process' own, and what its clock showed then.
    epoch: (Instant, Moment),
    outputs: VecDeque<Output>,
}

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemon")
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}

impl Engine for Daemon {
    const IS_WHOLE: bool = true;

    fn start(birth: &Birth, now: Moment) -> Self {
        Self::new(birth.clone(), None, now)
    }

    fn tell(&mut self, input: Input, here: Option<Here>, now: Moment) {
        self.lines.lock().now = now;
        let wait = |kind: usize, bytes: Arc<[u8]>| self.lines.lock().waits[kind].push_back(bytes);
        let mut decides = here.is_some() && self.here != here;
        match input {
            Input::Message(packet, path) => {
                let kind = match path {
                    Path::Segment => SEGMENT,
                    Path::NodeNetwork => NODE_NETWORK,
                };
                if let Some(bytes) = packet.bytes {
                    wait(kind, bytes);
                }
            }
            Input::Frame(frame, came) => self.lines.lock().frames.push_back((frame, came)),
            Input::Answer(answer, asked) => {
                if let Some(station) = &self.station {
                    station.answer(NETWORK, answer, asked);
                }
            }
            Input::View(objects) => {
                self.objects = Some(objects);
                decides = true;
            }
            Input::SavedHealth(objects) => {
                self.saved_health = Some(objects);
                if !self.birth.witness {
                    self.last_interfaces = at_home();
                }
                decides = true;
            }
            Input::Local
            | Input::Kernel(_)
            | Input::Address(..)
            | Input::Gateway
            | Input::Prepared(..) => {}
        }
        if let Some(here) = here {
            if here.local.ending && !self.ending {
                self.ending = true;
                self.leaving.end();
            }
            self.here = Some(here);
        }
        if decides {
            self.decide(now);
        }
        self.turn(now);
    }

    fn tick(&mut self, now: Moment) {
        self.lines.lock().now = now;
        // As the daemon does once a second: what is left has its time.
        if self.running.values().any(|desired| desired.ending) {
            self.decide(now);
        }
        self.turn(now);
    }

    fn next_deadline(&self) -> Moment {
        let station = self.station.as_ref();
        station.map_or(Moment::NEVER, SteppedResponder::next_deadline)
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn permits(&self, permits: &mut [Option<Moment>]) {
        permits.fill(None);
        let station = self.station.iter();
        for (_, address, until) in station.flat_map(SteppedResponder::permits) {
            if let Some(permit) = spot_of(address).and_then(|spot| permits.get_mut(spot)) {
                *permit = Some(until);
            }
        }
    }

    fn frame_sent(&mut self, _spot: usize, _now: Moment) {}

    fn has_ended(&self) -> bool {
        self.station.is_none() || self.leaving.have_ended(&self.running)
    }

    fn upgrade(mut self, now: Moment) -> Self {
        self.lines.lock().now = now;
        let inherited = self.station.take().and_then(|station| {
            let bytes = upgrade::write(&station.export()).ok()?;
            upgrade::read(&bytes).ok()
        });
        // Another process draws other numbers for its runs.
        let birth = Birth {
            seed: self.birth.seed.wrapping_add(1),
            ..self.birth
        };
        let mut next = Self::new(birth, inherited, now);
        next.last_interfaces = self.last_interfaces;
        next.objects = self.objects;
        next.saved_health = self.saved_health;
        next.here = self.here;
        next.outputs = self.outputs;
        next.decide(now);
        next.turn(now);
        next
    }
}

impl Daemon {
    fn new(birth: Birth, inherited: Option<UpgradeState>, now: Moment) -> Self {
        let (sender, reports) = mpsc::channel(REPORTS);
        Self {
            birth,
            lines: Shared::default(),
            station: None,
            sender,
            reports,
            objects: None,
            saved_health: None,
            here: None,
            inherited,
            running: Arc::default(),
            leaving: Leaving::default(),
            last_interfaces: LastInterfaces::new(),
            ending: false,
            epoch: (Instant::now(), now),
            outputs: VecDeque::new(),
        }
    }

    /// What the daemon's own clock shows, which only measures how long something takes.
    fn instant(&self, now: Moment) -> Instant {
        self.epoch.0 + now.since(self.epoch.1)
    }

    /// Decides anew what to do on the segment, and hands it over.
    fn decide(&mut self, now: Moment) {
        let Some(here) = self.here.clone() else {
            return;
        };
        let wanted = match (self.objects.clone(), self.saved_health.clone()) {
            (Some(objects), _) => self.wanted(&objects, &here),
            (None, Some(objects)) => {
                let before = self.wanted(&objects, &here);
                self.remembered(&before, &here)
            }
            (None, None) => return,
        };
        let instant = self.instant(now);
        let desired = self.leaving.desired(&self.running, &wanted, instant);
        match &self.station {
            Some(station) if *self.running != desired => {
                self.running = Arc::new(desired);
                station.set_desired(Arc::clone(&self.running));
            }
            Some(_) => {}
            None if desired.is_empty() && self.inherited.is_none() => {}
            None => self.start_station(desired),
        }
    }

    fn start_station(&mut self, desired: DesiredSegments) {
        self.running = Arc::new(desired);
        let setup = Setup {
            node: self.birth.node,
            desired: Arc::clone(&self.running),
            reports: self.sender.clone(),
            metrics: METRICS.with(Metrics::clone),
            seed: self.birth.seed,
            heartbeat_port: PORT,
            secrets: Arc::default(),
            parameters: self.birth.parameters,
            inherited: self.inherited.take(),
            prepared: OpenedSockets::new(),
            rights: Rights::default(),
        };
        match SteppedResponder::new(setup, Box::new(self.lines.clone())) {
            Ok(station) => self.station = Some(station),
            Err(error) => panic!("no socket pair: {error}"),
        }
    }

    /// What follows from these objects.
    fn wanted(&mut self, objects: &Objects, here: &Here) -> DesiredSegments {
        let snapshot = self.snapshot(objects, here);
        let links = links(here);
        let witness_of = if self.birth.witness {
            BTreeSet::from([NETWORK.to_owned()])
        } else {
            BTreeSet::new()
        };
        self.last_interfaces = last_interfaces(&snapshot, &self.last_interfaces);
        let roles = roles(&snapshot, &links, &witness_of, &self.last_interfaces);
        for (segment, role) in &roles {
            if let Role::Speaker(link) = role {
                let home = Some(link.name.clone());
                self.last_interfaces.insert(segment.clone(), home);
            }
        }
        let spoken = BTreeMap::new();
        let here = segments::LocalState {
            spoken: &spoken,
            node_name: &self.birth.name,
            links: &links,
            heartbeat_port: PORT,
            service_proxy_works: here.local.service_proxy_works,
            ending: self.ending,
        };
        desired(&snapshot, &roles, &assign(&snapshot), here)
    }

    /// What is left of these segments in the file that outlives a process.
    fn remembered(&self, before: &DesiredSegments, here: &Here) -> DesiredSegments {
        let interfaces = if self.birth.witness {
            BTreeMap::new()
        } else {
            BTreeMap::from([(NETWORK.to_owned(), INTERFACE.to_owned())])
        };
        let state = State::of(&self.birth.name, before, &interfaces, &self.last_interfaces);
        let bytes = serde_json::to_vec(&state).unwrap_or_default();
        let state: State = serde_json::from_slice(&bytes).unwrap_or_default();
        let works = here.local.service_proxy_works;
        state.desired(&links(here), works, self.ending)
    }

    /// Lets the thread's loop turn, and does what it reports.
    fn turn(&mut self, now: Moment) {
        loop {
            if let Some(station) = &mut self.station {
                station.turn();
            }
            // Where no socket is open nothing waits.
            {
                let mut lines = self.lines.lock();
                lines.waits.iter_mut().for_each(VecDeque::clear);
                lines.frames.clear();
            }
            let mut ended = false;
            while let Ok((segment, report)) = self.reports.try_recv() {
                ended |= matches!(report, Report::Ended);
                self.heed(&segment, report);
            }
            self.say();
            if !ended {
                break;
            }
            self.decide(now);
        }
    }

    fn heed(&mut self, segment: &str, report: Report) {
        match report {
            Report::Ask(request, _, uid) => {
                let uid = u64::from_str_radix(&uid, 16).unwrap_or_default();
                self.outputs.push_back(Output::Ask(request, uid));
            }
            Report::Noted(transition) => {
                let note: Transition = transition;
                self.outputs
                    .push_back(Output::Decision(Decision::Note(note)));
            }
            Report::Began { address, cause, .. } => {
                let begun = spot_of(address).map(|spot| Output::Begun(spot, cause));
                self.outputs.extend(begun);
            }
            Report::Ended => self.leaving.ended(segment),
            _ => {}
        }
    }

    /// What it has said goes out.
    fn say(&mut self) {
        let (said, sent) = {
            let mut lines = self.lines.lock();
            (
                std::mem::take(&mut lines.said),
                std::mem::take(&mut lines.sent),
            )
        };
        let mut last: Option<Packet> = None;
        for (to, bytes) in said {
            // To several on the node network the same is said, one after the other.
            let same = last.take().filter(|last| last.is(&bytes));
            let Some(packet) = same.or_else(|| packet(bytes)) else {
                continue;
            };
            last = Some(packet.clone());
            let to = match to {
                None => Destination::Segment,
                Some(socket) => {
                    let objects = self.objects.as_ref().or(self.saved_health.as_ref());
                    let to = objects.and_then(|objects| reached_at(objects, socket));
                    Destination::NodeNetwork(to.into_iter().collect())
                }
            };
            self.outputs.push_back(Output::Say(packet, to));
        }
        self.outputs.extend(sent.into_iter().map(Output::Frame));
    }

    /// What its watches show it.
    fn snapshot(&self, objects: &Objects, here: &Here) -> Snapshot {
        let mut services = BTreeMap::new();
        let mut slices = BTreeMap::new();
        for (number, service) in objects.there() {
            let key = ObjectKey::new("default", format!("s{number}"));
            let addresses: Vec<IpAddr> = each_spot(service.spots).map(address).collect();
            let view = ServiceView {
                uid: format!("s{number}"),
                network: Some(NETWORK.to_owned()),
                recorded: addresses.clone(),
                addresses,
                policy: match service.candidates {
                    Some(_) => TrafficPolicy::Local,
                    None => TrafficPolicy::Cluster,
                },
                health_check_node_port: None,
            };
            let named = service.candidates.into_iter();
            let named = named.flat_map(|nodes| objects.named(nodes));
            let slice = SliceView {
                service: format!("s{number}"),
                ready_nodes: named.map(|node| self.birth.names[node].clone()).collect(),
                any_ready: true,
                ..SliceView::default()
            };
            services.insert(key.clone(), Arc::new(view));
            slices.insert(key, vec![Arc::new(slice)]);
        }
        let networks = objects.uid.map(|uid| {
            let key = ObjectKey::cluster_wide(NETWORK);
            (key, Arc::new(self.network(objects, uid, here)))
        });
        Snapshot {
            services: Arc::new(services),
            slices: Arc::new(slices),
            networks: Arc::new(networks.into_iter().collect()),
            node: here.is_registered.then(|| Arc::new(self.node(here))),
            synced: Synced {
                services: true,
                slices: true,
                networks: true,
                node: true,
            },
            may_write: true,
            ..Snapshot::default()
        }
    }

    fn name_of(&self, objects: &Objects, node: NodeId) -> Option<String> {
        let place = objects.nodes.iter().position(|known| *known == node)?;
        self.birth.names.get(place).cloned()
    }

    fn network(&self, objects: &Objects, uid: u64, here: &Here) -> L2NetworkView {
        let gateway = here.local.has_gateway.then(gateway);
        let others = objects
            .known
            .iter()
            .filter(|(node, _)| **node != self.birth.node);
        let others = others.filter_map(|(node, contact)| {
            let other = PeerNode {
                address: contact.node_network.map(|socket| socket.ip()),
                mac: contact.mac,
                witness: contact.mac.is_none(),
            };
            Some((self.name_of(objects, *node)?, other))
        });
        let voters = |set: &VoterSet| Voters {
            generation: i64::try_from(set.generation).unwrap_or(i64::MAX),
            nodes: {
                let names = set.voters.iter();
                names
                    .filter_map(|node| self.name_of(objects, *node))
                    .collect()
            },
            primary: set.primary.and_then(|node| self.name_of(objects, node)),
        };
        let approvals = objects.approvals.iter();
        let approvals =
            approvals.filter_map(|(node, set)| Some((self.name_of(objects, *node)?, voters(set))));
        let own = here.local.weight.preference();
        let preferred = (own > 0).then(|| Preference::new(own, Default::default()));
        let preferred = preferred.into_iter();
        L2NetworkView {
            uid: format!("{uid:x}"),
            segment: Ok(Segment {
                name: NETWORK.to_owned(),
                vlan: None,
                parent: None,
                interfaces: None,
                mtu: None,
                subnets: vec![("10.0.0.0/16".parse().unwrap_or_default(), gateway)],
                ranges: Vec::new(),
                pools: Vec::new(),
                node_selector: [(LABEL, "1")].into_iter().collect(),
                includes_excluded: false,
                preferred: preferred.collect(),
                on_quorum_loss: if self.birth.parameters.survive_via_api {
                    QuorumLoss::SurviveViaApi
                } else {
                    QuorumLoss::Silent
                },
                address_mode: AddressMode::default(),
                shares_across_namespaces: false,
                control_plane: None,
                probes_addresses: self.birth.parameters.probe_addresses,
                keep_connections: Duration::ZERO,
                allowed_namespaces: None,
                max_addresses_per_namespace: None,
            }),
            entry: None,
            others: others.collect(),
            voters: (objects.voters.generation > 0).then(|| voters(&objects.voters)),
            approvals: approvals.collect(),
        }
    }

    fn node(&self, here: &Here) -> NodeView {
        let is_member = !self.birth.witness && here.is_selected;
        let label = is_member.then(|| (LABEL.to_owned(), "1".to_owned()));
        let maintenance = (annotations::MAINTENANCE.to_owned(), "true".to_owned());
        let maintenance = here.local.draining.then_some(maintenance);
        NodeView {
            name: self.birth.name.clone(),
            uid: String::new(),
            created: None,
            deleting: false,
            labels: Some(label.into_iter().collect()),
            annotations: Some(maintenance.into_iter().collect()),
            provider_id: None,
            taints: Vec::new(),
            addresses: Vec::new(),
            unschedulable: false,
            pod_cidrs: Vec::new(),
            network_unavailable: None,
            readiness: if here.local.weight.share() < Weight::USUAL.share() {
                Readiness::NotReady
            } else {
                Readiness::Ready
            },
            machine: Identity::default(),
        }
    }
}

/// Where a daemon that has run before found the segment.
fn at_home() -> LastInterfaces {
    LastInterfaces::from([(NETWORK.to_owned(), Some(INTERFACE.to_owned()))])
}

/// The gateway's address.
#[must_use]
pub fn gateway() -> IpAddr {
    [10, 0, 255, 254].into()
}

/// The interfaces of a node: one on the segment, if it is there, and one on the node network.
fn links(here: &Here) -> Vec<Link> {
    let contact = &here.local.contact;
    let segment = contact.mac.map(|mac| Link {
        name: INTERFACE.to_owned(),
        index: 2,
        mac: Some(mac),
        up: here.local.link_up,
        addresses: contact
            .own_addresses
            .iter()
            .filter(|_| here.has_address)
            .filter_map(|address| format!("{address}/16").parse().ok())
            .collect(),
        default_route: None,
        stack: Stack::default(),
    });
    let node_network = contact.node_network.map(|socket| Link {
        name: "node0".to_owned(),
        index: 3,
        mac: None,
        up: true,
        addresses: format!("{}/16", socket.ip()).parse().into_iter().collect(),
        default_route: Some(0),
        stack: Stack::default(),
    });
    segment.into_iter().chain(node_network).collect()
}

/// A message with its bytes; `None` if it is of no segment.
fn packet(bytes: Vec<u8>) -> Option<Packet> {
    let id = SegmentId::in_message(&bytes)?;
    let decoded = codec::decode(id, &bytes, &KeyRing::default());
    let message = decoded.map(|decoded| Arc::new(decoded.message));
    Some(Packet {
        message: message.unwrap_or_else(|error| panic!("its own message: {error}")),
        bytes: Some(bytes.into()),
    })
}

fn reached_at(objects: &Objects, socket: SocketAddr) -> Option<NodeId> {
    let mut known = objects.known.iter();
    let found = known.find(|(_, contact)| contact.node_network == Some(socket));
    found.map(|(node, _)| *node)
}
