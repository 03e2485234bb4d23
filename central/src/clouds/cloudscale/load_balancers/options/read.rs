//! Reading, with everything that is wrong noted and read on.

use std::collections::BTreeSet;

use mooring_common::names::annotations::SOURCE_RANGES;

use super::{ListenerOptions, Options, Port};
use crate::cloud_provider::load_balancers::InvalidField;
use crate::clouds::cloudscale::annotations as keys;
use crate::clouds::cloudscale::load_balancers::model::{HttpSpec, MonitorSpec, VipRequest};
use crate::engine::annotations::{Reader, either};
use crate::engine::canonical::{canonical_address, canonical_uuid};
use crate::engine::selector::Selector;
use crate::views::service_view::{ServicePort, ServiceView};

const HTTP_METHODS: [&str; 9] = [
    "GET", "CONNECT", "DELETE", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE",
];
const HTTP_VERSIONS: [&str; 2] = ["1.1", "1.0"];

/// See [`Options::read`].
pub(super) fn options(service: &ServiceView) -> Result<Options, Vec<InvalidField>> {
    let mut reader = OptionsReader(Reader::new(service));
    let options = reader.options();
    let notices = reader.0.finish()?;
    Ok(Options { notices, ..options })
}

/// Reads what this cloud can do.
struct OptionsReader<'a>(Reader<'a>);

impl OptionsReader<'_> {
    fn options(&mut self) -> Options {
        let force_hostname = self
            .0
            .optional(&keys::FORCE_HOSTNAME)
            .map(ToOwned::to_owned);
        let ip_mode = match force_hostname {
            // It is not used then, and the Go controller did not look at it.
            Some(_) => "Proxy",
            None => self.0.one_of(&keys::IP_MODE),
        };
        Options {
            uuid: self.uuid(),
            name: self.0.text(&keys::NAME),
            flavor: self.0.text(&keys::FLAVOR),
            zone: self.0.optional(&keys::ZONE).map(ToOwned::to_owned),
            vips: self.vips(),
            floating_ips: self.0.networks(&keys::FLOATING_IPS).into_iter().collect(),
            force_hostname,
            ip_mode,
            pool_algorithm: self.0.one_of(&keys::POOL_ALGORITHM).to_owned(),
            pool_protocol: self.0.one_of(&keys::POOL_PROTOCOL).to_owned(),
            monitor: self.monitor(),
            listener: self.listener(),
            allowed_subnets: self.subnets(),
            node_selector: self.selector(),
            ports: self.ports(),
            notices: Vec::new(),
        }
    }

    fn monitor(&mut self) -> MonitorSpec {
        MonitorSpec {
            kind: self.0.one_of(&keys::MONITOR_TYPE).to_owned(),
            delay_s: self.0.number(&keys::MONITOR_DELAY_S),
            timeout_s: self.0.number(&keys::MONITOR_TIMEOUT_S),
            up_threshold: self.0.number(&keys::MONITOR_UP_THRESHOLD),
            down_threshold: self.0.number(&keys::MONITOR_DOWN_THRESHOLD),
            http: self.http(),
        }
    }

    fn listener(&mut self) -> ListenerOptions {
        ListenerOptions {
            protocol: self.0.one_of(&keys::LISTENER_PROTOCOL).to_owned(),
            allowed_cidrs: self.allowed_cidrs(),
            timeout_client_data_ms: self.0.number(&keys::TIMEOUT_CLIENT_DATA_MS),
            timeout_member_connect_ms: self.0.number(&keys::TIMEOUT_MEMBER_CONNECT_MS),
            timeout_member_data_ms: self.0.number(&keys::TIMEOUT_MEMBER_DATA_MS),
        }
    }

    fn uuid(&mut self) -> Option<String> {
        let text = self.0.optional(&keys::UUID)?;
        match uuid::Uuid::try_parse(text.trim()) {
            Ok(uuid) => Some(uuid.hyphenated().to_string()),
            Err(_) => {
                let what = "is no UUID and not used: the load balancer is found by its name; remove the \
                            annotation";
                self.0.question(&keys::UUID, text, what);
                None
            }
        }
    }

    fn allowed_cidrs(&mut self) -> Vec<String> {
        if self.0.value(&keys::ALLOWED_CIDRS).is_some() {
            return self.0.networks(&keys::ALLOWED_CIDRS);
        }
        let ranges = &self.0.service.source_ranges;
        if !ranges.is_empty() {
            return self.0.canonical("spec.loadBalancerSourceRanges", ranges);
        }
        let legacy = self.0.service.annotation(SOURCE_RANGES).unwrap_or_default();
        let parts = legacy.split(',').map(|part| part.trim().to_owned());
        let texts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
        self.0
            .canonical(&format!("annotation {SOURCE_RANGES}"), &texts)
    }

    fn subnets(&mut self) -> BTreeSet<String> {
        let texts = self.0.list(&keys::ALLOWED_SUBNETS);
        texts.iter().map(|text| canonical_uuid(text)).collect()
    }

    fn vips(&mut self) -> Vec<VipRequest> {
        let key = &keys::VIP_ADDRESSES;
        let example = key.example();
        let Some(text) = self.0.value(key) else {
            return Vec::new();
        };
        let given: Vec<VipRequest> = self.0.json(key, text).unwrap_or_default();
        let mut vips = Vec::new();
        for vip in given {
            let subnet = vip.subnet.filter(|subnet| !subnet.is_empty());
            let address = vip.address.filter(|address| !address.is_empty());
            if subnet.is_none() && address.is_none() {
                let remedy =
                    format!("has an entry without subnet or address; write it like {example}");
                self.0.fault_in(key, text, remedy);
            }
            if let Some(address) = address.as_deref().filter(|a| !is_address(a)) {
                self.0
                    .fault_in(key, address, "is no address; write it like 10.0.0.9");
            }
            vips.push(VipRequest {
                subnet: subnet.as_deref().map(canonical_uuid),
                address: address.as_deref().map(canonical_address),
            });
        }
        vips
    }

    fn http(&mut self) -> Option<HttpSpec> {
        let key = &keys::MONITOR_HTTP;
        // With any space in it, the Go controller took it for options that happen to be the defaults.
        let text = self.0.value(key).filter(|text| *text != "{}")?;
        let given: HttpRequest = self.0.json(key, text)?;
        let http = given.filled();
        self.check_http(&http);
        Some(http)
    }

    fn check_http(&mut self, http: &HttpSpec) {
        let key = &keys::MONITOR_HTTP;
        if !HTTP_METHODS.contains(&http.method.as_str()) {
            let remedy = format!("is no method; write {}", either(&HTTP_METHODS));
            self.0.fault_in(key, &http.method, remedy);
        }
        if !HTTP_VERSIONS.contains(&http.version.as_str()) {
            let remedy = format!("is no version of HTTP; write {}", either(&HTTP_VERSIONS));
            self.0.fault_in(key, &http.version, remedy);
        }
        if !http.url_path.starts_with('/') || http.url_path.chars().any(char::is_control) {
            self.0
                .fault_in(key, &http.url_path, "is no path; write it like /livez");
        }
        if let Some(host) = http.host.as_deref().filter(|_| http.version == "1.0") {
            let remedy = "is a host, which HTTP 1.0 does not have; write version 1.1";
            self.0.fault_in(key, host, remedy);
        }
        for code in http.expected_codes.iter().filter(|code| !is_code(code)) {
            self.0
                .fault_in(key, code, "is no status; write it like 200 or 200-204");
        }
    }

    fn selector(&mut self) -> Selector {
        let key = &keys::NODE_SELECTOR;
        let text = self.0.value(key).unwrap_or_default();
        match text.parse() {
            Ok(selector) => selector,
            Err(error) => {
                self.0.fault_in(key, text, error.to_string());
                Selector::default()
            }
        }
    }

    fn ports(&mut self) -> Vec<Port> {
        let ports = self.0.service.ports.iter().enumerate();
        ports
            .filter_map(|(index, port)| self.port(index, port))
            .collect()
    }

    fn port(&mut self, index: usize, port: &ServicePort) -> Option<Port> {
        let place = |field: &str| format!("spec.ports[{index}].{field}");
        let is_served = matches!(port.protocol.as_str(), "TCP" | "UDP");
        if !is_served {
            let remedy = "is not served by load balancers of cloudscale.ch; write TCP or UDP, or \
                          remove the port";
            self.0.fault(place("protocol"), &port.protocol, remedy);
        }
        let Some(node_port) = port.node_port else {
            let remedy = "is missing, and the load balancer reaches Nodes by it; set \
                          spec.allocateLoadBalancerNodePorts to true";
            self.0.fault(place("nodePort"), "", remedy);
            return None;
        };
        is_served.then(|| Port {
            name: port.name.clone(),
            is_udp: port.protocol == "UDP",
            port: port.port,
            node_port,
        })
    }
}

/// How HTTP is to be spoken, as it is written.
#[derive(serde::Deserialize)]
struct HttpRequest {
    method: Option<String>,
    url_path: Option<String>,
    version: Option<String>,
    host: Option<String>,
    expected_codes: Option<Vec<String>>,
}

impl HttpRequest {
    fn filled(self) -> HttpSpec {
        let default = HttpSpec::default();
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        HttpSpec {
            method: given(self.method).unwrap_or(default.method),
            url_path: given(self.url_path).unwrap_or(default.url_path),
            version: given(self.version).unwrap_or(default.version),
            host: given(self.host),
            expected_codes: self
                .expected_codes
                .filter(|codes| !codes.is_empty())
                .unwrap_or(default.expected_codes),
        }
    }
}

fn is_address(text: &str) -> bool {
    text.trim().parse::<std::net::IpAddr>().is_ok()
}

fn is_code(text: &str) -> bool {
    let is_one = |code: &str| code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
    match text.split_once('-') {
        Some((first, last)) => is_one(first) && is_one(last) && first <= last,
        None => is_one(text),
    }
}
