//! Certificates from Secrets.

use std::path::Path;
use std::time::Instant;

use http::Method;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use mooring_cloud_sim::linode::Kind;
use mooring_common::names::reasons;
use mooring_test_cluster::control_plane::ControlPlane;
use mooring_test_cluster::objects::{ServiceBuilder, apply_manifests};
use mooring_test_support::wait::eventually;
use rcgen::generate_simple_self_signed;
use serde_json::{Value, json};

use crate::linode_services::cloud::text;
use crate::linode_services::cluster::{AFTER_RETRIES, CloudCluster};
use crate::linode_services::key;

const NAME: &str = "shop";

impl CloudCluster {
    /// What the chart's `central.loadBalancers.tlsSecretNamespaces` permits.
    async fn permit_secrets(&self) {
        let manifest = "../deploy/manifests/tls-secrets.yaml";
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join(manifest);
        let control_plane: &ControlPlane = &self.cluster;
        apply_manifests(control_plane, &manifest).await.unwrap();
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.admin.clone(), &self.namespace)
    }

    /// The Secret has a certificate for this name from now on. Gives its private key.
    async fn certify(&self, name: &str) -> String {
        let pair = generate_simple_self_signed([name.to_owned()]).unwrap();
        let private = pair.signing_key.serialize_pem();
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": NAME },
            "type": "kubernetes.io/tls",
            "stringData": { "tls.crt": pair.cert.pem(), "tls.key": private },
        });
        let (params, patch) = (PatchParams::apply("test").force(), Patch::Apply(&secret));
        self.secrets().patch(NAME, &params, &patch).await.unwrap();
        private
    }

    /// The config of the only NodeBalancer, and what it shows of its certificate.
    fn presented(&self) -> Option<[String; 2]> {
        let config = self.sim().all(Kind::Config).pop()?;
        let text = |field: &str| config[field].to_string();
        Some([text("id"), text("ssl_fingerprint")])
    }

    fn node_ids(&self) -> Vec<Value> {
        let nodes = self.sim().all(Kind::Node).into_iter();
        nodes.map(|node| node["id"].clone()).collect()
    }
}

/// What a port says that presents it.
fn presents() -> String {
    json!({ "protocol": "https", "tls-secret-name": NAME }).to_string()
}

/// lb-single-tls, lb-with-http-to-https, and a renewed certificate, which the Go controller serves only after
/// the next change.
#[tokio::test]
async fn a_certificate_is_presented_and_its_successor_within_a_minute() {
    let cluster = CloudCluster::start().await;
    cluster.permit_secrets().await;
    cluster.certify("one.example").await;
    let _central = cluster.central().await;
    let service = ServiceBuilder::load_balancer(&cluster.namespace, "web");
    let service = service.port(80, 8080).port(443, 8443);
    let service = service.annotation(&key("port-443"), &presents());
    cluster.make(service).await;
    cluster.provided_at_last("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    let presented = || {
        let configs = cluster.cloud.parts(&id, Kind::Config);
        let mut tls = configs.into_iter().filter(|config| config["port"] == 443);
        let config = tls.next().unwrap_or_default();
        (text(&config["protocol"]), text(&config["ssl_fingerprint"]))
    };
    let (protocol, first) = presented();
    assert_eq!(protocol, "https");
    assert!(!first.is_empty());
    let plain = cluster.cloud.parts(&id, Kind::Config);
    assert!(
        plain
            .iter()
            .any(|one| one["port"] == 80 && one["protocol"] == "tcp")
    );
    cluster.certify("two.example").await;
    eventually("the next one is presented", AFTER_RETRIES, async || {
        let (_, now) = presented();
        !now.is_empty() && now != first
    })
    .await;
    assert!(cluster.sim().outages(&id).is_empty());
    cluster.finish().await;
}

/// The new certificate is presented by the config that there is, at whose nodes nothing changes. A Secret that
/// goes takes nothing away, and keeps no Node out.
#[tokio::test]
async fn a_renewed_certificate_is_presented_within_a_minute_and_a_lost_one_stays() {
    let cluster = CloudCluster::start().await;
    cluster.permit_secrets().await;
    let first_key = cluster.certify("shop.example").await;
    let central = cluster.central().await;
    let port = presents();
    let service = cluster.service("web").annotation(&key("port-80"), &port);
    cluster.make(service).await;
    cluster.provided("web").await;
    let (first, nodes) = (cluster.presented().unwrap(), cluster.node_ids());
    let start = Instant::now();
    let second_key = cluster.certify("shop.example").await;
    eventually("the new one is presented", AFTER_RETRIES, async || {
        cluster.presented().as_ref() != Some(&first)
    })
    .await;
    let second = cluster.presented().unwrap();
    assert_eq!(second[0], first[0]);
    assert_eq!(cluster.node_ids(), nodes);
    let writes = cluster.writes().since(start);
    let on_configs = writes.method(&Method::PUT);
    assert_eq!(
        (on_configs.len(), writes.len()),
        (1, 1),
        "{}",
        writes.summary()
    );

    let params = DeleteParams::default();
    cluster.secrets().delete(NAME, &params).await.unwrap();
    // Secrets are read twice a minute.
    eventually("it is told", AFTER_RETRIES, async || {
        let warnings = cluster.warnings("web").await;
        let mut warnings = warnings.iter();
        warnings.any(|event| event.reason == reasons::TLS_SECRET_UNUSABLE)
    })
    .await;
    cluster.join(3).await;
    eventually("the Node that joins serves", AFTER_RETRIES, async || {
        cluster.node_ids().len() == 3
    })
    .await;
    assert_eq!(cluster.presented().unwrap(), second);
    assert!(nodes.iter().all(|id| cluster.node_ids().contains(id)));
    let unmade = cluster.service("other").annotation(&key("port-80"), &port);
    cluster.make(unmade).await;
    let told = cluster.failed("other").await;
    assert!(told.note.contains(NAME), "{told:?}");
    assert_eq!(cluster.sim().all(Kind::NodeBalancer).len(), 1);
    let log = central.process.log();
    for private in [first_key, second_key] {
        let line = private.lines().nth(1).unwrap();
        assert!(!log.contains(line), "a key is in the log");
    }
    cluster.finish().await;
}
