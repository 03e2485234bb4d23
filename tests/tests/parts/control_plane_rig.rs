//! The control plane rig itself: it starts, tells the truth, and leaves nothing behind.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ListParams, PostParams};
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::objects::{
    NodeBuilder, PodBuilder, ServiceBuilder, create_namespace, create_service_account, kubectl,
    unique,
};
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::scratch::Scratch;
use mooring_test_support::wait::eventually;

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_token_bound_to_a_pod_names_its_node() {
    let control_plane = ControlPlane::shared();
    println!("ready after {:?}", control_plane.ready_after());
    let admin = control_plane.admin();
    let (namespace, node) = (unique("claims"), unique("node"));
    create_namespace(&admin, &namespace).await.unwrap();
    create_service_account(&admin, &namespace, "daemon")
        .await
        .unwrap();
    NodeBuilder::new(&node)
        .tainted()
        .ready()
        .create(&admin)
        .await
        .unwrap();
    PodBuilder::new(&namespace, "daemon-1")
        .node(&node)
        .service_account("daemon")
        .create(&admin)
        .await
        .unwrap();

    for (pod, expected) in [
        (Some((namespace.as_str(), "daemon-1")), Some(&node)),
        (None, None),
    ] {
        let client = control_plane
            .client_for(&namespace, "daemon", pod)
            .await
            .unwrap();
        let review = Api::<SelfSubjectReview>::all(client)
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await
            .unwrap();
        let user = review.status.unwrap().user_info.unwrap();
        assert_eq!(
            user.username.unwrap(),
            format!("system:serviceaccount:{namespace}:daemon")
        );
        let extra = user.extra.unwrap_or_default();
        let claim = extra
            .get("authentication.kubernetes.io/node-name")
            .and_then(|values| values.first());
        assert_eq!(claim, expected);
    }
}

#[tokio::test]
async fn the_audit_log_tells_who_wrote_and_who_was_refused() {
    let control_plane = ControlPlane::shared();
    let admin = control_plane.admin();
    let (namespace, node) = (unique("audit"), unique("node"));
    create_namespace(&admin, &namespace).await.unwrap();
    create_service_account(&admin, &namespace, "nobody")
        .await
        .unwrap();
    NodeBuilder::new(&node)
        .ready()
        .create(&admin)
        .await
        .unwrap();
    let nobody = control_plane
        .client_for(&namespace, "nobody", None)
        .await
        .unwrap();
    Api::<Node>::all(nobody)
        .get(&node)
        .await
        .expect_err("a new ServiceAccount has no rights");

    let log = control_plane.audit_settled().await;
    let refused = log.by_service_account(&namespace, "nobody").forbidden();
    assert_eq!(refused.len(), 1, "{}", refused.summary());
    assert_eq!(
        (refused[0].verb.as_str(), refused[0].name.as_str()),
        ("get", node.as_str())
    );

    let writes = log.writes_by("mooring-test-admin").of("nodes").named(&node);
    let verbs: Vec<_> = writes
        .iter()
        .map(|record| (record.verb.as_str(), record.subresource.as_str()))
        .collect();
    assert_eq!(verbs, [("create", ""), ("patch", "status")]);
    let body = writes[1].body.as_ref().expect("bodies of writes are kept");
    assert_eq!(body["status"]["conditions"][0]["type"], "Ready");

    // From the middle of the first line on, as if that had been half written when the mark was taken.
    let later = control_plane.audit_settled_from(10).await;
    assert!(later.iter().any(|record| record.id == writes[0].id));
}

#[tokio::test]
async fn a_pod_without_a_kubelet_gets_its_endpoint() {
    let control_plane = ControlPlane::shared();
    let admin = control_plane.admin();
    let namespace = unique("endpoints");
    create_namespace(&admin, &namespace).await.unwrap();
    ServiceBuilder::load_balancer(&namespace, "web")
        .port(80, 8080)
        .selector("app", "web")
        .create(&admin)
        .await
        .unwrap();
    let node = unique("node");
    NodeBuilder::new(&node)
        .ready()
        .create(&admin)
        .await
        .unwrap();
    PodBuilder::new(&namespace, "web-1")
        .node(&node)
        .label("app", "web")
        .running(&["10.77.9.9"])
        .create(&admin)
        .await
        .unwrap();

    let slices = Api::<EndpointSlice>::namespaced(admin.clone(), &namespace);
    let selector = ListParams::default().labels("kubernetes.io/service-name=web");
    eventually("the Pod's address is a ready endpoint", LIMIT, async || {
        let list = slices.list(&selector).await.ok()?;
        let ready = list
            .items
            .into_iter()
            .flat_map(|slice| slice.endpoints.into_iter().flatten())
            .any(|endpoint| {
                endpoint.addresses == ["10.77.9.9"]
                    && endpoint.conditions.is_some_and(|c| c.ready == Some(true))
            });
        ready.then_some(())
    })
    .await;
    assert!(
        kubectl(control_plane, &["get", "services", "-n", &namespace])
            .await
            .unwrap()
            .contains("web")
    );
}

#[tokio::test]
async fn two_stand_side_by_side_survive_an_outage_and_leave_nothing() {
    let (one, two) = tokio::join!(
        ControlPlane::start(Options::default()),
        ControlPlane::start(Options::default())
    );
    let (one, two) = (one.unwrap(), two.unwrap());
    println!(
        "side by side, ready after {:?} and {:?}",
        one.ready_after(),
        two.ready_after()
    );
    assert_ne!(one.url(), two.url());
    create_namespace(&one.admin(), "only-here").await.unwrap();

    one.stop_api_server();
    Api::<Service>::all(one.admin())
        .list(&ListParams::default())
        .await
        .expect_err("it is stopped");
    Api::<Service>::all(two.admin())
        .list(&ListParams::default())
        .await
        .expect("the other goes on");
    one.start_api_server().await.unwrap();
    kubectl(&one, &["get", "namespace", "only-here"])
        .await
        .expect("the data have survived");
    kubectl(&two, &["get", "namespace", "only-here"])
        .await
        .expect_err("they share nothing");

    let (folder, processes) = (one.folder().to_owned(), one.processes());
    assert_eq!(processes.len(), 2);
    drop(one);
    for (pid, name) in processes {
        assert!(is_gone(pid), "{name} must be gone");
    }
    assert!(
        std::env::var_os("KEEP").is_some() || !folder.exists(),
        "the folder must be gone"
    );
}

/// Where the killed program tells its folder and its processes.
const REPORT: &str = "MOORING_RIG_REPORT";

#[tokio::test]
async fn nothing_is_left_when_the_test_program_is_killed() {
    let scratch = Scratch::new("report").unwrap();
    let report = scratch.join("report.json");
    let spec = Spec::new(
        "victim",
        std::env::current_exe().unwrap(),
        scratch.join("victim.log"),
    )
    .args([
        "--exact",
        "--ignored",
        "--nocapture",
        "control_plane_rig::holds_a_control_plane_until_it_is_killed",
    ])
    .env(REPORT, report.to_str().unwrap())
    .env("KEEP", "");
    let victim = Process::start(&spec).unwrap();
    let (folder, processes) = eventually("the victim has started", LIMIT, async || {
        assert!(victim.is_running(), "{}", victim.log_tail());
        let bytes = std::fs::read(&report).map_err(|error| error.to_string())?;
        serde_json::from_slice::<(PathBuf, Vec<(u32, String)>)>(&bytes)
            .map_err(|error| error.to_string())
    })
    .await;
    assert!(folder.exists());

    victim.kill();
    eventually("its servers and its folder are gone", LIMIT, async || {
        processes.iter().all(|(pid, _)| is_gone(*pid)) && !folder.exists()
    })
    .await;
}

#[tokio::test]
#[ignore = "started by nothing_is_left_when_the_test_program_is_killed"]
async fn holds_a_control_plane_until_it_is_killed() {
    let Some(report) = std::env::var_os(REPORT) else {
        return; // somebody runs all ignored tests
    };
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let content = serde_json::to_vec(&(control_plane.folder(), control_plane.processes())).unwrap();
    std::fs::write(report, content).unwrap();
    std::future::pending::<()>().await;
}

/// A zombie counts as gone: whoever has inherited it may be slow to take notice.
fn is_gone(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| {
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.starts_with(" Z"))
    })
}
