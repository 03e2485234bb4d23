//! Beside a real kube-proxy, in the network namespace of one Node.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use mooring_common::names::labels;
use mooring_test_cluster::objects::{PodBuilder, ServiceBuilder, create_namespace};
use mooring_test_netlab::netlab::{Answer, Host, in_netlab};
use mooring_test_netlab::netlab_cluster::{Kubelet, NetlabCluster};
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use super::daemon::SOON;
use super::monitor::{Monitor, SPACING};

/// For how long nobody must have answered for the service proxy.
const SILENCE: Duration = Duration::from_secs(60);

const APP: &str = "app";

/// A Node with a daemon, and a Service whose one endpoint is there.
struct LivezCluster {
    daemon: Process,
    spec: Spec,
    began: Instant,
    /// `healthCheckNodePort`.
    health_port: u16,
    node_port: u16,
    pod: String,
    _backend: Process,
    _central: Process,
    _kubelets: BTreeMap<String, Kubelet>,
    netlab: NetlabCluster,
}

impl LivezCluster {
    async fn start(flags: &[&str]) -> Self {
        let cluster = NetlabCluster::start(&["n1"]).await.unwrap();
        let kubelets = cluster.register().await.unwrap();
        let central = cluster.start_central(&[]).await.unwrap();
        let n1 = cluster.node("n1");
        let spec = cluster.daemon_spec(n1, flags).await.unwrap();
        let began = Instant::now();
        let daemon = n1.start(spec.clone()).unwrap();
        let admin = cluster.admin.clone();
        create_namespace(&admin, APP).await.unwrap();
        let (pod, _) = n1.add_pod(5).unwrap();
        let backend = n1.serve(8080, "served").await.unwrap();
        pod_at(&admin, &pod.to_string()).await;
        ServiceBuilder::load_balancer(APP, "web")
            .port(80, 8080)
            .selector("app", "web")
            .local()
            .create(&admin)
            .await
            .unwrap();
        let services = Api::<Service>::namespaced(admin.clone(), APP);
        let spec_of = services.get("web").await.unwrap().spec.unwrap();
        let port = |port: Option<i32>| u16::try_from(port.expect("a port")).unwrap();
        let nodes = Api::<Node>::all(admin);
        eventually("the Node has its address", SOON, async || {
            let status = nodes.get("n1").await.ok()?.status?;
            (!status.addresses?.is_empty()).then_some(())
        })
        .await;
        Self {
            health_port: port(spec_of.health_check_node_port),
            node_port: port(spec_of.ports.unwrap()[0].node_port),
            daemon,
            spec,
            began,
            pod: pod.to_string(),
            _backend: backend,
            _central: central,
            _kubelets: kubelets,
            netlab: cluster,
        }
    }

    fn node(&self) -> &Host {
        self.netlab.node("n1")
    }

    fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.node().ipv4().into(), port)
    }

    /// From another host, as a load balancer does.
    async fn get(&self, port: u16, path: &str) -> anyhow::Result<Answer> {
        let url = format!("http://{}{path}", self.at(port));
        self.netlab.client.get(&url).await
    }

    async fn ours(&self) -> anyhow::Result<Answer> {
        self.get(10266, "/services/app/web").await
    }

    /// What is answered at the Service's own port, by whomever.
    async fn at_its_port(&self) -> anyhow::Result<Answer> {
        self.get(self.health_port, "/livez").await
    }

    async fn patch_node(&self, patch: Value) {
        let nodes = Api::<Node>::all(self.netlab.admin.clone());
        let (patch, how) = (Patch::Merge(patch), PatchParams::default());
        nodes.patch("n1", &how, &patch).await.unwrap();
    }
}

async fn pod_at(admin: &kube::Client, address: &str) {
    PodBuilder::new(APP, "web-1")
        .node("n1")
        .label("app", "web")
        .running(&[address])
        .create(admin)
        .await
        .unwrap();
}

fn is_of_kube_proxy(answer: &Answer) -> bool {
    !answer.body.contains("viewAgeSeconds")
}

/// Whoever read kube-proxy's answer reads the daemon's alike.
fn assert_compatible(kube_proxy: &Answer, ours: &Answer) {
    assert!(is_of_kube_proxy(kube_proxy), "{kube_proxy:?}");
    assert_eq!(ours.status, kube_proxy.status, "{ours:?} {kube_proxy:?}");
    for name in [
        "content-type",
        "x-content-type-options",
        "x-load-balancing-endpoint-weight",
    ] {
        assert_eq!(ours.header(name), kube_proxy.header(name), "{name}");
    }
    let body = |answer: &Answer| -> Value { serde_json::from_str(&answer.body).unwrap() };
    let (theirs, ours) = (body(kube_proxy), body(ours));
    for (key, value) in theirs.as_object().unwrap() {
        assert_eq!(&ours[key], value, "{key}");
    }
}

#[test]
fn beside_kube_proxy_both_say_the_same() {
    in_netlab(async || {
        let cluster = LivezCluster::start(&[
            "--livez-health-check-node-ports",
            "--livez-read-through",
            "--livez-detail-networks=0.0.0.0/0",
        ])
        .await;
        let control_plane = &cluster.netlab;
        let _proxy = cluster.node().kube_proxy(control_plane).await.unwrap();
        let both_say = async |status: u16| {
            eventually(&format!("both say {status}"), SOON, async || {
                let (theirs, ours) = (cluster.at_its_port().await?, cluster.ours().await?);
                let statuses = (theirs.status, ours.status);
                anyhow::ensure!(statuses == (status, status), "{theirs:?} {ours:?}");
                assert_compatible(&theirs, &ours);
                anyhow::Ok(())
            })
            .await;
        };
        both_say(200).await;
        let pods = Api::<Pod>::namespaced(cluster.netlab.admin.clone(), APP);
        let slowly = DeleteParams::default().grace_period(30);
        pods.delete("web-1", &slowly).await.unwrap();
        both_say(503).await;
        let at_once = DeleteParams::default().grace_period(0);
        pods.delete("web-1", &at_once).await.unwrap();
        eventually("the Pod is gone", SOON, async || {
            matches!(pods.get_opt("web-1").await, Ok(None))
        })
        .await;
        pod_at(&cluster.netlab.admin, &cluster.pod).await;
        both_say(200).await;

        // A Node that is drained gets nothing new by what is answered, and serves what comes.
        let taint = json!([{
            "key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule",
        }]);
        cluster.patch_node(json!({"spec": {"taints": taint}})).await;
        eventually("both say that the Node is drained", SOON, async || {
            let theirs = cluster.get(10256, "/healthz").await?;
            let ours = cluster.get(10266, "/healthz").await?;
            anyhow::ensure!((theirs.status, ours.status) == (503, 503), "{ours:?}");
            anyhow::Ok(())
        })
        .await;
        let ours = cluster.ours().await.unwrap();
        let body: Value = serde_json::from_str(&ours.body).unwrap();
        assert_eq!((ours.status, &body["draining"]), (503, &json!(true)));
        // That is about the Node: kube-proxy itself works, and so does the daemon.
        assert_eq!(body["serviceProxyHealthy"], json!(true));
        assert_eq!(cluster.get(10266, "/livez").await.unwrap().status, 200);
        let served = cluster.get(cluster.node_port, "/").await.unwrap();
        assert_eq!(served.body, "served");
    });
}

#[test]
fn ports_are_taken_after_a_minute_of_silence_and_given_back_to_kube_proxy() {
    in_netlab(async || {
        let mut cluster = LivezCluster::start(&[
            "--livez-health-check-node-ports",
            "--livez-detail-networks=0.0.0.0/0",
        ])
        .await;
        let answer = eventually("the port is taken", SILENCE + SOON, async || {
            cluster.at_its_port().await
        })
        .await;
        let after = cluster.began.elapsed();
        assert!(after >= SILENCE, "kube-proxy had {after:?} to come");
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(!is_of_kube_proxy(&answer), "{answer:?}");

        // The next daemon need not wait: it sees whose the port is.
        let port = cluster.at(cluster.health_port);
        let monitors = [
            Monitor::start(port, "/", SPACING),
            Monitor::start(cluster.at(10266), "/services/app/web", SPACING),
        ];
        let mut spec = cluster.spec.clone();
        spec.log.set_extension("next.log");
        let next = cluster.node().start(spec).unwrap();
        let taken = "health checks of a Service: taken";
        for words in ["waiting until it ends", taken] {
            eventually(&format!("it logs {words:?}"), SOON, async || {
                next.log().contains(words)
            })
            .await;
        }
        let last = std::mem::replace(&mut cluster.daemon, next);
        last.terminate().unwrap();
        assert_eq!(last.wait_for_code(SOON).await, 0);
        for monitor in monitors {
            monitor.asked(20).await;
            assert_eq!(monitor.complaints(), Vec::<String>::new());
        }

        let control_plane = &cluster.netlab;
        let _proxy = cluster.node().kube_proxy(control_plane).await.unwrap();
        let theirs = eventually("kube-proxy has the port", SOON * 3, async || {
            let answer = cluster.at_its_port().await?;
            anyhow::ensure!(is_of_kube_proxy(&answer), "{answer:?}");
            anyhow::ensure!(answer.status == 200, "{answer:?}");
            anyhow::Ok(answer)
        })
        .await;
        assert_compatible(&theirs, &cluster.ours().await.unwrap());

        // Excluded, the daemon says no; kube-proxy does not look at that.
        let excluded = json!({ labels::EXCLUDE_FROM_LOAD_BALANCERS: "true" });
        cluster
            .patch_node(json!({"metadata": {"labels": excluded}}))
            .await;
        eventually("the daemon says no", SOON, async || {
            cluster
                .ours()
                .await
                .is_ok_and(|answer| answer.status == 503)
        })
        .await;
        assert_eq!(cluster.at_its_port().await.unwrap().status, 200);
    });
}
