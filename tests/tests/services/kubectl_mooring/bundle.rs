//! `support-bundle`: what helps is in it, and no credential.

use std::process::Command;

use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::objects::{NodeBuilder, apply_manifests, kubectl};

use super::run::{VIEWER, mooring, viewer};

/// Stands wherever a user may have put a credential.
const TOKEN: &str = "hunter2-of-the-cloud";

const MANIFEST: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: cloud, namespace: mooring-system}
stringData: {token: $CREDENTIAL}
---
apiVersion: v1
kind: Pod
metadata:
  name: mooring-central-x
  namespace: mooring-system
  labels: {app.kubernetes.io/part-of: mooring}
  annotations: {example.com/api-token: $CREDENTIAL}
spec:
  serviceAccountName: mooring-central
  containers:
    - name: mooring-central
      image: example.com/mooring-central:1
      args: ["--cloud-provider=cloudlycke", "--some-token=$CREDENTIAL"]
      env:
        - {name: CLOUD_ACCESS_TOKEN, value: $CREDENTIAL}
        - {name: LOCATION, value: PHX}
        - {name: SETTINGS, value: '{"password":"$CREDENTIAL","zone":"z1"}'}
    - name: beside
      image: example.com/beside:1
      args: [--token, $CREDENTIAL]
"#;

#[tokio::test]
async fn km_09_a_bundle_has_what_helps_and_no_credential() {
    let cluster = Cluster::exclusive().await;
    NodeBuilder::new("n1")
        .tainted()
        .ready()
        .create(&cluster.admin)
        .await
        .unwrap();
    let namespace = cluster.namespace_with_network(2).await;
    namespace.create("web").await;
    let manifest = cluster.folder().join("pod.yaml");
    std::fs::write(&manifest, MANIFEST.replace("$CREDENTIAL", TOKEN)).unwrap();
    apply_manifests(&cluster, &manifest).await.unwrap();

    let viewer = viewer(&cluster).await;
    let file = cluster.folder().join("bundle.tar.gz");
    let name = file.display().to_string();
    let said = mooring(&viewer, &["support-bundle", &name]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    let listed = Command::new("tar").args(["-tzf", &name]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for wanted in [
        "objects/nodes.yaml",
        "objects/l2networks.yaml",
        "objects/services.yaml",
        "objects/pods.yaml",
        "objects/deployments.yaml",
        "logs/mooring-central-x.txt",
        "status.json",
        "doctor.txt",
        "missing-rights.txt",
    ] {
        assert!(listed.contains(wanted), "{wanted}: {listed}");
    }
    let all = Command::new("tar").args(["-xzOf", &name]).output().unwrap();
    let all = String::from_utf8(all.stdout).unwrap();
    assert!(!all.contains(TOKEN), "{all}");
    assert!(!all.contains("the log cannot be read"), "{all}");
    for kept in [
        "PHX",
        "CLOUD_ACCESS_TOKEN",
        "--some-token=REDACTED",
        r#"{"password":"REDACTED","zone":"z1"}"#,
        &namespace.network,
    ] {
        assert!(all.contains(kept), "{kept}: {all}");
    }
    let audit = cluster.audit().await.by(VIEWER);
    assert_eq!(audit.of("secrets").iter().count(), 0, "{}", audit.summary());
    assert_eq!(audit.writes().iter().count(), 0, "{}", audit.summary());
    assert!(audit.of("nodes").iter().count() > 0);

    let said = mooring(&viewer, &["support-bundle", &name]).await;
    assert!(
        said.code == Some(1) && said.complaint.contains("not there yet"),
        "{said:?}"
    );
    let manifest = manifest.display().to_string();
    kubectl(&cluster, &["delete", "--wait=false", "-f", &manifest])
        .await
        .unwrap();
    cluster.finish().await;
}
