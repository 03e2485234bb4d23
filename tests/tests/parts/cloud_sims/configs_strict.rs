//! What configs of NodeBalancers and their nodes refuse.

use mooring_cloud_sim::linode::{Instance, Kind};
use serde_json::{Value, json};

use crate::cloud_sims::node_balancers::{
    balancer, made, node, path, post, put, read, with_backends,
};
use crate::cloud_sims::node_balancers_strict::{fields, with};

#[tokio::test]
async fn create_refuses_configs_that_contradict_themselves() {
    let linode = with_backends().await;
    let good = balancer("ccm-1");
    for (field, value) in [
        ("port", json!(0)),
        ("port", json!(65_535)),
        ("port", json!("80")),
        ("protocol", json!("sctp")),
        ("algorithm", json!("random")),
        ("algorithm", json!("ring_hash")),
        ("stickiness", json!("table")),
        ("stickiness", json!("session")),
        ("check", json!("ping")),
        ("check_interval", json!(1)),
        ("check_interval", json!(3601)),
        ("check_timeout", json!(0)),
        ("check_timeout", json!(5)),
        ("check_attempts", json!(31)),
        ("check_passive", json!("true")),
        ("proxy_protocol", json!("v3")),
        ("cipher_suite", json!("none")),
        ("udp_check_port", json!(0)),
    ] {
        let body = with(&good, &format!("/configs/0/{field}"), value);
        let refused = post(&linode, "/nodebalancers", &body).await;
        let expected = format!("configs[0].{field}");
        assert!(fields(&refused).contains(&expected), "{body}: {refused:?}");
    }
    for (change, field) in [
        (json!({ "check": "http" }), "check_path"),
        (
            json!({ "check": "http_body", "check_path": "/" }),
            "check_body",
        ),
        (
            json!({ "protocol": "http", "stickiness": "source_ip" }),
            "stickiness",
        ),
        (
            json!({ "protocol": "udp", "check_passive": true }),
            "check_passive",
        ),
        (
            json!({ "protocol": "udp", "proxy_protocol": "v1" }),
            "proxy_protocol",
        ),
        (
            json!({ "protocol": "udp", "algorithm": "source" }),
            "algorithm",
        ),
        (
            json!({ "protocol": "udp", "stickiness": "table" }),
            "stickiness",
        ),
        (json!({ "protocol": "udp", "ssl_cert": "x" }), "ssl_cert"),
    ] {
        let mut config = json!({ "port": 80 });
        let changed = change.as_object().unwrap().clone();
        config.as_object_mut().unwrap().extend(changed);
        let body = with(&good, "/configs", json!([config]));
        let refused = post(&linode, "/nodebalancers", &body).await;
        let expected = [format!("configs[0].{field}")];
        assert_eq!(fields(&refused), expected, "{change}");
    }
    let udp_with_modes = with(&good, "/configs/0/protocol", json!("udp"));
    let udp_with_modes = with(&udp_with_modes, "/configs/0/check_passive", json!(false));
    let refused = post(&linode, "/nodebalancers", &udp_with_modes).await;
    let modes = ["configs[0].nodes[0].mode", "configs[0].nodes[1].mode"];
    assert_eq!(fields(&refused), modes);
    assert_eq!(linode.all(Kind::NodeBalancer), [Value::Null; 0]);
}

#[tokio::test]
async fn https_needs_a_certificate_and_its_key() {
    let linode = with_backends().await;
    let shown = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    let configs = format!("{}/configs", path(&shown));
    let pair = rcgen::generate_simple_self_signed(["example.org".to_owned()]).unwrap();
    let (cert, key) = (pair.cert.pem(), pair.signing_key.serialize_pem());
    for (cert, key, expected) in [
        (None, None, vec!["ssl_cert", "ssl_key"]),
        (Some(&*cert), None, vec!["ssl_key"]),
        (None, Some(&*key), vec!["ssl_cert"]),
        (Some("nonsense"), Some(&*key), vec!["ssl_cert"]),
        (Some(&*cert), Some(&*cert), vec!["ssl_key"]),
        (
            Some("<REDACTED>"),
            Some("<REDACTED>"),
            vec!["ssl_cert", "ssl_key"],
        ),
    ] {
        let body = json!({ "port": 443, "protocol": "https", "ssl_cert": cert, "ssl_key": key });
        assert_eq!(fields(&post(&linode, &configs, &body).await), expected);
    }
    let body = json!({ "port": 443, "protocol": "https", "ssl_cert": cert, "ssl_key": key });
    made(&linode, &configs, &body).await;
}

#[tokio::test]
async fn a_certificate_goes_with_its_own_key_alone() {
    let linode = with_backends().await;
    let shown = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    let configs = format!("{}/configs", path(&shown));
    let pairs = [
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ED25519,
    ]
    .map(|algorithm| {
        let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
        let names = vec!["example.org".to_owned()];
        let certificate = rcgen::CertificateParams::new(names).unwrap();
        let certificate = certificate.self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    });
    for (one, (cert, _)) in pairs.iter().enumerate() {
        for (other, (_, key)) in pairs.iter().enumerate() {
            let body = json!({ "port": 1000 + one, "protocol": "https",
                               "ssl_cert": cert, "ssl_key": key });
            let answer = post(&linode, &configs, &body).await;
            if one == other {
                assert_eq!(answer.status, 200, "{one}: {answer:?}");
            } else {
                let expected = if other < one {
                    vec!["ssl_key"]
                } else {
                    vec!["ssl_key", "port"]
                };
                assert_eq!(fields(&answer), expected, "{one} {other}");
            }
        }
    }
}

#[tokio::test]
async fn a_port_has_one_config_for_udp_and_one_for_the_rest() {
    let linode = with_backends().await;
    let shown = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    let configs = format!("{}/configs", path(&shown));
    for (protocol, status) in [("tcp", 400), ("http", 400), ("udp", 200), ("udp", 400)] {
        let body = json!({ "port": 80, "protocol": protocol });
        let answer = post(&linode, &configs, &body).await;
        assert_eq!(answer.status, status, "{protocol}: {answer:?}");
    }
    let other = made(&linode, &configs, &json!({ "port": 81, "protocol": "tcp" })).await;
    let one = format!("{configs}/{}", other["id"]);
    let refused = put(&linode, &one, &json!({ "port": 80 })).await;
    assert_eq!(fields(&refused), ["port"]);
    assert_eq!(put(&linode, &one, &json!({ "port": 81 })).await.status, 200);

    let twice = json!({ "port": 90, "protocol": "tcp" });
    let body = with(&balancer("ccm-2"), "/configs", json!([twice, twice]));
    let refused = post(&linode, "/nodebalancers", &body).await;
    assert_eq!(fields(&refused), ["configs[1].port"]);
}

#[tokio::test]
async fn nodes_are_at_private_addresses_of_linodes_in_the_region() {
    let linode = with_backends().await;
    linode.add(
        Instance::labelled("far")
            .ipv4("192.168.130.1")
            .with("region", "us-east"),
    );
    linode.add(
        Instance::labelled("public")
            .ipv4("192.0.2.1")
            .ipv4("10.0.0.1")
            .ipv4("192.168.5.1"),
    );
    let shown = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    let config = &linode.all(Kind::Config)[0]["id"];
    let nodes = format!("{}/configs/{config}/nodes", path(&shown));
    for (field, value) in [
        ("address", Value::Null),
        ("address", json!("192.168.128.1")),
        ("address", json!(":30000")),
        ("address", json!("192.168.128.1:0")),
        ("address", json!("192.168.128.1:65536")),
        ("address", json!("192.168.128.9:30000")),
        ("address", json!("192.168.130.1:30000")),
        ("address", json!("192.168.5.1:30000")),
        ("address", json!("192.0.2.1:30000")),
        ("address", json!("10.0.0.1:30000")),
        ("address", json!("2600:3c03::1:30000")),
        ("address", json!("[2600:3c03::9]:30000")),
        ("label", Value::Null),
        ("label", json!("n1")),
        ("label", json!("x".repeat(33))),
        ("label", json!("a/b")),
        ("weight", json!(0)),
        ("weight", json!(256)),
        ("mode", json!("ignore")),
        ("mode", json!("none")),
        ("subnet_id", json!(4711)),
    ] {
        let mut body = node(1);
        body["label"] = json!("node-1");
        body[field] = value;
        let refused = post(&linode, &nodes, &body).await;
        assert!(
            fields(&refused).contains(&field.to_owned()),
            "{body}: {refused:?}"
        );
    }
    assert_eq!(read(&linode, &nodes).await["results"], 2);

    let mut body = balancer("ccm-2");
    body["configs"][0]["nodes"][0]["address"] = json!("10.0.0.1");
    body["configs"][0]["nodes"][1]["address"] = json!("");
    let refused = post(&linode, "/nodebalancers", &body).await;
    let reasons = refused.json();
    assert_eq!(
        reasons["errors"][1]["reason"],
        "Must be in address:port format"
    );
    let both = ["configs[0].nodes[0].address", "configs[0].nodes[1].address"];
    assert_eq!(fields(&refused), both);
}

#[tokio::test]
async fn rebuild_needs_nodes_and_knows_their_ids() {
    let linode = with_backends().await;
    let shown = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    let config = &linode.all(Kind::Config)[0]["id"];
    let rebuild = format!("{}/configs/{config}/rebuild", path(&shown));
    let before = linode.all(Kind::Node);
    let stranger = with(&json!({ "node": node(1) }), "/node/id", json!(4711));
    for (body, field) in [
        (json!({ "port": 80 }), "nodes"),
        (json!({ "nodes": {} }), "nodes"),
        (json!({ "nodes": [stranger["node"]] }), "nodes[0].id"),
        (
            json!({ "nodes": [{ "label": "node-1" }] }),
            "nodes[0].address",
        ),
        (json!({ "nodes": [], "port": 0 }), "port"),
    ] {
        let refused = post(&linode, &rebuild, &body).await;
        assert!(
            fields(&refused).contains(&field.to_owned()),
            "{body}: {refused:?}"
        );
    }
    let many: Vec<Value> = (0..1001).map(|_| node(1)).collect();
    let refused = post(&linode, &rebuild, &json!({ "nodes": many })).await;
    assert_eq!(fields(&refused), ["nodes"]);
    assert_eq!(linode.all(Kind::Node), before, "nothing was changed");
}
