//! Where NodeBalancers have their addresses from: subnets of VPCs, and reservations.

use serde_json::{Value, json};

use crate::cloud_sims::node_balancers::{
    balancer, delete, first_config, made, path, post, read, with_backends,
};

#[tokio::test]
async fn vpc_backends_take_a_range_of_their_subnet() {
    let linode = with_backends().await;
    let vpc = linode.add_vpc("net");
    let subnet = linode.add_subnet(vpc, "default", "10.0.0.0/24");
    linode.add_vpc_address(vpc, subnet, 1, "10.0.0.5");
    let mut body = balancer("ccm-1");
    body["backend_vpcs"] = json!([{ "subnet_id": subnet }]);
    body["configs"][0]["nodes"] = json!([{
        "label": "node-1", "address": "10.0.0.5:30000", "subnet_id": subnet,
    }]);
    let shown = made(&linode, "/nodebalancers", &body).await;
    let attached = read(&linode, &format!("{}/vpcs", path(&shown))).await["data"][0].clone();
    assert_eq!(
        (&attached["ipv4_range"], &attached["purpose"]),
        (&json!("10.0.0.8/30"), &json!("backend")),
        "10.0.0.0/30 is the gateway's, 10.0.0.4/30 has a Linode in it"
    );
    let (_, config) = first_config(&linode, &shown).await;
    let nodes = read(&linode, &format!("{config}/nodes")).await;
    assert_eq!(nodes["data"][0]["vpc_config_id"], attached["id"]);
    let in_subnet = read(&linode, &format!("/vpcs/{vpc}/subnets/{subnet}")).await;
    assert_eq!(
        in_subnet["nodebalancers"],
        json!([{ "id": shown["id"], "ipv4_range": "10.0.0.8/30" }])
    );
    let rows = read(&linode, &format!("/vpcs/{vpc}/ips")).await;
    assert_eq!(rows["data"][1]["nodebalancer_id"], shown["id"]);
    assert_eq!(rows["data"][1]["linode_id"], Value::Null);

    assert_eq!(delete(&linode, &path(&shown)).await.status, 200);
    let rows = read(&linode, &format!("/vpcs/{vpc}/ips")).await;
    assert_eq!(rows["results"], 1);
}

#[tokio::test]
async fn frontend_vpcs_give_an_address_of_the_subnet_and_no_hostname() {
    let linode = with_backends().await;
    let vpc = linode.add_vpc("net");
    let subnet = linode.add_subnet(vpc, "default", "10.0.0.0/24");
    let mut body = balancer("ccm-1");
    body["type"] = json!("premium");
    body["frontend_vpcs"] = json!([{ "subnet_id": subnet, "ipv4_range": "10.0.0.64/30" }]);
    let shown = made(&linode, "/nodebalancers", &body).await;
    for (field, value) in [
        ("ipv4", json!("10.0.0.65")),
        ("ipv6", Value::Null),
        ("hostname", json!("")),
        ("frontend_address_type", json!("vpc")),
        ("frontend_vpc_subnet_id", json!(subnet)),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
}

#[tokio::test]
async fn reserved_addresses_outlive_their_node_balancer() {
    let linode = with_backends().await;
    let region = json!({ "region": "eu-central" });
    let reserved = made(&linode, "/networking/reserved/ips", &region).await;
    assert_eq!(
        (&reserved["reserved"], &reserved["type"]),
        (&json!(true), &json!("ipv4"))
    );
    let mut body = balancer("ccm-1");
    body["ipv4"] = reserved["address"].clone();
    let shown = made(&linode, "/nodebalancers", &body).await;
    assert_eq!(shown["ipv4"], reserved["address"]);
    body["label"] = json!("ccm-2");
    let refused = post(&linode, "/nodebalancers", &body).await;
    let in_use = json!({ "errors": [{ "reason": "IPv4 address is already in use" }] });
    assert_eq!((refused.status, refused.json()), (400, in_use));
    delete(&linode, &path(&shown)).await;
    made(&linode, "/nodebalancers", &body).await;

    let one = format!(
        "/networking/reserved/ips/{}",
        reserved["address"].as_str().unwrap()
    );
    assert_eq!(delete(&linode, &one).await.status, 200);
    assert_eq!(delete(&linode, &one).await.status, 404);
    body["label"] = json!("ccm-3");
    let refused = post(&linode, "/nodebalancers", &body).await.json();
    assert_eq!(
        refused["errors"][0]["reason"],
        "IPv4 address is not reserved"
    );
}
