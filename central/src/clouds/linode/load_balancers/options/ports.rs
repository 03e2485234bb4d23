//! What each port of a Service is to have: its own JSON first, then what holds for all ports, then the default.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::model::ConfigSpec;
use crate::cloud_provider::annotations::Annotation;
use crate::clouds::linode::annotations as keys;
use crate::engine::annotations::{Reader, not_among};
use crate::engine::service_spec::Port;

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

/// All ports, in order.
pub(super) fn read(reader: &mut Reader<'_>) -> Vec<PortOptions> {
    let of_all = of_all(reader);
    let ports = reader.ports("Linode", &["TCP", "UDP"]).into_iter();
    let mut all: Vec<PortOptions> = ports.map(|port| of_port(reader, port, &of_all)).collect();
    // Of UDP ports it is not asked.
    let mut others = all
        .iter_mut()
        .filter(|port| !port.config.place().1)
        .peekable();
    if others.peek().is_some() {
        let passive = reader.strict_go_bool(&keys::CHECK_PASSIVE, true);
        others.for_each(|port| port.config.check_passive = Some(passive));
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

fn of_port(reader: &mut Reader<'_>, port: Port, of_all: &ConfigSpec) -> PortOptions {
    let own = Own::read(reader, port.port);
    let protocols = keys::PROTOCOL.words();
    let protocol = own.word(
        reader,
        "protocol",
        &keys::PROTOCOL,
        protocols,
        &port.protocol,
    );
    let is_udp = protocol == "udp";
    let algorithms = [
        "roundrobin",
        "leastconn",
        if is_udp { "ring_hash" } else { "source" },
    ];
    let key = &keys::ALGORITHM;
    let check = match of_all.check.as_deref() {
        None if port.protocol == "udp" => "none",
        None => "connection",
        Some(said) => said,
    };
    let config = ConfigSpec {
        port: port.port,
        proxy_protocol: Some(proxy_protocol(reader, &own, is_udp)),
        algorithm: Some(own.word(reader, "algorithm", key, &algorithms, "roundrobin")),
        stickiness: stickiness(reader, &own, &protocol),
        check: Some(check.to_owned()),
        check_path: of_all
            .check_path
            .clone()
            .filter(|_| check.starts_with("http")),
        check_body: of_all.check_body.clone().filter(|_| check == "http_body"),
        udp_check_port: is_udp.then(|| udp_check_port(reader, &own)),
        ..of_all.clone()
    };
    PortOptions {
        tls_secret: tls_secret(reader, &own, &protocol, port.port),
        config: ConfigSpec { protocol, ..config },
        port,
    }
}

/// What one port says for itself.
struct Own {
    key: String,
    fields: BTreeMap<String, String>,
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

impl Own {
    /// Keys are read whatever their case, an empty text says nothing, and what is not known is not read, as Go
    /// has it.
    fn read(reader: &mut Reader<'_>, port: u16) -> Self {
        let key = format!("{}{port}", keys::PORT);
        let text = reader.service.annotation(&key).unwrap_or("null");
        let place = format!("annotation {key}");
        let read: Result<Option<Map<String, Value>>, _> = serde_json::from_str(text);
        let fields = read.unwrap_or_else(|error| {
            let how = "write it like {\"protocol\": \"https\", \"tls-secret-name\": \"my-tls\"}";
            let remedy = format!("is not the JSON that is understood ({error}); {how}");
            reader.fault(place.clone(), text, remedy);
            None
        });
        let mut own = BTreeMap::new();
        for (name, value) in fields.into_iter().flatten() {
            match value {
                Value::String(said) if !said.is_empty() => {
                    own.insert(name.to_lowercase(), said);
                }
                Value::String(_) | Value::Null => {}
                other if OWN.contains(&name.to_lowercase().as_str()) => {
                    let remedy =
                        format!("has {name} without quotes; write \"{name}\": \"{other}\"");
                    reader.fault(place.clone(), text, remedy);
                }
                _ => {}
            }
        }
        Self { key, fields: own }
    }

    /// What holds for this port, and where it stands.
    fn said(&self, reader: &Reader<'_>, name: &str, of_all: &Annotation) -> Option<[String; 2]> {
        if let Some(text) = self.fields.get(name) {
            return Some([format!("annotation {}, {name}", self.key), text.clone()]);
        }
        let text = reader.value(of_all)?;
        Some([format!("annotation {}", of_all.key), text.to_owned()])
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
        let Some([place, text]) = self.said(reader, name, of_all) else {
            return default.to_owned();
        };
        let word = text.to_lowercase();
        if legal.contains(&word.as_str()) {
            return word;
        }
        reader.fault(place, &text, not_among(legal));
        default.to_owned()
    }
}

fn proxy_protocol(reader: &mut Reader<'_>, own: &Own, is_udp: bool) -> String {
    let of_all = reader.first_of(&keys::PROXY_PROTOCOL, &keys::OLD_PROXY_PROTOCOL);
    let legal = keys::PROXY_PROTOCOL.words();
    let word = own.word(reader, "proxy-protocol", of_all, legal, "none");
    if let Some([place, _]) = own.said(reader, "proxy-protocol", of_all)
        && is_udp
        && word != "none"
    {
        let remedy = "is not supported for UDP; take it off, or give the UDP port \"proxy-protocol\": \
                      \"none\" of its own";
        reader.fault(place, &word, remedy);
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
    let Some([place, text]) = said else {
        return UDP_CHECK_PORT;
    };
    let port = text.parse::<u16>().ok().filter(|port| *port > 0);
    port.unwrap_or_else(|| {
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

/// How Nodes are asked whether they are healthy, on all ports. No check: nothing is said of it.
fn of_all(reader: &mut Reader<'_>) -> ConfigSpec {
    let check = reader.word(&keys::CHECK_TYPE);
    let body = reader.optional(&keys::CHECK_BODY).map(ToOwned::to_owned);
    if check == Some("http_body") && body.is_none() {
        let remedy = "is missing, and check-type http_body needs it; write a regular expression that a \
                      good answer matches";
        reader.fault_in(&keys::CHECK_BODY, "", remedy);
    }
    let interval = reader.within(&keys::CHECK_INTERVAL);
    let timeout = reader.within(&keys::CHECK_TIMEOUT);
    if timeout >= interval {
        let remedy =
            format!("is not less than check-interval, {interval}; write less, or raise that");
        reader.fault_in(&keys::CHECK_TIMEOUT, &timeout.to_string(), remedy);
    }
    ConfigSpec {
        check: check.map(ToOwned::to_owned),
        check_path: Some(reader.optional(&keys::CHECK_PATH).unwrap_or("/").to_owned()),
        check_body: body,
        check_interval: Some(interval),
        check_timeout: Some(timeout),
        check_attempts: Some(reader.within(&keys::CHECK_ATTEMPTS)),
        check_passive: Some(false),
        ..ConfigSpec::default()
    }
}
