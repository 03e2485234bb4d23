//! The ServiceAccounts may do what the issue of each program asks for, and nothing besides; the
//! Pods run under the strictest settings that they can.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::authorization::v1::{
    SelfSubjectRulesReview, SelfSubjectRulesReviewSpec, SubjectAccessReview,
};
use k8s_openapi::api::core::v1::{Namespace, Pod, PodSpec};
use kube::api::{Api, ObjectMeta, PostParams};
use mooring_common::names::{LEADER_LEASE, LEADER_LEASE_NAMESPACE, NAMESPACE};
use mooring_test_cluster::objects::unique;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::deployed::{deploy, deployed, refusal};

/// Every right of a ServiceAccount in a namespace, as "verb group/resource (name)", but for those
/// that everybody has.
async fn rights(account: &str, namespace: &str) -> BTreeSet<String> {
    let client = deployed()
        .await
        .client_for(NAMESPACE, account, None)
        .await
        .unwrap();
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec {
            namespace: Some(namespace.to_owned()),
        },
        ..SelfSubjectRulesReview::default()
    };
    let rules = Api::<SelfSubjectRulesReview>::all(client)
        .create(&PostParams::default(), &review)
        .await
        .unwrap()
        .status
        .unwrap()
        .resource_rules;
    let mut rights = BTreeSet::new();
    for rule in rules {
        let names = rule.resource_names.unwrap_or_default();
        for group in rule.api_groups.unwrap_or_default() {
            for resource in rule.resources.iter().flatten() {
                if resource.starts_with("selfsubject") {
                    continue;
                }
                for verb in &rule.verbs {
                    let name = names.join(",");
                    rights.insert(
                        format!("{verb} {group}/{resource} {name}")
                            .trim_end()
                            .to_owned(),
                    );
                }
            }
        }
    }
    rights
}

fn expected(lines: &[&str]) -> BTreeSet<String> {
    lines
        .iter()
        .flat_map(|line| {
            let (verbs, what) = line.split_once(' ').unwrap();
            verbs.split(',').map(move |verb| format!("{verb} {what}"))
        })
        .collect()
}

const CENTRAL: [&str; 10] = [
    "get,list,watch,patch,delete /nodes",
    "patch /nodes/status",
    "list,watch /services",
    "patch /services/status",
    "list,watch mooring.dev/l2networks",
    "patch mooring.dev/l2networks/status",
    "get,list,watch /namespaces",
    "create,patch /events",
    "create authentication.k8s.io/tokenreviews",
    "create authorization.k8s.io/subjectaccessreviews",
];

const NODE: [&str; 7] = [
    "get,list,watch,patch /nodes",
    "patch /nodes/status",
    "list,watch /services",
    "get,list,watch mooring.dev/l2networks",
    "patch mooring.dev/l2networks/status",
    "list,watch discovery.k8s.io/endpointslices",
    "create,patch /events",
];

#[tokio::test]
async fn central_may_do_this_and_nothing_else() {
    let anywhere = rights("mooring-central", "default").await;
    assert_eq!(anywhere, expected(&CENTRAL));
    let mut own = expected(&CENTRAL);
    own.extend(expected(&[
        "create /secrets",
        "get /secrets mooring-heartbeat",
        "get coordination.k8s.io/leases",
    ]));
    assert_eq!(rights("mooring-central", NAMESPACE).await, own);
    let mut leader = expected(&CENTRAL);
    leader.extend(expected(&[
        "create coordination.k8s.io/leases",
        &format!("get,update coordination.k8s.io/leases {LEADER_LEASE}"),
        "get,list,watch /configmaps extension-apiserver-authentication",
    ]));
    let found = rights("mooring-central", LEADER_LEASE_NAMESPACE).await;
    assert_eq!(found, leader);
}

#[tokio::test]
async fn a_node_daemon_may_do_this_and_nothing_else() {
    for namespace in ["default", "kube-system"] {
        assert_eq!(rights("mooring-node", namespace).await, expected(&NODE));
    }
    let mut own = expected(&NODE);
    own.extend(expected(&["get,create,update coordination.k8s.io/leases"]));
    assert_eq!(rights("mooring-node", NAMESPACE).await, own);
}

#[tokio::test]
async fn neither_reads_secrets_nor_makes_tokens() {
    let reviews = Api::<SubjectAccessReview>::all(deployed().await.admin());
    for account in ["mooring-central", "mooring-node"] {
        for (verb, resource) in [
            ("get", "secrets"),
            ("list", "secrets"),
            ("create", "serviceaccounts/token"),
            ("create", "nodes"),
            ("update", "nodes"),
            ("create", "pods/exec"),
        ] {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let review = serde_json::from_value(json!({ "spec": {
                "user": format!("system:serviceaccount:{NAMESPACE}:{account}"),
                "resourceAttributes": {
                    "namespace": NAMESPACE,
                    "verb": verb,
                    "resource": resource,
                    "subresource": subresource,
                },
            } }))
            .unwrap();
            let answer = reviews
                .create(&PostParams::default(), &review)
                .await
                .unwrap();
            assert!(
                !answer.status.unwrap().allowed,
                "{account} may {verb} {resource}/{subresource}"
            );
        }
    }
}

/// The right to Secrets that is given besides where load balancers present certificates.
#[test]
fn central_reads_certificates_by_get_alone() {
    let text = std::fs::read_to_string(deploy("manifests/tls-secrets.yaml")).unwrap();
    let documents = serde_norway::Deserializer::from_str(&text);
    let objects: Vec<Value> = documents
        .map(|document| Value::deserialize(document).unwrap())
        .collect();
    let [role, binding] = &*objects else {
        panic!("{objects:?}");
    };
    let rule = json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] });
    assert_eq!(role["rules"], json!([rule]));
    assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
    let subject = json!({
        "kind": "ServiceAccount", "name": "mooring-central", "namespace": NAMESPACE,
    });
    assert_eq!(binding["subjects"], json!([subject]));
}

/// Whether the API server takes a Pod of this kind in a namespace with this level of Pod security.
async fn try_pod(spec: PodSpec, level: &str) -> Result<Pod, String> {
    let admin = deployed().await.admin();
    let namespace = serde_json::from_value::<Namespace>(json!({ "metadata": {
        "name": unique(level),
        "labels": { "pod-security.kubernetes.io/enforce": level },
    } }))
    .unwrap();
    let namespace = Api::<Namespace>::all(admin.clone())
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    let pod = Pod {
        metadata: ObjectMeta {
            name: Some("trial".to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            // The namespace is new, and has no ServiceAccount of that name.
            service_account_name: None,
            service_account: None,
            automount_service_account_token: Some(false),
            ..spec
        }),
        status: None,
    };
    let pods = Api::<Pod>::namespaced(admin, &namespace.metadata.name.unwrap());
    mooring_test_support::wait::try_eventually(super::deployed::LIMIT, async || {
        match pods
            .create(&PostParams::default(), &pod)
            .await
            .map_err(refusal)
        {
            Err(message) if message.contains("serviceaccount \"default\" not found") => {
                Err(message)
            }
            settled => Ok(settled),
        }
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn sec_04_central_is_restricted_but_for_the_host_network() {
    let admin = deployed().await.admin();
    let deployment = Api::<Deployment>::namespaced(admin, NAMESPACE)
        .get("mooring-central")
        .await
        .unwrap()
        .spec
        .unwrap();
    assert_eq!(deployment.replicas, Some(2));
    let mut pod = deployment.template.spec.unwrap();
    let context = pod.containers[0].security_context.clone().unwrap();
    assert_eq!(context.read_only_root_filesystem, Some(true));
    try_pod(pod.clone(), "privileged").await.unwrap();
    let refused = try_pod(pod.clone(), "restricted").await.unwrap_err();
    assert!(refused.contains("hostNetwork"), "{refused}");

    pod.host_network = None;
    for container in &mut pod.containers {
        for port in container.ports.iter_mut().flatten() {
            port.host_port = None;
        }
        for probe in [
            &mut container.liveness_probe,
            &mut container.readiness_probe,
        ] {
            probe.as_mut().unwrap().http_get.as_mut().unwrap().host = None;
        }
    }
    try_pod(pod, "restricted").await.unwrap();
}

#[tokio::test]
async fn the_node_daemon_has_two_capabilities_and_is_not_privileged() {
    let admin = deployed().await.admin();
    let pod = Api::<DaemonSet>::namespaced(admin, NAMESPACE)
        .get("mooring-node")
        .await
        .unwrap()
        .spec
        .unwrap()
        .template
        .spec
        .unwrap();
    let context = pod.containers[0].security_context.clone().unwrap();
    let capabilities = context.capabilities.unwrap();
    assert_eq!(capabilities.drop.unwrap(), ["ALL"]);
    assert_eq!(
        capabilities.add.unwrap(),
        ["NET_ADMIN", "NET_RAW", "SYS_NICE"]
    );
    assert_eq!(context.read_only_root_filesystem, Some(true));
    assert_eq!(context.allow_privilege_escalation, Some(false));
    assert_eq!(context.privileged, None);
    try_pod(pod, "privileged").await.unwrap();
}

#[test]
fn the_manifests_name_no_registry_and_no_address_of_the_pod() {
    let manifests = std::fs::read_to_string(deploy("manifests/mooring.yaml")).unwrap();
    for line in manifests.lines() {
        let line = line.trim();
        assert!(
            !line.contains("status.podIP") && !line.contains("status.hostIP"),
            "a Node that nobody has described yet has no address: {line}"
        );
        if let Some(image) = line.strip_prefix("image: ") {
            assert!(!image.contains('/'), "an image with a registry: {image}");
        }
    }
}
