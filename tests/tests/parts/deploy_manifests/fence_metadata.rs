//! SEC-05, SEC-08 and SEC-11: which labels and annotations a node daemon writes on its own Node. The
//! policy names keys, never prefixes.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec,
};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use mooring_common::names::{NAMESPACE, annotations, labels, policies, taints};
use mooring_test_cluster::objects::{create_namespace, create_service_account, unique};
use mooring_test_support::wait::eventually;
use serde_json::json;

use super::deployed::{
    LIMIT, annotation, assert_denied, daemon_on, deployed, label, node_with_daemon, patch_node,
    patch_node_status,
};

#[tokio::test]
async fn sec_05_a_daemon_writes_the_providers_labels_and_annotations() {
    let (node, daemon) = node_with_daemon(deployed().await).await;
    for value in ["3a3ddd59d9a78bb8de041391075df44de62bfec8", "moved"] {
        let host = label(labels::LINODE_HOST_UUID, Some(value));
        patch_node(&daemon, &node, &host).await.unwrap();
    }
    for key in [
        annotations::LINODE_PRIVATE_IP,
        annotations::LINODE_PUBLIC_IPV6,
    ] {
        for value in ["192.168.130.7", "2001:db8::7/128"] {
            let patch = annotation(key, Some(value));
            patch_node(&daemon, &node, &patch).await.unwrap();
        }
        let verdict = patch_node(&daemon, &node, &annotation(key, None)).await;
        let words = format!("may not remove these annotations: {key}");
        assert_denied(key, verdict, &words);
    }
    let gone = label(labels::LINODE_HOST_UUID, None);
    let verdict = patch_node(&daemon, &node, &gone).await;
    let words = format!("may not remove these labels: {}", labels::LINODE_HOST_UUID);
    assert_denied("the host", verdict, &words);
}

#[tokio::test]
async fn sec_05_a_daemon_writes_and_removes_its_own_notes() {
    let (node, daemon) = node_with_daemon(deployed().await).await;
    for value in [Some("the addresses"), Some("the instance type"), None] {
        let patch = annotation(annotations::LEFT_TO_CENTRAL, value);
        patch_node(&daemon, &node, &patch).await.unwrap();
    }
}

/// Central keeps the addresses that stand there.
#[tokio::test]
async fn sec_11_a_daemon_notes_the_kubelets_addresses_at_initialisation_only() {
    let control_plane = deployed().await;
    let key = annotations::KUBELET_ADDRESSES;
    let words = "may write mooring.dev/kubelet-addresses once";
    let (node, daemon) = node_with_daemon(control_plane).await;
    for value in ["10.0.0.1", "10.0.0.2"] {
        let patch = annotation(key, Some(value));
        patch_node(&daemon, &node, &patch).await.unwrap();
    }
    let gone = annotation(key, None);
    let verdict = patch_node(&daemon, &node, &gone).await;
    assert_denied("removed while tainted", verdict, words);
    // With the taint off in the same write, as the daemon does it.
    let tainted = Api::<Node>::all(daemon.clone()).get(&node).await.unwrap();
    let mut rest = tainted.spec.unwrap().taints.unwrap();
    rest.retain(|taint| taint.key != taints::UNINITIALIZED);
    let initialised = json!({
        "metadata": { "annotations": { key: "10.0.0.3" } },
        "spec": { "taints": rest },
    });
    patch_node(&daemon, &node, &initialised).await.unwrap();
    for patch in [annotation(key, Some("10.0.0.4")), gone] {
        let verdict = patch_node(&daemon, &node, &patch).await;
        assert_denied("later", verdict, words);
        let by_status = patch_node_status(&daemon, &node, &patch).await;
        assert_denied("later, by way of the status", by_status, words);
    }
    // One that another controller has initialised has no such note.
    let (other, its_daemon) = node_with_daemon(control_plane).await;
    let untainted = json!({ "spec": { "taints": null } });
    let admin = control_plane.admin();
    patch_node(&admin, &other, &untainted).await.unwrap();
    let noted = annotation(key, Some("10.0.0.5"));
    patch_node(&its_daemon, &other, &noted).await.unwrap();
}

/// Central takes off what stands there.
#[tokio::test]
async fn sec_11_a_daemon_does_not_call_its_own_what_it_may_not_set() {
    let (node, daemon) = node_with_daemon(deployed().await).await;
    for foreign in ["team=blue", "node-role.kubernetes.io/control-plane="] {
        let patch = annotation(annotations::OWNED_LABELS, Some(foreign));
        let words = "may note as its own only labels that nodeDaemon.additionalLabelKeys";
        assert_denied(foreign, patch_node(&daemon, &node, &patch).await, words);
        let by_status = patch_node_status(&daemon, &node, &patch).await;
        assert_denied(foreign, by_status, words);
    }
}

#[tokio::test]
async fn sec_11_what_central_corrected_is_centrals_to_say() {
    let control_plane = deployed().await;
    let (node, daemon) = node_with_daemon(control_plane).await;
    let key = annotations::CORRECTED_BY_CENTRAL;
    let set = annotation(key, Some("nothing at all"));
    let words = format!("may not set these annotations: {key}");
    assert_denied("new", patch_node(&daemon, &node, &set).await, &words);
    let by_status = patch_node_status(&daemon, &node, &set).await;
    assert_denied("by way of the status", by_status, &words);

    let central = control_plane
        .client_for(NAMESPACE, "mooring-central", None)
        .await
        .unwrap();
    let corrected = annotation(key, Some("the zone was b"));
    patch_node(&central, &node, &corrected).await.unwrap();
    assert_denied("changed", patch_node(&daemon, &node, &set).await, &words);
    let gone = patch_node(&daemon, &node, &annotation(key, None)).await;
    let words = format!("may not remove these annotations: {key}");
    assert_denied("removed", gone, &words);
    // It does not stand in the way of anything else.
    let zone = label(labels::ZONE, Some("a"));
    patch_node(&daemon, &node, &zone).await.unwrap();
}

#[tokio::test]
async fn sec_08_labels_of_others_stay() {
    let (node, daemon) = node_with_daemon(deployed().await).await;
    for key in [
        "team",
        "rack",
        "node-role.kubernetes.io/control-plane",
        "node-restriction.kubernetes.io/tier",
        "node.k8s.linode.com/other",
        "mooring.dev/other",
        labels::EXCLUDE_FROM_LOAD_BALANCERS,
    ] {
        let words = format!("may not set these labels: {key};");
        let patch = label(key, Some("blue"));
        assert_denied(key, patch_node(&daemon, &node, &patch).await, &words);
        // The status is another way to the same labels.
        let verdict = patch_node_status(&daemon, &node, &patch).await;
        assert_denied(key, verdict, &words);
    }
    let gone = label("team", None);
    let words = "may not remove these labels: team";
    assert_denied("removal", patch_node(&daemon, &node, &gone).await, words);
    let zone = label(labels::ZONE, Some("a"));
    patch_node(&daemon, &node, &zone).await.unwrap();
    let verdict = patch_node(&daemon, &node, &label(labels::ZONE, None)).await;
    assert_denied("a zone", verdict, "may not remove these labels");
}

#[tokio::test]
async fn sec_11_annotations_of_others_stay() {
    let (node, daemon) = node_with_daemon(deployed().await).await;
    for key in [
        "owner",
        annotations::PROVIDED_NODE_IP,
        "mooring.dev/other",
        "node.k8s.linode.com/other",
    ] {
        let patch = annotation(key, Some("192.0.2.9"));
        let words = format!("may not set these annotations: {key}");
        assert_denied(key, patch_node(&daemon, &node, &patch).await, &words);
        let verdict = patch_node_status(&daemon, &node, &patch).await;
        assert_denied(key, verdict, &words);
    }
    let gone = annotation("owner", None);
    let words = "may not remove these annotations: owner";
    assert_denied("removal", patch_node(&daemon, &node, &gone).await, words);

    let finalizers = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    let verdict = patch_node(&daemon, &node, &finalizers).await;
    assert_denied("a finalizer", verdict, "finalizers and owners");
}

/// A copy of the policy, as a chart with `additionalLabelKeys: [rack]` gives it, for the daemons of
/// a namespace of its own.
async fn fence_that_lists_rack(admin: &Client, namespace: &str) {
    let copied = Api::<ValidatingAdmissionPolicy>::all(admin.clone());
    let shipped = copied.get(policies::OWN_NODE).await.unwrap();
    let mut spec = shipped.spec.unwrap();
    for condition in spec.match_conditions.iter_mut().flatten() {
        condition.expression = condition.expression.replace(NAMESPACE, namespace);
    }
    for variable in spec.variables.iter_mut().flatten() {
        if variable.name == "additionalLabels" {
            assert_eq!(variable.expression, "[]");
            variable.expression = "['rack']".to_owned();
        }
    }
    let metadata = || ObjectMeta {
        name: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    };
    let policy = ValidatingAdmissionPolicy {
        metadata: metadata(),
        spec: Some(spec),
        status: None,
    };
    copied
        .create(&PostParams::default(), &policy)
        .await
        .unwrap();
    let binding = ValidatingAdmissionPolicyBinding {
        metadata: metadata(),
        spec: ValidatingAdmissionPolicyBindingSpec {
            policy_name: namespace.to_owned(),
            validation_actions: vec!["Deny".to_owned()],
            ..ValidatingAdmissionPolicyBindingSpec::default()
        },
    };
    Api::all(admin.clone())
        .create(&PostParams::default(), &binding)
        .await
        .unwrap();
}

#[tokio::test]
async fn sec_08_label_keys_of_the_values_may_be_set_and_removed() {
    let control_plane = deployed().await;
    let admin = control_plane.admin();
    let (node, _) = node_with_daemon(control_plane).await;
    let namespace = unique("rack");
    create_namespace(&admin, &namespace).await.unwrap();
    create_service_account(&admin, &namespace, "mooring-node")
        .await
        .unwrap();
    let role = serde_json::from_value::<ClusterRoleBinding>(json!({
        "metadata": { "name": namespace },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "mooring-node",
        },
        "subjects": [{
            "kind": "ServiceAccount", "name": "mooring-node", "namespace": namespace,
        }],
    }))
    .unwrap();
    Api::all(admin.clone())
        .create(&PostParams::default(), &role)
        .await
        .unwrap();
    fence_that_lists_rack(&admin, &namespace).await;
    let daemon = daemon_on(control_plane, &namespace, &node).await;
    eventually("the copy stands", LIMIT, async || {
        // Until then it is written, so it must be another value each time.
        let other = label("team", Some(&unique("team")));
        patch_node(&daemon, &node, &other).await.is_err()
    })
    .await;
    patch_node(&daemon, &node, &label("rack", Some("r1")))
        .await
        .unwrap();
    patch_node(&daemon, &node, &label("rack", None))
        .await
        .unwrap();
    // What it has set it may note as its own, and nothing else: central takes off what is noted.
    for value in [Some("rack=r1"), Some("rack=r2"), None] {
        let patch = annotation(annotations::OWNED_LABELS, value);
        patch_node(&daemon, &node, &patch).await.unwrap();
    }
    for value in ["team=red", "rack=r1,team=red", "rack2=r1"] {
        let patch = annotation(annotations::OWNED_LABELS, Some(value));
        let verdict = patch_node(&daemon, &node, &patch).await;
        assert_denied(value, verdict, "may note as its own only labels");
    }
    let verdict = patch_node(&daemon, &node, &label("row", Some("7"))).await;
    assert_denied(
        "a label not listed",
        verdict,
        "may not set these labels: row;",
    );
}
