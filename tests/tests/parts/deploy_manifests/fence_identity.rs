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
    other_spellings_of_addresses(&daemon, &node).await;
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

/// Which a reader takes for another Node's address, and the policy for a new one.
async fn other_spellings_of_addresses(daemon: &Client, node: &str) {
    let words = "must write IP addresses in their usual form";
    for spelling in [
        "::ffff:192.0.2.171",
        "::ffff:c000:2ab",
        "0:0:0:0:0:ffff:c000:2ab",
        "192.0.2.0171",
        "192.0.683",
        "FD00::A",
        "fd00::000a",
        "fd00:0:0:0:0:0:0:a",
        "fd00:0::a",
        "fd00::0:a",
        "fd00:1:2:3::5:6:a",
        "fd00::a%eth0",
        "n7.example",
    ] {
        for kind in ["InternalIP", "ExternalIP"] {
            let spelled = addresses(node, &[(kind, spelling)]);
            let verdict = dry_status(daemon, node, &spelled).await;
            assert_denied(spelling, verdict, words);
        }
    }
    // Nor by way of a name, of which nothing is asked.
    let as_name = addresses(node, &[("InternalDNS", "FD00::A")]);
    patch_node_status(daemon, node, &as_name).await.unwrap();
    let spelled = addresses(node, &[("InternalIP", "FD00::A")]);
    let verdict = dry_status(daemon, node, &spelled).await;
    assert_denied("what was a name", verdict, words);
    let usual = [
        ("InternalIP", "10.0.200.255"),
        ("InternalIP", "fd00::a"),
        ("InternalIP", "fe80::a00:27ff:fe00:1"),
        ("InternalIP", "2001:db8:0:1:1:1:1:1"),
        ("ExternalIP", "2001:db8:0:0:1::"),
        ("ExternalIP", "2001:db8::1:0:0:1"),
        ("ExternalDNS", "N7.example"),
    ];
    let usual = addresses(node, &usual);
    dry_status(daemon, node, &usual).await.unwrap();
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
    let words = format!("the Node {victim} has this provider ID");
    let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(daemon.clone());
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let dry_write = async |text: &str| {
        let patch = Patch::Merge(id(text));
        let written = nodes.patch(&node, &dry, &patch).await;
        written.map(drop).map_err(refusal)
    };
    for stolen in ["cloudlycke://n-17", "cloudlycke://N-17"] {
        denied_soon(stolen, &words, async || dry_write(stolen).await).await;
    }
    for spelling in [
        "cloudscale://47CEC963-FCD2-482F-BDB6-24461B2D4717",
        "cloudscale://47cec963fcd2482fbdb624461b2d4717",
        "cloudscale://n-17",
    ] {
        let verdict = dry_write(spelling).await;
        assert_denied(spelling, verdict, "with a UUID in lower case, with hyphens");
    }
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
