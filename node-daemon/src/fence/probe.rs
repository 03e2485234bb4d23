//! Tries, by dry run, what the policies must refuse.
//!
//! A dry run goes through admission like any request, and changes nothing. A refusal counts only if
//! it is the policy's own: the API server names the policy in it. Without the right to patch Nodes,
//! RBAC would refuse as well, and that says nothing about admission.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use mooring_common::k8s::{ApiFailure, classify};
use mooring_common::names::policies;
use serde_json::json;
use tokio::time::timeout;

use super::verdict::Answer;

/// How long one answer may take.
const LIMIT: Duration = Duration::from_secs(10);

/// A label that no daemon may set. It never gets onto the Node.
const LABEL: &str = "mooring.dev/fence-test";
/// A Lease that is no daemon's. It is never made.
const LEASE: &str = "mooring-fence-test";

/// Why the own Node says nothing: there is none yet.
pub const UNREGISTERED: &str = "the Node is not registered yet";

/// Asks the API server.
pub struct Prober {
    node_name: String,
    nodes: Api<Node>,
    leases: Option<Api<Lease>>,
}

impl Prober {
    /// Asks as whoever `client` is.
    #[must_use]
    pub fn new(client: Client, node_name: &str, lease_namespace: Option<&str>) -> Self {
        let leases = lease_namespace.map(|namespace| Api::namespaced(client.clone(), namespace));
        Self {
            node_name: node_name.to_owned(),
            nodes: Api::all(client),
            leases,
        }
    }

    /// The answers to all probes.
    pub async fn all(&self) -> Vec<Answer> {
        let mut answers = vec![self.node().await];
        if let Some(leases) = &self.leases {
            answers.push(lease(leases).await);
        }
        answers
    }

    /// The own Node is the only one whose name is known. To set a label on it that is not the
    /// daemon's to set is refused by the policy that also refuses everything on other Nodes.
    async fn node(&self) -> Answer {
        let params = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({ "metadata": { "labels": { LABEL: "1" } } }));
        let request = self.nodes.patch(&self.node_name, &params, &patch);
        let act = "labelling a Node as it likes";
        read(timeout(LIMIT, request).await, policies::OWN_NODE, act)
    }
}

async fn lease(leases: &Api<Lease>) -> Answer {
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let mut lease = Lease::default();
    lease.metadata.name = Some(LEASE.to_owned());
    let request = leases.create(&params, &lease);
    let act = "making a Lease that is not its own";
    read(timeout(LIMIT, request).await, policies::OWN_LEASE, act)
}

fn read<T, E>(answer: Result<kube::Result<T>, E>, policy: &str, act: &str) -> Answer {
    let error = match answer {
        Ok(Ok(_)) => return Answer::Allowed(act.to_owned()),
        Ok(Err(error)) => error,
        Err(_) => {
            let fault = format!("the API server did not answer within {LIMIT:?}");
            return Answer::Unknown(fault);
        }
    };
    match &error {
        kube::Error::Api(status) if names(&status.message, policy) => Answer::Refused,
        error if classify(error) == ApiFailure::NotFound => {
            Answer::Unknown(UNREGISTERED.to_owned())
        }
        error => Answer::Unknown(format!("{policy} was not heard of: {error}")),
    }
}

/// Whether a refusal is this policy's: `ValidatingAdmissionPolicy '<name>' with binding …`.
fn names(message: &str, policy: &str) -> bool {
    message.contains(&format!("ValidatingAdmissionPolicy '{policy}'"))
}
