//! docs/how-to/load-balancers.md, at cloudscale.ch.

use k8s_openapi::api::core::v1::Service;
use kube::api::Api;
use mooring_cloud_sim::TOKEN;
use mooring_cloud_sim::cloud::{Cloud, Server};
use mooring_cloud_sim::cloudscale::{Cloudscale, Kind};
use mooring_common::names::cloudscale_tags::{CLUSTER, SERVICE_UID};
use mooring_common::names::reasons;
use mooring_test_cluster::objects::{NodeBuilder, ServiceBuilder};
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use super::{AT_LAST, Desk, Page};
use crate::cloudscale_services::cloud::{annotation, text};
use crate::cloudscale_services::key;

const INSTALL: &str = "kubectl create namespace mooring-system
kubectl --namespace mooring-system create secret generic mooring-cloud --from-env-file=token.env
helm install mooring deploy/chart/mooring --namespace mooring-system \
    --set cloudProvider=cloudscale --set central.credentialsSecret=mooring-cloud
kubectl --namespace mooring-system rollout status deployment/mooring-central";

/// Without what differs from one Service to the next, widths of columns, and empty lines.
const BARE: &str =
    "sed -E 's/[0-9a-f]{8}-[0-9a-f-]{27}/UUID/g; s/:3[0-9]{4} /:PORT /g; s/ +/ /g; /^$/d'";

/// The change that the page shows the plan of.
const CHANGE: &str = "sed '/^  annotations:/a \\    k8s.cloudscale.ch/loadbalancer-pool-protocol: proxy' web.yaml \
                      >changed.yaml";

#[tokio::test]
async fn load_balancers_of_a_cloud_are_made_planned_moved_and_repaired_as_the_guide_says() {
    let desk = Desk::start(&[Cloud::Cloudscale]).await;
    let page = include_str!("../../../../docs/how-to/load-balancers.md");
    let page = desk.open(page, &[("NAMESPACE", "default"), ("NAME", "web")]);
    installed(&desk, &page).await;
    page.follow("Make one", &[]).await;
    planned(&desk, &page).await;
    page.follow("Switch externalTrafficPolicy", &[]).await;
    floating_ip_moves(&desk, &page).await;
    let told = page.follow("Orphans", &[]).await;
    assert!(told.contains(reasons::ORPHANED_LOAD_BALANCER), "{told}");
    let told = page.follow("A load balancer is stuck", &[]).await;
    for words in [reasons::ENSURED_LOAD_BALANCER, "default/web: ", "restarted"] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

fn sim(desk: &Desk) -> &Cloudscale {
    desk.clouds[0].cloudscale().unwrap()
}

fn services(desk: &Desk) -> Api<Service> {
    Api::namespaced(desk.cp.admin(), "default")
}

/// With three Nodes, as in the plan that the page shows, and an orphan in the cloud.
async fn installed(desk: &Desk, page: &Page) {
    let admin = desk.cp.admin();
    for (n, name) in [(11, "n1"), (12, "n2"), (13, "n3")] {
        let address = format!("10.0.0.{n}");
        let id = desk.clouds[0].add(Server::named(name).private(&address));
        let node = NodeBuilder::new(name).provider_id(&id);
        let node = node.address("InternalIP", &address).ready();
        node.create(&admin).await.unwrap();
    }
    let own = services(desk).get("kubernetes").await.unwrap().metadata.uid;
    let nobody = "00000000-0000-4000-8000-000000004711";
    let tags = json!({ CLUSTER: own, SERVICE_UID: nobody });
    let orphan = json!({ "name": format!("k8s-service-{nobody}"), "tags": tags });
    sim(desk).put(Kind::LoadBalancer, orphan);
    desk.write("token.env", &format!("CLOUDSCALE_ACCESS_TOKEN={TOKEN}\n"));
    page.reader.run(INSTALL).await;
}

/// What the page shows of a plan is what is printed.
async fn planned(desk: &Desk, page: &Page) {
    let section = "See what would be done";
    let told = page.follow(section, &[]).await;
    assert!(told.contains("default/web: nothing to do"), "{told}");
    assert!(told.ends_with("true\n"), "{told}");
    page.reader.run(CHANGE).await;
    let blocks = page.reader.blocks(section);
    let table = blocks.iter().find(|block| block.language.is_empty());
    desk.write("shown", &table.unwrap().text);
    let plan = "mooring-central plan -f changed.yaml";
    let compare = format!("diff <(cat shown | {BARE}) <({plan} | {BARE})");
    page.reader.run(&compare).await;

    let shown = blocks.iter().find(|block| block.language == "json");
    desk.write("shown", &shown.unwrap().text);
    let shown = page.reader.run(&format!("cat shown | {BARE}")).await;
    let printed = page.reader.run(&format!("{plan} -o json | {BARE}")).await;
    let [mut shown, mut printed] =
        [shown, printed].map(|text| serde_json::from_str::<Value>(&text).unwrap());
    let [some, all] = [&mut shown, &mut printed].map(|plan| plan[0]["steps"].take());
    assert_eq!(shown, printed);
    for step in some.as_array().unwrap() {
        assert!(all.as_array().unwrap().contains(step), "{step}: {all}");
    }
    let gate = blocks.iter().find(|block| block.text.contains("jq"));
    let gate = gate.unwrap().text.replace("web.yaml", "changed.yaml");
    let stopped = format!("! ( {} )", gate.trim());
    assert_eq!(page.reader.run(&stopped).await, "false\n");
}

async fn floating_ip_moves(desk: &Desk, page: &Page) {
    let ip = json!({ "network": "203.0.113.9/32" });
    sim(desk).put(Kind::FloatingIp, ip);
    for name in ["old", "new"] {
        let service = ServiceBuilder::load_balancer("default", name).port(80, 8080);
        let service = match name {
            "old" => service.annotation(&key("floating-ips"), r#"["203.0.113.9/32"]"#),
            _ => service,
        };
        service.create(&desk.cp.admin()).await.unwrap();
    }
    leads_to(desk, "old").await;
    page.follow("Move a floating IP", &[]).await;
    leads_to(desk, "new").await;
}

async fn leads_to(desk: &Desk, name: &str) {
    eventually(
        &format!("the floating IP leads to {name}"),
        AT_LAST,
        async || {
            let service = services(desk).get(name).await.unwrap();
            let own = annotation(&service, &key("uuid"))?.to_owned();
            let ip = sim(desk).all(Kind::FloatingIp).pop()?;
            (text(&ip["load_balancer"]["uuid"]) == own).then_some(())
        },
    )
    .await;
}
