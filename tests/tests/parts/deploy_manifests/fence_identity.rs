//! No daemon takes another Node's address or provider ID (`nodeDaemon.identityFence`), and what it registers
//! for heartbeats is an address of its own Node.

use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use mooring_common::l2_network::L2Network;
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::shipped::Shipped;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use super::deployed::{
    LIMIT, Verdict, assert_denied, make_network, node_with_daemon, patch_node, patch_node_status,
    refusal,
};

fn addresses(node: &str, all: &[(&str, &str)]) -> Value {
    let mut addresses = vec![json!({ "type": "Hostname", "address": node })];
    let all = all.iter();
    addresses.extend(all.map(|(kind, address)| json!({ "type": kind, "address": address })));
    json!({ "status": { "addresses": addresses } })
}

/// The API server's policies see a change of a Node a moment later.
async fn denied_soon(what: &str, words: &str, mut write: impl AsyncFnMut() -> Verdict) {
    let verdict = eventually(&format!("{what} is refused"), LIMIT, async || {
        let verdict = write().await;
        verdict.is_err().then_some(verdict)
    })
    .await;
    assert_denied(what, verdict, words);
}

/// On a control plane of its own: others would notice how its policies come into force.
#[tokio::test]
async fn sec_17_a_daemon_does_not_take_another_nodes_identity() {
    let started = ControlPlane::start(Options::default()).await;
    let control_plane = started.unwrap();
    Shipped::install(&control_plane).await.unwrap();
    no_address_of_another_node(&control_plane).await;
    no_provider_id_of_another_node(&control_plane).await;
    no_address_but_its_nodes_for_heartbeats(&control_plane).await;
}

async fn no_address_of_another_node(control_plane: &ControlPlane) {
    let (victim, its_daemon) = node_with_daemon(control_plane).await;
    let (node, daemon) = node_with_daemon(control_plane).await;
    let own = addresses(
        &victim,
        &[
            ("InternalIP", "192.0.2.171"),
            ("ExternalIP", "198.51.100.17"),
        ],
    );
    // Until the API server has read the parameters, it refuses everything.
    eventually("the policies are in force", LIMIT, async || {
        patch_node_status(&its_daemon, &victim, &own).await
    })
    .await;
    let words = format!("the Node {victim} has one of these addresses as its InternalIP");
    for kind in ["InternalIP", "ExternalIP"] {
        let stolen = addresses(
            &node,
            &[("InternalIP", "192.0.2.172"), (kind, "192.0.2.171")],
        );
        // By dry run, which leaves nothing that the next one would be compared with.
        denied_soon(kind, &words, async || {
            dry_status(&daemon, &node, &stolen).await
        })
        .await;
    }
    // Behind one gateway, several machines have one address outside.
    let shared = addresses(
        &node,
        &[
            ("InternalIP", "192.0.2.172"),
            ("ExternalIP", "198.51.100.17"),
        ],
    );
    patch_node_status(&daemon, &node, &shared).await.unwrap();
    // What it has already, it may write again, whoever has it too by now.
    let central = control_plane.admin();
    let both = addresses(&victim, &[("InternalIP", "192.0.2.172")]);
    patch_node_status(&central, &victim, &both).await.unwrap();
    let less = addresses(&node, &[("InternalIP", "192.0.2.172")]);
    patch_node_status(&daemon, &node, &less).await.unwrap();
}

async fn dry_status(client: &Client, name: &str, patch: &Value) -> Verdict {
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    Api::<k8s_openapi::api::core::v1::Node>::all(client.clone())
        .patch_status(name, &dry, &Patch::Merge(patch))
        .await
        .map(drop)
        .map_err(refusal)
}

async fn no_provider_id_of_another_node(control_plane: &ControlPlane) {
    let (victim, its_daemon) = node_with_daemon(control_plane).await;
    let (node, daemon) = node_with_daemon(control_plane).await;
    let id = |id: &str| json!({ "spec": { "providerID": id } });
    patch_node(&its_daemon, &victim, &id("cloudlycke://n-17"))
        .await
        .unwrap();
    let stolen = id("cloudlycke://n-17");
    let words = format!("the Node {victim} has this provider ID");
    let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(daemon.clone());
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    denied_soon("its ID", &words, async || {
        let written = nodes.patch(&node, &dry, &Patch::Merge(&stolen)).await;
        written.map(drop).map_err(refusal)
    })
    .await;
    patch_node(&daemon, &node, &id("cloudlycke://n-17-own"))
        .await
        .unwrap();
}

async fn no_address_but_its_nodes_for_heartbeats(control_plane: &ControlPlane) {
    let (node, daemon) = node_with_daemon(control_plane).await;
    let lan = make_network(&control_plane.admin()).await;
    let networks = Api::<L2Network>::all(daemon.clone());
    let register = async |address: Option<&str>, dry_run: bool| {
        let mut entry = json!({ "name": node, "ready": true, "reason": "Ready" });
        if let Some(address) = address {
            entry["address"] = json!(address);
        }
        let params = PatchParams {
            dry_run,
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({ "status": { "nodes": [entry] } }));
        let written = networks.patch_status(&lan, &params, &patch).await;
        written.map(drop).map_err(refusal)
    };
    eventually("the policies are in force", LIMIT, async || {
        register(None, false).await
    })
    .await;
    // Nobody has described the Node yet.
    register(Some("192.0.2.173"), true).await.unwrap();
    let own = addresses(&node, &[("InternalIP", "192.0.2.173")]);
    patch_node_status(&daemon, &node, &own).await.unwrap();
    let words = format!("must be one of the addresses of the Node {node}");
    denied_soon("a host of others", &words, async || {
        register(Some("203.0.113.9"), true).await
    })
    .await;
    register(Some("192.0.2.173"), false).await.unwrap();
    register(None, false).await.unwrap();
}
