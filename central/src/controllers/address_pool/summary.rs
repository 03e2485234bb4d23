//! What the Nodes of a segment say, summed up: who speaks for which address, and what a person should
//! know of the whole. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mooring_common::l2_network::{L2NetworkStatus, SegmentNode, SpokenFor};
use mooring_common::names::{reasons, segment_conditions, segment_notices};

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

/// Sums up what the Nodes say.
#[must_use]
pub(super) fn sum_up(status: &L2NetworkStatus) -> Summary {
    let members: Vec<&SegmentNode> = status.nodes.iter().collect();
    Summary {
        speakers: speakers(&members),
        facts: if members.is_empty() {
            Vec::new()
        } else {
            let voters = status
                .voters
                .as_ref()
                .map_or(0, |voters| voters.nodes.len());
            vec![
                quorum(&members, voters),
                signed(&members),
                filtered(&members),
            ]
        },
    }
}

/// Of several that say they speak for an address, the last that began counts: a Node that died could
/// not take its word back.
fn speakers(members: &[&SegmentNode]) -> Option<String> {
    let mut by_address: BTreeMap<IpAddr, (&str, &SpokenFor)> = BTreeMap::new();
    for member in members {
        for told in &member.addresses {
            let Ok(address) = told.address.parse() else {
                continue;
            };
            let known = by_address.get(&address);
            if known.is_none_or(|(_, known)| known.since < told.since) {
                by_address.insert(address, (&member.name, told));
            }
        }
    }
    let mut told: Vec<String> = by_address
        .iter()
        .take(MOST_TOLD)
        .map(|(address, (node, told))| {
            format!("{address} {node} since {} ({})", told.since.0, told.reason)
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

/// Whether a majority of the voters hear each other: lost where half of the Nodes or more say so.
fn quorum(members: &[&SegmentNode], voters: usize) -> Fact {
    let lost = saying(members, segment_notices::QUORUM_LOST);
    let (status, reason, message) = if !lost.is_empty() && lost.len() * 2 >= members.len() {
        let message = format!(
            "{} hear no majority of the {voters} voters: what they spoke for is silent; look at these \
             nodes and at the network between them",
            named(&lost)
        );
        ("False", reasons::QUORUM_LOST, message)
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
                 server; with a third node, be it one that is not on the segment, it needs neither"
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

fn signed(members: &[&SegmentNode]) -> Fact {
    let unsigned = saying(members, segment_notices::HEARTBEATS_UNSIGNED);
    let is_trouble = !unsigned.is_empty();
    let (status, reason, message) = if is_trouble {
        let message = format!(
            "{} have no secret to sign heartbeats with, so that any machine on the segment could \
             take part in who speaks; make the Secret that the chart's values name",
            named(&unsigned)
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
    fn who_began_last_is_the_speaker() {
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

    #[test]
    fn many_addresses_are_cut_short() {
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
    fn nothing_is_said_before_a_node_has_spoken() {
        assert_eq!(sum_up(&L2NetworkStatus::default()), Summary::default());
    }

    #[test]
    fn what_nodes_notice_becomes_conditions() {
        let node = |name: &str, notices: &[&str]| json!({"name": name, "ready": true, "reason": "Ready", "notices": notices});
        let well = status(json!([node("a", &[]), node("b", &[]), node("c", &[])]), 3);
        assert!(sum_up(&well).facts.iter().all(|fact| !fact.is_trouble));
        let two = status(json!([node("a", &[]), node("b", &[])]), 2);
        let quorum = fact(&two, "Quorum");
        assert_eq!(
            (quorum.status, quorum.reason.as_str()),
            ("True", "TwoVoters")
        );
        let one_cut_off = status(
            json!([node("a", &["QuorumLost"]), node("b", &[]), node("c", &[])]),
            3,
        );
        assert_eq!(
            fact(&one_cut_off, "Quorum").status,
            "True",
            "the others go on"
        );
        let lost = status(
            json!([
                node("a", &["QuorumLost"]),
                node("b", &["QuorumLost"]),
                node("c", &[])
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
}
