//! Reading, with everything that is wrong noted and read on.

use std::collections::BTreeSet;

use mooring_common::names::annotations::SOURCE_RANGES;
use mooring_common::names::{cloudscale_annotations as keys, reasons};
use serde::de::DeserializeOwned;

use super::{ListenerOptions, MonitorOptions, Options, Port};
use crate::cloud_provider::load_balancers::{InvalidField, Notice};
use crate::clouds::cloudscale::load_balancers::model::{HttpSpec, VipRequest};
use crate::engine::canonical::{canonical_address, canonical_network, canonical_uuid};
use crate::engine::selector::Selector;
use crate::views::service_view::{ServicePort, ServiceView};

/// The longest that a value is cited.
const CITED: usize = 80;
/// A day: whatever waits longer was not meant to.
const MAX_SECONDS: u32 = 86_400;
/// More answers in a row than anybody waits for.
const MAX_THRESHOLD: u32 = 1_000;
/// What a signed number of 32 bits holds: 24 days.
const MAX_MILLISECONDS: u32 = i32::MAX.cast_unsigned();

const ALGORITHMS: [&str; 3] = ["round_robin", "least_connections", "source_ip"];
const POOL_PROTOCOLS: [&str; 3] = ["tcp", "proxy", "proxyv2"];
const MONITOR_TYPES: [&str; 6] = [
    MonitorOptions::TYPE,
    "ping",
    "http",
    "https",
    "tls-hello",
    "udp-connect",
];
const HTTP_METHODS: [&str; 9] = [
    "GET", "CONNECT", "DELETE", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE",
];
const HTTP_VERSIONS: [&str; 2] = ["1.1", "1.0"];
const IP_MODES: [&str; 2] = ["Proxy", "VIP"];

/// Reads one Service, noting what is wrong with it.
struct Reader<'a> {
    service: &'a ServiceView,
    faults: Vec<InvalidField>,
    notices: Vec<Notice>,
}

/// See [`Options::read`].
pub(super) fn options(service: &ServiceView) -> Result<Options, Vec<InvalidField>> {
    let mut reader = Reader {
        service,
        faults: Vec::new(),
        notices: Vec::new(),
    };
    let options = reader.options();
    if reader.faults.is_empty() {
        Ok(Options {
            notices: reader.notices,
            ..options
        })
    } else {
        Err(reader.faults)
    }
}

impl<'a> Reader<'a> {
    fn options(&mut self) -> Options {
        let force_hostname = self.optional(keys::FORCE_HOSTNAME).map(ToOwned::to_owned);
        let ip_mode = match force_hostname {
            // It is not used then, and the Go controller did not look at it.
            Some(_) => IP_MODES[0],
            None => self.one_of(keys::IP_MODE, &IP_MODES),
        };
        Options {
            uuid: self.uuid(),
            name: self.text(keys::NAME, &format!("k8s-service-{}", self.service.uid)),
            flavor: self.text(keys::FLAVOR, "lb-standard"),
            zone: self.optional(keys::ZONE).map(ToOwned::to_owned),
            vips: self.vips(),
            floating_ips: self.networks(keys::FLOATING_IPS).into_iter().collect(),
            force_hostname,
            ip_mode,
            pool_algorithm: self.one_of(keys::POOL_ALGORITHM, &ALGORITHMS).to_owned(),
            pool_protocol: self.one_of(keys::POOL_PROTOCOL, &POOL_PROTOCOLS).to_owned(),
            monitor: self.monitor(),
            listener: self.listener(),
            allowed_subnets: self.subnets(),
            node_selector: self.selector(),
            ports: self.ports(),
            notices: Vec::new(),
        }
    }

    fn monitor(&mut self) -> MonitorOptions {
        MonitorOptions {
            kind: self.one_of(keys::MONITOR_TYPE, &MONITOR_TYPES).to_owned(),
            delay_s: self.number(keys::MONITOR_DELAY_S, 2, MAX_SECONDS),
            timeout_s: self.number(keys::MONITOR_TIMEOUT_S, 1, MAX_SECONDS),
            up_threshold: self.number(keys::MONITOR_UP_THRESHOLD, 2, MAX_THRESHOLD),
            down_threshold: self.number(keys::MONITOR_DOWN_THRESHOLD, 3, MAX_THRESHOLD),
            http: self.http(),
        }
    }

    fn listener(&mut self) -> ListenerOptions {
        let data = 50_000;
        ListenerOptions {
            protocol: self.one_of(keys::LISTENER_PROTOCOL, &["tcp"]).to_owned(),
            allowed_cidrs: self.allowed_cidrs(),
            timeout_client_data_ms: self.number(
                keys::TIMEOUT_CLIENT_DATA_MS,
                data,
                MAX_MILLISECONDS,
            ),
            timeout_member_connect_ms: self.number(
                keys::TIMEOUT_MEMBER_CONNECT_MS,
                5_000,
                MAX_MILLISECONDS,
            ),
            timeout_member_data_ms: self.number(
                keys::TIMEOUT_MEMBER_DATA_MS,
                data,
                MAX_MILLISECONDS,
            ),
        }
    }

    fn fault(&mut self, place: String, value: &str, remedy: impl Into<String>) {
        self.faults.push(InvalidField {
            place,
            value: cite(value),
            remedy: remedy.into(),
        });
    }

    fn fault_in(&mut self, key: &str, value: &str, remedy: impl Into<String>) {
        self.fault(format!("annotation {key}"), value, remedy);
    }

    /// The Go controller takes it.
    fn question(&mut self, key: &str, value: &str, what: &str) {
        self.notices.push(Notice {
            reason: reasons::QUESTIONABLE_ANNOTATION,
            note: format!("Annotation {key}: {:?} {what}", cite(value)),
            by_provider: false,
        });
    }

    fn value(&self, key: &str) -> Option<&'a str> {
        self.service.annotation(key)
    }

    /// Where an empty value means the same as none.
    fn optional(&self, key: &str) -> Option<&'a str> {
        self.value(key).filter(|text| !text.is_empty())
    }

    /// Where an empty value means nothing.
    fn text(&mut self, key: &str, default: &str) -> String {
        let text = self.value(key).unwrap_or(default);
        if text.trim().is_empty() {
            let remedy = format!("is empty; write one, or remove the annotation for {default:?}");
            self.fault_in(key, text, remedy);
        }
        text.to_owned()
    }

    /// One of several words, the first of which is the default.
    fn one_of<const N: usize>(
        &mut self,
        key: &str,
        legal: &'static [&'static str; N],
    ) -> &'static str {
        let default = legal.first().copied().unwrap_or_default();
        let Some(text) = self.value(key) else {
            return default;
        };
        if let Some(found) = legal.iter().find(|word| **word == text) {
            return found;
        }
        let remedy = format!("is not among the legal values; write {}", either(legal));
        self.fault_in(key, text, remedy);
        default
    }

    /// `None`: whatever the cloud has.
    fn number(&mut self, key: &str, default: u32, max: u32) -> Option<u32> {
        let Some(text) = self.value(key) else {
            return Some(default);
        };
        match text.parse::<u32>() {
            Ok(0) => {
                let what = format!(
                    "says nothing, and the cloud's own value is kept; write a number from 1 to {max}, \
                     like {default}"
                );
                self.question(key, text, &what);
                None
            }
            Ok(number) if number <= max => Some(number),
            _ => {
                let remedy = format!("is no number from 1 to {max}; write one, like {default}");
                self.fault_in(key, text, remedy);
                Some(default)
            }
        }
    }

    fn uuid(&mut self) -> Option<String> {
        let text = self.optional(keys::UUID)?;
        match uuid::Uuid::try_parse(text.trim()) {
            Ok(uuid) => Some(uuid.hyphenated().to_string()),
            Err(_) => {
                let what = "is no UUID and not used: the load balancer is found by its name; remove the \
                            annotation";
                self.question(keys::UUID, text, what);
                None
            }
        }
    }

    /// What JSON says. `None`, besides where it cannot be understood: it is `null`.
    fn json<T: DeserializeOwned>(&mut self, key: &str, text: &str, example: &str) -> Option<T> {
        match serde_json::from_str::<Option<T>>(text) {
            Ok(value) => value,
            Err(error) => {
                let remedy = format!(
                    "is not the JSON that is understood ({error}); write it like {example}"
                );
                self.fault_in(key, text, remedy);
                None
            }
        }
    }

    fn list(&mut self, key: &str, example: &str) -> Vec<String> {
        match self.value(key) {
            Some(text) if !text.trim().is_empty() => {
                self.json(key, text, example).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// A list of networks, in canonical form, each once.
    fn networks(&mut self, key: &str) -> Vec<String> {
        let texts = self.list(key, r#"["192.0.2.0/24", "2001:db8::7/128"]"#);
        self.canonical(&format!("annotation {key}"), &texts)
    }

    fn canonical(&mut self, place: &str, texts: &[String]) -> Vec<String> {
        let mut networks = Vec::new();
        for text in texts {
            match canonical_network(text) {
                Some(network) if networks.contains(&network) => {}
                Some(network) => networks.push(network),
                None => {
                    let remedy = "is no network; write it like 192.0.2.0/24 or 2001:db8::/32";
                    self.fault(place.to_owned(), text, remedy);
                }
            }
        }
        networks
    }

    fn allowed_cidrs(&mut self) -> Vec<String> {
        if self.value(keys::ALLOWED_CIDRS).is_some() {
            return self.networks(keys::ALLOWED_CIDRS);
        }
        let ranges = &self.service.source_ranges;
        if !ranges.is_empty() {
            return self.canonical("spec.loadBalancerSourceRanges", ranges);
        }
        let legacy = self.value(SOURCE_RANGES).unwrap_or_default();
        let parts = legacy.split(',').map(|part| part.trim().to_owned());
        let texts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
        self.canonical(&format!("annotation {SOURCE_RANGES}"), &texts)
    }

    fn subnets(&mut self) -> BTreeSet<String> {
        let example = r#"["2db69ba3-1864-4608-853a-0771b6885a3a"]"#;
        let texts = self.list(keys::ALLOWED_SUBNETS, example);
        texts.iter().map(|text| canonical_uuid(text)).collect()
    }

    fn vips(&mut self) -> Vec<VipRequest> {
        let key = keys::VIP_ADDRESSES;
        let example =
            r#"[{"subnet": "2db69ba3-1864-4608-853a-0771b6885a3a", "address": "10.0.0.9"}]"#;
        let Some(text) = self.value(key) else {
            return Vec::new();
        };
        let given: Vec<VipRequest> = self.json(key, text, example).unwrap_or_default();
        let mut vips = Vec::new();
        for vip in given {
            let subnet = vip.subnet.filter(|subnet| !subnet.is_empty());
            let address = vip.address.filter(|address| !address.is_empty());
            if subnet.is_none() && address.is_none() {
                let remedy =
                    format!("has an entry without subnet or address; write it like {example}");
                self.fault_in(key, text, remedy);
            }
            if let Some(address) = address.as_deref().filter(|a| !is_address(a)) {
                self.fault_in(key, address, "is no address; write it like 10.0.0.9");
            }
            vips.push(VipRequest {
                subnet: subnet.as_deref().map(canonical_uuid),
                address: address.as_deref().map(canonical_address),
            });
        }
        vips
    }

    fn http(&mut self) -> Option<HttpSpec> {
        let key = keys::MONITOR_HTTP;
        let example = r#"{"method": "GET", "url_path": "/livez", "expected_codes": ["200"]}"#;
        // With any space in it, the Go controller took it for options that happen to be the defaults.
        let text = self.value(key).filter(|text| *text != "{}")?;
        let given: HttpRequest = self.json(key, text, example)?;
        let http = given.filled();
        self.check_http(&http);
        Some(http)
    }

    fn check_http(&mut self, http: &HttpSpec) {
        let key = keys::MONITOR_HTTP;
        if !HTTP_METHODS.contains(&http.method.as_str()) {
            let remedy = format!("is no method; write {}", either(&HTTP_METHODS));
            self.fault_in(key, &http.method, remedy);
        }
        if !HTTP_VERSIONS.contains(&http.version.as_str()) {
            let remedy = format!("is no version of HTTP; write {}", either(&HTTP_VERSIONS));
            self.fault_in(key, &http.version, remedy);
        }
        if !http.url_path.starts_with('/') || http.url_path.chars().any(char::is_control) {
            self.fault_in(key, &http.url_path, "is no path; write it like /livez");
        }
        if let Some(host) = http.host.as_deref().filter(|_| http.version == "1.0") {
            let remedy = "is a host, which HTTP 1.0 does not have; write version 1.1";
            self.fault_in(key, host, remedy);
        }
        for code in http.expected_codes.iter().filter(|code| !is_code(code)) {
            self.fault_in(key, code, "is no status; write it like 200 or 200-204");
        }
    }

    fn selector(&mut self) -> Selector {
        let key = keys::NODE_SELECTOR;
        let text = self.value(key).unwrap_or_default();
        match text.parse() {
            Ok(selector) => selector,
            Err(error) => {
                self.fault_in(key, text, error.to_string());
                Selector::default()
            }
        }
    }

    fn ports(&mut self) -> Vec<Port> {
        let ports = self.service.ports.iter().enumerate();
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
            self.fault(place("protocol"), &port.protocol, remedy);
        }
        let Some(node_port) = port.node_port else {
            let remedy = "is missing, and the load balancer reaches Nodes by it; set \
                          spec.allocateLoadBalancerNodePorts to true";
            self.fault(place("nodePort"), "", remedy);
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

/// A value in an Event.
fn cite(value: &str) -> String {
    let mut cited: String = value.chars().take(CITED).collect();
    if cited.len() < value.len() {
        cited.pop();
        cited.push('…');
    }
    cited
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

fn either(words: &[&str]) -> String {
    match words {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}
