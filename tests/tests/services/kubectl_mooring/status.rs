//! `status`, the rights that it needs, and `plan`.

use std::process::Stdio;

use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::objects::NodeBuilder;
use mooring_test_cluster::shipped::CentralFlags;
use mooring_test_cluster::test_namespace::SOON;
use mooring_test_support::program::Program;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use super::run::{mooring, nodes_say, run, viewer};

#[tokio::test]
async fn km_01_a_viewer_sees_who_speaks_in_each_form_and_program() {
    let cluster = Cluster::exclusive().await;
    for name in ["n1", "n2"] {
        let node = NodeBuilder::new(name).provider_id(&format!("cloudlycke://{name}"));
        node.ready().create(&cluster.admin).await.unwrap();
    }
    let _central = cluster.start_central(CentralFlags::replica()).await;
    let namespace = cluster.namespace_with_network(4).await;
    namespace.network_is(&namespace.network, true).await;
    namespace.create("web").await;
    let address = namespace.served("web").await.remove(0);
    nodes_say(&namespace, &address, &["n1", "n2"]).await;

    let viewer = viewer(&cluster).await;
    let key = format!("{}/web", namespace.name);
    let said = mooring(&viewer, &["status", "-o", "json"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    let status = said.json();
    let service = &status["services"][0];
    assert_eq!(service["name"], json!(key), "{status:#}");
    assert_eq!(service["servedBy"], "L2Networks");
    let shown = &service["addresses"][0];
    assert_eq!(
        [&shown["address"], &shown["speaker"]],
        [&json!(address), &json!("n1")]
    );
    assert_eq!(status["leader"]["isCurrent"], true, "{status:#}");
    assert_eq!(status["clouds"][0]["nodes"], 2, "{status:#}");
    assert_eq!(status["nodes"][0]["speaksFor"], 1, "{status:#}");

    for (arguments, words) in [
        (&["status"][..], "SPEAKER"),
        (&["status", "-o", "wide"], "PROVIDER ID"),
        (&["status", "--output=yaml"], "speaker: n1"),
    ] {
        let said = mooring(&viewer, arguments).await;
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(
            said.text.contains(words) && said.text.contains(&address),
            "{said:?}"
        );
        assert!(
            !said.text.contains('\u{1b}'),
            "no terminal, no colours: {said:?}"
        );
    }
    let central = run(Program::Central, &viewer, &["status", "-o", "json"]).await;
    assert_eq!(central.json()["services"], status["services"]);
    cluster.finish().await;
}

#[tokio::test]
async fn km_02_kubectl_finds_the_plugin_and_shells_can_complete_it() {
    let cluster = Cluster::exclusive().await;
    let program = Program::Kubectl.path().unwrap();
    let folder = program.parent().unwrap().display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    let output = tokio::process::Command::new(cluster.kubectl())
        .args(["mooring", "status", "-o", "json"])
        .env("PATH", path)
        .env("KUBECONFIG", cluster.admin_kubeconfig())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let status: Value = serde_json::from_slice(&output.stdout).expect("a status");
    assert_eq!(status["missingRights"], json!([]), "{status:#}");
    for shell in ["bash", "zsh", "fish", "powershell", "kubectl"] {
        let said = mooring(cluster.admin_kubeconfig(), &["completion", shell]).await;
        assert!(
            said.code == Some(0) && said.text.contains("mooring"),
            "{said:?}"
        );
        if shell == "bash" {
            let script = cluster.folder().join("completion.bash");
            std::fs::write(&script, &said.text).unwrap();
            let checked = std::process::Command::new("bash")
                .arg("-n")
                .arg(&script)
                .status();
            assert!(checked.unwrap().success(), "{}", said.text);
        }
    }
    for wrong in [
        &["completion", "tcsh"][..],
        &["stat"],
        &["status", "-o", "table"],
    ] {
        let said = mooring(cluster.admin_kubeconfig(), wrong).await;
        assert!(
            said.code == Some(2) && !said.complaint.is_empty(),
            "{said:?}"
        );
    }
    cluster.finish().await;
}

/// The rules that are named as missing are the ones that grant all of it.
#[tokio::test]
async fn km_03_who_lacks_rights_is_told_the_rules_that_grant_them() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(2).await;
    let nobody = cluster.kubeconfig_for_user("nobody", None).unwrap();
    let said = mooring(&nobody, &["status", "-o", "json"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    let missing = said.json()["missingRights"].as_array().cloned().unwrap();
    let resources: Vec<&str> = missing
        .iter()
        .filter_map(|one| one["resource"].as_str())
        .collect();
    for resource in [
        "nodes",
        "services",
        "l2networks.mooring.dev",
        "leases.coordination.k8s.io",
    ] {
        assert!(resources.contains(&resource), "{resources:?}");
    }
    let text = mooring(&nobody, &["status"]).await.text;
    assert!(
        text.contains("missing rights") && text.contains("list nodes: not known is"),
        "{text}"
    );
    let service = format!("{}/web", namespace.name);
    for arguments in [
        &["doctor", "node", "n1"][..],
        &["doctor", "service", &service],
        &["drain-check", "n1"],
        &["plan", "--all"],
    ] {
        let said = mooring(&nobody, arguments).await;
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.complaint.contains("missing rights"), "{said:?}");
    }

    let rules: Vec<String> = missing
        .iter()
        .map(|right| format!("  - {}\n", right["rule"].as_str().unwrap()))
        .collect();
    let manifest = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: told}}\nrules:\n{}---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: told}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: told}}\n\
         subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: nobody}}]\n",
        rules.concat()
    );
    let file = cluster.folder().join("told.yaml");
    std::fs::write(&file, manifest).unwrap();
    mooring_test_cluster::objects::apply_manifests(&cluster, &file)
        .await
        .unwrap();
    eventually("nothing is missing", SOON, async || {
        let said = mooring(&nobody, &["status", "-o", "json"]).await;
        match said.json()["missingRights"] == json!([]) {
            true => Ok(()),
            false => Err(said),
        }
    })
    .await;
    cluster.finish().await;
}

#[tokio::test]
async fn km_04_a_plan_is_what_central_then_does() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(2).await;
    namespace.create("web").await;
    let refused = namespace.service("late").requested_address("203.0.113.1");
    refused.create(&cluster.admin).await.unwrap();
    let viewer = viewer(&cluster).await;
    let (web, late) = (
        format!("{}/web", namespace.name),
        format!("{}/late", namespace.name),
    );
    let said = mooring(&viewer, &["plan", &web, "-o", "json"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    let steps = said.json()[0]["steps"].clone();
    let wanted = format!("give it {} and", namespace.address(0));
    let single = format!("give it {} of {}", namespace.address(0), namespace.network);
    let told = steps[1]["step"].as_str().unwrap();
    assert!(told == single || told.starts_with(&wanted), "{steps:#}");
    let said = mooring(&viewer, &["plan", "--all", "-o", "json"]).await;
    assert_eq!(said.code, Some(1), "{said:?}");
    let plans = said.json().as_array().cloned().unwrap();
    let of_late = plans
        .iter()
        .find(|plan| plan["service"] == json!(late))
        .unwrap();
    let why = of_late["refused"].as_str().unwrap();
    // Central's own plan says the same.
    let flags = ["plan", "--all", "-o", "json", "--cloud-provider=none"];
    let central = run(Program::Central, &viewer, &flags).await;
    assert_eq!(central.json(), said.json(), "{central:?}");

    let _central = cluster.start_central(CentralFlags::alone()).await;
    namespace.served_with("web", &[namespace.address(0)]).await;
    let event = namespace
        .told(
            "late",
            mooring_common::names::reasons::SYNC_LOAD_BALANCER_FAILED,
        )
        .await;
    assert!(event.note.ends_with(why), "{why:?}: {event:?}");
    let said = mooring(&viewer, &["plan", &web, "-o", "json"]).await;
    assert_eq!(said.json()[0]["steps"], json!([]), "{said:?}");
    cluster.finish().await;
}
