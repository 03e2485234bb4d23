//! Certificates from Secrets.

use std::time::Instant;

use http::Method;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use mooring_cloud_sim::linode::Kind;
use mooring_common::names::reasons;
use mooring_test_cluster::shipped::CENTRAL_USER;
use mooring_test_support::wait::eventually;
use rcgen::generate_simple_self_signed;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::linode_services::cluster::{AFTER_RETRIES, CloudCluster};
use crate::linode_services::key;

const NAME: &str = "shop";

impl CloudCluster {
    async fn post<T>(&self, object: Value)
    where
        T: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + DeserializeOwned,
    {
        let api = Api::<T>::namespaced(self.admin.clone(), &self.namespace);
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    /// What the chart's `central.loadBalancers.tlsSecretNamespaces` permits.
    async fn permit_secrets(&self) {
        let rule = json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] });
        let metadata = json!({ "name": NAME });
        self.post::<Role>(json!({ "metadata": metadata, "rules": [rule] }))
            .await;
        let group = "rbac.authorization.k8s.io";
        self.post::<RoleBinding>(json!({
            "metadata": metadata,
            "roleRef": { "apiGroup": group, "kind": "Role", "name": NAME },
            "subjects": [{ "apiGroup": group, "kind": "User", "name": CENTRAL_USER }],
        }))
        .await;
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

/// The new certificate is presented by the config that there is, at whose nodes nothing changes. A Secret that
/// goes takes nothing away, and keeps no Node out.
#[tokio::test]
async fn a_renewed_certificate_is_presented_within_a_minute_and_a_lost_one_stays() {
    let cluster = CloudCluster::start().await;
    cluster.permit_secrets().await;
    let first_key = cluster.certify("shop.example").await;
    let central = cluster.central().await;
    let port = format!(r#"{{"protocol": "https", "tls-secret-name": "{NAME}"}}"#);
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
