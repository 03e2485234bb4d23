//! The API server's audit log of a large cluster: read as it grows, and only what is counted is kept.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use jiff::Timestamp;
use kube::Client;
use serde::Deserialize;
use uuid::Uuid;

use mooring_test_cluster::shipped::{CENTRAL_USER, NODE_USER};
use mooring_test_support::wait::try_eventually;

/// What Mooring's programs ask, and who registers; never a body. All else would be many times more.
pub(super) const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts:mooring-system"]
- level: Metadata
  verbs: [create]
  resources: [{group: "", resources: [nodes]}]
- level: Metadata
  nonResourceURLs: [/version]
- level: None
"#;

/// How long the log may take to show what was answered.
const CATCHES_UP: Duration = Duration::from_secs(60);
/// Where the API server puts the Node of a Pod's token.
const TOKENS_NODE: &str = "authentication.kubernetes.io/node-name";

/// Who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Central,
    Daemon,
    Other,
}

/// One request.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) who: Who,
    /// The Node of a daemon's Pod, else empty.
    pub(super) token_of: String,
    pub(super) verb: String,
    pub(super) resource: String,
    pub(super) subresource: String,
    pub(super) name: String,
    pub(super) uri: String,
    pub(super) code: u16,
    pub(super) received: Timestamp,
    pub(super) at: Timestamp,
}

impl Entry {
    /// Whether it meant to change something, which a dry run does not.
    pub(super) fn is_write(&self) -> bool {
        let changes = ["create", "update", "patch", "delete", "deletecollection"];
        changes.contains(&self.verb.as_str()) && !self.is_dry()
    }

    fn is_dry(&self) -> bool {
        self.uri.contains("dryRun=All")
    }

    pub(super) fn is_refused(&self) -> bool {
        self.who != Who::Other && self.code == 403 && !self.is_dry()
    }

    /// The write that takes the taint off: taints are not among what the status holds.
    fn initialises(&self) -> bool {
        self.who != Who::Other
            && self.is_write()
            && self.resource == "nodes"
            && self.subresource.is_empty()
            && self.verb == "patch"
            && self.code == 200
    }

    /// Whether a list may grow with the cluster: it is neither of one object nor in pages.
    pub(super) fn is_unbounded_list(&self) -> bool {
        let is_bounded = self.uri.contains("fieldSelector=") || self.uri.contains("limit=");
        self.verb == "list" && !is_bounded
    }

    /// `patch nodes/status n1: 200`, for messages.
    pub(super) fn summary(&self) -> String {
        let Self {
            who,
            verb,
            resource,
            subresource,
            name,
            code,
            ..
        } = self;
        format!("{who:?}: {verb} {resource}/{subresource} {name}: {code}")
    }
}

/// The log, as far as it has been read.
pub(super) struct Audit {
    path: PathBuf,
    read: u64,
    half_a_line: Vec<u8>,
    entries: Vec<Entry>,
}

impl Audit {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self {
            path,
            read: 0,
            half_a_line: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// What has been read so far.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn since(&self, start: Timestamp) -> impl Iterator<Item = &Entry> {
        let is_later = move |entry: &&Entry| entry.received >= start;
        self.entries.iter().filter(is_later)
    }

    /// Reads what has been added.
    pub(super) fn read_on(&mut self) -> Result<()> {
        let mut file = File::open(&self.path).context("opening the audit log")?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut bytes = std::mem::take(&mut self.half_a_line);
        self.read += u64::try_from(file.read_to_end(&mut bytes)?)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        self.half_a_line = bytes.split_off(whole.map_or(0, |end| end + 1));
        for line in bytes.split(|byte| *byte == b'\n') {
            if line.is_empty() {
                continue;
            }
            let event: Event = serde_json::from_slice(line).context("a line of the audit log")?;
            // A watch has a second entry at its end.
            if event.verb != "watch" || event.stage != "ResponseComplete" {
                self.entries.push(event.into());
            }
        }
        Ok(())
    }

    /// Reads on until all is there that was answered before this call: the API server writes an
    /// entry just after its answer.
    pub(super) async fn settle(&mut self, admin: &Client) -> Result<()> {
        let mark = format!("/version?mark={}", Uuid::new_v4());
        admin
            .request_text(http::Request::get(&mark).body(Vec::new())?)
            .await?;
        let from = self.entries.len();
        let caught_up = try_eventually(CATCHES_UP, async || -> Result<bool> {
            self.read_on()?;
            Ok(self.entries[from..].iter().any(|entry| entry.uri == mark))
        });
        match caught_up.await {
            Ok(true) => Ok(()),
            Ok(false) => Box::pin(self.settle(admin)).await,
            Err(reason) => Err(anyhow!("the audit log does not catch up: {reason}")),
        }
    }

    /// How many Nodes have lost their taint.
    pub(super) fn initialised(&self) -> usize {
        let untainted = self.entries.iter().filter(|entry| entry.initialises());
        let names: HashSet<&str> = untainted.map(|entry| entry.name.as_str()).collect();
        names.len()
    }

    /// For each Node when it was registered, and when its taint had gone, by the API server's clock:
    /// the arrival of the one request and the answer to the other.
    pub(super) fn spans(&self) -> HashMap<&str, (Timestamp, Option<Timestamp>)> {
        let mut spans = HashMap::new();
        for entry in &self.entries {
            if entry.resource == "nodes" && entry.verb == "create" && entry.code == 201 {
                spans.insert(entry.name.as_str(), (entry.received, None));
            }
        }
        for entry in self.entries.iter().filter(|entry| entry.initialises()) {
            if let Some((_, untainted)) = spans.get_mut(entry.name.as_str()) {
                untainted.get_or_insert(entry.at);
            }
        }
        spans
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    verb: String,
    user: User,
    #[serde(rename = "requestURI")]
    request_uri: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: Status,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
    #[serde(default)]
    extra: HashMap<String, Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
}

impl From<Event> for Entry {
    fn from(mut event: Event) -> Self {
        let nodes = event.user.extra.remove(TOKENS_NODE).unwrap_or_default();
        Self {
            who: match event.user.username.as_str() {
                CENTRAL_USER => Who::Central,
                NODE_USER => Who::Daemon,
                _ => Who::Other,
            },
            token_of: nodes.into_iter().next().unwrap_or_default(),
            verb: event.verb,
            resource: event.object_ref.resource,
            subresource: event.object_ref.subresource,
            name: event.object_ref.name,
            uri: event.request_uri,
            code: event.response_status.code,
            received: event.request_received_timestamp,
            at: event.stage_timestamp,
        }
    }
}
