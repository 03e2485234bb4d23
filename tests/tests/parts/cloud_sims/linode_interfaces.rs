//! Interfaces of simulated Linodes in VPCs: two generations, and ranges that fit.

use mooring_cloud_sim::linode::{Instance, Linode};
use serde_json::{Value, json};

use crate::cloud_sims::client::{Answer, get, send};

struct InVpc {
    linode: Linode,
    vpc: u64,
    number: u64,
    interface: u64,
}

impl InVpc {
    async fn start(generation: &str) -> Self {
        let linode = Linode::start().await.unwrap();
        let vpc = linode.add_vpc("net");
        let subnet = linode.add_subnet(vpc, "default", "10.0.0.0/8");
        let instance = |label| Instance::labelled(label).with("interface_generation", generation);
        let other = linode.add(instance("other"));
        linode.attach(other, subnet, "10.0.0.9");
        linode.set_ranges(other, &["10.9.0.0/24"]);
        let number = linode.add(instance("one"));
        let interface = linode.attach(number, subnet, "10.0.0.2");
        Self {
            linode,
            vpc,
            number,
            interface,
        }
    }

    fn path(&self, generation: &str) -> String {
        let instance = format!("/v4/linode/instances/{}", self.number);
        match generation {
            "linode" => format!("{instance}/interfaces/{}", self.interface),
            _ => {
                let config = self.number + 50_000_000;
                format!("{instance}/configs/{config}/interfaces/{}", self.interface)
            }
        }
    }

    async fn put(&self, generation: &str, body: &Value) -> Answer {
        send(&self.linode.url(), "PUT", &self.path(generation), body).await
    }

    async fn put_ranges(&self, generation: &str, ranges: &[&str]) -> Answer {
        let body = match generation {
            "linode" => {
                let ranges: Vec<Value> = ranges.iter().map(|r| json!({ "range": r })).collect();
                json!({ "vpc": { "ipv4": { "ranges": ranges } } })
            }
            _ => json!({ "ip_ranges": ranges }),
        };
        self.put(generation, &body).await
    }
}

const GENERATIONS: [&str; 2] = ["legacy_config", "linode"];

#[tokio::test]
async fn ranges_are_shown_on_the_interface_and_among_the_addresses_of_the_vpc() {
    for generation in GENERATIONS {
        let one = InVpc::start(generation).await;
        let answer = one
            .put_ranges(generation, &["10.128.0.0/24", "10.128.1.0/24"])
            .await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let shown = get(&one.linode.url(), &one.path(generation)).await.json();
        assert_eq!(shown, answer.json());
        let rows = get(&one.linode.url(), &format!("/v4/vpcs/{}/ips", one.vpc))
            .await
            .json();
        let own = rows["data"].as_array().unwrap().iter();
        let own: Vec<(&Value, &Value)> = own
            .filter(|row| row["linode_id"] == one.number)
            .map(|row| (&row["address"], &row["address_range"]))
            .collect();
        let expected = [
            (&json!("10.0.0.2"), &Value::Null),
            (&Value::Null, &json!("10.128.0.0/24")),
            (&Value::Null, &json!("10.128.1.0/24")),
        ];
        assert_eq!(own, expected);
        let is_legacy = rows["data"][0]["config_id"].is_u64();
        assert_eq!(is_legacy, generation == "legacy_config");
        // What is not named stays; an empty list takes all away.
        assert_eq!(one.put(generation, &json!({})).await.status, 200);
        assert_eq!(one.linode.ranges(one.number).len(), 2);
        assert_eq!(one.put_ranges(generation, &[]).await.status, 200);
        assert!(one.linode.ranges(one.number).is_empty());
    }
}

#[tokio::test]
async fn ranges_that_do_not_fit_are_refused_all_at_once() {
    for generation in GENERATIONS {
        let one = InVpc::start(generation).await;
        one.linode.set_ranges(one.number, &["10.128.0.0/24"]);
        let ranges = [
            "10.128.7.0/24",
            "192.0.2.0/24",
            "10.9.0.128/25",
            "10.0.0.0/28",
            "10.128.7.0/25",
            "10.128.8.1/24",
            "nonsense",
        ];
        let answer = one.put_ranges(generation, &ranges).await;
        assert_eq!(answer.status, 400);
        let errors = answer.json();
        let errors = errors["errors"].as_array().unwrap().clone();
        let fields: Vec<&str> = errors
            .iter()
            .map(|e| e["field"].as_str().unwrap())
            .collect();
        let expected: Vec<String> = (1..7)
            .map(|index| match generation {
                "linode" => format!("vpc.ipv4.ranges[{index}].range"),
                _ => format!("ip_ranges[{index}]"),
            })
            .collect();
        assert_eq!(fields, expected);
        assert_eq!(
            one.linode.ranges(one.number),
            ["10.128.0.0/24"],
            "nothing has changed"
        );
    }
}

#[tokio::test]
async fn each_generation_is_asked_in_its_own_way() {
    for (generation, other) in [("legacy_config", "linode"), ("linode", "legacy_config")] {
        let one = InVpc::start(generation).await;
        let wrong = one.put_ranges(other, &["10.128.0.0/24"]).await;
        assert_eq!(wrong.status, 400, "{wrong:?}");
        assert!(one.linode.ranges(one.number).is_empty());
        let instance = format!("/v4/linode/instances/{}", one.number);
        let configs = get(&one.linode.url(), &format!("{instance}/configs"))
            .await
            .json();
        let interfaces = &configs["data"][0]["interfaces"];
        let listed = get(&one.linode.url(), &format!("{instance}/interfaces")).await;
        if generation == "linode" {
            assert_eq!(interfaces, &json!([]));
            assert_eq!(listed.json()["data"][0]["id"], json!(one.interface));
        } else {
            assert_eq!(interfaces[0]["id"], json!(one.interface));
            assert_eq!(listed.status, 400);
        }
    }
    let one = InVpc::start("linode").await;
    assert!(one.linode.remove(one.number));
    let gone = one.put_ranges("linode", &[]).await;
    assert_eq!(gone.status, 404);
}
