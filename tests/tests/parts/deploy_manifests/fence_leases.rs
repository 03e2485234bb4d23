//! Each node daemon renews the Lease of its own Node, and no other.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use mooring_common::names::{
    LEADER_LEASE, LEADER_LEASE_NAMESPACE, NAMESPACE, annotations, node_lease,
};
use mooring_test_cluster::objects::unique;

use super::deployed::{Verdict, assert_denied, deployed, node_with_daemon, refusal};

async fn create(client: &Client, namespace: &str, name: &str) -> Verdict {
    let mut lease = Lease::default();
    lease.metadata.name = Some(name.to_owned());
    Api::<Lease>::namespaced(client.clone(), namespace)
        .create(&PostParams::default(), &lease)
        .await
        .map(drop)
        .map_err(refusal)
}

async fn renew(client: &Client, namespace: &str, name: &str) -> Verdict {
    let leases = Api::<Lease>::namespaced(client.clone(), namespace);
    let mut lease = leases.get(name).await.unwrap();
    lease.spec = Some(LeaseSpec {
        holder_identity: Some("me".to_owned()),
        ..LeaseSpec::default()
    });
    leases
        .replace(name, &PostParams::default(), &lease)
        .await
        .map(drop)
        .map_err(refusal)
}

#[tokio::test]
async fn sec_05_a_daemon_makes_and_renews_its_own_lease() {
    let (node, daemon) = node_with_daemon(deployed().await).await;
    create(&daemon, NAMESPACE, &node_lease(&node))
        .await
        .unwrap();
    renew(&daemon, NAMESPACE, &node_lease(&node)).await.unwrap();
}

#[tokio::test]
async fn sec_06_a_daemon_does_not_reach_another_lease() {
    let control_plane = deployed().await;
    let (node, daemon) = node_with_daemon(control_plane).await;
    let (other, other_daemon) = node_with_daemon(control_plane).await;
    let words = format!("may write the Lease {} in the namespace", node_lease(&node));
    let theirs = node_lease(&other);
    assert_denied(
        "a new one",
        create(&daemon, NAMESPACE, &theirs).await,
        &words,
    );
    create(&other_daemon, NAMESPACE, &theirs).await.unwrap();
    assert_denied(
        "a renewal",
        renew(&daemon, NAMESPACE, &theirs).await,
        &words,
    );
    let any = create(&daemon, NAMESPACE, &unique("any")).await;
    assert_denied("any other", any, &words);
}

/// A finalizer would keep the Lease when the Node is gone.
#[tokio::test]
async fn sec_17_a_daemon_writes_nothing_else_on_its_lease() {
    let (node, daemon) = node_with_daemon(deployed().await).await;
    let leases = Api::<Lease>::namespaced(daemon, NAMESPACE);
    let owner = |kind: &str, name: &str| OwnerReference {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: "0".to_owned(),
        ..OwnerReference::default()
    };
    let text = |key: &str| Some([(key.to_owned(), "1".to_owned())].into());
    let plain = ObjectMeta {
        name: Some(node_lease(&node)),
        ..ObjectMeta::default()
    };
    let wrong = [
        ObjectMeta {
            finalizers: Some(vec!["example.com/stay".to_owned()]),
            ..plain.clone()
        },
        ObjectMeta {
            labels: text("team"),
            ..plain.clone()
        },
        ObjectMeta {
            annotations: text("team"),
            ..plain.clone()
        },
        ObjectMeta {
            owner_references: Some(vec![owner("Node", "another")]),
            ..plain.clone()
        },
        ObjectMeta {
            owner_references: Some(vec![owner("ConfigMap", &node)]),
            ..plain.clone()
        },
    ];
    let words = "of a Lease's metadata, the node daemon may write";
    let lease = |metadata: &ObjectMeta| Lease {
        metadata: metadata.clone(),
        spec: None,
    };
    for metadata in &wrong {
        let made = leases
            .create(&PostParams::default(), &lease(metadata))
            .await;
        let what = format!("made with {metadata:?}");
        assert_denied(&what, made.map(drop).map_err(refusal), words);
    }
    let right = ObjectMeta {
        annotations: text(annotations::LEASE_SEGMENTS),
        owner_references: Some(vec![owner("Node", &node)]),
        ..plain
    };
    let made = leases.create(&PostParams::default(), &lease(&right)).await;
    let version = made.unwrap().metadata.resource_version;
    for metadata in wrong {
        let metadata = ObjectMeta {
            resource_version: version.clone(),
            ..metadata
        };
        let name = node_lease(&node);
        let (own, params) = (lease(&metadata), PostParams::default());
        let written = leases.replace(&name, &params, &own).await;
        let what = format!("renewed with {metadata:?}");
        assert_denied(&what, written.map(drop).map_err(refusal), words);
    }
}

#[tokio::test]
async fn sec_13_a_token_without_a_node_writes_no_lease() {
    let control_plane = deployed().await;
    let (node, _) = node_with_daemon(control_plane).await;
    let loose = control_plane
        .client_for(NAMESPACE, "mooring-node", None)
        .await
        .unwrap();
    let verdict = create(&loose, NAMESPACE, &node_lease(&node)).await;
    assert_denied("its own", verdict, "this token names no Node");
}

#[tokio::test]
async fn sec_14_central_holds_the_leader_lease_and_no_other() {
    let control_plane = deployed().await;
    let central = control_plane
        .client_for(NAMESPACE, "mooring-central", None)
        .await
        .unwrap();
    create(&central, LEADER_LEASE_NAMESPACE, LEADER_LEASE)
        .await
        .unwrap();
    renew(&central, LEADER_LEASE_NAMESPACE, LEADER_LEASE)
        .await
        .unwrap();
    let other = unique("other");
    create(&control_plane.admin(), LEADER_LEASE_NAMESPACE, &other)
        .await
        .unwrap();
    let leases = Api::<Lease>::namespaced(central, LEADER_LEASE_NAMESPACE);
    assert!(refusal(leases.get(&other).await.unwrap_err()).contains("forbidden"));
}
