//! The API server's audit log as typed records.

use std::collections::HashMap;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Deref;
use std::path::Path;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// What the API server writes down: writes with their body, reads without, secrets never.
pub(super) const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  resources:
  - group: ""
    resources: [secrets, serviceaccounts/token]
- level: Request
  verbs: [create, update, patch, delete, deletecollection]
- level: Metadata
"#;

/// One request to the API server.
#[derive(Clone, Debug)]
pub struct Record {
    /// The API server's own id of the request.
    pub id: String,
    /// `ResponseComplete`, or `ResponseStarted` for a watch that is still open.
    pub stage: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// For example `system:serviceaccount:mooring-system:mooring-node`.
    pub user: String,
    /// Which token it was: two programs of one ServiceAccount differ in it. Empty without a token.
    pub credential: String,
    /// The client's own description of itself.
    pub user_agent: String,
    /// Path and query.
    pub uri: String,
    /// Group of the resource; empty for the core group.
    pub api_group: String,
    /// For example `nodes`; empty for requests such as `/readyz`.
    pub resource: String,
    /// For example `status`; empty if there is none.
    pub subresource: String,
    /// Namespace, empty if there is none.
    pub namespace: String,
    /// Name of the object, empty for lists and often for creations.
    pub name: String,
    /// HTTP status of the answer.
    pub code: u16,
    /// The message of a refusal, otherwise empty.
    pub message: String,
    /// When the request arrived.
    pub received: Timestamp,
    /// When it reached `stage`.
    pub at: Timestamp,
    /// The body of a write.
    pub body: Option<Value>,
}

impl Record {
    /// Whether the request meant to change something, which a dry run does not.
    pub fn is_write(&self) -> bool {
        let is_dry = self.uri.contains("dryRun=All");
        !is_dry
            && matches!(
                self.verb.as_str(),
                "create" | "update" | "patch" | "delete" | "deletecollection"
            )
    }

    /// `patch nodes/status n1: 200`, for messages.
    pub fn summary(&self) -> String {
        let Self {
            verb,
            user,
            resource,
            subresource,
            namespace,
            name,
            code,
            message,
            ..
        } = self;
        let slash = if subresource.is_empty() { "" } else { "/" };
        format!(
            "{verb} {resource}{slash}{subresource} {namespace}/{name} by {user}: {code} {message}"
        )
    }
}

/// Records in the order in which requests were answered. The filters can be chained.
#[derive(Clone, Debug, Default)]
pub struct AuditLog(Vec<Record>);

impl Deref for AuditLog {
    type Target = [Record];
    fn deref(&self) -> &[Record] {
        &self.0
    }
}

impl AuditLog {
    /// Reads the log from this byte on, without the rest of a line that has begun before it: that was half written when
    /// somebody noted where the log ended. A last line that is only half written is left out.
    pub(super) fn read(path: &Path, from: u64) -> Result<Self> {
        let mut bytes = Vec::new();
        match fs::File::open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            opened => {
                let mut file = opened.with_context(|| format!("reading {}", path.display()))?;
                file.seek(SeekFrom::Start(from.saturating_sub(1)))?;
                file.read_to_end(&mut bytes)?;
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        let lines = match from {
            0 => &*text,
            _ => text.split_once('\n').map_or("", |(_, lines)| lines),
        };
        let whole = lines.rfind('\n').map_or("", |end| &lines[..end]);
        let mut records: Vec<Record> = Vec::new();
        for line in whole.lines() {
            let event: Event =
                serde_json::from_str(line).with_context(|| format!("audit line {line}"))?;
            records.push(event.into());
        }
        // A watch has two entries, one at its start and one at its end: keep the later.
        let mut seen = std::collections::HashSet::new();
        records.reverse();
        records.retain(|record| seen.insert(record.id.clone()));
        records.reverse();
        Ok(Self(records))
    }

    /// Keeps what `wanted` approves of.
    #[must_use]
    pub fn filter(&self, wanted: impl Fn(&Record) -> bool) -> Self {
        Self(
            self.0
                .iter()
                .filter(|record| wanted(record))
                .cloned()
                .collect(),
        )
    }

    /// Requests of one user.
    #[must_use]
    pub fn by(&self, user: &str) -> Self {
        self.filter(|record| record.user == user)
    }

    /// Requests of one ServiceAccount.
    #[must_use]
    pub fn by_service_account(&self, namespace: &str, name: &str) -> Self {
        self.by(&format!("system:serviceaccount:{namespace}:{name}"))
    }

    /// Requests with one token, see [`Record::credential`].
    #[must_use]
    pub fn with_credential(&self, credential: &str) -> Self {
        self.filter(|record| record.credential == credential)
    }

    /// Requests about one resource (`nodes`), subresources included.
    #[must_use]
    pub fn of(&self, resource: &str) -> Self {
        self.filter(|record| record.resource == resource)
    }

    /// Requests about objects of this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Self {
        self.filter(|record| record.name == name)
    }

    /// Requests in one namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        self.filter(|record| record.namespace == namespace)
    }

    /// Requests with one verb.
    #[must_use]
    pub fn with_verb(&self, verb: &str) -> Self {
        self.filter(|record| record.verb == verb)
    }

    /// Requests that arrived at or after this time.
    #[must_use]
    pub fn since(&self, start: Timestamp) -> Self {
        self.filter(|record| record.received >= start)
    }

    /// Requests that meant to change something.
    #[must_use]
    pub fn writes(&self) -> Self {
        self.filter(Record::is_write)
    }

    /// The writes of one user.
    #[must_use]
    pub fn writes_by(&self, user: &str) -> Self {
        self.by(user).writes()
    }

    /// Requests that were refused for lack of permission (403), by RBAC or by admission.
    #[must_use]
    pub fn forbidden(&self) -> Self {
        self.filter(|record| record.code == 403)
    }

    /// One line per record, for messages of failed tests.
    pub fn summary(&self) -> String {
        self.0
            .iter()
            .map(Record::summary)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: String,
    verb: String,
    user: User,
    #[serde(default)]
    user_agent: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: Status,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
    request_object: Option<Value>,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
    #[serde(default)]
    extra: HashMap<String, Vec<String>>,
}

/// Where the API server puts a token's own id (KEP-4193).
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
    message: String,
}

impl From<Event> for Record {
    fn from(mut event: Event) -> Self {
        let credentials = event.user.extra.remove(CREDENTIAL).unwrap_or_default();
        Self {
            credential: credentials.into_iter().next().unwrap_or_default(),
            id: event.audit_id,
            stage: event.stage,
            verb: event.verb,
            user: event.user.username,
            user_agent: event.user_agent,
            uri: event.request_uri,
            api_group: event.object_ref.api_group,
            resource: event.object_ref.resource,
            subresource: event.object_ref.subresource,
            namespace: event.object_ref.namespace,
            name: event.object_ref.name,
            code: event.response_status.code,
            message: event.response_status.message,
            received: event.request_received_timestamp,
            at: event.stage_timestamp,
            body: event.request_object,
        }
    }
}
