//! What the Go controller leaves of the Services that it served: for tests of a change-over.
//!
//! The bodies of its requests follow its source; they were not recorded. After its updates the objects
//! are the same, since it always sends every field.

use serde_json::{Map, Value, json};

use super::answers::Errors;
use super::{Linode, firewalls, node_balancers, vpc_ranges};

const LONGEST_LABEL: usize = 32;
const LONGEST_DESCRIPTION: usize = 100;

/// A Service of type LoadBalancer that the Go controller has served.
#[derive(Clone, Debug)]
#[must_use]
pub struct Served {
    name: String,
    label: String,
    tags: Vec<String>,
    ports: Vec<Port>,
    nodes: Vec<(String, String)>,
    certificate: Option<(String, String)>,
    acl: Option<Value>,
    firewall: Option<u64>,
    subnet: Option<u64>,
    reserved: Option<String>,
}

#[derive(Clone, Debug)]
struct Port {
    number: u16,
    protocol: &'static str,
    node_port: u16,
}

/// What there is of a Service at the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its NodeBalancer.
    pub node_balancer: u64,
    /// The firewall that was made for its ACL.
    pub firewall: Option<u64>,
    /// The address in its status.
    pub ipv4: String,
    /// The name in its status.
    pub hostname: String,
}

impl Served {
    /// A Service of this name without ports and nodes, in the cluster `kubernetes`.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            label: "ccm-18b3f0a1c2d4".to_owned(),
            tags: vec!["kubernetes".to_owned()],
            ports: Vec::new(),
            nodes: Vec::new(),
            certificate: None,
            acl: None,
            firewall: None,
            subnet: None,
            reserved: None,
        }
    }

    /// The label of its NodeBalancer: `ccm-` and the last 12 hexadecimal digits of a time.
    pub fn labelled(mut self, label: &str) -> Self {
        label.clone_into(&mut self.label);
        self
    }

    /// One more tag.
    pub fn tag(mut self, tag: &str) -> Self {
        self.tags.push(tag.to_owned());
        self
    }

    /// One more port, with the protocol of its config.
    pub fn port(mut self, number: u16, protocol: &'static str, node_port: u16) -> Self {
        self.ports.push(Port {
            number,
            protocol,
            node_port,
        });
        self
    }

    /// One more node, with the address at which it is a backend.
    pub fn node(mut self, name: &str, address: &str) -> Self {
        self.nodes.push((name.to_owned(), address.to_owned()));
        self
    }

    /// The certificate and the key of its https ports.
    pub fn certificate(mut self, certificate: &str, key: &str) -> Self {
        self.certificate = Some((certificate.to_owned(), key.to_owned()));
        self
    }

    /// The content of its annotation `firewall-acl`.
    pub fn acl(mut self, acl: Value) -> Self {
        self.acl = Some(acl);
        self
    }

    /// Its annotation `firewall-id`.
    pub const fn firewall(mut self, id: u64) -> Self {
        self.firewall = Some(id);
        self
    }

    /// The subnet of a VPC in which its backends are.
    pub const fn subnet(mut self, id: u64) -> Self {
        self.subnet = Some(id);
        self
    }

    /// Its annotation `reserved-ipv4`.
    pub fn reserved(mut self, address: &str) -> Self {
        self.reserved = Some(address.to_owned());
        self
    }

    /// The request for its firewall, which comes first, if it has an ACL.
    pub fn firewall_request(&self) -> Option<Value> {
        let acl = self.acl.as_ref().filter(|_| self.firewall.is_none())?;
        let (list, action, policy) = if acl["allowList"].is_null() {
            (&acl["denyList"], "DROP", "ACCEPT")
        } else {
            (&acl["allowList"], "ACCEPT", "DROP")
        };
        let ports: Vec<String> = self
            .ports
            .iter()
            .map(|port| port.number.to_string())
            .collect();
        let description = format!("Created by linode-ccm: {}, for {}", self.label, self.name);
        Some(json!({
            "label": self.label,
            "rules": {
                "inbound": [{
                    "action": action,
                    "label": cut(&format!("{action}-{}", self.name), LONGEST_LABEL),
                    "description": shortened(&description),
                    "ports": ports.join(","),
                    "protocol": "TCP",
                    "addresses": list,
                }],
                "inbound_policy": policy,
                "outbound": null,
                "outbound_policy": "ACCEPT",
            },
            "tags": self.tags,
            "devices": {},
        }))
    }

    /// The request for its NodeBalancer, with the firewall that was made before.
    pub fn node_balancer_request(&self, firewall: Option<u64>) -> Value {
        let configs: Value = self.ports.iter().map(|port| self.config(port)).collect();
        let mut request = json!({
            "label": self.label, "region": "eu-central", "client_conn_throttle": 0,
            "configs": configs, "tags": self.tags, "type": "common",
        });
        if let Some(firewall) = self.firewall.or(firewall) {
            request["firewall_id"] = json!(firewall);
        }
        if let Some(subnet) = self.subnet {
            request["backend_vpcs"] = json!([{ "subnet_id": subnet }]);
        }
        if let Some(address) = &self.reserved {
            request["ipv4"] = json!(address);
        }
        request
    }

    fn config(&self, port: &Port) -> Value {
        let is_udp = port.protocol == "udp";
        let nodes: Value = self
            .nodes
            .iter()
            .map(|(name, address)| self.backend(name, address, port))
            .collect();
        let mut config = json!({
            "port": port.number, "protocol": port.protocol, "proxy_protocol": "none",
            "algorithm": "roundrobin", "check": if is_udp { "none" } else { "connection" },
            "check_interval": 5, "check_timeout": 3, "check_attempts": 2,
            "check_passive": !is_udp, "nodes": nodes,
        });
        match port.protocol {
            "udp" => {
                config["stickiness"] = json!("session");
                config["udp_check_port"] = json!(80);
            }
            "http" | "https" => config["stickiness"] = json!("table"),
            _ => {}
        }
        if let Some((certificate, key)) = self.certificate.as_ref()
            && port.protocol == "https"
        {
            config["ssl_cert"] = json!(certificate.trim());
            config["ssl_key"] = json!(key.trim());
        }
        config
    }

    fn backend(&self, name: &str, address: &str, port: &Port) -> Value {
        let address = if address.contains(':') {
            format!("[{address}]:{}", port.node_port)
        } else {
            format!("{address}:{}", port.node_port)
        };
        let label = if name.len() < 3 {
            format!("node-{name}")
        } else {
            cut(name, LONGEST_LABEL).to_owned()
        };
        let mut node = json!({ "address": address, "label": label, "weight": 100 });
        if port.protocol != "udp" {
            node["mode"] = json!("accept");
        }
        if let Some(subnet) = self.subnet {
            node["subnet_id"] = json!(subnet);
        }
        node
    }
}

impl Linode {
    /// Puts there what the Go controller leaves of this Service.
    ///
    /// # Panics
    /// If its subnet is not there, or has no room.
    pub fn leave(&self, service: &Served) -> Left {
        let mut state = self.state();
        let request = service.firewall_request();
        let firewall = request.map(|request| firewalls::add(&mut state, &object(request)));
        let request = object(service.node_balancer_request(firewall));
        let mut errors = Errors::default();
        let region = &request["region"];
        let backends = vpc_ranges::backends(&state, &request, region, &mut errors);
        errors.into_result().expect("room in the subnet");
        let id = node_balancers::make(&mut state, &request, &backends, &[]);
        state.record(id);
        drop(state);
        let shown = self.get(super::Kind::NodeBalancer, id).unwrap_or_default();
        let text = |field: &str| shown[field].as_str().unwrap_or_default().to_owned();
        Left {
            node_balancer: id,
            firewall,
            ipv4: text("ipv4"),
            hostname: text("hostname"),
        }
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

fn cut(text: &str, length: usize) -> &str {
    text.get(..length).unwrap_or(text)
}

fn shortened(description: &str) -> String {
    if description.len() > LONGEST_DESCRIPTION {
        format!("{}...", cut(description, LONGEST_DESCRIPTION - 3))
    } else {
        description.to_owned()
    }
}
