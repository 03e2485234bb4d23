//! What the Nodes of a segment say, summed up: who speaks for which address, and what a person should
//! know of the whole. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use mooring_common::l2_network::{L2NetworkStatus, SegmentNode, SpokenFor};
use mooring_common::names::{reasons, segment_conditions, segment_notices, segment_reasons};

/// How many addresses are told in one line.
const MOST_TOLD: usize = 20;
/// How many Nodes are named in one message.
const MOST_NAMED: usize = 5;

/// A condition besides `Ready`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Its type.
    pub type_: &'static str,
    /// `True` or `False`.
    pub status: &'static str,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// Whether somebody should do something about it.
    pub is_trouble: bool,
}

/// What the Nodes say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Who speaks for which address, since when and why; `None`: nobody for any.
    pub speakers: Option<String>,
    /// Conditions; none as long as no Node says anything.
    pub facts: Vec<Fact>,
}

impl Summary {
    /// Something else is known than what the Nodes say.
    pub(super) fn replace(&mut self, fact: &Fact) {
        for known in self.facts.iter_mut().filter(|k| k.type_ == fact.type_) {
            known.clone_from(fact);
        }
    }
}

/// Who votes, and what they say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quorum {
    /// Their names.
    pub voters: Vec<String>,
    /// Of two, the one that may go on alone.
    primary: Option<String>,
    /// Who says of itself that it hears no majority of them.
    lost: Vec<String>,
    /// How many Nodes say anything.
    members: usize,
    /// Whether it is to be found out if they live.
    pub is_doubted: bool,
}

impl Quorum {
    /// Takes what is needed.
    #[must_use]
    pub fn read(status: &L2NetworkStatus) -> Self {
        let members: Vec<&SegmentNode> = status.nodes.iter().collect();
        let lost = saying(&members, segment_notices::QUORUM_LOST);
        let voters = status.voters.as_ref();
        let known = status.conditions.iter();
        let mut known = known.filter(|known| known.type_ == segment_conditions::QUORUM);
        Self {
            voters: voters.map(|set| set.nodes.clone()).unwrap_or_default(),
            primary: voters.and_then(|set| set.primary.clone()),
            is_doubted: !lost.is_empty()
                || !status.approvals.is_empty()
                || known.any(|known| known.status == "False"),
            lost: lost.into_iter().map(str::to_owned).collect(),
            members: members.len(),
        }
    }

    /// Whether a majority of the voters hear each other. It does not where half of them or more say
    /// of themselves that they hear none, or stand still: no single Node can make it seem so.
    pub(super) fn fact(&self, still: &BTreeSet<String>) -> Fact {
        let is_silent = |voter: &&String| self.lost.contains(voter) || still.contains(*voter);
        let silent: Vec<&str> = self
            .voters
            .iter()
            .filter(is_silent)
            .map(String::as_str)
            .collect();
        let voters = self.voters.len();
        // Of two, the primary goes on alone.
        let alone = self.primary.as_ref().is_some_and(|node| !is_silent(&node));
        let none_votes = voters == 0 && !self.lost.is_empty();
        let is_lost = if none_votes {
            self.lost.len() * 2 >= self.members
        } else {
            voters > 0 && silent.len() * 2 >= voters && !alone
        };
        let (status, reason, message) = if is_lost {
            let all_still = self.voters.iter().all(|voter| still.contains(voter));
            let reason = if voters > 0 && all_still {
                reasons::NO_VOTER_LEFT
            } else {
                reasons::QUORUM_LOST
            };
            let message = format!(
                "of the {voters} voters, {} hear no majority or do not renew their Leases: what was \
                 spoken for is silent; look at these nodes and at the network between them",
                named(&silent)
            );
            ("False", reason, message)
        } else {
            let (reason, message) = match voters {
                0 => ("NoVoters", "no node votes yet".to_owned()),
                1 => (
                    "OneVoter",
                    "one node is on the segment: there is no fail-over".to_owned(),
                ),
                2 => (
                    reasons::TWO_VOTERS,
                    "two nodes vote, so that a fail-over takes up to two seconds and needs the API \
                     server; with a third node, be it one that is not on the segment, it needs \
                     neither"
                        .to_owned(),
                ),
                _ => (
                    reasons::QUORUM_HELD,
                    format!("a majority of the {voters} voters hear each other"),
                ),
            };
            ("True", reason, message)
        };
        Fact {
            type_: segment_conditions::QUORUM,
            status,
            reason: reason.to_owned(),
            message,
            is_trouble: status == "False" || reason == reasons::TWO_VOTERS,
        }
    }
}

/// Sums up what the Nodes say.
#[must_use]
pub(super) fn sum_up(status: &L2NetworkStatus) -> Summary {
    let members: Vec<&SegmentNode> = status.nodes.iter().collect();
    Summary {
        speakers: speakers(&members),
        facts: if members.is_empty() {
            Vec::new()
        } else {
            vec![
                Quorum::read(status).fact(&BTreeSet::new()),
                signed(&members),
                filtered(&members),
            ]
        },
    }
}

/// Whose an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    ControlPlane,
    Service,
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ControlPlane => " (control plane)",
            Self::Service => "",
        })
    }
}

/// Of several that say they speak for an address, the last that began counts: a Node that died could
/// not take its word back. The control plane's address comes first.
fn speakers(members: &[&SegmentNode]) -> Option<String> {
    let mut by_address: BTreeMap<(Whose, IpAddr), (&str, &SpokenFor)> = BTreeMap::new();
    for member in members {
        let own = member.control_plane.iter().flat_map(|own| &own.addresses);
        let own = own.map(|told| (Whose::ControlPlane, told));
        let of_services = member.addresses.iter().map(|told| (Whose::Service, told));
        for (whose, told) in own.chain(of_services) {
            let Ok(address) = told.address.parse() else {
                continue;
            };
            let known = by_address.get(&(whose, address));
            if known.is_none_or(|(_, known)| known.since < told.since) {
                by_address.insert((whose, address), (&member.name, told));
            }
        }
    }
    let mut told: Vec<String> = by_address
        .iter()
        .take(MOST_TOLD)
        .map(|((whose, address), (node, told))| {
            let since = told.since.0.strftime("%Y-%m-%dT%H:%M:%SZ");
            format!("{address}{whose} {node} since {since} ({})", told.reason)
        })
        .collect();
    let others = by_address.len().saturating_sub(MOST_TOLD);
    if others > 0 {
        told.push(format!("and {others} more"));
    }
    (!told.is_empty()).then(|| told.join(", "))
}

fn saying<'a>(members: &[&'a SegmentNode], notice: &str) -> Vec<&'a str> {
    let say = |member: &&&SegmentNode| member.notices.iter().any(|said| said == notice);
    let names = members.iter().filter(say);
    names.map(|member| member.name.as_str()).collect()
}

fn named(nodes: &[&str]) -> String {
    let first: Vec<&str> = nodes.iter().take(MOST_NAMED).copied().collect();
    let others = nodes.len().saturating_sub(MOST_NAMED);
    if others > 0 {
        format!("{} and {others} more", first.join(", "))
    } else {
        first.join(", ")
    }
}

/// Whether all daemons sign. Those that wait for a key are silent; others may be permitted to go
/// without, and that is worse.
fn signed(members: &[&SegmentNode]) -> Fact {
    let unsigned = saying(members, segment_notices::HEARTBEATS_UNSIGNED);
    let waits = |name: &&&str| {
        let mut all = members.iter();
        all.any(|member| {
            member.name == **name && member.reason == segment_reasons::NO_HEARTBEAT_KEY
        })
    };
    let silent: Vec<&str> = unsigned.iter().filter(waits).copied().collect();
    let is_trouble = !unsigned.is_empty();
    let (status, reason, message) = if silent.len() < unsigned.len() {
        let message = format!(
            "{} have no key to sign heartbeats with and take part all the same, so that any machine on \
             the segment could have a say in who speaks; make the Secret that the chart's values name, \
             and take --allow-unsigned-heartbeats away",
            named(&unsigned)
        );
        ("False", reasons::HEARTBEATS_UNSIGNED, message)
    } else if is_trouble {
        let message = format!(
            "{} have no key to sign heartbeats with and are silent until they have one; the kubelet takes \
             up to two minutes to show them a Secret that was just made; if it takes longer, see the log \
             of mooring-central, or make the Secret that the chart's values name",
            named(&silent)
        );
        ("False", reasons::HEARTBEATS_UNSIGNED, message)
    } else {
        (
            "True",
            "Signed",
            "all daemons sign their heartbeats".to_owned(),
        )
    };
    Fact {
        type_: segment_conditions::HEARTBEATS_SIGNED,
        status,
        reason: reason.to_owned(),
        message,
        is_trouble,
    }
}

fn filtered(members: &[&SegmentNode]) -> Fact {
    let filtered = saying(members, segment_notices::SEGMENT_FILTERED);
    let is_trouble = !filtered.is_empty();
    let (status, reason, message) = if is_trouble {
        let message = format!(
            "{} hear no other daemon on the segment itself, although others live: a switch keeps \
             nodes apart (a private VLAN, or isolated ports), or filters EtherType 0x88B5; until it \
             lets that through, a segment that fails is noticed late",
            named(&filtered)
        );
        ("True", reasons::SEGMENT_FILTERED, message)
    } else {
        (
            "False",
            "Heard",
            "daemons hear each other on the segment".to_owned(),
        )
    };
    Fact {
        type_: segment_conditions::SEGMENT_FILTERED,
        status,
        reason: reason.to_owned(),
        message,
        is_trouble,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooring_common::l2_network::Voters;
    use serde_json::json;

    fn status(nodes: serde_json::Value, voters: usize) -> L2NetworkStatus {
        L2NetworkStatus {
            nodes: serde_json::from_value(nodes).unwrap(),
            voters: (voters > 0).then(|| Voters {
                generation: 1,
                nodes: (0..voters).map(|i| format!("n{i}")).collect(),
                primary: None,
            }),
            ..L2NetworkStatus::default()
        }
    }

    fn fact(status: &L2NetworkStatus, type_: &str) -> Fact {
        let facts = sum_up(status).facts;
        facts.into_iter().find(|fact| fact.type_ == type_).unwrap()
    }

    #[test]
    fn last_to_begin_is_the_speaker() {
        let spoken = |since: &str, reason: &str| json!([{"address": "192.0.2.10", "since": since, "reason": reason}]);
        let nodes = json!([
            {"name": "dead", "ready": true, "reason": "Ready",
             "addresses": spoken("2026-11-22T04:00:00Z", "Unclaimed")},
            {"name": "n1", "ready": true, "reason": "Ready",
             "addresses": spoken("2026-11-22T05:00:00Z", "TakenOver")},
        ]);
        assert_eq!(
            sum_up(&status(nodes, 3)).speakers.unwrap(),
            "192.0.2.10 n1 since 2026-11-22T05:00:00Z (TakenOver)"
        );
    }

    /// A Node that dies within the second in which it began: the address was seen with the dead one.
    #[test]
    fn last_to_begin_within_a_second_is_the_speaker() {
        let member = |name: &str, since: &str| {
            json!({"name": name, "ready": true, "reason": "Ready",
            "addresses": [{"address": "192.0.2.10", "since": since, "reason": "TakenOver"}]})
        };
        let nodes = [
            member("n1", "2026-11-25T01:54:26.100000Z"),
            member("n2", "2026-11-25T01:54:26.746703Z"),
        ];
        for order in [[0, 1], [1, 0]] {
            let nodes = json!(order.map(|index: usize| &nodes[index]));
            assert_eq!(
                sum_up(&status(nodes, 3)).speakers.unwrap(),
                "192.0.2.10 n2 since 2026-11-25T01:54:26Z (TakenOver)"
            );
        }
    }

    /// After a crash the dead node still says that it has the address.
    #[test]
    fn speaker_of_control_plane_comes_first() {
        let node = |name: &str, since: &str| {
            json!({"name": name, "ready": true, "reason": "Ready",
            "addresses": [{"address": "192.0.2.10", "since": since, "reason": "TakenOver"}],
            "controlPlane": {"state": "Announcing", "addresses": [
                {"address": "192.0.2.100", "since": since, "reason": "TakenOver"}]}})
        };
        let nodes = json!([
            node("cp1", "2026-11-22T04:00:00Z"),
            node("cp2", "2026-11-22T05:00:00Z"),
        ]);
        assert_eq!(
            sum_up(&status(nodes, 3)).speakers.unwrap(),
            "192.0.2.100 (control plane) cp2 since 2026-11-22T05:00:00Z (TakenOver), \
             192.0.2.10 cp2 since 2026-11-22T05:00:00Z (TakenOver)"
        );
    }

    #[test]
    fn shortens_long_address_lists() {
        let addresses: Vec<_> = (0..50)
            .map(|i| {
                json!({"address": format!("192.0.2.{i}"), "since": "2026-11-22T05:00:00Z",
                       "reason": "Unclaimed"})
            })
            .collect();
        let nodes = json!([{"name": "n".repeat(63), "ready": true, "reason": "Ready",
                            "addresses": addresses}]);
        let told = sum_up(&status(nodes, 3)).speakers.unwrap();
        assert!(told.ends_with(", and 30 more"), "{told}");
        assert!(told.len() < 4096);
    }

    #[test]
    fn reports_nothing_before_first_entry() {
        assert_eq!(sum_up(&L2NetworkStatus::default()), Summary::default());
    }

    #[test]
    fn node_findings_become_conditions() {
        let node = |name: &str, notices: &[&str]| json!({"name": name, "ready": true, "reason": "Ready", "notices": notices});
        let well = status(
            json!([node("n0", &[]), node("n1", &[]), node("n2", &[])]),
            3,
        );
        assert!(sum_up(&well).facts.iter().all(|fact| !fact.is_trouble));
        let two = status(json!([node("a", &[]), node("b", &[])]), 2);
        let quorum = fact(&two, "Quorum");
        assert_eq!(
            (quorum.status, quorum.reason.as_str()),
            ("True", "TwoVoters")
        );
        let one_cut_off = status(
            json!([
                node("n0", &["QuorumLost"]),
                node("n1", &[]),
                node("n2", &[])
            ]),
            3,
        );
        assert_eq!(
            fact(&one_cut_off, "Quorum").status,
            "True",
            "the others go on"
        );
        let lost = status(
            json!([
                node("n0", &["QuorumLost"]),
                node("n1", &["QuorumLost"]),
                node("n2", &[])
            ]),
            3,
        );
        assert_eq!(fact(&lost, "Quorum").status, "False");
        let open = status(
            json!([node("a", &["HeartbeatsUnsigned", "SegmentFiltered"])]),
            3,
        );
        assert_eq!(fact(&open, "HeartbeatsSigned").status, "False");
        assert!(fact(&open, "SegmentFiltered").message.starts_with("a hear"));
    }

    #[test]
    fn stale_voters_are_reported_lost() {
        let node = |name: &str, notices: &[&str]| json!({"name": name, "ready": true, "reason": "Ready", "notices": notices});
        let all = json!([
            node("n0", &["QuorumLost"]),
            node("n1", &[]),
            node("n2", &[])
        ]);
        let mut status = status(all, 3);
        let quorum = Quorum::read(&status);
        assert!(quorum.is_doubted);
        let word = |quorum: &Quorum, still: &[&str]| {
            let still = still.iter().map(ToString::to_string).collect();
            let fact = quorum.fact(&still);
            (fact.status, fact.reason)
        };
        let held = ("True", "QuorumHeld".to_owned());
        let lost = ("False", "QuorumLost".to_owned());
        assert_eq!(word(&quorum, &[]), held, "one may say what it likes");
        assert_eq!(word(&quorum, &["n0"]), held);
        assert_eq!(word(&quorum, &["n2"]), lost);
        let none = ("False", "NoVoterLeft".to_owned());
        assert_eq!(word(&quorum, &["n0", "n1", "n2"]), none);
        status.voters = Some(Voters {
            generation: 2,
            nodes: vec!["n1".to_owned(), "n2".to_owned()],
            primary: Some("n1".to_owned()),
        });
        let two = Quorum::read(&status);
        assert_eq!(word(&two, &["n2"]).0, "True", "the primary goes on alone");
        assert_eq!(word(&two, &["n1"]), lost);
    }

    #[test]
    fn pending_approval_triggers_pass() {
        let mut waits = status(json!([]), 3);
        assert!(!Quorum::read(&waits).is_doubted);
        waits.approvals.insert("n1".to_owned(), Voters::default());
        assert!(Quorum::read(&waits).is_doubted);
    }
}
