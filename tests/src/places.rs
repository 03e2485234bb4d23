//! A cluster to oneself, without waiting for other tests: there are as many as tests run at once,
//! up to a few.
//!
//! Central looks after *all* objects of its API server. Suites with many tests, in which most of the
//! time is waited for something, have a few control planes and give each test one of them, cleared.

use std::sync::LazyLock;
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::core::v1::{Event, Node, Service};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use mooring_common::names::{NAMESPACE, finalizers};
use serde_json::json;

use crate::control_plane::{AuditLog, ControlPlane, Options};
use crate::objects::{ServiceBuilder, unique};
use crate::pool::{Lent, Pool};
use crate::shipped::Shipped;
use crate::wait::eventually;

/// How long the API server may take to take up a changed policy: usually a second.
const TAKE_UP: Duration = Duration::from_secs(30);

static PLACES: LazyLock<Pool<(ControlPlane, Shipped)>> = LazyLock::new(Pool::empty);

/// One test's place, with the shipped manifests in force. There is no kube-controller-manager.
pub struct Place {
    /// The control plane.
    pub cp: &'static ControlPlane,
    /// The manifests.
    pub shipped: Shipped,
    /// A client with all rights.
    pub admin: Client,
    /// When the test began.
    pub start: Timestamp,
    audit_mark: u64,
    _lent: Lent<(ControlPlane, Shipped)>,
}

impl Place {
    /// Waits for a place, and gives it without any Node or Service.
    pub async fn take() -> Self {
        let lent = PLACES.lend(async || {
            let started = ControlPlane::start_blocking(Options::default());
            let cp = started.expect("the control plane starts");
            let shipped = Shipped::install(&cp).await;
            (cp, shipped.expect("the shipped manifests"))
        });
        let lent = lent.await;
        let (cp, shipped) = lent.value();
        let admin = cp.admin();
        clear(&admin).await.expect("the cluster can be cleared");
        Self {
            cp,
            shipped: *shipped,
            admin,
            start: cp.now(),
            audit_mark: cp.audit_mark(),
            _lent: lent,
        }
    }

    /// Sets the chart's `central.loadBalancerClass` to this, as far as the admission policy goes.
    pub async fn permit_class(&self, class: &str) {
        let policies = Api::<ValidatingAdmissionPolicy>::all(self.admin.clone());
        let name = "mooring-central-services";
        let mut policy = policies.get(name).await.expect("the policy is there");
        let spec = policy.spec.as_mut();
        let mut all = spec
            .and_then(|spec| spec.validations.as_mut())
            .into_iter()
            .flatten();
        let by_class = "!has(object.spec.loadBalancerClass)";
        let rule = all.find(|rule| rule.expression.ends_with(by_class));
        if let Some(rule) = rule {
            rule.expression += &format!(" || object.spec.loadBalancerClass == '{class}'");
            let params = PostParams::default();
            let replaced = policies.replace(name, &params, &policy).await;
            replaced.expect("the policy is taken");
        }
        let probe = unique("probe");
        let service = ServiceBuilder::load_balancer("default", &probe);
        let service = service
            .port(80, 8080)
            .class(class)
            .create(&self.admin)
            .await;
        service.expect("a Service");
        let central = self.cp.client_for(NAMESPACE, "mooring-central", None).await;
        let central = Api::<Service>::namespaced(central.expect("a client"), "default");
        let dry = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": [finalizers::SERVICE] } }));
        eventually("the class is permitted", TAKE_UP, async || {
            central.patch_status(&probe, &dry, &patch).await
        })
        .await;
        let services = Api::<Service>::namespaced(self.admin.clone(), "default");
        let deleted = services.delete(&probe, &DeleteParams::default()).await;
        deleted.expect("the probe can be deleted");
    }

    /// All requests since this test began, complete up to now.
    pub async fn audit(&self) -> AuditLog {
        let log = self.cp.audit_settled_from(self.audit_mark).await;
        log.since(self.start)
    }

    /// Asserts that neither program was refused anything (403), and ends the test's turn.
    pub async fn leave(self) {
        let refused = self.shipped.forbidden(&self.audit().await);
        assert!(
            refused.is_empty(),
            "the shipped permissions are too narrow, or a program does what it must not:\n{}",
            refused.summary()
        );
    }
}

/// Takes away what the test before has left.
async fn clear(admin: &Client) -> Result<()> {
    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let (params, gone) = (PatchParams::default(), DeleteParams::default());
    let services = Api::<Service>::all(admin.clone());
    for service in services.list(&ListParams::default()).await? {
        let metadata = service.metadata;
        let (name, namespace) = (
            metadata.name.unwrap_or_default(),
            metadata.namespace.unwrap_or_default(),
        );
        if name == "kubernetes" && namespace == "default" {
            continue;
        }
        let services = Api::<Service>::namespaced(admin.clone(), &namespace);
        missing_is_fine(services.delete(&name, &gone).await)?;
        missing_is_fine(services.patch(&name, &params, &release).await)?;
    }
    let nodes = Api::<Node>::all(admin.clone());
    for node in nodes.list(&ListParams::default()).await? {
        let name = node.metadata.name.unwrap_or_default();
        missing_is_fine(nodes.delete(&name, &gone).await)?;
        missing_is_fine(nodes.patch(&name, &params, &release).await)?;
    }
    let events = Api::<Event>::namespaced(admin.clone(), "default");
    events
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    Ok(())
}

fn missing_is_fine<T>(answer: kube::Result<T>) -> Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}
