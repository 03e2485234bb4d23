//! The two paths between the nodes of the simulation: who reaches whom, how fast, and how surely.

use fastrand::Rng;
use mooring_node::protocol::{Body, Path};

use super::clock::{Instant, MICROSECOND, MILLISECOND};
use super::steps::Kind;

/// The largest number of nodes in one simulation.
pub const MOST_NODES: usize = 12;

/// Some nodes of the simulation, one bit each.
pub type Nodes = u16;

/// The nodes of a set, by number.
pub fn each(nodes: Nodes) -> impl Iterator<Item = usize> {
    (0..MOST_NODES).filter(move |node| nodes & (1 << node) != 0)
}

/// Whether a set has this node.
#[must_use]
pub const fn has(nodes: Nodes, node: usize) -> bool {
    nodes & (1 << node) != 0
}

/// How many causes there are for something to be so: faults may overlap.
type Causes = u8;

/// How a network behaves where no fault is.
#[derive(Clone, Copy, Debug)]
pub struct Manners {
    /// Messages lost, of a thousand.
    pub loss: u16,
    /// The shortest delay.
    pub least: Instant,
    /// The longest usual delay.
    pub most: Instant,
    /// Of ten thousand messages, how many are held up for up to 20 ms, and how many come twice.
    pub odd: u16,
}

impl Manners {
    /// Half a millisecond for each message, and nothing is lost: for schedules that are written.
    pub const EXACT: Self = Self {
        loss: 0,
        least: 500 * MICROSECOND,
        most: 500 * MICROSECOND,
        odd: 0,
    };
}

/// When a message arrives: not at all, once or twice.
pub type Arrivals = [Option<Instant>; 2];

/// Both paths.
#[derive(Clone, Debug)]
pub struct Network {
    manners: Manners,
    /// The segment itself is cut between the two: no client hears both.
    cut: [[Causes; MOST_NODES]; MOST_NODES],
    /// Messages from the first do not reach the second, by path; clients hear both.
    blind: [[[Causes; MOST_NODES]; MOST_NODES]; 2],
    transmit_dead: [Causes; MOST_NODES],
    receive_dead: [Causes; MOST_NODES],
    link_down: [Causes; MOST_NODES],
    gateway_away: [Causes; MOST_NODES],
    /// It is on the side of a cut where the gateway and most clients are not.
    far: [Causes; MOST_NODES],
    lossy: [u16; MOST_NODES],
    slow: [Instant; MOST_NODES],
    extra: Vec<(usize, usize, Path, Instant)>,
    drops: Vec<(Nodes, Nodes, Kind)>,
    chance: Rng,
}

const fn index(path: Path) -> usize {
    match path {
        Path::Segment => 0,
        Path::NodeNetwork => 1,
    }
}

fn count(causes: &mut Causes, on: bool) {
    *causes = if on {
        *causes + 1
    } else {
        causes.saturating_sub(1)
    };
}

impl Network {
    /// A network without faults.
    #[must_use]
    pub fn new(manners: Manners, chance: Rng) -> Self {
        Self {
            manners,
            cut: Default::default(),
            blind: Default::default(),
            transmit_dead: Default::default(),
            receive_dead: Default::default(),
            link_down: Default::default(),
            gateway_away: Default::default(),
            far: Default::default(),
            lossy: Default::default(),
            slow: Default::default(),
            extra: Vec::new(),
            drops: Vec::new(),
            chance,
        }
    }

    /// Cuts the segment between these nodes and all others, or joins it. The gateway and most
    /// clients are with the others.
    pub fn cut_segment(&mut self, nodes: Nodes, on: bool) {
        for node in each(nodes) {
            count(&mut self.far[node], on);
        }
        for one in 0..MOST_NODES {
            for other in 0..MOST_NODES {
                if has(nodes, one) != has(nodes, other) {
                    count(&mut self.cut[one][other], on);
                }
            }
        }
    }

    /// Loses all that `from` send to `to` on a path, or no more.
    pub fn blind(&mut self, from: Nodes, to: Nodes, path: Path, on: bool) {
        for one in each(from) {
            for other in each(to).filter(|other| *other != one) {
                count(&mut self.blind[index(path)][one][other], on);
            }
        }
    }

    /// What a node sends on the segment is lost.
    pub fn kill_transmission(&mut self, node: usize, on: bool) {
        count(&mut self.transmit_dead[node], on);
    }

    /// What a node should hear on the segment is lost.
    pub fn kill_reception(&mut self, node: usize, on: bool) {
        count(&mut self.receive_dead[node], on);
    }

    /// A node's link to the segment is down, and its kernel knows.
    pub fn take_link_down(&mut self, node: usize, on: bool) {
        count(&mut self.link_down[node], on);
    }

    /// The gateway does not answer these.
    pub fn take_gateway_away(&mut self, nodes: Nodes, on: bool) {
        for node in each(nodes) {
            count(&mut self.gateway_away[node], on);
        }
    }

    /// Loses more of what these send and should hear: so many of a thousand.
    pub fn lose(&mut self, nodes: Nodes, thousandths: u16, on: bool) {
        for node in each(nodes) {
            let lossy = &mut self.lossy[node];
            *lossy = if on {
                *lossy + thousandths
            } else {
                lossy.saturating_sub(thousandths)
            };
        }
    }

    /// Delays what these send and should hear by up to so much.
    pub fn slow_down(&mut self, nodes: Nodes, delay: Instant, on: bool) {
        for node in each(nodes) {
            let slow = &mut self.slow[node];
            *slow = if on {
                *slow + delay
            } else {
                slow.saturating_sub(delay)
            };
        }
    }

    /// How late a message of any node may be.
    #[must_use]
    pub fn slowness(&self) -> Instant {
        self.slow.iter().copied().max().unwrap_or(0)
    }

    /// Delays all between two nodes by exactly this; zero: no more.
    pub fn delay(&mut self, from: usize, to: usize, path: Path, delay: Instant) {
        self.extra
            .retain(|extra| (extra.0, extra.1, extra.2) != (from, to, path));
        if delay > 0 {
            self.extra.push((from, to, path, delay));
        }
    }

    /// Loses messages of one kind between these, or no more.
    pub fn drop_kind(&mut self, from: Nodes, to: Nodes, kind: Kind, on: bool) {
        self.drops.retain(|drop| *drop != (from, to, kind));
        if on {
            self.drops.push((from, to, kind));
        }
    }

    /// Whether messages of this kind are lost between two.
    #[must_use]
    pub fn drops(&self, from: usize, to: usize, body: &Body) -> bool {
        let mut drops = self.drops.iter();
        drops.any(|(these, those, kind)| has(*these, from) && has(*those, to) && kind.is(body))
    }

    /// Whether a node's link is up, as its kernel sees it.
    #[must_use]
    pub const fn link_is_up(&self, node: usize) -> bool {
        self.link_down[node] == 0
    }

    /// Whether the segment is whole between two nodes, whatever they themselves can do.
    #[must_use]
    pub const fn is_whole(&self, one: usize, other: usize) -> bool {
        self.cut[one][other] == 0
    }

    /// Whether clients of its part of the segment hear a node.
    #[must_use]
    pub const fn is_heard(&self, node: usize) -> bool {
        self.transmit_dead[node] == 0 && self.link_down[node] == 0
    }

    /// Whether a node hears its part of the segment.
    #[must_use]
    pub const fn hears(&self, node: usize) -> bool {
        self.receive_dead[node] == 0 && self.link_down[node] == 0
    }

    /// Whether the gateway answers a node.
    #[must_use]
    pub const fn gateway_answers(&self, node: usize) -> bool {
        self.gateway_away[node] == 0
            && !self.is_far(node)
            && self.is_heard(node)
            && self.hears(node)
    }

    /// Whether the segment is cut between a node and the gateway and most clients.
    #[must_use]
    pub const fn is_far(&self, node: usize) -> bool {
        self.far[node] > 0
    }

    /// Whether what one says reaches the other on a path, but for chance.
    #[must_use]
    pub fn reaches(&self, from: usize, to: usize, path: Path) -> bool {
        if self.blind[index(path)][from][to] > 0 {
            return false;
        }
        match path {
            Path::Segment => self.is_whole(from, to) && self.is_heard(from) && self.hears(to),
            Path::NodeNetwork => true,
        }
    }

    /// Whether two hear each other well on a path: little is lost, and all is in time.
    #[must_use]
    pub fn is_good(&self, one: usize, other: usize, path: Path) -> bool {
        let quiet = |node: usize| self.lossy[node] == 0 && self.slow[node] == 0;
        let slowed = |extra: &(usize, usize, Path, Instant)| {
            extra.2 == path && [(one, other), (other, one)].contains(&(extra.0, extra.1))
        };
        self.reaches(one, other, path)
            && self.reaches(other, one, path)
            && quiet(one)
            && quiet(other)
            && !self.extra.iter().any(slowed)
            && !self.drops.iter().any(|(from, to, _)| {
                (has(*from, one) && has(*to, other)) || (has(*from, other) && has(*to, one))
            })
    }

    /// What becomes of a message that is sent now.
    pub fn send(&mut self, from: usize, to: usize, path: Path, now: Instant) -> Arrivals {
        if !self.reaches(from, to, path) {
            return [None, None];
        }
        let loss = self.manners.loss + self.lossy[from] + self.lossy[to];
        if loss > 0 && self.chance.u16(0..1_000) < loss {
            return [None, None];
        }
        let first = now + self.latency(from, to, path);
        let twice = self.manners.odd > 0 && self.chance.u16(0..10_000) < self.manners.odd;
        let second = twice.then(|| first + self.latency(from, to, path));
        [Some(first), second]
    }

    fn latency(&mut self, from: usize, to: usize, path: Path) -> Instant {
        let Manners {
            least, most, odd, ..
        } = self.manners;
        let mut latency = if least < most {
            self.chance.u64(least..most)
        } else {
            least
        };
        if odd > 0 && self.chance.u16(0..10_000) < odd {
            latency += self.chance.u64(0..20 * MILLISECOND);
        }
        let slow = self.slow[from].max(self.slow[to]);
        if slow > 0 {
            latency += self.chance.u64(0..slow);
        }
        for extra in &self.extra {
            if (extra.0, extra.1, extra.2) == (from, to, path) {
                latency += extra.3;
            }
        }
        latency
    }
}
