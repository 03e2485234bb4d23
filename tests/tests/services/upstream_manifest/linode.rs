//! The DaemonSet of Linode's Go controller, as the API server has it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use http::StatusCode;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{EnvVar, Node, Secret, Service};
use kube::api::{Api, PostParams};
use mooring_cloud_sim::TOKEN;
use mooring_cloud_sim::cloud::Server;
use mooring_common::names::taints;
use mooring_test_cluster::cluster::has_taint;
use mooring_test_cluster::objects::{NodeBuilder, ServiceBuilder};
use mooring_test_support::wait::eventually;
use rcgen::generate_simple_self_signed;
use serde_json::json;

use super::cluster::{Container, LINODE, NAMESPACE, SOON, UpstreamCluster};
use super::start::{does_the_work_of_the_old_one, has_address};

/// The name of the program in Mooring's image: the DaemonSet has arguments and no command.
const OWN_NAME: &str = "mooring-central";

/// What the kubelet would start the container with, and where the simulated cloud is.
async fn container(cluster: &UpstreamCluster) -> Container {
    let admin = cluster.cp.admin();
    let secret = Api::<Secret>::namespaced(admin.clone(), NAMESPACE);
    let secret = secret.get("ccm-linode").await.unwrap().data.unwrap();
    let value = |variable: EnvVar| {
        let from = variable.value_from.and_then(|from| from.secret_key_ref);
        let secret = from.map(|from| String::from_utf8(secret[&from.key].0.clone()).unwrap());
        (variable.name, secret.or(variable.value).unwrap())
    };
    let sets = Api::<DaemonSet>::namespaced(admin, NAMESPACE);
    let set = sets.get("ccm-linode").await.unwrap().spec.unwrap();
    let pod = set.template.spec.unwrap();
    let [container] = <[_; 1]>::try_from(pod.containers).unwrap();
    assert_eq!(container.command, None);
    let own = container.env.into_iter().flatten().map(value);
    // Where the manifest says something, it wins.
    let simulated = cluster.cloud.environment().into_iter();
    let simulated = simulated.map(|(name, value)| (name.to_owned(), value));
    let environment: BTreeMap<String, String> = simulated.chain(own).collect();
    Container {
        arguments: container.args.unwrap(),
        environment: environment.into_iter().collect(),
    }
}

async fn initialised(cluster: &UpstreamCluster, name: &str) {
    let admin = cluster.cp.admin();
    cluster
        .cloud
        .add(Server::named(name).private("192.168.130.1"));
    let node = NodeBuilder::new(name).tainted().ready();
    node.create(&admin).await.unwrap();
    let nodes = Api::<Node>::all(admin);
    eventually(&format!("{name} is initialised"), SOON * 3, async || {
        let node = nodes.get(name).await.unwrap();
        !has_taint(&node, taints::UNINITIALIZED)
    })
    .await;
}

#[tokio::test]
async fn its_daemon_set_runs_central_with_another_image_alone() {
    let cluster = UpstreamCluster::start(LINODE).await;
    let container = container(&cluster).await;
    let because = "because=\"LINODE_API_TOKEN is set\"";
    does_the_work_of_the_old_one(cluster, container, OWN_NAME, because).await;
}

/// The ClusterRole grants `get` of Secrets and nothing else.
#[tokio::test]
async fn a_certificate_is_read_with_the_rights_of_its_cluster_role() {
    let cluster = UpstreamCluster::start(LINODE).await;
    let (admin, container) = (cluster.cp.admin(), container(&cluster).await);
    let (central, _) = cluster.central(OWN_NAME, container);
    initialised(&cluster, "node").await;
    let pair = generate_simple_self_signed(["shop.example".to_owned()]).unwrap();
    let secret = json!({
        "metadata": { "name": "shop" },
        "type": "kubernetes.io/tls",
        "stringData": { "tls.crt": pair.cert.pem(), "tls.key": pair.signing_key.serialize_pem() },
    });
    let secrets = Api::<Secret>::namespaced(admin.clone(), "default");
    let secret = serde_json::from_value(secret).unwrap();
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .unwrap();
    let service = ServiceBuilder::load_balancer("default", "shop").port(443, 8443);
    let service = service.annotation(
        "service.beta.kubernetes.io/linode-loadbalancer-port-443",
        r#"{"protocol": "https", "tls-secret-name": "shop"}"#,
    );
    service.create(&admin).await.unwrap();
    let services = Api::<Service>::namespaced(admin, "default");
    eventually("the Service has an address", SOON * 3, async || {
        has_address(&services.get("shop").await.unwrap())
    })
    .await;
    central.terminate().unwrap();
    assert_eq!(central.wait_for_code(SOON).await, 0);
    let log = central.log();
    assert!(!log.contains("PRIVATE KEY"), "{log}");
    cluster.assert_no_forbidden().await;
}

/// As its chart renders them, quotes included, but for routes and Pod CIDRs.
#[tokio::test]
async fn all_that_its_chart_may_render_is_taken() {
    let cluster = UpstreamCluster::start(LINODE).await;
    let mut container = container(&cluster).await;
    let options = [
        "--linodego-debug=true",
        "--disable-nodebalancer-vpc-backends=true",
        "--nodebalancer-backend-ipv4-subnet-id=7",
        "--bgp-node-selector=cilium-bgp-peering=true",
        "--ip-holder-suffix=shop",
        "--load-balancer-type=cilium-bgp",
        "--enable-token-health-checker=true",
        "--nodebalancer-tags=one two",
        "--authorization-always-allow-paths=\"/metrics\"",
        "--default-nodebalancer-type=premium",
        "--enable-ipv6-for-loadbalancers=true",
        "--enable-ipv6-for-nodebalancer-backends=true",
        "--nodebalancer-backend-ipv4-subnet=10.100.0.0/24",
        "--nodebalancer-prefix=shop",
        "--linode-tag-filter=shop",
    ];
    let options = options.into_iter().map(ToOwned::to_owned);
    container.arguments.extend(options);
    let (central, endpoints) = cluster.central(OWN_NAME, container);
    let counted = eventually("calls are counted", SOON, async || {
        let (status, text) = endpoints.get("/metrics", None).await.ok()?;
        assert_eq!(status, 200, "{text}");
        text.contains("ListInstances").then_some(text)
    })
    .await;
    for line in [
        "ccm_linode_client_requests_total{method=\"GetProfile\",result=\"ok\"} 1",
        "ccm_linode_client_requests_total{method=\"ListInstances\",result=\"ok\"} ",
    ] {
        assert!(counted.contains(line), "{line}:\n{counted}");
    }
    central.terminate().unwrap();
    assert_eq!(central.wait_for_code(SOON).await, 0);
    let log = central.log();
    assert_eq!(log.matches("--ip-holder-suffix").count(), 1, "{log}");
    assert!(log.contains("an exchange with a cloud"), "{log}");
    assert!(!log.contains(TOKEN), "{log}");
}

/// PR-18. The file is a mounted Secret, whose content changes while the program runs.
#[tokio::test]
async fn pr_18_a_token_that_is_replaced_in_the_file_is_used_without_a_restart() {
    let cluster = UpstreamCluster::start(LINODE).await;
    let file = cluster.cp.folder().join("api-token");
    std::fs::write(&file, TOKEN).unwrap();
    let mut container = container(&cluster).await;
    let path = file.display().to_string();
    let variables = [
        ("LINODE_API_TOKEN_FILE", &*path),
        ("LINODE_API_TOKEN", "no token"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    container.environment.extend(variables);
    let (central, _) = cluster.central(OWN_NAME, container);
    initialised(&cluster, "before").await;
    cluster.cloud.linode().unwrap().set_token("the-next-token");
    let since = Instant::now();
    let admin = cluster.cp.admin();
    cluster
        .cloud
        .add(Server::named("after").private("192.168.130.2"));
    let node = NodeBuilder::new("after").tainted().ready();
    node.create(&admin).await.unwrap();
    eventually("the old token is refused", SOON, async || {
        let calls = cluster.cloud.calls().since(since);
        !calls.answered(StatusCode::UNAUTHORIZED).is_empty()
    })
    .await;
    std::fs::write(&file, "the-next-token\n").unwrap();
    let nodes = Api::<Node>::all(admin);
    eventually(
        "the next one is used",
        Duration::from_secs(60),
        async || {
            let node = nodes.get("after").await.unwrap();
            !has_taint(&node, taints::UNINITIALIZED)
        },
    )
    .await;
    assert!(central.is_running());
    let log = central.log();
    for token in [TOKEN, "the-next-token"] {
        assert!(!log.contains(token), "{log}");
    }
}
