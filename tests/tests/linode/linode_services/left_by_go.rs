//! Services and NodeBalancers, exactly as the Go controller leaves them.

use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, Patch, PatchParams};
use mooring_cloud_sim::linode::{Kind, Left, Linode, Served};
use mooring_common::names::finalizers;
use mooring_test_cluster::objects::ServiceBuilder;
use serde_json::{Value, json};

use crate::linode_services::cloud::SuiteCloud;
use crate::linode_services::cluster::LoadBalancerCloud as _;
use crate::linode_services::forwarding::ports;
use crate::linode_services::key;

/// The address that one of the cases has reserved.
pub(crate) const RESERVED: &str = "198.51.100.7";

/// What differs from the defaults of the Go controller.
pub(crate) type Change = fn(Served) -> Served;

/// A Service as its user has written it, what the Go controller has made of it, and its status.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) service: ServiceBuilder,
    pub(crate) protocol: Option<&'static str>,
    pub(crate) change: Change,
    pub(crate) shows: fn(&Left, &Value) -> Value,
}

/// Puts there what the Go controller leaves of a Service: in the cloud, and on the Service.
pub(crate) async fn leave(
    sim: &Linode,
    services: &Api<Service>,
    service: &Service,
    protocol: Option<&'static str>,
    change: Change,
    shows: fn(&Left, &Value) -> Value,
) -> String {
    let name = service.metadata.name.clone().unwrap_or_default();
    let label = format!("ccm-{:012x}", sim.all(Kind::NodeBalancer).len());
    let mut served = Served::named(&name).labelled(&label);
    for port in ports(service) {
        let own = match port.protocol.as_deref() {
            Some("UDP") => "udp",
            _ => "tcp",
        };
        let number = u16::try_from(port.port).unwrap();
        let node_port = u16::try_from(port.node_port.unwrap()).unwrap();
        served = served.port(number, protocol.unwrap_or(own), node_port);
    }
    for n in [1, 2] {
        served = served.node(&format!("n{n}"), &SuiteCloud::address(n));
    }
    let left = sim.leave(&change(served));
    let shown = sim.get(Kind::NodeBalancer, left.node_balancer);
    let ingress = shows(&left, &shown.unwrap());
    let params = PatchParams::default();
    let finalizer = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    let finalizer = Patch::Merge(&finalizer);
    services.patch(&name, &params, &finalizer).await.unwrap();
    let status = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
    let status = Patch::Merge(&status);
    services
        .patch_status(&name, &params, &status)
        .await
        .unwrap();
    left.node_balancer.to_string()
}

pub(crate) fn plain(left: &Left, _: &Value) -> Value {
    json!([{ "hostname": left.hostname, "ip": left.ipv4 }])
}

/// One Service of each kind that the Go controller serves, in a cloud with this reserved address.
pub(crate) fn cases(namespace: &str) -> Vec<Case> {
    let service = |name: &str| ServiceBuilder::load_balancer(namespace, name);
    let case = |name: &'static str, service: ServiceBuilder, change: Change| Case {
        name,
        service,
        protocol: None,
        change,
        shows: plain,
    };
    let acl = r#"{"allowList": {"ipv4": ["192.0.2.0/24"], "ipv6": ["2001:db8::/32"]}}"#;
    vec![
        case("public", service("public").unnamed_port(80, 8080), |s| s),
        case(
            "two-ports",
            service("two-ports").port(80, 8080).port(443, 8443),
            |s| s,
        ),
        case("udp", service("udp").port_of("UDP", 5000, 5353), |s| s),
        case(
            "tagged",
            service("tagged")
                .port(80, 8080)
                .annotation(&key("tags"), "b,a"),
            |served| served.tag("b").tag("a"),
        ),
        Case {
            protocol: Some("http"),
            ..case(
                "http",
                service("http")
                    .port(80, 8080)
                    .annotation(&key("default-protocol"), "HTTP"),
                |s| s,
            )
        },
        case(
            "protected",
            service("protected")
                .port(80, 8080)
                .port(443, 8443)
                .annotation(&key("firewall-acl"), acl),
            |served| {
                let families = json!({ "ipv4": ["192.0.2.0/24"], "ipv6": ["2001:db8::/32"] });
                served.acl(json!({ "allowList": families }))
            },
        ),
        case(
            "reserved",
            service("reserved")
                .port(80, 8080)
                .annotation(&key("reserved-ipv4"), RESERVED),
            |served| served.reserved(RESERVED),
        ),
        Case {
            shows: |left, _| json!([{ "hostname": left.hostname }]),
            ..case(
                "hostname",
                service("hostname")
                    .port(80, 8080)
                    .annotation(&key("hostname-only-ingress"), "true"),
                |s| s,
            )
        },
        Case {
            shows: |left, shown| {
                let hostname = &left.hostname;
                json!([
                    { "hostname": hostname, "ip": left.ipv4 },
                    { "hostname": hostname, "ip": shown["ipv6"] },
                ])
            },
            ..case(
                "both-families",
                service("both-families")
                    .port(80, 8080)
                    .annotation(&key("enable-ipv6-ingress"), "1"),
                |s| s,
            )
        },
    ]
}
