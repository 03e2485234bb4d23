//! What a daemon knows of its segments, kept where it outlives the process: so that a daemon that is
//! started while the API server is away serves all the same.
//!
//! It lies on a file system in memory, and so does not outlive the machine's start.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::segments::{LastInterfaces, attachment, groups};
use crate::cluster::state_dir;
use crate::protocol::{Key, View, Weight};
use crate::responder::{DesiredSegment, DesiredSegments};
use crate::wire::links::Link;

/// The file's name in the folder of its Node.
const NAME: &str = "segments.json";
/// The version of what is in it. Another is not read.
const VERSION: u32 = 2;

/// What is known of all segments.
///
/// There is such a file only if its daemon was allowed to write and announce: see [`crate::fence`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    version: u32,
    /// The Node that it was known on.
    node: String,
    /// Whether admission policies kept the daemon to its own Node, or it was told not to ask.
    may_write: bool,
    segments: BTreeMap<String, Known>,
    /// The interfaces that segments were on.
    #[serde(rename = "homes")]
    last_interfaces: LastInterfaces,
}

/// What is known of one segment. What is found out without the API server is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    /// `metadata.uid` of the L2Network.
    uid: String,
    /// The interface that it is on; `None`: the Node is a witness.
    interface: Option<String>,
    view: View,
    addresses: BTreeMap<Key, BTreeMap<IpAddr, Option<IpAddr>>>,
    gateways: BTreeSet<IpAddr>,
    #[serde(default)]
    tells_routers: bool,
    own_addresses: Vec<IpAddr>,
    node_address: Option<IpAddr>,
    draining: bool,
    weight: Weight,
    zone: u32,
    survive_via_api: bool,
    #[serde(default)]
    kernel_answers: bool,
    #[serde(default = "by_default")]
    probes_addresses: bool,
    #[serde(default)]
    keep_connections: Duration,
}

/// What the files of earlier versions do not say.
const fn by_default() -> bool {
    true
}

impl State {
    /// What is worth keeping of these segments, each with the interface that it is about.
    #[must_use]
    pub fn of(
        node: &str,
        desired: &DesiredSegments,
        interfaces: &BTreeMap<String, String>,
        last_interfaces: &LastInterfaces,
    ) -> Self {
        let segments = desired.iter().filter_map(|(name, desired)| {
            let interface = interfaces.get(name).cloned();
            if interface.is_none() && !desired.witness {
                return None;
            }
            let known = Known {
                uid: desired.uid.clone(),
                interface,
                view: desired.view.clone(),
                addresses: desired.addresses.clone(),
                gateways: desired.gateways.clone(),
                tells_routers: desired.tells_routers,
                own_addresses: desired.own_addresses.clone(),
                node_address: desired.node_address,
                draining: desired.draining,
                weight: desired.weight,
                zone: desired.zone,
                survive_via_api: desired.survive_via_api,
                kernel_answers: desired.kernel_answers,
                probes_addresses: desired.probes_addresses,
                keep_connections: desired.keep_connections,
            };
            Some((name.clone(), known))
        });
        Self {
            version: VERSION,
            node: node.to_owned(),
            may_write: true,
            segments: segments.collect(),
            last_interfaces: last_interfaces.clone(),
        }
    }

    /// The interfaces that segments were on.
    #[must_use]
    pub fn last_interfaces(self) -> LastInterfaces {
        self.last_interfaces
    }

    /// The segments that follow from what was known, with the interfaces as they are now.
    #[must_use]
    pub fn desired(
        &self,
        links: &[Link],
        service_proxy_works: bool,
        ending: bool,
    ) -> DesiredSegments {
        let desired = |known: &Known| {
            let link = known.interface.as_ref();
            let link = link.and_then(|name| links.iter().find(|link| link.name == *name));
            let service_addresses = known.addresses.values().flat_map(BTreeMap::keys);
            DesiredSegment {
                uid: known.uid.clone(),
                attachment: link.and_then(attachment),
                witness: known.interface.is_none(),
                view: known.view.clone(),
                groups: groups(service_addresses.copied()),
                addresses: known.addresses.clone(),
                gateways: known.gateways.clone(),
                tells_routers: known.tells_routers,
                draining: known.draining,
                ending,
                service_proxy_works,
                weight: known.weight,
                own_addresses: known.own_addresses.clone(),
                node_address: known.node_address,
                zone: known.zone,
                survive_via_api: known.survive_via_api,
                kernel_answers: known.kernel_answers,
                probes_addresses: known.probes_addresses,
                keep_connections: known.keep_connections,
            }
        };
        self.segments
            .iter()
            .map(|(name, known)| (name.clone(), Arc::new(desired(known))))
            .collect()
    }
}

/// Reads what the process before left. `None`: nothing that can be gone by.
#[must_use]
pub fn read(folder: &Path, node: &str) -> Option<State> {
    let path = folder.join(NAME);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the state file cannot be read");
            return None;
        }
    };
    match serde_json::from_slice::<State>(&text) {
        Ok(state) if state.version == VERSION && state.node == node && state.may_write => {
            Some(state)
        }
        Ok(_) => {
            tracing::info!(path = %path.display(), "the state file is of another Node or version");
            None
        }
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the state file makes no sense");
            None
        }
    }
}

/// Writes what is known whenever it changes, for as long as the future is polled.
pub async fn keep(folder: PathBuf, mut states: watch::Receiver<Option<Arc<State>>>) {
    let mut fault: Option<String> = None;
    loop {
        let state = states.borrow_and_update().clone();
        if let Some(state) = state {
            let into = folder.clone();
            let written = tokio::task::spawn_blocking(move || write(&into, &state)).await;
            let told = match written {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            if told != fault
                && let Some(error) = &told
            {
                let folder = folder.display();
                tracing::warn!(%folder, %error, "what is known of the segments cannot be kept: a \
                    daemon that is started while the API server is away will announce nothing; \
                    is --state-dir a folder that it may write to?");
            }
            fault = told;
        }
        if states.changed().await.is_err() {
            return;
        }
    }
}

fn write(folder: &Path, state: &State) -> io::Result<()> {
    state_dir::replace(folder, NAME, &serde_json::to_vec(state)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::mac::Mac;
    use crate::protocol::{Candidates, NodeId, VoterSet, Wanted};

    fn link(up: bool) -> Link {
        Link {
            name: "eth0".into(),
            index: 7,
            mac: Some(Mac::new([2, 0, 0, 0, 0, 1])),
            up,
            addresses: Vec::new(),
            default_route: None,
            stack: crate::wire::links::Stack::default(),
        }
    }

    fn desired() -> DesiredSegments {
        let key = Key::of("lan", "192.0.2.17".parse().unwrap());
        let mut desired = DesiredSegment {
            uid: "3f1a".to_owned(),
            attachment: attachment(&link(true)),
            kernel_answers: true,
            tells_routers: true,
            ..DesiredSegment::default()
        };
        desired.addresses.insert(
            key,
            [
                (
                    "192.0.2.17".parse().unwrap(),
                    Some("192.0.2.1".parse().unwrap()),
                ),
                ("2001:db8::17".parse().unwrap(), None),
            ]
            .into(),
        );
        let only = Candidates::Only([NodeId::of("n1")].into());
        desired.view.keys.insert(key, Wanted::alone(key, only));
        desired.view.voters = Some(VoterSet {
            generation: 3,
            voters: [NodeId::of("n1"), NodeId::of("n2")].into(),
            primary: Some(NodeId::of("n1")),
        });
        desired
            .view
            .known
            .insert(NodeId::of("n2"), Default::default());
        desired.groups = groups(["2001:db8::17".parse().unwrap()].into_iter());
        let witness = DesiredSegment {
            witness: true,
            ..DesiredSegment::default()
        };
        [
            ("lan".to_owned(), Arc::new(desired)),
            ("far".to_owned(), Arc::new(witness)),
        ]
        .into()
    }

    fn state() -> State {
        let interfaces = [("lan".to_owned(), "eth0".to_owned())].into();
        let last_interfaces = [("lan".to_owned(), Some("eth0".to_owned()))].into();
        State::of("n1", &desired(), &interfaces, &last_interfaces)
    }

    #[test]
    fn reads_back_what_it_writes() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("n1");
        assert_eq!(read(&folder, "n1"), None);
        write(&folder, &state()).unwrap();
        let found = read(&folder, "n1").unwrap();
        assert_eq!(found.desired(&[link(true)], true, false), desired());
        let last_interface = found.last_interfaces().remove("lan").flatten();
        assert_eq!(last_interface.as_deref(), Some("eth0"));
        assert_eq!(read(&folder, "n2"), None, "it is another Node's");
    }

    #[test]
    fn looks_interfaces_up_by_name() {
        let down = state().desired(&[link(false)], true, false);
        assert_eq!(down["lan"].attachment, None);
        assert!(!down["lan"].witness && down["far"].witness);
        assert_eq!(state().desired(&[], true, false)["lan"].attachment, None);
    }

    #[test]
    fn ignores_corrupt_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(NAME), "{\"version\":").unwrap();
        assert_eq!(read(folder.path(), "n1"), None);
    }
}
