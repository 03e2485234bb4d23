//! The API server that all cases share, with three Nodes that all of them use.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use mooring_common::names::NAMESPACE;
use serde_json::json;

use super::swept_cloud::SweptCloud;
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::objects::ServiceBuilder;
use mooring_test_cluster::shipped::Shipped;
use mooring_test_support::wait::try_eventually;

/// The label by which cases choose their Nodes, and its value on those that all have.
pub(super) const CASE_LABEL: &str = "sweep.example.com/case";
pub(super) const SHARED: &str = "shared";

/// What the `spec.loadBalancerClass` of each case begins with.
const CLASSES: &str = "sweep.example.com/";
/// The policy that says which classes are central's, and its expression for none.
const POLICY: &str = "mooring-central-services";
const NONE: &str = "!has(object.spec.loadBalancerClass)";
/// How long the API server may take to take it up: usually a second.
const TAKE_UP: Duration = Duration::from_secs(30);

/// How many Nodes all cases have.
pub(super) const NODES: usize = 3;

/// What all cases share.
pub(super) struct Cluster<C> {
    pub(super) cp: ControlPlane,
    pub(super) shipped: Shipped,
    pub(super) kubeconfig: PathBuf,
    /// What load balancers are marked with.
    pub(super) uid: String,
    cloud: PhantomData<C>,
}

impl<C: SweptCloud> Cluster<C> {
    pub(super) async fn start() -> Result<Self> {
        let cp = ControlPlane::start(Options::default()).await?;
        let shipped = Shipped::install(&cp).await?;
        let kubeconfig = shipped.central_kubeconfig(&cp).await?;
        let admin = cp.admin();
        permit_classes(&cp).await?;
        for n in 1..=NODES {
            let node = C::node(&format!("n{n}"), n).label(CASE_LABEL, SHARED);
            node.create(&admin).await?;
        }
        let services = Api::<Service>::namespaced(admin, "default");
        let uid = services.get("kubernetes").await?.metadata.uid;
        Ok(Self {
            cp,
            shipped,
            kubeconfig,
            uid: uid.context("every object has a UID")?,
            cloud: PhantomData,
        })
    }
}

/// The class of a case.
pub(super) fn class(case: &str) -> String {
    format!("{CLASSES}{case}")
}

/// Lets central serve the class of each case, as the chart does for one.
async fn permit_classes(cp: &ControlPlane) -> Result<()> {
    let admin = cp.admin();
    let policies = Api::<ValidatingAdmissionPolicy>::all(admin.clone());
    let mut policy = policies.get(POLICY).await?;
    let validations = policy
        .spec
        .iter_mut()
        .flat_map(|spec| &mut spec.validations);
    let mut of_class = validations
        .flatten()
        .filter(|v| v.expression.ends_with(NONE));
    let validation = of_class.next().context("a policy about classes")?;
    validation.expression =
        format!("object.spec.?loadBalancerClass.orValue('').startsWith('{CLASSES}')");
    drop(of_class);
    let params = PostParams::default();
    policies.replace(POLICY, &params, &policy).await?;

    let probe = "probe";
    let service = ServiceBuilder::load_balancer("default", probe).port(80, 8080);
    service.class(&class(probe)).create(&admin).await?;
    let central = cp.client_for(NAMESPACE, "mooring-central", None).await?;
    let services = Api::<Service>::namespaced(central, "default");
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({ "status": { "loadBalancer": {} } }));
    let permitted = try_eventually(TAKE_UP, async || {
        services.patch_status(probe, &params, &patch).await
    });
    permitted.await.map_err(|reason| anyhow!("{reason}"))?;
    let services = Api::<Service>::namespaced(admin, "default");
    services.delete(probe, &DeleteParams::default()).await?;
    Ok(())
}
