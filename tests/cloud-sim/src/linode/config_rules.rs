//! What a config of a NodeBalancer may be: what goes with its protocol, and what does not.

use serde_json::{Map, Value, json};

use super::answers::Errors;
use super::certificate::{self, REDACTED};
use super::strict::{Field, Is, May};

pub(super) const FIELDS: &[Field] = &[
    Field("port", Is::Number(1, 65_534), May),
    Field("protocol", Is::OneOf(&["tcp", "http", "https", "udp"]), May),
    Field(
        "algorithm",
        Is::OneOf(&["roundrobin", "leastconn", "source", "ring_hash"]),
        May,
    ),
    Field(
        "stickiness",
        Is::OneOf(&["none", "table", "http_cookie", "session", "source_ip"]),
        May,
    ),
    Field(
        "check",
        Is::OneOf(&["none", "connection", "http", "http_body"]),
        May,
    ),
    Field("check_interval", Is::Number(2, 3600), May),
    Field("check_timeout", Is::Number(1, 30), May),
    Field("check_attempts", Is::Number(1, 30), May),
    Field("check_path", Is::Text, May),
    Field("check_body", Is::Text, May),
    Field("check_passive", Is::Flag, May),
    Field("proxy_protocol", Is::OneOf(&["none", "v1", "v2"]), May),
    Field(
        "cipher_suite",
        Is::OneOf(&["recommended", "legacy", "none"]),
        May,
    ),
    Field("udp_check_port", Is::Number(1, 65_535), May),
    Field("ssl_cert", Is::Text, May),
    Field("ssl_key", Is::Text, May),
];

/// What another protocol does not take over.
const OF_PROTOCOL: [&str; 5] = [
    "algorithm",
    "stickiness",
    "check_passive",
    "proxy_protocol",
    "cipher_suite",
];

/// A config as the API shows it, of what there was before and what a request changes.
pub(super) fn resolved(before: Option<&Value>, given: &Map<String, Value>) -> Value {
    let before = before.unwrap_or(&Value::Null);
    let protocol = given.get("protocol").unwrap_or(&before["protocol"]);
    let protocol = protocol.as_str().unwrap_or("http");
    let mut config = defaults(protocol);
    for (field, value) in before.as_object().into_iter().flatten() {
        if before["protocol"] == protocol || !OF_PROTOCOL.contains(&field.as_str()) {
            config[field] = value.clone();
        }
    }
    for (field, value) in given {
        // A certificate and its key are in no answer.
        if field != "ssl_cert" && field != "ssl_key" {
            config[field] = value.clone();
        }
    }
    tls(&mut config, given);
    config
}

fn defaults(protocol: &str) -> Value {
    let is_udp = protocol == "udp";
    json!({
        "id": 0,
        "port": 80,
        "protocol": protocol,
        "algorithm": "roundrobin",
        "stickiness": if is_udp { "session" } else { "none" },
        "check": "none",
        "check_interval": 31,
        "check_timeout": 30,
        "check_attempts": 3,
        "check_path": "",
        "check_body": "",
        "check_passive": !is_udp,
        "proxy_protocol": "none",
        "cipher_suite": if is_udp { "none" } else { "recommended" },
        "nodebalancer_id": 0,
        "ssl_commonname": "",
        "ssl_fingerprint": "",
        "ssl_cert": null,
        "ssl_key": null,
        "nodes_status": { "up": 0, "down": 0 },
        "udp_check_port": 80,
        "udp_session_timeout": 16,
    })
}

/// Shows the certificate that is given with HTTPS; other protocols have none.
fn tls(config: &mut Value, given: &Map<String, Value>) {
    let is_https = config["protocol"] == "https";
    let certificate = given.get("ssl_cert").and_then(Value::as_str);
    if is_https && certificate.is_none() {
        return;
    }
    let read = certificate.filter(|_| is_https).and_then(certificate::read);
    let shown = if read.is_some() {
        json!(REDACTED)
    } else {
        Value::Null
    };
    let (common_name, fingerprint) = read.unwrap_or_default();
    config["ssl_commonname"] = json!(common_name);
    config["ssl_fingerprint"] = json!(fingerprint);
    config["ssl_cert"] = shown.clone();
    config["ssl_key"] = shown;
}

/// What is wrong with a config. It ends with whether its port is free among those of its
/// NodeBalancer.
pub(super) fn check<'a>(
    prefix: &str,
    config: &Value,
    given: &Map<String, Value>,
    mut others: impl Iterator<Item = &'a Value>,
    errors: &mut Errors,
) {
    let protocol = config["protocol"].as_str().unwrap_or_default();
    let is_udp = protocol == "udp";
    let mut wrong = |field: &str, reason: &str| errors.add(format!("{prefix}{field}"), reason);
    for (field, permitted) in [
        ("algorithm", algorithms(is_udp)),
        ("stickiness", stickinesses(protocol)),
        ("cipher_suite", cipher_suites(is_udp)),
    ] {
        let value = config[field].as_str().unwrap_or_default();
        if !permitted.contains(&value) {
            let reason = format!("Must be one of {} for {protocol}", permitted.join(", "));
            wrong(field, &reason);
        }
    }
    if is_udp {
        if config["check_passive"] == true {
            wrong("check_passive", "Passive checks are not available for udp");
        }
        if config["proxy_protocol"] != "none" {
            wrong("proxy_protocol", "Proxy protocol is not available for udp");
        }
        for field in ["ssl_cert", "ssl_key"] {
            if given.get(field).is_some_and(|text| text != "") {
                wrong(field, "TLS is not available for udp");
            }
        }
    }
    let check = config["check"].as_str().unwrap_or_default();
    if check.starts_with("http") {
        let path = config["check_path"].as_str().unwrap_or_default();
        if !path.starts_with('/') {
            wrong("check_path", "check_path is required and starts with /");
        }
    }
    if check == "http_body" && config["check_body"] == "" {
        wrong("check_body", "check_body is required for http_body");
    }
    let seconds = |field: &str| config[field].as_u64();
    if seconds("check_timeout") >= seconds("check_interval") {
        wrong("check_timeout", "Must be less than check_interval");
    }
    if protocol == "https" {
        check_tls(config, given, &mut wrong);
    }
    if others.any(|other| listens_on(other) == listens_on(config)) {
        wrong("port", "Port must be unique");
    }
}

/// With HTTPS come a certificate and its key, at the latest when HTTPS does.
fn check_tls(config: &Value, given: &Map<String, Value>, wrong: &mut impl FnMut(&str, &str)) {
    let text = |field: &str| given.get(field).and_then(Value::as_str);
    let (certificate, key) = (text("ssl_cert"), text("ssl_key"));
    if certificate.is_none() && key.is_none() && config["ssl_cert"] == REDACTED {
        return;
    }
    match certificate {
        None | Some("") => wrong("ssl_cert", "ssl_cert is required for https"),
        Some(pem) if certificate::read(pem).is_none() => {
            wrong("ssl_cert", "Must be a certificate in PEM format");
        }
        Some(_) => {}
    }
    match key {
        None | Some("") => wrong("ssl_key", "ssl_key is required for https"),
        Some(pem) if !certificate::is_key(pem) => {
            wrong("ssl_key", "Must be a private key in PEM format");
        }
        Some(key) => {
            let is_certificate = |pem: &&str| certificate::read(pem).is_some();
            let certificate = certificate.filter(is_certificate);
            if certificate.is_some_and(|pem| !certificate::is_pair(pem, key)) {
                wrong("ssl_key", "Must be the private key of ssl_cert");
            }
        }
    }
}

const fn algorithms(is_udp: bool) -> &'static [&'static str] {
    if is_udp {
        &["roundrobin", "leastconn", "ring_hash"]
    } else {
        &["roundrobin", "leastconn", "source"]
    }
}

fn stickinesses(protocol: &str) -> &'static [&'static str] {
    match protocol {
        "udp" => &["none", "session", "source_ip"],
        "http" | "https" => &["none", "table", "http_cookie"],
        _ => &["none"],
    }
}

const fn cipher_suites(is_udp: bool) -> &'static [&'static str] {
    if is_udp {
        &["none"]
    } else {
        &["recommended", "legacy"]
    }
}

/// What a config occupies: a port, once for UDP and once for all that is TCP.
pub(super) fn listens_on(config: &Value) -> (Option<u64>, bool) {
    (config["port"].as_u64(), config["protocol"] == "udp")
}
