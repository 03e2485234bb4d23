//! Load balancers as the Go controller has left them: nothing is written when they are taken over.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use mooring_common::k8s::Slim;
use mooring_common::names::cloudscale_annotations as keys;
use mooring_common::node_view::NodeView;
use serde_json::{Value, json};

use super::{SUBNET, plan};
use crate::cloud_provider::Attachment;
use crate::cloud_provider::load_balancers::{HealthTarget, LoadBalancerRequest, Others};
use crate::clouds::cloudscale::api::balancers::{Balancer, Vip};
use crate::clouds::cloudscale::load_balancers::desired::desired;
use crate::clouds::cloudscale::load_balancers::model::{
    HttpSpec, ListenerSpec, MemberSpec, MonitorSpec, PoolSpec,
};
use crate::clouds::cloudscale::load_balancers::observed::{
    Listener, Member, Monitor, Observed, Pool,
};
use crate::clouds::cloudscale::load_balancers::options::tests::{options, service};
use crate::engine::members::{MachineOf, Members};
use crate::engine::step::Part;

/// A port as it is found in the cloud.
struct Found {
    pool: &'static str,
    protocol: &'static str,
    listener: &'static str,
    monitor: &'static str,
    http: Option<HttpSpec>,
    numbers: [u32; 2],
    monitor_port: u16,
}

const TCP: Found = Found {
    pool: "tcp",
    protocol: "tcp",
    listener: "tcp/80",
    monitor: "tcp",
    http: None,
    numbers: [2, 1],
    monitor_port: 30080,
};

fn found(of: &Found, vips: &[(&str, Option<&str>)], floating: &[&str]) -> Observed {
    let own = |text: &str| text.to_owned();
    let (protocol, port) = of.listener.split_once('/').unwrap();
    let member = |host: u8| Member {
        id: format!("m{host}"),
        spec: MemberSpec {
            name: format!("10.0.0.{host}:30080"),
            enabled: true,
            address: format!("10.0.0.{host}"),
            subnet: own(SUBNET),
            protocol_port: 30080,
            monitor_port: Some(of.monitor_port),
        },
    };
    let monitor = MonitorSpec {
        kind: own(of.monitor),
        delay_s: Some(of.numbers[0]),
        timeout_s: Some(of.numbers[1]),
        up_threshold: Some(2),
        down_threshold: Some(3),
        http: of.http.clone(),
    };
    let listener = ListenerSpec {
        name: own(of.listener),
        protocol: own(protocol),
        port: port.parse().unwrap(),
        allowed_cidrs: Vec::new(),
        timeout_client_data_ms: Some(50_000),
        timeout_member_connect_ms: Some(5_000),
        timeout_member_data_ms: Some(50_000),
    };
    let vip = |(address, subnet): &(&str, Option<&str>)| Vip {
        address: own(address),
        subnet: subnet.map(own),
    };
    Observed {
        balancer: Balancer {
            uuid: own("lb"),
            name: own("k8s-service-deadbeef"),
            status: None,
            created_at: None,
            zone: Some(own("rma1")),
            flavor: Some(own("lb-standard")),
            vip_addresses: Some(vips.iter().map(vip).collect()),
            tags: std::collections::BTreeMap::new(),
        },
        pools: vec![Pool {
            part: Part {
                id: own("p"),
                spec: PoolSpec {
                    name: own(of.pool),
                    algorithm: own("round_robin"),
                    protocol: own(of.protocol),
                },
            },
            // The order of the API is any.
            members: vec![member(2), member(1)],
            monitors: vec![Monitor {
                id: own("h"),
                spec: monitor,
            }],
            listeners: vec![Listener {
                id: own("l"),
                spec: listener,
            }],
        }],
        loose_listeners: Vec::new(),
        floating_ips: floating.iter().map(|network| own(network)).collect(),
    }
}

fn steps(annotations: &[(&str, &str)], spec: &Value, observed: &Observed) -> String {
    let service = service(annotations, spec);
    let options = options(&service).unwrap();
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    let request = LoadBalancerRequest {
        service: Arc::new(service),
        nodes: [Arc::new(NodeView::slim(node))].into(),
        other_nodes: [].into(),
        others: Others::default(),
        cluster: Some("c".to_owned()),
        settle_time: std::time::Duration::from_secs(90),
        may_take_over: false,
        health: HealthTarget::default(),
        endpoints: None,
        secrets: crate::cloud_provider::secrets::Secrets::default(),
    };
    let machine = |host: u8| MachineOf {
        node: format!("n{host}"),
        id: format!("m{host}"),
        zone: Some("rma1".to_owned()),
        attachments: vec![Attachment {
            address: [10, 0, 0, host].into(),
            subnet: SUBNET.to_owned(),
        }],
    };
    let members = Members {
        found: vec![machine(1), machine(2)],
        are_complete: true,
        ..Members::default()
    };
    let desired = desired(&request, &options, &members);
    plan(&desired, Some(observed)).unwrap().to_string()
}

#[test]
fn adopts_go_controllers_work_unchanged() {
    let public = [("5.102.144.1", None), ("2a06:c01:bb::1", None)];
    let written = [
        (keys::UUID, "2db69ba3-1864-4608-853a-0771b6885a3a"),
        (keys::CONFIG_VERSION, "1"),
        (keys::ZONE, "rma1"),
    ];
    let none = json!({});
    assert_eq!(steps(&[], &none, &found(&TCP, &public, &[])), "");
    assert_eq!(steps(&written, &none, &found(&TCP, &public, &[])), "");

    let local = Found {
        monitor: "http",
        http: Some(HttpSpec {
            url_path: "/livez".to_owned(),
            version: "1.0".to_owned(),
            ..HttpSpec::default()
        }),
        monitor_port: 32000,
        ..TCP
    };
    let spec = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32000});
    assert_eq!(steps(&written, &spec, &found(&local, &public, &[])), "");

    let udp = Found {
        pool: "udp/dns",
        protocol: "udp",
        listener: "udp/53",
        monitor: "udp-connect",
        numbers: [3, 2],
        ..TCP
    };
    let spec =
        json!({"ports": [{"name": "dns", "protocol": "UDP", "port": 53, "nodePort": 30080}]});
    let asked = [
        (keys::MONITOR_TYPE, "udp-connect"),
        (keys::MONITOR_DELAY_S, "3"),
        (keys::MONITOR_TIMEOUT_S, "2"),
    ];
    assert_eq!(steps(&asked, &spec, &found(&udp, &public, &[])), "");

    let asked = [(
        keys::FLOATING_IPS,
        r#"["203.0.113.9/32","2001:db8::7/128"]"#,
    )];
    let floating = ["203.0.113.9", "2001:db8::7", "203.0.113.8"];
    assert_eq!(steps(&asked, &none, &found(&TCP, &public, &floating)), "");

    let vips = format!(r#"[{{"subnet": "{SUBNET}"}}]"#);
    let private = [("10.0.0.9", Some(SUBNET))];
    assert_eq!(
        steps(
            &[(keys::VIP_ADDRESSES, &vips)],
            &none,
            &found(&TCP, &private, &[])
        ),
        ""
    );

    let mut named = found(&TCP, &public, &[]);
    named.balancer.name = "shop".to_owned();
    let asked = [(keys::NAME, "shop"), written[0], written[1], written[2]];
    assert_eq!(steps(&asked, &none, &named), "");

    // A monitor that was made for HTTP without a word about it has the cloud's defaults.
    let http = Found {
        monitor: "http",
        http: Some(HttpSpec::default()),
        ..TCP
    };
    assert_eq!(
        steps(
            &[(keys::MONITOR_TYPE, "http")],
            &none,
            &found(&http, &public, &[])
        ),
        ""
    );
    // Options without HTTP are not reported.
    let options = [(keys::MONITOR_HTTP, r#"{"version": "1.0"}"#)];
    assert_eq!(steps(&options, &none, &found(&TCP, &public, &[])), "");
}
