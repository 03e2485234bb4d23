//! Which listeners led to which members, and when: so that it can be told for how long one did not.
//! A cloud records what each of its load balancers serves after every write.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// The enabled members behind each listener: `tcp/80` to `10.0.0.1:30080`.
pub type Served = BTreeMap<String, BTreeSet<String>>;

/// What a load balancer served from a moment on.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Since when.
    pub at: Instant,
    /// How many writes there had been on the load balancer by then.
    pub writes: u64,
    /// What it served.
    pub served: Served,
}

/// What a listener lacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// There was no such listener.
    Listener,
    /// There was no enabled member behind it.
    Member,
}

/// A time during which a listener that had served did not.
#[derive(Clone, Debug)]
pub struct Outage {
    /// `tcp/80`.
    pub listener: String,
    /// What it lacked at first.
    pub lack: Lack,
    /// When it began.
    pub since: Instant,
    /// How long it lasted; up to now if it is not over.
    pub lasted: Duration,
    /// How many writes it took to end it; those since its begin if it is not over.
    pub writes: u64,
    /// Whether it served again. A port that is given up for good never does.
    pub over: bool,
}

/// What a load balancer served over time.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// One entry for each time that something became different.
    pub moments: Vec<Moment>,
    /// How many writes there have been on the load balancer and its parts, by hand or by the API.
    pub writes: u64,
}

impl Traffic {
    /// What is served now.
    pub fn now(&self) -> Served {
        let last = self.moments.last();
        last.map(|moment| moment.served.clone()).unwrap_or_default()
    }

    /// All outages of all listeners, also those that are not over.
    pub fn outages(&self) -> Vec<Outage> {
        let all = self.moments.iter().flat_map(|moment| moment.served.keys());
        let all: BTreeSet<&String> = all.collect();
        let outages = all.into_iter().flat_map(|listener| {
            self.gaps(listener, |served| match served.get(listener) {
                None => Some(Lack::Listener),
                Some(members) => members.is_empty().then_some(Lack::Member),
            })
        });
        outages.collect()
    }

    /// The times during which no listener at all led to a member.
    pub fn dark(&self) -> Vec<Outage> {
        self.gaps("any", |served| {
            let leads = served.values().any(|members| !members.is_empty());
            let lack = if served.is_empty() {
                Lack::Listener
            } else {
                Lack::Member
            };
            (!leads).then_some(lack)
        })
    }

    fn gaps(&self, listener: &str, lacks: impl Fn(&Served) -> Option<Lack>) -> Vec<Outage> {
        let (mut gaps, mut open, mut has_served) = (Vec::new(), None, false);
        let gap = |(begin, lack): (&Moment, Lack), at: Instant, writes: u64, over| Outage {
            listener: listener.to_owned(),
            lack,
            since: begin.at,
            lasted: at.duration_since(begin.at),
            writes: writes - begin.writes,
            over,
        };
        for moment in &self.moments {
            match (lacks(&moment.served), open.take()) {
                (None, begin) => {
                    has_served = true;
                    gaps.extend(begin.map(|begin| gap(begin, moment.at, moment.writes, true)));
                }
                (Some(_), Some(begin)) => open = Some(begin),
                (Some(lack), None) => open = has_served.then_some((moment, lack)),
            }
        }
        gaps.extend(open.map(|begin| gap(begin, Instant::now(), self.writes, false)));
        gaps
    }
}

/// What all load balancers served over time.
#[derive(Default)]
pub(crate) struct History(HashMap<String, (String, Traffic)>);

impl History {
    /// There was a write, by hand or by the API, on the load balancer of this ID, which is called so, if it is
    /// there, and serves this now.
    pub(crate) fn record(&mut self, id: &str, name: Option<&str>, served: Served) {
        let (known, traffic) = self.0.entry(id.to_owned()).or_default();
        if let Some(name) = name {
            name.clone_into(known);
        }
        traffic.writes += 1;
        if traffic
            .moments
            .last()
            .is_none_or(|last| last.served != served)
        {
            traffic.moments.push(Moment {
                at: Instant::now(),
                writes: traffic.writes,
                served,
            });
        }
    }

    /// What the load balancer of this ID served last.
    pub(crate) fn now(&self, id: &str) -> Option<&Served> {
        let (_, traffic) = self.0.get(id)?;
        traffic.moments.last().map(|moment| &moment.served)
    }

    /// What the load balancer of this name, or of this ID, served; by its last name if it is gone.
    pub(crate) fn of(&self, name: &str) -> Option<Traffic> {
        let by_name = || self.0.values().find(|(known, _)| known == name);
        let found = self.0.get(name).or_else(by_name);
        found.map(|(_, traffic)| traffic.clone())
    }

    /// The load balancers that there are or were, with the names that they had last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Traffic)> {
        let all = self.0.values();
        all.map(|(name, traffic)| (name.as_str(), traffic))
    }
}
