//! What the chart renders with everything set is taken by the API server, and its fences know other names.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, PostParams};
use mooring_central::clouds::CLOUDS;
use mooring_common::names::{NAMESPACE, policies};
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::objects::{PodBuilder, kubectl, unique};
use mooring_test_support::wait::eventually;

use super::deployed::{
    LIMIT, Verdict, assert_denied, deploy, deployed, label, patch_node, tempting_node,
};
use super::helm::{template, values};

/// What the chart renders, in a file of the control plane's folder.
fn rendered(cp: &ControlPlane, name: &str, args: &[&str]) -> PathBuf {
    let file = cp.folder().join(format!("{name}.yaml"));
    std::fs::write(&file, template(&[args, &["--include-crds"]].concat())).unwrap();
    file
}

async fn namespaces(admin: &Client, names: &[&str]) {
    for name in names {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some((*name).to_owned());
        let made = Api::<Namespace>::all(admin.clone())
            .create(&PostParams::default(), &namespace)
            .await;
        match made {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            made => drop(made.unwrap()),
        }
    }
}

/// The kinds of the Prometheus operator.
async fn monitoring_kinds(cp: &ControlPlane) {
    let crds = deploy("../tests/fixtures/prometheus-operator/crds.yaml");
    let crds = crds.to_str().unwrap();
    for args in [
        &["apply", "--server-side", "-f", crds][..],
        &["wait", "--for=condition=Established", "-f", crds],
    ] {
        kubectl(cp, args).await.unwrap();
    }
}

/// One case for each cloud, each way of PhoenixNAP's, and no cloud; with everything set besides.
#[tokio::test]
async fn the_api_server_takes_everything_of_each_cloud() {
    let cp = deployed().await;
    namespaces(&cp.admin(), &["edge", "tills"]).await;
    monitoring_kinds(cp).await;
    let mut cases: Vec<(String, String)> = CLOUDS
        .iter()
        .map(|cloud| (cloud.name.to_owned(), String::new()))
        .collect();
    cases.push(("none".to_owned(), String::new()));
    for mode in ["kube-vip://n", "bgp://", "l2://n"] {
        cases.push((
            "phoenixnap".to_owned(),
            format!("phoenixnap.loadBalancer={mode}"),
        ));
    }
    assert!(cases.len() > 8, "{cases:?}");
    for (number, (cloud, mode)) in cases.iter().enumerate() {
        let file = values("everything");
        let provider = format!("cloudProvider={cloud}");
        let mut args = vec!["--values", &file, "--set", &provider];
        if !mode.is_empty() {
            args.extend(["--set", mode]);
        }
        let file = rendered(cp, &format!("{number}-{cloud}"), &args);
        let file = file.to_str().unwrap();
        let told = kubectl(
            cp,
            &["apply", "--server-side", "--dry-run=server", "-f", file],
        )
        .await;
        let told = told.unwrap_or_else(|error| panic!("{cloud} {mode}: {error:#}"));
        for part in [
            "deployment.apps/harbour-central",
            "daemonset.apps/harbour-node",
        ] {
            assert!(told.contains(part), "{cloud} {mode}: {told}");
        }
    }
}

/// As GitOps tools do: applied without and with server-side apply, the API server has what is rendered.
#[tokio::test]
async fn what_is_applied_stays_without_a_difference_and_is_fenced_under_other_names() {
    // Of its own, since policies concern the whole of it.
    let cp = ControlPlane::start(Options::default()).await.unwrap();
    let admin = cp.admin();
    namespaces(&admin, &[NAMESPACE, "edge", "tills"]).await;
    monitoring_kinds(&cp).await;
    let everything = values("everything");
    let args = ["--values", &everything];
    assert_eq!(
        template(&args),
        template(&args),
        "no value is made by chance"
    );
    let file = rendered(&cp, "everything", &args);
    let file = file.to_str().unwrap();
    for how in ["--server-side=false", "--server-side=true"] {
        // Who applies it in the other way takes over the fields, as with a tool that changes its way.
        let forced = format!("--force-conflicts={}", how.ends_with("true"));
        kubectl(&cp, &["apply", how, &forced, "-f", file])
            .await
            .unwrap();
        // It exits with 1 where there is a difference.
        kubectl(&cp, &["diff", how, &forced, "-f", file])
            .await
            .unwrap();
    }

    let [own, other] = [tempting_node(&admin).await, tempting_node(&admin).await];
    let pod = unique("harbour-node");
    let account = "harbour-daemon";
    let made = PodBuilder::new(NAMESPACE, &pod)
        .node(&own)
        .service_account(account);
    made.create(&admin).await.unwrap();
    let daemon = cp
        .client_for(NAMESPACE, account, Some((NAMESPACE, &pod)))
        .await
        .unwrap();
    let central = cp.client_for(NAMESPACE, "harbour-ccm", None).await.unwrap();
    let team = label("team", Some("blue"));
    // RBAC permits it, so that a refusal is the policy's.
    for (who, client, policy) in [
        ("the daemon", &daemon, policies::OWN_NODE),
        ("central", &central, "mooring-central-nodes"),
    ] {
        eventually(
            "the policy is in force",
            LIMIT,
            async || match patch_node(client, &own, &team).await {
                Err(told) if told.contains(policy) => Ok(()),
                verdict => Err(format!("{who}: {verdict:?}")),
            },
        )
        .await;
    }
    let zone = label("topology.kubernetes.io/zone", Some("a"));
    patch_node(&daemon, &own, &zone).await.unwrap();
    let verdict: Verdict = patch_node(&daemon, &other, &zone).await;
    assert_denied("another Node", verdict, policies::OWN_NODE);
}
