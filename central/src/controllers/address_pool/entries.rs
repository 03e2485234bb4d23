//! Entries in `status.nodes` of Nodes that are gone: their daemons cannot take them away any more.

use std::fmt;
use std::sync::Arc;

use kube::Api;
use kube::api::{Patch, PatchParams};
use mooring_common::k8s::{ApiFailure, classify};
use mooring_common::l2_network::L2Network;
use serde_json::{Value, json};

use super::apply::Failure;
use super::observe::Observed;
use super::{Controller, NetworkView};

/// Take away the entries of Nodes that are gone.
#[derive(Clone, Debug)]
pub(super) struct Forget {
    network: Arc<NetworkView>,
    /// Where they are in the list, and whose they are.
    nodes: Vec<(usize, String)>,
}

impl fmt::Display for Forget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.nodes.iter().map(|(_, name)| name.as_str()).collect();
        let names = names.join(", ");
        write!(f, "L2Network {}: take {names} off, gone", self.network.name)
    }
}

/// What is to be forgotten. `exists` says whether there is a Node of this name. Pure.
pub(super) fn forgotten(observed: &[Observed], exists: impl Fn(&str) -> bool) -> Vec<Forget> {
    let of = |network: &Arc<NetworkView>| {
        let nodes: Vec<_> = network
            .entries
            .iter()
            .enumerate()
            .filter(|(_, name)| !exists(name))
            .map(|(place, name)| (place, name.clone()))
            .collect();
        (!nodes.is_empty()).then(|| Forget {
            network: Arc::clone(network),
            nodes,
        })
    };
    observed.iter().filter_map(|one| of(&one.network)).collect()
}

impl Controller {
    pub(super) async fn forget(&self, step: &Forget) -> Result<(), Failure> {
        self.context.leadership.check()?;
        let name = &step.network.name;
        let failure = |source| Failure::Api {
            name: name.clone(),
            source,
        };
        let operations = serde_json::from_value(Value::Array(operations(step)))
            .map_err(|error| failure(kube::Error::SerdeError(error)))?;
        let patch: Patch<()> = Patch::Json(operations);
        let api: Api<L2Network> = Api::all(self.context.client.clone());
        match api
            .patch_status(name, &PatchParams::default(), &patch)
            .await
        {
            Ok(_) => tracing::info!("{step}"),
            Err(error) if classify(&error) == ApiFailure::NotFound => {}
            Err(source) => return Err(failure(source)),
        }
        Ok(())
    }
}

/// The last first, so that no place moves; each only if it is still that Node's.
fn operations(step: &Forget) -> Vec<Value> {
    let mut operations =
        vec![json!({"op": "test", "path": "/metadata/uid", "value": step.network.uid})];
    for (place, name) in step.nodes.iter().rev() {
        let path = format!("/status/nodes/{place}");
        operations.push(json!({"op": "test", "path": format!("{path}/name"), "value": name}));
        operations.push(json!({"op": "remove", "path": path}));
    }
    operations
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooring_common::k8s::Slim;

    fn observed(nodes: &[&str]) -> Observed {
        let nodes: Vec<_> = nodes
            .iter()
            .map(|name| json!({"name": name, "ready": true, "reason": "Ready"}))
            .collect();
        let object = json!({
            "apiVersion": "mooring.dev/v1alpha1", "kind": "L2Network",
            "metadata": {"name": "lan", "uid": "u-1"},
            "spec": {"subnets": [{"cidr": "192.0.2.0/24"}], "ranges": ["192.0.2.0/28"]},
            "status": {"nodes": nodes},
        });
        Observed {
            network: Arc::new(NetworkView::slim(serde_json::from_value(object).unwrap())),
            used: 0,
            counts: [None; 2],
        }
    }

    #[test]
    fn drops_entries_of_gone_nodes_oldest_last() {
        let networks = [observed(&["gone", "here", "lost"]), observed(&["here"])];
        let steps = forgotten(&networks, |name| name == "here");
        assert_eq!(steps.len(), 1);
        assert_eq!(
            operations(&steps[0]),
            [
                json!({"op": "test", "path": "/metadata/uid", "value": "u-1"}),
                json!({"op": "test", "path": "/status/nodes/2/name", "value": "lost"}),
                json!({"op": "remove", "path": "/status/nodes/2"}),
                json!({"op": "test", "path": "/status/nodes/0/name", "value": "gone"}),
                json!({"op": "remove", "path": "/status/nodes/0"}),
            ]
        );
    }
}
