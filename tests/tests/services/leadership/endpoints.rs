//! What is served by HTTPS, and to whom.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, PostParams};
use mooring_test_cluster::api_proxy::ApiProxy;
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::control_plane::ControlPlane;
use mooring_test_cluster::objects::{create_namespace, create_service_account, unique};
use mooring_test_cluster::shipped::CentralFlags;
use mooring_test_cluster::test_namespace::{MARKER_LIMIT, SOON};
use mooring_test_support::program::Program;
use mooring_test_support::wait::{eventually, never};
use serde_json::json;

use super::two_replicas;

#[tokio::test]
async fn pr_06_pr_16_leader_and_standby_are_healthy_without_credentials() {
    let cluster = Cluster::exclusive().await;
    let (leader, standby) = two_replicas(&cluster).await;
    for replica in [&leader, &standby] {
        for path in ["/healthz", "/livez", "/readyz"] {
            let answer = replica.endpoints.get(path, None).await.unwrap();
            assert_eq!(answer, (200, "ok".to_owned()), "{path}");
        }
        let (status, _) = replica.endpoints.get("/debug/pprof", None).await.unwrap();
        assert!(status == 401 || status == 404, "{status}");
    }
    cluster.finish().await;
}

#[tokio::test]
async fn pr_16_readyz_waits_for_the_caches_and_livez_does_not() {
    let cluster = Cluster::exclusive().await;
    let proxy = ApiProxy::start(&cluster).await.unwrap();
    let gate = proxy.hold(http::Method::GET, "/api/v1/services");
    let flags = CentralFlags::alone();
    let central = cluster.start_central_by(&proxy, flags).await;
    gate.reached().await;
    let mut looks = 0;
    never(
        "ready without having seen the Services",
        MARKER_LIMIT,
        async || {
            looks += 1;
            looks > 20 && central.endpoints.status("/livez").await == Some(200)
        },
        async || (central.endpoints.status("/readyz").await == Some(200)).then(String::new),
    )
    .await;
    assert_eq!(central.endpoints.status("/readyz").await, Some(503));
    gate.open();
    eventually("it is ready", SOON, async || {
        central.endpoints.status("/readyz").await == Some(200)
    })
    .await;
    cluster.finish().await;
}

/// The token of a new ServiceAccount, which may read `/metrics` or not.
pub(crate) async fn reader(cp: &ControlPlane, allowed: bool) -> String {
    let (client, name) = (cp.admin(), unique("scraper"));
    create_namespace(&client, "monitoring").await.unwrap();
    create_service_account(&client, "monitoring", &name)
        .await
        .unwrap();
    if allowed {
        let role: ClusterRole = serde_json::from_value(json!({
            "metadata": { "name": name },
            "rules": [{ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }],
        }))
        .unwrap();
        let binding: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
            "subjects": [{ "kind": "ServiceAccount", "namespace": "monitoring", "name": name }],
        }))
        .unwrap();
        let params = PostParams::default();
        Api::all(client.clone())
            .create(&params, &role)
            .await
            .unwrap();
        Api::all(client.clone())
            .create(&params, &binding)
            .await
            .unwrap();
    }
    cp.token_for("monitoring", &name, None).await.unwrap()
}

#[tokio::test]
async fn pr_19_metrics_are_for_those_who_may_read_them() {
    let cluster = Cluster::exclusive().await;
    let central = cluster.start_central(CentralFlags::alone()).await;
    let (allowed, refused) = (reader(&cluster, true).await, reader(&cluster, false).await);
    eventually("the permitted token reads the metrics", SOON, async || {
        let (status, body) = central.endpoints.get("/metrics", Some(&allowed)).await?;
        anyhow::ensure!(status == 200, "{status}: {body}");
        anyhow::ensure!(
            body.contains("# TYPE") && body.ends_with("# EOF\n"),
            "{body}"
        );
        Ok(())
    })
    .await;
    for (token, expected) in [(None, 401), (Some("nonsense"), 401), (Some(&*refused), 403)] {
        let (status, body) = central.endpoints.get("/metrics", token).await.unwrap();
        assert_eq!(status, expected, "{token:?}: {body}");
    }
    cluster.finish().await;
}

#[tokio::test]
async fn pr_08_without_a_port_nothing_listens_and_all_works() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(32).await;
    let central = cluster
        .start_central(CentralFlags::alone().without_endpoints())
        .await;
    namespace.create("web").await;
    namespace.served("web").await;
    assert_eq!(listening(central.process.pid()), 0);
    drop(central);
    let serving = cluster.start_central(CentralFlags::alone()).await;
    eventually("it serves", SOON, async || {
        serving.endpoints.status("/livez").await == Some(200)
    })
    .await;
    assert_eq!(
        listening(serving.process.pid()),
        1,
        "or this test sees nothing"
    );
    cluster.finish().await;
}

/// On how many TCP sockets a process listens.
fn listening(pid: u32) -> usize {
    let mut inodes = Vec::new();
    for file in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        let target = std::fs::read_link(file.unwrap().path()).unwrap_or_default();
        let target = target.to_string_lossy().into_owned();
        if let Some(inode) = target.strip_prefix("socket:[") {
            inodes.push(inode.trim_end_matches(']').to_owned());
        }
    }
    let tables = ["tcp", "tcp6"]
        .map(|name| std::fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default());
    // proc_net_tcp(5): the fourth column is the state, 0A being LISTEN; the tenth the inode.
    let listens = |line: &&str| {
        let columns: Vec<_> = line.split_whitespace().collect();
        columns.get(3) == Some(&"0A")
            && columns
                .get(9)
                .is_some_and(|inode| inodes.iter().any(|own| own == inode))
    };
    tables
        .iter()
        .flat_map(|table| table.lines())
        .filter(listens)
        .count()
}

#[tokio::test]
async fn an_idle_central_is_small() {
    let cluster = Cluster::exclusive().await;
    let own = Program::Central.path().unwrap();
    let release = own
        .parent()
        .unwrap()
        .with_file_name("release")
        .join(own.file_name().unwrap());
    let (profile, program) = if release.is_file() {
        ("release", release)
    } else {
        ("debug", own)
    };
    let flags = CentralFlags::replica().program(program);
    let central = cluster.start_central(flags).await;
    eventually("it is ready", SOON, async || {
        central.endpoints.status("/readyz").await == Some(200)
    })
    .await;
    super::new_holder(&cluster, None, SOON).await;
    let resident = central.process.resident_kib().unwrap();
    mooring_test_support::figures::figure(
        "Resident memory of an idle mooring-central",
        format_args!("{resident} KiB ({profile} build, target 20480 KiB)"),
    );
    let limit = if profile == "release" {
        20 * 1024
    } else {
        60 * 1024
    };
    assert!(resident < limit, "{resident} KiB resident");
    cluster.finish().await;
}
