//! What a Service asks of its load balancer, in annotations and elsewhere.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::model::{BalancerSpec, HttpSpec, ListenerSpec, MonitorSpec, PoolSpec, Tags, VipRequest};
use crate::clouds::cloudscale::annotations as keys;
use crate::engine::annotations::{Reader, either};
use crate::engine::canonical::{canonical_address, canonical_uuid};
use crate::engine::selector::Selector;
use crate::engine::service_spec::Port;

const HTTP_METHODS: [&str; 9] = [
    "GET", "CONNECT", "DELETE", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE",
];
const HTTP_VERSIONS: [&str; 2] = ["1.1", "1.0"];

/// All that is asked for, defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// The load balancer; its tags are not the Service's to say.
    pub(super) balancer: BalancerSpec,
    /// Addresses of floating IPs, in canonical form.
    pub(super) floating_ips: BTreeSet<String>,
    /// The host name for the status, instead of addresses.
    pub(super) force_hostname: Option<String>,
    /// `ipMode` of the addresses in the status.
    pub(super) ip_mode: &'static str,
    /// What is asked of pools; the protocol is that of TCP ports.
    pub(super) pool: PoolSpec,
    /// What is asked of health monitors; `http` only if the Service says it.
    pub(super) monitor: MonitorSpec,
    /// What is asked of listeners; the protocol is that of TCP ports.
    pub(super) listener: ListenerSpec,
    /// UUIDs of the subnets that members are taken from; none: all.
    pub(super) allowed_subnets: BTreeSet<String>,
    /// Which Nodes carry traffic.
    pub(super) node_selector: Selector,
    /// The Service's ports, in order.
    pub(super) ports: Vec<Port>,
}

impl Options {
    /// Reads everything that a Service asks for.
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        check_uuid(reader);
        let force_hostname = reader.optional(&keys::FORCE_HOSTNAME);
        let has_tcp = reader.has_port_of("TCP");
        Self {
            balancer: BalancerSpec {
                name: reader.text(&keys::NAME),
                flavor: reader.text(&keys::FLAVOR),
                zone: reader.optional(&keys::ZONE).map(ToOwned::to_owned),
                vips: vips(reader),
                tags: Tags::new(),
            },
            floating_ips: reader.addresses(&keys::FLOATING_IPS),
            force_hostname: force_hostname.map(ToOwned::to_owned),
            ip_mode: reader.one_of_if(force_hostname.is_none(), &keys::IP_MODE),
            pool: PoolSpec {
                name: String::new(),
                algorithm: reader.one_of(&keys::POOL_ALGORITHM).to_owned(),
                protocol: reader.one_of_if(has_tcp, &keys::POOL_PROTOCOL).to_owned(),
            },
            monitor: monitor(reader),
            listener: listener(reader, has_tcp),
            allowed_subnets: subnets(reader),
            node_selector: reader.selector(&keys::NODE_SELECTOR),
            ports: reader.ports("cloudscale.ch", &["TCP", "UDP"]),
        }
    }
}

fn check_uuid(reader: &mut Reader<'_>) {
    let text = reader.optional(&keys::UUID);
    if let Some(text) = text.filter(|text| uuid::Uuid::try_parse(text.trim()).is_err()) {
        let what = "is no UUID and not used: the load balancer is found by its name; remove the \
                    annotation";
        reader.question(&keys::UUID, text, what);
    }
}

fn monitor(reader: &mut Reader<'_>) -> MonitorSpec {
    MonitorSpec {
        kind: reader.one_of(&keys::MONITOR_TYPE).to_owned(),
        delay_s: reader.number(&keys::MONITOR_DELAY_S),
        timeout_s: reader.number(&keys::MONITOR_TIMEOUT_S),
        up_threshold: reader.number(&keys::MONITOR_UP_THRESHOLD),
        down_threshold: reader.number(&keys::MONITOR_DOWN_THRESHOLD),
        http: http(reader),
    }
}

fn listener(reader: &mut Reader<'_>, has_tcp: bool) -> ListenerSpec {
    ListenerSpec {
        name: String::new(),
        protocol: reader
            .one_of_if(has_tcp, &keys::LISTENER_PROTOCOL)
            .to_owned(),
        port: 0,
        allowed_cidrs: match reader.value(&keys::ALLOWED_CIDRS) {
            Some(_) => reader.networks(&keys::ALLOWED_CIDRS),
            None => reader.source_ranges(),
        },
        timeout_client_data_ms: reader.number(&keys::TIMEOUT_CLIENT_DATA_MS),
        timeout_member_connect_ms: reader.number(&keys::TIMEOUT_MEMBER_CONNECT_MS),
        timeout_member_data_ms: reader.number(&keys::TIMEOUT_MEMBER_DATA_MS),
    }
}

fn subnets(reader: &mut Reader<'_>) -> BTreeSet<String> {
    let texts = reader.list(&keys::ALLOWED_SUBNETS);
    texts.iter().map(|text| canonical_uuid(text)).collect()
}

fn vips(reader: &mut Reader<'_>) -> Vec<VipRequest> {
    let key = &keys::VIP_ADDRESSES;
    let Some(text) = reader.value(key) else {
        return Vec::new();
    };
    let mut vips: Vec<VipRequest> = reader.json(key, text).unwrap_or_default();
    for vip in &mut vips {
        let said = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (subnet, address) = (said(vip.subnet.take()), said(vip.address.take()));
        if subnet.is_none() && address.is_none() {
            let example = key.example();
            let remedy = format!("has an entry without subnet or address; write it like {example}");
            reader.fault_in(key, text, remedy);
        }
        let is_address = |text: &str| text.trim().parse::<IpAddr>().is_ok();
        if let Some(address) = address.as_deref().filter(|text| !is_address(text)) {
            reader.fault_in(key, address, "is no address; write it like 10.0.0.9");
        }
        *vip = VipRequest {
            subnet: subnet.as_deref().map(canonical_uuid),
            address: address.as_deref().map(canonical_address),
        };
    }
    vips
}

fn http(reader: &mut Reader<'_>) -> Option<HttpSpec> {
    let key = &keys::MONITOR_HTTP;
    // With any space in it, the Go controller took it for options that happen to be the defaults.
    let text = reader.value(key).filter(|text| *text != "{}")?;
    let given: HttpRequest = reader.json(key, text)?;
    let http = given.filled();
    check_http(reader, &http);
    Some(http)
}

fn check_http(reader: &mut Reader<'_>, http: &HttpSpec) {
    let key = &keys::MONITOR_HTTP;
    if !HTTP_METHODS.contains(&http.method.as_str()) {
        let remedy = format!("is no method; write {}", either(&HTTP_METHODS));
        reader.fault_in(key, &http.method, remedy);
    }
    if !HTTP_VERSIONS.contains(&http.version.as_str()) {
        let remedy = format!("is no version of HTTP; write {}", either(&HTTP_VERSIONS));
        reader.fault_in(key, &http.version, remedy);
    }
    if !http.url_path.starts_with('/') || http.url_path.chars().any(char::is_control) {
        reader.fault_in(key, &http.url_path, "is no path; write it like /livez");
    }
    if let Some(host) = http.host.as_deref().filter(|_| http.version == "1.0") {
        let remedy = "is a host, which HTTP 1.0 does not have; write version 1.1";
        reader.fault_in(key, host, remedy);
    }
    for code in http.expected_codes.iter().filter(|code| !is_code(code)) {
        reader.fault_in(key, code, "is no status; write it like 200 or 200-204");
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

fn is_code(text: &str) -> bool {
    let is_one = |code: &str| code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
    match text.split_once('-') {
        Some((first, last)) => is_one(first) && is_one(last) && first <= last,
        None => is_one(text),
    }
}

#[cfg(test)]
pub(super) mod tests;
