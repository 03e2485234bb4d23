//! What happened in a simulation, for people to read.

use std::fmt;

use mooring_node::protocol::{Body, Key, Message, NodeId};

use super::clock::{Instant, MICROSECOND, SECOND};

/// The names that traces use for nodes and keys: n1, n2, … and k1, k2, …
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The nodes, by number.
    pub nodes: Vec<NodeId>,
    /// The keys, by number.
    pub keys: Vec<Key>,
}

impl Names {
    /// Replaces the numbers of nodes and keys in a text by their names.
    #[must_use]
    pub fn readable(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (number, node) in self.nodes.iter().enumerate() {
            text = text.replace(&format!("NodeId({})", node.0), &format!("n{}", number + 1));
        }
        for (number, key) in self.keys.iter().enumerate() {
            text = text.replace(&format!("Key({})", key.0), &format!("k{}", number + 1));
        }
        text
    }
}

/// What happened, line by line.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    lines: Vec<(Instant, String)>,
    /// Whether each heartbeat is told, too.
    pub verbose: bool,
}

impl Trace {
    /// Adds a line.
    pub fn add(&mut self, at: Instant, line: String) {
        self.lines.push((at, line));
    }

    /// Whether a message is told of.
    #[must_use]
    pub const fn tells(&self, message: &Message) -> bool {
        self.verbose || !matches!(message.body, Body::Heartbeat(_))
    }

    /// The lines of the last so much time before `until`.
    #[must_use]
    pub fn extract(&self, since: Instant, until: Instant) -> String {
        let lines = self.lines.iter();
        let within = lines.filter(|(at, _)| (since..=until).contains(at));
        within
            .map(|(at, line)| format!("{} {line}\n", Stamp(*at)))
            .collect()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.extract(0, Instant::MAX))
    }
}

/// An instant in seconds, with six digits behind the point.
#[derive(Clone, Copy, Debug)]
pub struct Stamp(pub Instant);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest) = (self.0 / SECOND, self.0 % SECOND);
        write!(f, "{seconds:>4}.{:06}", rest / MICROSECOND)
    }
}
