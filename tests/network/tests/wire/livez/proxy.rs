//! What the service proxy says counts for health checks too.

use k8s_openapi::api::core::v1::Service;
use kube::api::Api;
use mooring_test_cluster::control_plane::ControlPlane;
use mooring_test_cluster::objects::ServiceBuilder;
use mooring_test_netlab::fake_proxy::FakeProxy;
use mooring_test_support::wait::eventually;
use serde_json::json;

use super::daemon::{Daemon, SOON};

#[tokio::test]
async fn a_service_proxy_that_does_not_work_makes_all_unhealthy() {
    let proxy = FakeProxy::start(0);
    let flag = format!("--service-proxy-healthz={}", proxy.address);
    let daemon = Daemon::start_on(ControlPlane::shared(), &[&flag]).await;
    daemon.has_web().await;
    proxy.says(503);
    let answer = daemon.service_is("web", 503).await;
    assert_eq!(answer.json()["serviceProxyHealthy"], json!(false));
    for path in ["/livez", "/healthz"] {
        assert_eq!(daemon.get(path).status, 503, "{path}");
    }
    // The kubelet must not start the daemon again for that, nor stop an update of it.
    for path in ["/livez/ping", "/readyz"] {
        eventually(&format!("{path} is well"), SOON, async || {
            daemon.get(path).status == 200
        })
        .await;
    }
    proxy.says(200);
    let answer = daemon.service_is("web", 200).await;
    assert_eq!(answer.json()["serviceProxyHealthy"], json!(true));
}

#[tokio::test]
async fn with_read_through_the_service_proxy_is_asked_about_the_service() {
    let daemon = Daemon::start_on(ControlPlane::shared(), &["--livez-read-through"]).await;
    let service = ServiceBuilder::load_balancer(&daemon.namespace, "web").local();
    daemon.has_service(service, "web").await;
    let services = Api::<Service>::namespaced(daemon.admin.clone(), &daemon.namespace);
    let spec = services.get("web").await.unwrap().spec.unwrap();
    let port = spec.health_check_node_port.expect("a port of its own");
    // Where nobody answers, the daemon's own word counts.
    daemon.service_is("web", 200).await;
    let proxy = FakeProxy::start(u16::try_from(port).unwrap());
    proxy.says(503);
    let answer = daemon.service_is("web", 503).await;
    assert_eq!(answer.json()["localEndpoints"], json!(1));
    proxy.says(200);
    daemon.service_is("web", 200).await;
    eventually("the Node itself is healthy", SOON, async || {
        daemon.get("/healthz").status == 200
    })
    .await;
}
