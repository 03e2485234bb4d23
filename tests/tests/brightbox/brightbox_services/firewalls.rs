//! Firewall policies: what load balancers may reach of servers.

use std::collections::BTreeSet;
use std::time::Instant;

use mooring_cloud_sim::brightbox::Kind;
use mooring_common::names::reasons;
use mooring_test_cluster::objects::ServiceBuilder;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::brightbox_services::cloud::text;
use crate::brightbox_services::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, SOON, assert_none,
};
use crate::brightbox_services::forwarding::{ForwardingCloud as _, ports};

/// As many ports as a rule takes.
const MOST: usize = 15;

impl CloudCluster {
    /// The rules of a Service's firewall policy.
    fn rules(&self, name: &str) -> Vec<Value> {
        let mut policies = self.parts(name, Kind::FirewallPolicy);
        assert!(policies.len() <= 1, "{policies:#?}");
        let rules = policies.pop().unwrap_or_default()["rules"]
            .as_array()
            .cloned();
        rules.unwrap_or_default()
    }

    /// The ports that they open.
    fn opened(&self, name: &str) -> BTreeSet<u16> {
        let rules = self.rules(name);
        let lists = rules.iter().map(|rule| text(&rule["destination_port"]));
        let ports = lists.flat_map(|list| {
            let ports = list.split(',').map(|port| port.parse().expect("a port"));
            ports.collect::<Vec<u16>>()
        });
        ports.collect()
    }

    async fn opens(&self, name: &str, wanted: &BTreeSet<u16>) {
        eventually(&format!("{wanted:?} are open"), SOON, async || {
            let found = self.opened(name);
            if found == *wanted { Ok(()) } else { Err(found) }
        })
        .await;
    }

    /// A Service with so many ports.
    fn wide(&self, name: &str, count: u16) -> ServiceBuilder {
        let service = ServiceBuilder::load_balancer(&self.namespace, name);
        (0..count).fold(service, |service, n| service.port(8000 + n, 8080))
    }

    async fn node_ports(&self, name: &str) -> BTreeSet<u16> {
        let service = self.get(name).await;
        let numbers = ports(&service).iter().filter_map(|port| port.node_port);
        numbers.map(|port| u16::try_from(port).unwrap()).collect()
    }
}

#[tokio::test]
async fn a_rule_opens_the_node_ports_to_load_balancers() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.make(cluster.wide("web", 2)).await;
    cluster.provided("web").await;
    let rules = cluster.rules("web");
    assert_eq!(rules.len(), 1, "{rules:#?}");
    assert_eq!(
        (&rules[0]["protocol"], &rules[0]["source"]),
        (&json!("tcp"), &json!("10.0.0.0/8"))
    );
    assert_eq!(cluster.opened("web"), cluster.node_ports("web").await);
    let policy = &cluster.parts("web", Kind::FirewallPolicy)[0];
    let group = &cluster.parts("web", Kind::ServerGroup)[0];
    assert_eq!(policy["server_group"]["id"], group["id"]);
    assert_eq!(group["servers"].as_array().map(Vec::len), Some(2));
    cluster.finish().await;
}

/// The Go controller makes the address and the group, and is refused then.
#[tokio::test]
async fn more_ports_than_a_rule_takes_have_more_rules() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.make(cluster.wide("web", 17)).await;
    cluster.provided("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    assert_eq!(cluster.rules("web").len(), 2);
    let all = cluster.node_ports("web").await;
    assert_eq!((cluster.opened("web"), all.len()), (all.clone(), 17));
    // Three are given up, and the second rule is not needed any more.
    let service = cluster.get("web").await;
    let kept = json!(&ports(&service)[..14]);
    cluster.respecify("web", json!({ "ports": kept })).await;
    cluster.opens("web", &cluster.node_ports("web").await).await;
    eventually("one rule is left", SOON, async || {
        cluster.rules("web").len() == 1
    })
    .await;
    let gone = ["tcp/8014", "tcp/8015", "tcp/8016"];
    assert_none(&cluster.cloud.outages_but(&id, &gone));
    // The health check's port is one more: fifteen of the Service's, and that.
    let fifteen = cluster.wide("local", u16::try_from(MOST).unwrap()).local();
    cluster.make(fifteen).await;
    cluster.provided("local").await;
    cluster.serves("local", &[1, 2]).await;
    assert_eq!(cluster.rules("local").len(), 2);
    cluster.delete("web").await;
    cluster.gone("web").await;
    cluster.delete("local").await;
    cluster.gone("local").await;
    cluster.nothing_is_left().await;
    cluster.finish().await;
}

#[tokio::test]
async fn what_somebody_changed_by_hand_is_repaired() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    let wanted = cluster.opened("web");
    let rule = text(&cluster.rules("web")[0]["id"]);
    cluster
        .sim()
        .set_in(Kind::FirewallRule, &rule, "destination_port", "22");
    cluster.opens("web", &wanted).await;
    let rule = text(&cluster.rules("web")[0]["id"]);
    cluster.sim().take(Kind::FirewallRule, &rule);
    cluster.opens("web", &wanted).await;
    // The policy is taken off its group, and a server out of the group.
    let policy = text(&cluster.parts("web", Kind::FirewallPolicy)[0]["id"]);
    cluster
        .sim()
        .set_in(Kind::FirewallPolicy, &policy, "server_group", Value::Null);
    cluster.serves("web", &[1, 2]).await;
    let group = text(&cluster.parts("web", Kind::ServerGroup)[0]["id"]);
    cluster.sim().change_in(Kind::ServerGroup, &group, |group| {
        group["servers"].as_array_mut().unwrap().pop();
    });
    cluster.serves("web", &[1, 2]).await;
    // The policy itself, with its rules.
    for rule in cluster.rules("web") {
        cluster.sim().take(Kind::FirewallRule, &text(&rule["id"]));
    }
    cluster.sim().take(Kind::FirewallPolicy, &policy);
    cluster.serves("web", &[1, 2]).await;
    // And the group.
    let policy = text(&cluster.parts("web", Kind::FirewallPolicy)[0]["id"]);
    cluster.sim().take(Kind::ServerGroup, &group);
    cluster
        .sim()
        .set_in(Kind::FirewallPolicy, &policy, "server_group", Value::Null);
    eventually("all is there again", AFTER_RETRIES, async || {
        let groups = cluster.parts("web", Kind::ServerGroup);
        let policies = cluster.parts("web", Kind::FirewallPolicy);
        let [group] = groups.as_slice() else {
            return Err("not one group".to_owned());
        };
        let [policy] = policies.as_slice() else {
            return Err("not one policy".to_owned());
        };
        let is_marked = text(&group["description"]).contains("cluster=");
        if is_marked && policy["server_group"]["id"] == group["id"] {
            Ok(())
        } else {
            Err(format!("{policy} of {group}"))
        }
    })
    .await;
    cluster.serves("web", &[1, 2]).await;
    assert!(cluster.cloud.has(&id));
    cluster.finish().await;
}

/// Rules tell who may connect to a server, and that is the load balancer: who its clients are, they cannot tell.
#[tokio::test]
async fn source_ranges_are_told_to_be_of_no_effect_and_the_service_stays_served() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    let start = Instant::now();
    cluster
        .respecify(
            "web",
            json!({ "loadBalancerSourceRanges": ["192.0.2.0/24"] }),
        )
        .await;
    cluster
        .told(
            "web",
            reasons::UNSUPPORTED_FIELD,
            "loadBalancerSourceRanges",
        )
        .await;
    cluster.marker().await;
    assert_none(&cluster.cloud.writes_on(&id).since(start));
    cluster.serves("web", &[1, 2]).await;
    assert_none(&cluster.sim().outages(&id));
    cluster.finish().await;
}

/// What has no effect is told also where something else stops the Service: at its Cloud IP, and at what has its name.
#[tokio::test]
async fn source_ranges_are_told_of_a_service_that_is_refused() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let another = "mooring.dev cluster=another service=another";
    let group = json!({ "name": cluster.named("in-the-way"), "description": another });
    cluster.sim().put(Kind::ServerGroup, group);
    let ranges = json!({ "loadBalancerSourceRanges": ["192.0.2.0/24"] });
    let strange = cluster.service("strange").requested_address("192.0.2.77");
    let in_the_way = cluster.service("in-the-way");
    for (name, service) in [("strange", strange), ("in-the-way", in_the_way)] {
        cluster.make(service).await;
        cluster.respecify(name, ranges.clone()).await;
        cluster.failed(name).await;
        let what = "loadBalancerSourceRanges";
        cluster.told(name, reasons::UNSUPPORTED_FIELD, what).await;
    }
    assert_none(&cluster.writes());
    cluster.finish().await;
}
