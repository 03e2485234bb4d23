//! What each port of a Service is to have: its own JSON first, then what holds for all ports, then the default.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::model::ConfigSpec;
use super::go_bool;
use crate::cloud_provider::annotations::Annotation;
use crate::clouds::linode::annotations as keys;
use crate::engine::annotations::{Reader, either};
use crate::engine::service_spec::Port;

const PROTOCOLS: [&str; 4] = ["tcp", "udp", "http", "https"];
const PROXY_PROTOCOLS: [&str; 3] = ["none", "v1", "v2"];
const CHECKS: [&str; 4] = ["none", "connection", "http", "http_body"];
const UDP_CHECK_PORT: u16 = 80;

/// A port.
#[derive(Clone, Debug)]
pub(in super::super) struct PortOptions {
    /// As the Service has it.
    pub(in super::super) port: Port,
    /// The config that serves it, without what it presents to clients.
    pub(in super::super) config: ConfigSpec,
    /// The Secret with what it presents to clients.
    pub(in super::super) tls_secret: Option<String>,
}

/// How Nodes are asked whether they are healthy, on all ports.
struct Check {
    kind: Option<String>,
    path: String,
    body: Option<String>,
    interval: u32,
    timeout: u32,
    attempts: u32,
}

/// All ports, in order.
pub(super) fn read(reader: &mut Reader<'_>) -> Vec<PortOptions> {
    let check = check(reader);
    let ports = reader.ports("Linode", &["TCP", "UDP"]).into_iter();
    let mut all: Vec<PortOptions> = ports.map(|port| of_port(reader, port, &check)).collect();
    // Of UDP ports it is not asked.
    let mut others = all
        .iter_mut()
        .filter(|port| !port.config.place().1)
        .peekable();
    if others.peek().is_some() {
        let passive = passive(reader);
        others.for_each(|port| port.config.check_passive = passive);
    }
    for (index, port) in all.iter().enumerate() {
        let (number, is_udp) = port.config.place();
        let mut earlier = all.iter().take(index);
        if earlier.any(|other| other.config.place() == port.config.place()) {
            let protocol = if is_udp { "UDP" } else { "TCP" };
            let remedy = format!(
                "is served twice, by {protocol}; give one of them another number, or another protocol"
            );
            reader.fault("spec.ports".to_owned(), &number.to_string(), remedy);
        }
    }
    all
}

/// The names of the Secrets that ports of a Service present.
pub(in super::super) fn secrets(reader: &mut Reader<'_>) -> impl Iterator<Item = String> {
    let ports = read(reader).into_iter();
    ports.filter_map(|port| port.tls_secret)
}

fn of_port(reader: &mut Reader<'_>, port: Port, check: &Check) -> PortOptions {
    let key = format!("{}{}", keys::PORT, port.port);
    let own = own(reader, &key);
    let own = Own { key, fields: own };
    let protocol = own.word(
        reader,
        "protocol",
        &keys::PROTOCOL,
        &PROTOCOLS,
        &port.protocol,
    );
    let is_udp = protocol == "udp";
    let algorithm = own.word(
        reader,
        "algorithm",
        &keys::ALGORITHM,
        if is_udp {
            &["roundrobin", "leastconn", "ring_hash"]
        } else {
            &["roundrobin", "leastconn", "source"]
        },
        "roundrobin",
    );
    let stickiness = stickiness(reader, &own, &protocol);
    let check_kind = match &check.kind {
        Some(kind) => kind.clone(),
        None if port.protocol == "udp" => "none".to_owned(),
        None => "connection".to_owned(),
    };
    let is_http_check = check_kind.starts_with("http");
    let tls_secret = tls_secret(reader, &own, &protocol, port.port);
    let config = ConfigSpec {
        port: port.port,
        proxy_protocol: proxy_protocol(reader, &own, is_udp),
        algorithm,
        stickiness,
        check_path: is_http_check.then(|| check.path.clone()),
        check_body: check.body.clone().filter(|_| check_kind == "http_body"),
        check: check_kind,
        check_interval: check.interval,
        check_timeout: check.timeout,
        check_attempts: check.attempts,
        check_passive: false,
        udp_check_port: is_udp.then(|| udp_check_port(reader, &own)),
        protocol,
        tls: None,
    };
    PortOptions {
        port,
        config,
        tls_secret,
    }
}

/// What the annotation of one port says. Keys are read whatever their case, an empty text says nothing, and
/// what is not known is not read, as Go has it.
fn own(reader: &mut Reader<'_>, key: &str) -> BTreeMap<String, String> {
    let Some(text) = reader.service.annotation(key) else {
        return BTreeMap::new();
    };
    let how = "write it like {\"protocol\": \"https\", \"tls-secret-name\": \"my-tls\"}";
    let fields = match serde_json::from_str::<Option<Map<String, Value>>>(text) {
        Ok(fields) => fields.unwrap_or_default(),
        Err(error) => {
            let remedy = format!("is not the JSON that is understood ({error}); {how}");
            reader.fault(format!("annotation {key}"), text, remedy);
            return BTreeMap::new();
        }
    };
    let mut own = BTreeMap::new();
    for (name, value) in fields {
        match value {
            Value::String(said) if !said.is_empty() => {
                own.insert(name.to_lowercase(), said);
            }
            Value::String(_) | Value::Null => {}
            other if OWN.contains(&name.to_lowercase().as_str()) => {
                let remedy = format!("has {name} without quotes; write \"{name}\": \"{other}\"");
                reader.fault(format!("annotation {key}"), text, remedy);
            }
            _ => {}
        }
    }
    own
}

/// What the annotation of one port can say.
const OWN: [&str; 6] = [
    "tls-secret-name",
    "protocol",
    "proxy-protocol",
    "algorithm",
    "stickiness",
    "udp-check-port",
];

/// What one port says for itself.
struct Own {
    key: String,
    fields: BTreeMap<String, String>,
}

impl Own {
    /// What holds for this port, and where it stands.
    fn said<'a>(
        &'a self,
        reader: &Reader<'a>,
        name: &str,
        of_all: &Annotation,
    ) -> Option<(String, &'a str)> {
        if let Some(text) = self.fields.get(name) {
            return Some((format!("annotation {}, {name}", self.key), text));
        }
        let text = reader.value(of_all)?;
        Some((format!("annotation {}", of_all.key), text))
    }

    /// One of these words, whatever its case.
    fn word(
        &self,
        reader: &mut Reader<'_>,
        name: &str,
        of_all: &Annotation,
        legal: &[&str],
        default: &str,
    ) -> String {
        let said = self.said(reader, name, of_all);
        let said = said.map(|(place, text)| (place, text.to_owned()));
        let Some((place, text)) = said else {
            return default.to_owned();
        };
        let word = text.to_lowercase();
        if !legal.contains(&word.as_str()) {
            let remedy = format!("is not among the legal values; write {}", either(legal));
            reader.fault(place, &text, remedy);
            return default.to_owned();
        }
        word
    }
}

fn proxy_protocol(reader: &mut Reader<'_>, own: &Own, is_udp: bool) -> String {
    let of_all = match reader.value(&keys::PROXY_PROTOCOL) {
        Some(_) => &keys::PROXY_PROTOCOL,
        None => &keys::OLD_PROXY_PROTOCOL,
    };
    let word = own.word(reader, "proxy-protocol", of_all, &PROXY_PROTOCOLS, "none");
    if is_udp && word != "none" {
        let place = own
            .said(reader, "proxy-protocol", of_all)
            .map(|(place, _)| place);
        let remedy = "is not supported for UDP; take it off, or give the UDP port \"proxy-protocol\": \
                      \"none\" of its own";
        reader.fault(place.unwrap_or_default(), &word, remedy);
    }
    word
}

fn stickiness(reader: &mut Reader<'_>, own: &Own, protocol: &str) -> Option<String> {
    let (legal, default): (&[&str], &str) = match protocol {
        "http" | "https" => (&["none", "table", "http_cookie"], "table"),
        "udp" => (&["none", "session", "source_ip"], "session"),
        _ => return None,
    };
    Some(own.word(reader, "stickiness", &keys::STICKINESS, legal, default))
}

fn udp_check_port(reader: &mut Reader<'_>, own: &Own) -> u16 {
    let said = own.said(reader, "udp-check-port", &keys::UDP_CHECK_PORT);
    let Some((place, text)) = said.map(|(place, text)| (place, text.to_owned())) else {
        return UDP_CHECK_PORT;
    };
    text.parse::<u16>()
        .ok()
        .filter(|port| *port > 0)
        .unwrap_or_else(|| {
            let remedy = "is no port; write a number from 1 to 65535, like 80";
            reader.fault(place, &text, remedy);
            UDP_CHECK_PORT
        })
}

fn tls_secret(reader: &mut Reader<'_>, own: &Own, protocol: &str, port: u16) -> Option<String> {
    let name = own.fields.get("tls-secret-name").cloned();
    let place = format!("annotation {}, tls-secret-name", own.key);
    match (protocol, name) {
        ("https", None) => {
            let remedy = format!(
                "TLS secret name for port {port} is not specified; write {{\"tls-secret-name\": \"my-tls\"}}"
            );
            reader.fault(place, "", remedy);
            None
        }
        ("https", name) => name,
        ("udp", Some(name)) => {
            let remedy = "specifying TLS secret name is not supported for UDP; take it out";
            reader.fault(place, &name, remedy);
            None
        }
        _ => None,
    }
}

fn check(reader: &mut Reader<'_>) -> Check {
    let kind = reader.value(&keys::CHECK_TYPE).map(ToOwned::to_owned);
    if let Some(kind) = kind.as_deref().filter(|kind| !CHECKS.contains(kind)) {
        let remedy = format!("is not among the legal values; write {}", either(&CHECKS));
        reader.fault_in(&keys::CHECK_TYPE, kind, remedy);
    }
    let body = reader.optional(&keys::CHECK_BODY).map(ToOwned::to_owned);
    if kind.as_deref() == Some("http_body") && body.is_none() {
        let remedy = "is missing, and check-type http_body needs it; write a regular expression that a \
                      good answer matches";
        reader.fault_in(&keys::CHECK_BODY, "", remedy);
    }
    let interval = seconds(reader, &keys::CHECK_INTERVAL, 5, 2..=3600);
    let timeout = seconds(reader, &keys::CHECK_TIMEOUT, 3, 1..=30);
    if timeout >= interval {
        let remedy =
            format!("is not less than check-interval, {interval}; write less, or raise that");
        reader.fault_in(&keys::CHECK_TIMEOUT, &timeout.to_string(), remedy);
    }
    Check {
        kind,
        path: reader.optional(&keys::CHECK_PATH).unwrap_or("/").to_owned(),
        body,
        interval,
        timeout,
        attempts: seconds(reader, &keys::CHECK_ATTEMPTS, 2, 1..=30),
    }
}

fn seconds(
    reader: &mut Reader<'_>,
    annotation: &Annotation,
    default: u32,
    legal: std::ops::RangeInclusive<u32>,
) -> u32 {
    let Some(text) = reader.value(annotation) else {
        return default;
    };
    let number = text
        .parse::<u32>()
        .ok()
        .filter(|number| legal.contains(number));
    number.unwrap_or_else(|| {
        let (least, most) = (legal.start(), legal.end());
        let remedy = format!("is no number from {least} to {most}; write one, like {default}");
        reader.fault_in(annotation, text, remedy);
        default
    })
}

fn passive(reader: &mut Reader<'_>) -> bool {
    let Some(text) = reader.value(&keys::CHECK_PASSIVE) else {
        return true;
    };
    go_bool(text).unwrap_or_else(|| {
        let remedy = "is neither true nor false; write one of them";
        reader.fault_in(&keys::CHECK_PASSIVE, text, remedy);
        true
    })
}
