//! `make record-metallb`: MetalLB's own controller allocates addresses on a real API server, and what it leaves there is
//! written to `tests/fixtures`.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, ListParams};
use mooring_test_cluster::control_plane::{ControlPlane, Options, free_port};
use mooring_test_cluster::objects::{PodBuilder, create_namespace, kubectl};
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use super::fixture::{Fixture, apply, documents, install_crds};

const VERSION: &str = "metallb-0.16.1";
const NAMESPACE: &str = "metallb-system";
const POD: &str = "controller";

/// What a user of MetalLB has written, as it is applied.
const WRITTEN: &str = "written.yaml";

/// How long the controller may take.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test]
#[ignore = "make record-metallb"]
async fn record_metallb() {
    let built = PathBuf::from(
        std::env::var_os("METALLB").expect("the folder of tests/replaced-programs/build.sh"),
    );
    let cp = ControlPlane::start(Options::default()).await.unwrap();
    install_crds(&cp, &built.join("crds")).await;
    let folder = Fixture::folder(VERSION);
    for namespace in [NAMESPACE, "shop", "web"] {
        create_namespace(&cp.admin(), namespace).await.unwrap();
    }
    apply(&cp, &folder.join(WRITTEN)).await;

    // It looks for its own Pod at the start.
    let own_pod = PodBuilder::new(NAMESPACE, POD);
    own_pod.create(&cp.admin()).await.unwrap();
    let port = || free_port(Ipv4Addr::LOCALHOST.into()).unwrap();
    let mut spec = Spec::new(
        "controller",
        built.join("controller"),
        cp.folder().join("metallb.log"),
    );
    spec = spec.args([
        "--webhook-mode=disabled".to_owned(),
        "--disable-cert-rotation".to_owned(),
        "--log-level=debug".to_owned(),
        format!("--namespace={NAMESPACE}"),
        format!("--pod-name={POD}"),
        format!("--port={}", port()),
        format!("--health-probe-port={}", port()),
    ]);
    spec = spec.env("KUBECONFIG", cp.admin_kubeconfig().display().to_string());
    let controller = Process::start(&spec).unwrap();
    let services = Api::<Service>::all(cp.admin());
    eventually("every Service has an address", LIMIT, async || {
        let all = services.list(&ListParams::default()).await?;
        let waiting = all.iter().filter(|service| {
            let balanced = service
                .spec
                .as_ref()
                .is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer"));
            let status = service
                .status
                .as_ref()
                .and_then(|status| status.load_balancer.as_ref());
            balanced
                && status.is_none_or(|status| status.ingress.as_ref().is_none_or(Vec::is_empty))
        });
        let waiting: Vec<_> = waiting
            .map(|service| service.metadata.name.clone())
            .collect();
        anyhow::ensure!(waiting.is_empty(), "{waiting:?}\n{}", controller.log_tail());
        Ok(())
    })
    .await;

    let written = documents(&folder.join(WRITTEN));
    let mut crds = Vec::new();
    for name in ["ipaddresspools", "l2advertisements"] {
        crds.push(stored(&cp, &["crd", &format!("{name}.metallb.io")]).await);
    }
    let (mut configuration, mut services) = (Vec::new(), Vec::new());
    for object in written {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let (kind, name, namespace) = (
            text("/kind"),
            text("/metadata/name"),
            text("/metadata/namespace"),
        );
        let mut arguments = vec![kind.as_str(), name.as_str()];
        if !namespace.is_empty() {
            arguments.extend(["-n", &namespace]);
        }
        match kind.as_str() {
            // Nobody plays the kubelet here: its addresses are as they were written.
            "Node" => configuration.push(object.clone()),
            "Service" => services.push(stored(&cp, &arguments).await),
            _ => configuration.push(stored(&cp, &arguments).await),
        }
    }
    for (file, objects) in [
        ("crds.yaml", crds),
        ("configuration.yaml", configuration),
        ("services.yaml", services),
    ] {
        let mut text = format!(
            "# What {VERSION} has left on an API server. Written by `make record-metallb`.\n"
        );
        for object in objects {
            let _ = write!(text, "---\n{}", serde_norway::to_string(&object).unwrap());
        }
        std::fs::write(folder.join(file), text).unwrap();
    }
}

/// An object as the API server has it, without what is another in every cluster.
async fn stored(cp: &ControlPlane, arguments: &[&str]) -> Value {
    let mut all = vec!["get", "-o", "json"];
    all.extend(arguments);
    let mut object: Value = serde_json::from_str(&kubectl(cp, &all).await.unwrap()).unwrap();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for own in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "generation",
            "managedFields",
        ] {
            metadata.remove(own);
        }
    }
    match object["kind"].as_str() {
        Some("Service") => {
            if let Some(spec) = object["spec"].as_object_mut() {
                spec.retain(|field, _| {
                    !field.starts_with("clusterIP") && field != "healthCheckNodePort"
                });
            }
            for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
                port.as_object_mut().map(|port| port.remove("nodePort"));
            }
        }
        _ => {
            object["status"] = json!(null);
            object.as_object_mut().map(|object| object.remove("status"));
        }
    }
    object
}
