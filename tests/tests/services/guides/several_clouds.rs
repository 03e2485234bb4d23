//! A cluster with machines of several clouds, installed by its guide, and what its administrator does there: look with
//! `kubectl mooring`, find out why a Node stays tainted, have it monitored.

use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::Api;
use mooring_cloud_sim::TOKEN;
use mooring_cloud_sim::cloud::{Cloud, Server};
use mooring_common::names::{annotations, finalizers, reasons, taints};
use mooring_test_cluster::cluster::has_taint;
use mooring_test_cluster::objects::{NodeBuilder, ServiceBuilder, create_namespace, events_for};
use mooring_test_support::wait::eventually;

use super::{AT_LAST, Desk};
use crate::change_over::kubelet::machine;

/// The machine that no cloud knows.
const MACHINES: &str = "version: 1\nnodes:\n  - match: {name: n3}\n    id: n3\n    addresses:\n      \
                        - {type: InternalIP, address: 192.0.2.13}\n";

/// The pools of the page's example, without the one that the Service asks for.
const NETWORK: &str = "apiVersion: mooring.dev/v1alpha1\nkind: L2Network\nmetadata: {name: lan}\nspec:\n  \
                       subnets: [{cidr: 192.0.2.0/24}]\n  ranges: [192.0.2.10-192.0.2.19]\n";

#[tokio::test]
async fn a_cluster_of_several_clouds_is_installed_looked_at_and_monitored_as_the_guides_say() {
    let desk = Desk::start(&[Cloud::Linode, Cloud::Cloudscale]).await;
    installed(&desk).await;
    looked_at(&desk).await;
    works(&desk).await;
    networks(&desk).await;
    node_stays_tainted(&desk).await;
    monitored(&desk).await;
}

/// docs/how-to/several-clouds.md, with a Node in each cloud, one in the file, and one that nobody knows.
async fn installed(desk: &Desk) {
    let page = include_str!("../../../../docs/how-to/several-clouds.md");
    let page = desk.open(page, &[("NAMESPACE", "default"), ("NAME", "left")]);
    let admin = desk.cp.admin();
    for (name, cloud) in ["n1", "n2"].into_iter().zip(&desk.clouds) {
        cloud.add(Server::named(name).private("192.168.130.1"));
    }
    let own = machine().unwrap();
    desk.clouds[0].add(Server::named(&own).private("192.168.130.3"));
    for name in [&*own, "n1", "n2", "n3", "n4"] {
        let node = NodeBuilder::new(name).tainted().ready();
        node.create(&admin).await.unwrap();
    }
    desk.write("machines.yaml", MACHINES);
    let tokens = format!("LINODE_API_TOKEN={TOKEN}\nLINODE_REGION=eu-central\n");
    let tokens = format!("{tokens}CLOUDSCALE_ACCESS_TOKEN={TOKEN}\n");
    desk.write("mooring-cloud.env", &tokens);
    page.follow("", &[]).await;
    let nodes = Api::<Node>::all(admin.clone());
    for name in ["n1", "n2", "n3"] {
        eventually(&format!("{name} is initialised"), AT_LAST, async || {
            let node = nodes.get(name).await.unwrap();
            !has_taint(&node, taints::UNINITIALIZED)
        })
        .await;
    }

    let service = ServiceBuilder::load_balancer("default", "left").port(80, 8080);
    let service = service.class("example.com/another");
    service.create(&admin).await.unwrap();
    let finalizer = format!(
        "kubectl patch service left --type=merge --patch '{{\"metadata\": {{\"finalizers\": [\"{}\"]}}}}'",
        finalizers::SERVICE
    );
    page.reader.run(&finalizer).await;
    let told = page.follow("Another controller's class", &[]).await;
    let list = format!("[\"{}\"]", finalizers::SERVICE);
    assert!(told.starts_with(&list), "{told}");
    let services = Api::<Service>::namespaced(admin, "default");
    let left = services.get("left").await.unwrap();
    assert_eq!(left.metadata.finalizers, None);
}

/// docs/how-to/kubectl-mooring.md
async fn looked_at(desk: &Desk) {
    let page = desk.open(
        include_str!("../../../../docs/how-to/kubectl-mooring.md"),
        &[],
    );
    let admin = desk.cp.admin();
    let packed =
        "tar --create --gzip --file kubectl-mooring-0.1.0-linux-amd64.tar.gz kubectl-mooring";
    page.reader.run(packed).await;
    let told = page.follow("Install it", &["cargo install"]).await;
    assert!(told.contains("kubectl-mooring 0.1.0"), "{told}");
    // Central's ServiceAccount may read less than its administrator.
    assert!(
        told.contains("n1") && told.contains("missing rights"),
        "{told}"
    );
    let completed = page.reader.run("kubectl __complete mooring doc").await;
    assert!(completed.contains("doctor"), "{completed}");

    desk.write("network.yaml", NETWORK);
    let network = "kubectl apply -f network.yaml\nkubectl wait l2network lan --for=condition=Ready";
    page.reader.run(network).await;
    create_namespace(&admin, "shop").await.unwrap();
    let web = ServiceBuilder::load_balancer("shop", "web").port(80, 8080);
    let web = web
        .class("mooring.dev/l2")
        .annotation(annotations::ADDRESS_POOL_REQUEST, "gold");
    web.create(&admin).await.unwrap();
    told_of(
        desk,
        "Service",
        Some("shop"),
        "web",
        reasons::SYNC_LOAD_BALANCER_FAILED,
    )
    .await;
    let seen = page.see("What there is").await;
    let status = &seen["kubectl mooring status"];
    for words in ["n2", "cloudscale", "shop/web", "lan"] {
        assert!(status.contains(words), "{words}: {status}");
    }
    page.see("Why something does not work").await;
    let told = page.ask("Why something does not work").await;
    for words in ["node n1", "service shop/web", "address 192.0.2.10"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let told = page.ask("Before you drain a Node").await;
    assert!(told.contains("n1"), "{told}");
    desk.write(
        "web.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec:\n  type: LoadBalancer\n  \
         loadBalancerClass: mooring.dev/l2\n  ports: [{name: http, port: 80, targetPort: 8080}]\n",
    );
    let told = page.ask("What a Service would get").await;
    assert!(told.contains("gold"), "{told}");
    page.follow("Ask for help", &[]).await;
    let bundle = "tar --list --gzip --file mooring-support-*.tar.gz";
    let bundle = page.reader.run(bundle).await;
    assert!(bundle.contains("missing-rights.txt"), "{bundle}");
}

/// docs/how-to/install.md
async fn works(desk: &Desk) {
    let install = desk.open(include_str!("../../../../docs/how-to/install.md"), &[]);
    let told = install.follow("See whether it works", &[]).await;
    assert!(told.contains("cloudlycke://n3"), "{told}");
}

/// docs/how-to/l2-networks.md, as far as no daemon is needed. Its objects, and those of vlans.md, are taken.
async fn networks(desk: &Desk) {
    let pages = [
        include_str!("../../../../docs/how-to/l2-networks.md"),
        include_str!("../../../../docs/how-to/vlans.md"),
    ];
    let objects = pages
        .iter()
        .flat_map(|page| page.split("```yaml\n").skip(1));
    let objects = objects.filter_map(|rest| rest.split("```").next());
    let objects: Vec<_> = objects
        .filter(|object| object.starts_with("apiVersion: "))
        .collect();
    assert!(objects.len() > 2, "{objects:?}");
    desk.write("objects.yaml", &objects.join("---\n"));
    let page = desk.open(pages[0], &[]);
    let taken = "kubectl apply --dry-run=server --validate=strict -f objects.yaml";
    page.reader.run(taken).await;

    let columns = |text: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.starts_with("NAME "));
        let words = line.unwrap_or_default().split_whitespace();
        words.map(ToOwned::to_owned).collect()
    };
    let shown = page.reader.blocks("See who speaks").remove(0).text;
    let printed = page.reader.run("kubectl get l2networks").await;
    assert_eq!(columns(&shown), columns(&printed));
    page.follow("Have enough voters", &[]).await;
    page.follow("Take a node out", &[]).await;
    let node = Api::<Node>::all(desk.cp.admin()).get("n1").await.unwrap();
    let notes = node.metadata.annotations.unwrap_or_default();
    let until = notes.get(annotations::MAINTENANCE);
    let is_time = |until: &String| until.starts_with("until=20") && until.ends_with('Z');
    assert!(until.is_some_and(is_time), "{until:?}");
    let upgrade = desk.open(include_str!("../../../../docs/how-to/upgrade.md"), &[]);
    upgrade.follow("Restore", &[]).await;
}

/// docs/how-to/a-node-stays-tainted.md, of the Node that nobody knows.
async fn node_stays_tainted(desk: &Desk) {
    let page = include_str!("../../../../docs/how-to/a-node-stays-tainted.md");
    let page = desk.open(page, &[("NAME", "n4")]);
    told_of(desk, "Node", None, "n4", reasons::INITIALIZATION_REFUSED).await;
    let told = page.follow("", &[]).await;
    for words in [
        reasons::INITIALIZATION_REFUSED,
        "not all is written",
        "cloudscale://",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    page.follow("A Node that is not Ready is not deleted", &[])
        .await;
    page.follow("If Pods must run there now", &[]).await;
    let nodes = Api::<Node>::all(desk.cp.admin());
    let node = nodes.get("n4").await.unwrap();
    assert!(has_taint(&node, taints::UNINITIALIZED), "{node:?}");
    let corrected = include_str!("../../../../docs/how-to/a-node-stays-tainted.md");
    let corrected = desk.open(corrected, &[("NAME", "n1")]);
    let told = corrected.follow("A Node was corrected", &[]).await;
    assert!(told.contains("linode://"), "{told}");
}

/// docs/how-to/monitoring.md, where there is the Prometheus operator.
async fn monitored(desk: &Desk) {
    let page = desk.open(include_str!("../../../../docs/how-to/monitoring.md"), &[]);
    for (kind, plural) in [
        ("PodMonitor", "podmonitors"),
        ("PrometheusRule", "prometheusrules"),
    ] {
        desk.write(
            "operator.yaml",
            &format!(
                "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
                 metadata: {{name: {plural}.monitoring.coreos.com}}\nspec:\n  group: monitoring.coreos.com\n  \
                 scope: Namespaced\n  names: {{kind: {kind}, plural: {plural}}}\n  versions:\n    - name: v1\n      \
                 served: true\n      storage: true\n      schema: {{openAPIV3Schema: {{type: object, \
                 x-kubernetes-preserve-unknown-fields: true}}}}\n"
            ),
        );
        page.reader.run("kubectl apply -f operator.yaml").await;
        let served =
            format!("kubectl wait crd/{plural}.monitoring.coreos.com --for=condition=Established");
        page.reader.run(&served).await;
    }
    page.follow("With the Prometheus operator", &[]).await;
    let made = "kubectl --namespace mooring-system get --output name podmonitors,prometheusrules,configmaps,secrets \
                --selector app.kubernetes.io/part-of=mooring";
    let made = page.reader.run(made).await;
    for words in [
        "podmonitor.monitoring.coreos.com/mooring-central",
        "podmonitor.monitoring.coreos.com/mooring-node",
        "prometheusrule.monitoring.coreos.com/mooring",
        "secret/mooring-metrics-reader",
        "configmap/",
    ] {
        assert!(made.contains(words), "{words}: {made}");
    }
}

async fn told_of(desk: &Desk, kind: &str, namespace: Option<&str>, name: &str, reason: &str) {
    let admin = desk.cp.admin();
    eventually(&format!("{reason} of {name}"), AT_LAST, async || {
        let events = events_for(&admin, kind, namespace, name).await.unwrap();
        events.iter().any(|event| event.reason == reason)
    })
    .await;
}
