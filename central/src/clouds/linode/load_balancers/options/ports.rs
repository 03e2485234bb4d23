//! What each port of a Service is to have: its own JSON first, then what holds for all ports, then the default.

use super::super::model::ConfigSpec;
use crate::clouds::linode::annotations as keys;
use crate::engine::annotations::Reader;
use crate::engine::port_annotations::{OfPort, PortAnnotation};
use crate::engine::service_spec::Port;

const UDP_CHECK_PORT: u16 = 80;

/// What a single port can say for itself.
const OF_PORT: PortAnnotation = PortAnnotation {
    prefix: keys::PORT,
    fields: &[
        "tls-secret-name",
        "protocol",
        "proxy-protocol",
        "algorithm",
        "stickiness",
        "udp-check-port",
    ],
    example: "{\"protocol\": \"https\", \"tls-secret-name\": \"my-tls\"}",
};

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
    let places: Vec<(u16, bool)> = all.iter().map(|port| port.config.place()).collect();
    reader.each_once(&places);
    all
}

/// The names of the Secrets that ports of a Service present.
pub(in super::super) fn secrets(reader: &mut Reader<'_>) -> impl Iterator<Item = String> {
    let ports = read(reader).into_iter();
    ports.filter_map(|port| port.tls_secret)
}

fn of_port(reader: &mut Reader<'_>, port: Port, of_all: &ConfigSpec) -> PortOptions {
    let own = OF_PORT.read(reader, port.port);
    let protocols = keys::PROTOCOL.words();
    let of_all_ports = ("protocol", &keys::PROTOCOL);
    let protocol = own.word(reader, of_all_ports, protocols, &port.protocol);
    let is_udp = protocol == "udp";
    let algorithms = [
        "roundrobin",
        "leastconn",
        if is_udp { "ring_hash" } else { "source" },
    ];
    let algorithm = ("algorithm", &keys::ALGORITHM);
    let udp_check_port = ("udp-check-port", &keys::UDP_CHECK_PORT);
    let check = match of_all.check.as_deref() {
        None if port.protocol == "udp" => "none",
        None => "connection",
        Some(said) => said,
    };
    let config = ConfigSpec {
        port: port.port,
        proxy_protocol: Some(proxy_protocol(reader, &own, is_udp)),
        algorithm: Some(own.word(reader, algorithm, &algorithms, "roundrobin")),
        stickiness: stickiness(reader, &own, &protocol),
        check: Some(check.to_owned()),
        check_path: of_all
            .check_path
            .clone()
            .filter(|_| check.starts_with("http")),
        check_body: of_all.check_body.clone().filter(|_| check == "http_body"),
        udp_check_port: is_udp.then(|| own.port(reader, udp_check_port, UDP_CHECK_PORT)),
        ..of_all.clone()
    };
    PortOptions {
        tls_secret: tls_secret(reader, &own, &protocol, port.port),
        config: ConfigSpec { protocol, ..config },
        port,
    }
}

fn proxy_protocol(reader: &mut Reader<'_>, own: &OfPort, is_udp: bool) -> String {
    let of_all = reader.first_of(&keys::PROXY_PROTOCOL, &keys::OLD_PROXY_PROTOCOL);
    let legal = keys::PROXY_PROTOCOL.words();
    let word = own.word(reader, ("proxy-protocol", of_all), legal, "none");
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

fn stickiness(reader: &mut Reader<'_>, own: &OfPort, protocol: &str) -> Option<String> {
    let (legal, default): (&[&str], &str) = match protocol {
        "http" | "https" => (&["none", "table", "http_cookie"], "table"),
        "udp" => (&["none", "session", "source_ip"], "session"),
        _ => return None,
    };
    let of_all = ("stickiness", &keys::STICKINESS);
    Some(own.word(reader, of_all, legal, default))
}

fn tls_secret(reader: &mut Reader<'_>, own: &OfPort, protocol: &str, port: u16) -> Option<String> {
    let name = own.own("tls-secret-name").map(ToOwned::to_owned);
    let place = own.place("tls-secret-name");
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
