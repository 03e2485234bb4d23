//! Cloud Firewalls: a Service's own, and those of others.

use std::time::Instant;

use http::Method;
use mooring_cloud_sim::linode::Kind;
use mooring_common::names::reasons;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::linode_services::cloud::text;
use crate::linode_services::cluster::{CloudCluster, SOON, assert_none};
use crate::linode_services::forwarding::ports;
use crate::linode_services::key;

const FIREWALLS: &str = "/v4/networking/firewalls";

pub(super) fn acl(list: &str, networks: &[&str]) -> String {
    json!({ list: { "ipv4": networks } }).to_string()
}

/// The policy, and action, protocol, ports and IPv4 addresses of each rule.
pub(super) fn meaning(firewall: &Value) -> (String, Vec<[String; 4]>) {
    let rules = &firewall["rules"];
    let inbound = rules["inbound"].as_array().into_iter().flatten();
    let inbound = inbound.map(|rule| {
        let addresses = &rule["addresses"]["ipv4"];
        let addresses: Vec<String> = addresses
            .as_array()
            .into_iter()
            .flatten()
            .map(text)
            .collect();
        [
            text(&rule["action"]),
            text(&rule["protocol"]),
            text(&rule["ports"]).replace(' ', ""),
            addresses.join(","),
        ]
    });
    (text(&rules["inbound_policy"]), inbound.collect())
}

fn rule(action: &str, protocol: &str, ports: &str, addresses: &str) -> [String; 4] {
    [action, protocol, ports, addresses].map(ToOwned::to_owned)
}

impl CloudCluster {
    /// Waits until a NodeBalancer has one firewall, which means this. Gives its number.
    async fn is_protected(&self, id: &str, wanted: (&str, &[[String; 4]])) -> Value {
        eventually(&format!("protected by {wanted:?}"), SOON, async || {
            let firewalls = self.cloud.firewalls(id);
            let found: Vec<_> = firewalls.iter().map(meaning).collect();
            match (firewalls.as_slice(), found.as_slice()) {
                ([only], [(policy, rules)]) if (policy.as_str(), rules.as_slice()) == wanted => {
                    Ok(only["id"].clone())
                }
                _ => Err(found),
            }
        })
        .await
    }

    /// Waits until a NodeBalancer has this firewall alone.
    pub(super) async fn is_protected_by(&self, id: &str, firewall: u64) {
        eventually(&format!("protected by {firewall}"), SOON, async || {
            let firewalls = self.cloud.firewalls(id);
            let ids: Vec<_> = firewalls.iter().map(|one| one["id"].clone()).collect();
            if ids == [json!(firewall)] {
                Ok(())
            } else {
                Err(ids)
            }
        })
        .await;
    }

    /// A firewall that somebody has made by hand.
    pub(super) fn firewall_by_hand(&self, label: &str, entities: &Value) -> u64 {
        let rules = json!({
            "inbound": [{
                "action": "ACCEPT", "label": "theirs", "protocol": "TCP", "ports": "22",
                "addresses": { "ipv4": ["203.0.113.0/24"] },
            }],
            "inbound_policy": "DROP", "outbound": [], "outbound_policy": "ACCEPT",
        });
        self.sim()
            .put_firewall(&json!({ "label": label, "rules": rules, "entities": entities }))
    }
}

#[tokio::test]
async fn an_acl_makes_a_firewall_which_follows_it_and_goes_with_it() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let allowed = acl("allowList", &["192.0.2.0/24"]);
    cluster
        .provide_with("web", &[("firewall-acl", &allowed)])
        .await;
    let id = cluster.id("web").await;
    let one = [rule("ACCEPT", "TCP", "80", "192.0.2.0/24")];
    let firewall = cluster.is_protected(&id, ("DROP", &one)).await;
    // It was there before the NodeBalancer was.
    let made: Vec<String> = cluster
        .writes()
        .iter()
        .map(|call| call.path.clone())
        .collect();
    assert_eq!(made, [FIREWALLS, crate::linode_services::cloud::BALANCERS]);

    let service = cluster.get("web").await;
    let second = json!({ "name": "second", "port": 443, "protocol": "TCP" });
    cluster
        .respecify("web", json!({ "ports": [ports(&service)[0], second] }))
        .await;
    let two = [rule("ACCEPT", "TCP", "80,443", "192.0.2.0/24")];
    assert_eq!(cluster.is_protected(&id, ("DROP", &two)).await, firewall);

    let denied = acl("denyList", &["198.51.100.0/24", "203.0.113.9/32"]);
    cluster.note("web", "firewall-acl", Some(&denied)).await;
    let other = [rule(
        "DROP",
        "TCP",
        "80,443",
        "198.51.100.0/24,203.0.113.9/32",
    )];
    assert_eq!(
        cluster.is_protected(&id, ("ACCEPT", &other)).await,
        firewall
    );

    cluster.note("web", "firewall-acl", None).await;
    eventually("it is gone", SOON, async || {
        cluster.sim().all(Kind::Firewall).is_empty()
    })
    .await;
    assert_none(&cluster.sim().outages(&id));

    // It comes back, with a NodeBalancer that was there before, and goes with its Service.
    cluster.note("web", "firewall-acl", Some(&denied)).await;
    cluster.is_protected(&id, ("ACCEPT", &other)).await;
    cluster.delete("web").await;
    cluster.gone("web").await;
    cluster.nothing_is_left().await;
    assert_none(&cluster.warnings("web").await);
    cluster.finish().await;
}

/// The Go controller's rules are for TCP alone: DNS is open to nobody, or to everybody.
#[tokio::test]
async fn source_ranges_make_a_firewall_for_tcp_and_udp() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.service("web").port_of("UDP", 53, 5353);
    cluster.make(service).await;
    cluster.provided("web").await;
    let id = cluster.id("web").await;
    assert_none(&cluster.cloud.firewalls(&id));
    let ranges = ["192.0.2.0/24", "198.51.100.0/24"];
    cluster
        .respecify("web", json!({ "loadBalancerSourceRanges": ranges }))
        .await;
    let addresses = ranges.join(",");
    let both = [
        rule("ACCEPT", "TCP", "80", &addresses),
        rule("ACCEPT", "UDP", "53", &addresses),
    ];
    cluster.is_protected(&id, ("DROP", &both)).await;
    // The annotation says more, and wins.
    let denied = acl("denyList", &["203.0.113.9/32"]);
    cluster.note("web", "firewall-acl", Some(&denied)).await;
    let other = [
        rule("DROP", "TCP", "80", "203.0.113.9/32"),
        rule("DROP", "UDP", "53", "203.0.113.9/32"),
    ];
    cluster.is_protected(&id, ("ACCEPT", &other)).await;
    cluster.note("web", "firewall-acl", None).await;
    cluster.is_protected(&id, ("DROP", &both)).await;
    cluster
        .respecify("web", json!({ "loadBalancerSourceRanges": null }))
        .await;
    eventually("it is gone", SOON, async || {
        cluster.sim().all(Kind::Firewall).is_empty()
    })
    .await;
    cluster.finish().await;
}

#[tokio::test]
async fn a_firewall_by_its_number_is_only_attached_and_detached() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let first = cluster.firewall_by_hand("first", &json!([]));
    let second = cluster.firewall_by_hand("second", &json!([]));
    let [one, two] = [first, second].map(|id| id.to_string());
    cluster.provide_with("web", &[("firewall-id", &one)]).await;
    let id = cluster.id("web").await;
    cluster.is_protected_by(&id, first).await;
    cluster.note("web", "firewall-id", Some(&two)).await;
    cluster.is_protected_by(&id, second).await;
    // It also wins over an ACL.
    let allowed = acl("allowList", &["192.0.2.0/24"]);
    cluster.note("web", "firewall-acl", Some(&allowed)).await;
    cluster
        .told(
            "web",
            reasons::QUESTIONABLE_ANNOTATION,
            &key("firewall-acl"),
        )
        .await;
    cluster.is_protected_by(&id, second).await;
    // Without either it is only detached.
    cluster.note("web", "firewall-acl", None).await;
    cluster.note("web", "firewall-id", None).await;
    eventually("it is detached", SOON, async || {
        cluster.cloud.firewalls(&id).is_empty()
    })
    .await;
    cluster.note("web", "firewall-id", Some(&one)).await;
    cluster.is_protected_by(&id, first).await;
    cluster.delete("web").await;
    cluster.gone("web").await;
    let left = cluster.sim().all(Kind::Firewall);
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(
        left.iter().all(|one| meaning(one).1[0][2] == "22"),
        "{left:?}"
    );
    let calls = cluster.writes();
    let on_firewalls = calls.filter(|call| call.path.starts_with(FIREWALLS));
    assert_none(&on_firewalls);
    cluster.finish().await;
}

/// From an ACL to a number: the Service's own firewall is not needed any more.
#[tokio::test]
async fn a_number_in_place_of_an_acl_takes_the_own_firewall_away() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let theirs = cluster.firewall_by_hand("theirs", &json!([]));
    let allowed = acl("allowList", &["192.0.2.0/24"]);
    cluster
        .provide_with("web", &[("firewall-acl", &allowed)])
        .await;
    let id = cluster.id("web").await;
    let start = Instant::now();
    let number = theirs.to_string();
    let notes = json!({ key("firewall-acl"): null, key("firewall-id"): number });
    cluster
        .patch("web", &json!({ "metadata": { "annotations": notes } }))
        .await;
    cluster.is_protected_by(&id, theirs).await;
    eventually("its own is gone", SOON, async || {
        cluster.sim().all(Kind::Firewall).len() == 1
    })
    .await;
    // It was never without.
    let writes = cluster.writes().since(start);
    let attached = writes
        .iter()
        .filter(|call| call.path.ends_with("/firewalls"));
    assert_eq!(attached.count(), 1, "{}", writes.summary());
    cluster.finish().await;
}

/// The Go controller takes it off, and deletes it.
#[tokio::test]
async fn a_firewall_that_somebody_attached_by_hand_is_never_touched() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    let id = cluster.id("web").await;
    let entity = json!([{ "id": id.parse::<u64>().unwrap(), "type": "nodebalancer" }]);
    let theirs = cluster.firewall_by_hand("theirs", &entity);
    let start = Instant::now();
    cluster.note("web", "throttle", Some("3")).await;
    cluster
        .shows(&id, "it is throttled", |shown| {
            shown["client_conn_throttle"] == 3
        })
        .await;
    cluster.read_since(&id, Instant::now(), 2).await;
    cluster.is_protected_by(&id, theirs).await;
    // Nor is it replaced by one of the Service's own: that is told, and everything stays.
    let allowed = acl("allowList", &["192.0.2.0/24"]);
    cluster.note("web", "firewall-acl", Some(&allowed)).await;
    cluster
        .told("web", reasons::SYNC_LOAD_BALANCER_FAILED, "theirs")
        .await;
    cluster.is_protected_by(&id, theirs).await;
    // The Nodes are followed meanwhile.
    cluster.join(3).await;
    cluster.serves("web", &[1, 2, 3]).await;
    cluster.delete("web").await;
    cluster.gone("web").await;
    let left = cluster
        .sim()
        .get(Kind::Firewall, theirs)
        .expect("it is there");
    assert_eq!(meaning(&left).1[0][2], "22");
    let writes = cluster.writes().since(start);
    let on_firewalls =
        writes.filter(|call| call.path.starts_with(FIREWALLS) || call.path.ends_with("/firewalls"));
    assert_none(&on_firewalls);
    let deletions = writes.method(&Method::DELETE);
    assert_eq!(deletions.len(), 1, "{}", writes.summary());
    cluster.finish().await;
}

/// The firewall that protects two NodeBalancers is taken off one, and stays for the other.
#[tokio::test]
async fn an_own_firewall_that_protects_something_else_too_is_not_deleted() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let allowed = acl("allowList", &["192.0.2.0/24"]);
    cluster
        .provide_with("web", &[("firewall-acl", &allowed)])
        .await;
    let id = cluster.id("web").await;
    let other = cluster
        .sim()
        .put_node_balancer(&json!({ "label": "other" }));
    let firewall = cluster.cloud.firewalls(&id)[0]["id"].as_u64().unwrap();
    cluster.sim().attach_firewall(firewall, other);
    cluster.note("web", "firewall-acl", None).await;
    eventually("it is taken off", SOON, async || {
        cluster.cloud.firewalls(&id).is_empty()
    })
    .await;
    cluster.marker().await;
    cluster.is_protected_by(&other.to_string(), firewall).await;
    cluster.finish().await;
}
