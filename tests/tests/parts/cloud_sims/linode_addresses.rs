//! The addresses of simulated Linodes: their own, and those that they share.

use mooring_cloud_sim::linode::{Instance, Linode};
use serde_json::{Value, json};

use crate::cloud_sims::node_balancers::{delete, made, post, read};
use crate::cloud_sims::node_balancers_strict::fields;

async fn linode() -> (Linode, String, String) {
    let linode = Linode::start().await.unwrap();
    let add = |label: &str, address: &str| {
        let id = linode.add(Instance::labelled(label).ipv4(address).ipv6("2600:3c03::1"));
        format!("/linode/instances/{id}")
    };
    let (a, b) = (add("a", "192.0.2.1"), add("b", "192.0.2.2"));
    (linode, a, b)
}

async fn addresses(linode: &Linode, instance: &str, kind: &str) -> Vec<Value> {
    let all = read(linode, &format!("{instance}/ips")).await["ipv4"][kind].clone();
    let all = all.as_array().unwrap().iter();
    all.map(|row| row["address"].clone()).collect()
}

#[tokio::test]
async fn a_linode_gets_addresses_and_keeps_one_public_one() {
    let (linode, a, b) = linode().await;
    let ips = format!("{a}/ips");
    let public = made(&linode, &ips, &json!({ "type": "ipv4", "public": true })).await;
    let private = made(&linode, &ips, &json!({ "type": "ipv4", "public": false })).await;
    assert_eq!(
        (&private["prefix"], &private["public"]),
        (&json!(17), &json!(false))
    );
    let of_b = made(
        &linode,
        &format!("{b}/ips"),
        &json!({ "type": "ipv4", "public": false }),
    )
    .await;
    assert_ne!(of_b["address"], private["address"]);
    assert_eq!(
        addresses(&linode, &a, "public").await,
        [json!("192.0.2.1"), public["address"].clone()]
    );
    assert_eq!(
        addresses(&linode, &a, "private").await,
        [private["address"].clone()]
    );
    let shown = read(&linode, &a).await["ipv4"].clone();
    assert_eq!(
        shown,
        json!(["192.0.2.1", public["address"], private["address"]])
    );
    assert_eq!(
        read(&linode, &ips).await["ipv6"]["slaac"]["address"],
        "2600:3c03::1"
    );

    for body in [
        json!({ "type": "ipv6", "public": true }),
        json!({ "type": "ipv4" }),
        json!({ "type": "ipv4", "public": false }),
    ] {
        let refused = post(&linode, &ips, &body).await;
        assert_eq!(fields(&refused).len(), 1, "{body}");
    }
    let one = format!("{ips}/{}", public["address"].as_str().unwrap());
    assert_eq!(read(&linode, &one).await["address"], public["address"]);
    assert_eq!(delete(&linode, &one).await.status, 200);
    assert_eq!(delete(&linode, &one).await.status, 404);
    assert_eq!(
        delete(&linode, &format!("{ips}/192.0.2.1")).await.status,
        400
    );
}

#[tokio::test]
async fn a_linode_with_linode_interfaces_has_no_private_address() {
    let linode = Linode::start().await.unwrap();
    let id = linode.add(Instance::labelled("a").with("interface_generation", "linode"));
    let body = json!({ "type": "ipv4", "public": false });
    let refused = post(&linode, &format!("/linode/instances/{id}/ips"), &body).await;
    assert_eq!(fields(&refused), ["public"]);
}

#[tokio::test]
async fn a_linode_shares_addresses_of_others_of_its_region() {
    let (linode, a, b) = linode().await;
    let far = Instance::labelled("far")
        .ipv4("192.0.2.3")
        .with("region", "us-east");
    linode.add(far);
    let id: u64 = b.rsplit('/').next().unwrap().parse().unwrap();
    let share = |ips: &[&str]| json!({ "linode_id": id, "ips": ips });
    let path = "/networking/ips/share";
    assert_eq!(made(&linode, path, &share(&["192.0.2.1"])).await, json!({}));
    assert_eq!(addresses(&linode, &b, "shared").await, [json!("192.0.2.1")]);
    assert_eq!(addresses(&linode, &a, "shared").await, [Value::Null; 0]);
    for address in ["192.0.2.2", "192.0.2.3", "192.0.2.9"] {
        let refused = post(&linode, path, &share(&[address])).await;
        assert_eq!(fields(&refused), ["ips[0]"], "{address}");
    }
    let nobody = json!({ "linode_id": 4711, "ips": [] });
    assert_eq!(fields(&post(&linode, path, &nobody).await), ["linode_id"]);
    assert_eq!(
        delete(&linode, &format!("{b}/ips/192.0.2.1")).await.status,
        200
    );
    assert_eq!(addresses(&linode, &b, "shared").await, [Value::Null; 0]);
    assert_eq!(addresses(&linode, &a, "public").await, [json!("192.0.2.1")]);
}
