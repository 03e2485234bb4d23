//! `mooring-central plan` shows each step at Linode with what users will notice, and does none.

use std::time::Instant;

use serde_json::{Value, json};

use crate::linode_services::cluster::{CloudCluster, assert_none};
use crate::linode_services::forwarding::ports;
use crate::linode_services::key;

/// What is done, and how it is felt.
fn steps(plan: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = plan["steps"].as_array().into_iter().flatten();
    all.map(|step| (text(&step["step"]), text(&step["impact"])))
        .collect()
}

#[tokio::test]
async fn each_change_has_its_steps_and_their_impact() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let service = cluster.provide("web").await;
    cluster.serves("web", &[1, 2]).await;
    drop(central);
    let start = Instant::now();
    let mut second = json!(ports(&service)[0]);
    second["port"] = json!(443);
    second["name"] = json!("tls");
    second["nodePort"] = json!(null);
    let acl = r#"{"allowList": {"ipv4": ["192.0.2.0/24"]}}"#;
    for (change, expected) in [
        (
            json!({ "throttle": "5" }),
            vec![("set the connection throttle to 5", "none")],
        ),
        (
            json!({ "throttle": null, "default-algorithm": "leastconn" }),
            vec![("leastconn", "none")],
        ),
        (
            json!({ "default-algorithm": null, "default-protocol": "http" }),
            vec![("http", "considerable")],
        ),
        (
            json!({ "default-protocol": null, "firewall-acl": acl }),
            vec![("create firewall", "none"), ("attach", "none")],
        ),
        (
            json!({ "firewall-acl": null, "tags": "shop" }),
            vec![("set tags", "none")],
        ),
    ] {
        let notes = change.as_object().unwrap().iter();
        let notes: serde_json::Map<_, _> = notes
            .map(|(end, value)| (key(end), value.clone()))
            .collect();
        cluster
            .patch("web", &json!({ "metadata": { "annotations": notes } }))
            .await;
        let plan = cluster
            .plan(&format!("{} -o json", cluster.key("web")))
            .await;
        assert_eq!(plan.code, 0, "{plan:?}");
        let found = steps(&plan.of("web"));
        assert_eq!(found.len(), expected.len(), "{change}: {found:?}");
        for ((step, impact), (words, felt)) in found.iter().zip(&expected) {
            assert!(step.contains(words), "{words}: {step}");
            assert_eq!(impact, felt, "{step}");
        }
        let table = cluster.plan(&cluster.key("web")).await.text;
        for (step, impact) in &found {
            let line = table.lines().find(|line| line.contains(step.as_str()));
            let line = line.unwrap_or_else(|| panic!("{step} is missing: {table}"));
            assert!(line.contains(impact.as_str()), "{line}");
        }
    }
    assert_none(&cluster.writes().since(start));
    cluster.finish().await;
}
