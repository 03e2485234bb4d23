//! Ports: `default-…`, `check-…` and `port-<N>`.

use serde_json::json;

use super::*;

/// What the ports are to have, as the cloud is told.
fn configs(ports: &str, annotations: &[(&str, &str)]) -> Vec<Value> {
    let (options, _) = read(&service(ports, annotations), &settings()).unwrap();
    let ports = options.ports.iter();
    let said = |config: Value| {
        let fields = config.as_object().cloned().unwrap().into_iter();
        fields.filter(|(_, value)| !value.is_null()).collect()
    };
    ports.map(|port| said(json!(port.config))).collect()
}

#[test]
fn defaults_are_those_of_the_go_controller() {
    let tcp = json!({
        "port": 80, "protocol": "tcp", "proxy_protocol": "none", "algorithm": "roundrobin",
        "check": "connection", "check_interval": 5, "check_timeout": 3, "check_attempts": 2,
        "check_passive": true,
    });
    let udp = json!({
        "port": 53, "protocol": "udp", "proxy_protocol": "none", "algorithm": "roundrobin",
        "stickiness": "session", "check": "none", "check_interval": 5, "check_timeout": 3,
        "check_attempts": 2, "check_passive": false, "udp_check_port": 80,
    });
    assert_eq!(configs("tcp/80 udp/53", &[]), [tcp.clone(), udp]);
    let mut http = tcp;
    http["protocol"] = json!("http");
    http["stickiness"] = json!("table");
    assert_eq!(configs("tcp/80", &[("default-protocol", "http")]), [http]);
}

/// Each row: ports, annotations, a field, and what the first port has there.
#[test]
fn each_annotation_says_one_thing() {
    let secret = r#"{"tls-secret-name": "s"}"#;
    for (ports, annotations, field, expected) in [
        (
            "tcp/80",
            &[("default-protocol", "HTTP")][..],
            "protocol",
            json!("http"),
        ),
        (
            "tcp/80",
            &[("default-protocol", "udp")],
            "protocol",
            json!("udp"),
        ),
        (
            "udp/80",
            &[("default-protocol", "tcp")],
            "protocol",
            json!("tcp"),
        ),
        (
            "udp/80",
            &[("default-protocol", "tcp")],
            "check",
            json!("none"),
        ),
        (
            "tcp/80",
            &[("default-protocol", "https"), ("port-80", secret)],
            "protocol",
            json!("https"),
        ),
        (
            "tcp/80",
            &[("default-proxy-protocol", "V2")],
            "proxy_protocol",
            json!("v2"),
        ),
        (
            "tcp/80",
            &[("proxy-protocol", "v1")],
            "proxy_protocol",
            json!("v1"),
        ),
        (
            "tcp/80",
            &[("proxy-protocol", "v1"), ("default-proxy-protocol", "v2")],
            "proxy_protocol",
            json!("v2"),
        ),
        (
            "tcp/80",
            &[("default-algorithm", "LeastConn")],
            "algorithm",
            json!("leastconn"),
        ),
        (
            "tcp/80",
            &[("default-algorithm", "source")],
            "algorithm",
            json!("source"),
        ),
        (
            "udp/80",
            &[("default-algorithm", "ring_hash")],
            "algorithm",
            json!("ring_hash"),
        ),
        (
            "udp/80",
            &[("default-stickiness", "source_ip")],
            "stickiness",
            json!("source_ip"),
        ),
        (
            "tcp/80",
            &[
                ("default-protocol", "http"),
                ("default-stickiness", "HTTP_Cookie"),
            ],
            "stickiness",
            json!("http_cookie"),
        ),
        (
            "tcp/80",
            &[("default-stickiness", "whatever")],
            "stickiness",
            Value::Null,
        ),
        ("tcp/80", &[("check-type", "http")], "check", json!("http")),
        (
            "tcp/80",
            &[("check-type", "http")],
            "check_path",
            json!("/"),
        ),
        (
            "tcp/80",
            &[("check-type", "http"), ("check-path", "")],
            "check_path",
            json!("/"),
        ),
        (
            "tcp/80",
            &[("check-type", "http"), ("check-path", "/live")],
            "check_path",
            json!("/live"),
        ),
        (
            "tcp/80",
            &[("check-path", "/live")],
            "check_path",
            Value::Null,
        ),
        (
            "tcp/80",
            &[("check-type", "http"), ("check-body", "ok")],
            "check_body",
            Value::Null,
        ),
        (
            "tcp/80",
            &[("check-type", "http_body"), ("check-body", "o.*k")],
            "check_body",
            json!("o.*k"),
        ),
        (
            "udp/80",
            &[("check-type", "connection")],
            "check",
            json!("connection"),
        ),
        (
            "tcp/80",
            &[("check-interval", "3600")],
            "check_interval",
            json!(3600),
        ),
        (
            "tcp/80",
            &[("check-interval", "2"), ("check-timeout", "1")],
            "check_timeout",
            json!(1),
        ),
        (
            "tcp/80",
            &[("check-attempts", "30")],
            "check_attempts",
            json!(30),
        ),
        (
            "tcp/80",
            &[("check-passive", "F")],
            "check_passive",
            json!(false),
        ),
        (
            "udp/80",
            &[("check-passive", "true")],
            "check_passive",
            json!(false),
        ),
        // Go does not look at it.
        (
            "udp/80",
            &[("check-passive", "yes")],
            "check_passive",
            json!(false),
        ),
        (
            "udp/80",
            &[("udp-check-port", "65535")],
            "udp_check_port",
            json!(65535),
        ),
        (
            "tcp/80",
            &[("udp-check-port", "none")],
            "udp_check_port",
            Value::Null,
        ),
    ] {
        assert_eq!(
            configs(ports, annotations)[0][field],
            expected,
            "{ports} {annotations:?}"
        );
    }
}

/// The port's own JSON, what holds for all ports, the default.
#[test]
fn port_wins_over_default() {
    for (json, field, of_all, expected) in [
        (r#"{"protocol": "HTTP"}"#, "protocol", "tcp", "http"),
        (
            r#"{"protocol": "https", "tls-secret-name": "s"}"#,
            "protocol",
            "http",
            "https",
        ),
        (r#"{"proxy-protocol": "v2"}"#, "proxy_protocol", "v1", "v2"),
        (
            r#"{"algorithm": "source"}"#,
            "algorithm",
            "leastconn",
            "source",
        ),
        (
            r#"{"ALGORITHM": "source", "unknown": [1]}"#,
            "algorithm",
            "leastconn",
            "source",
        ),
        (
            r#"{"algorithm": "source", "algorithm": "roundrobin"}"#,
            "algorithm",
            "leastconn",
            "roundrobin",
        ),
        (
            r#"{"algorithm": ""}"#,
            "algorithm",
            "leastconn",
            "leastconn",
        ),
        (
            r#"{"algorithm": null}"#,
            "algorithm",
            "leastconn",
            "leastconn",
        ),
        ("null", "algorithm", "leastconn", "leastconn"),
        (" {} ", "algorithm", "leastconn", "leastconn"),
    ] {
        let of_all = (&*format!("default-{}", field.replace('_', "-")), of_all);
        let configs = configs("tcp/80 tcp/81", &[("port-80", json), of_all]);
        assert_eq!(configs[0][field], json!(expected), "{json}");
        assert_eq!(configs[1][field], json!(of_all.1), "{json}");
    }
    let udp = |json| configs("udp/53", &[("port-53", json), ("udp-check-port", "81")]);
    assert_eq!(
        udp(r#"{"udp-check-port": "82", "stickiness": "none"}"#)[0]["udp_check_port"],
        82
    );
    assert_eq!(
        udp(r#"{"udp-check-port": "82", "stickiness": "none"}"#)[0]["stickiness"],
        "none"
    );
    assert_eq!(udp("{}")[0]["udp_check_port"], 81);
}

#[test]
fn secrets_are_those_of_https_ports() {
    let secret = r#"{"protocol": "https", "tls-secret-name": "one"}"#;
    let unused = r#"{"protocol": "http", "tls-secret-name": "two"}"#;
    let service = service(
        "tcp/443 tcp/80",
        &[("port-443", secret), ("port-80", unused)],
    );
    let (options, _) = read(&service, &settings()).unwrap();
    let names: Vec<_> = options
        .ports
        .iter()
        .map(|port| port.tls_secret.as_deref())
        .collect();
    assert_eq!(names, [Some("one"), None]);
    let names: Vec<_> = secrets(&mut Reader::new(&service)).collect();
    assert_eq!(names, ["one"]);
}

/// Each row: ports, annotations, and what the only fault says, beginning with its place.
#[test]
fn what_is_no_value_of_a_port_is_told_with_what_is() {
    let algorithm =
        r#"port-53, algorithm: "source" is not among the legal values; write roundrobin"#;
    for (ports, annotations, expected) in [
        (
            "tcp/80",
            &[("default-protocol", "ftp")][..],
            r#"default-protocol: "ftp" is not among the legal values; write tcp, udp, http or https"#,
        ),
        (
            "tcp/80",
            &[("default-protocol", "")],
            r#"default-protocol: "" is not among"#,
        ),
        (
            "tcp/80",
            &[("default-proxy-protocol", "v3")],
            r#"default-proxy-protocol: "v3" is not among the legal values; write none, v1 or v2"#,
        ),
        (
            "tcp/80",
            &[("default-proxy-protocol", "")],
            r#"default-proxy-protocol: """#,
        ),
        (
            "tcp/80",
            &[("proxy-protocol", "v3")],
            r#"proxy-protocol: "v3""#,
        ),
        (
            "udp/80",
            &[("default-proxy-protocol", "v1")],
            r#"default-proxy-protocol: "v1" is not supported for UDP; take it off"#,
        ),
        (
            "tcp/80",
            &[("default-algorithm", "ring_hash")],
            r#"default-algorithm: "ring_hash" is not among the legal values; write roundrobin, leastconn or source"#,
        ),
        (
            "tcp/80",
            &[("default-algorithm", "")],
            r#"default-algorithm: """#,
        ),
        (
            "udp/80",
            &[("default-algorithm", "source")],
            "write roundrobin, leastconn or ring_hash",
        ),
        (
            "tcp/80",
            &[
                ("default-protocol", "http"),
                ("default-stickiness", "session"),
            ],
            r#"default-stickiness: "session" is not among the legal values; write none, table or http_cookie"#,
        ),
        (
            "udp/80",
            &[("default-stickiness", "table")],
            "write none, session or source_ip",
        ),
        (
            "udp/80",
            &[("default-stickiness", "")],
            r#"default-stickiness: """#,
        ),
        (
            "udp/80",
            &[("udp-check-port", "0")],
            r#"udp-check-port: "0" is no port; write a number from 1 to 65535"#,
        ),
        (
            "udp/80",
            &[("udp-check-port", "65536")],
            r#"udp-check-port: "65536""#,
        ),
        ("udp/80", &[("udp-check-port", "")], r#"udp-check-port: """#),
        (
            "tcp/80",
            &[("check-type", "HTTP")],
            r#"check-type: "HTTP" is not among the legal values; write none, connection, http or http_body"#,
        ),
        ("tcp/80", &[("check-type", "")], r#"check-type: """#),
        (
            "tcp/80",
            &[("check-type", "http_body")],
            r#"check-body: "" is missing"#,
        ),
        (
            "tcp/80",
            &[("check-interval", "1"), ("check-timeout", "1")],
            r#"check-interval: "1" is no number from 2 to 3600; write one, like 5"#,
        ),
        ("tcp/80", &[("check-interval", "")], r#"check-interval: """#),
        (
            "tcp/80",
            &[("check-timeout", "31")],
            r#"check-timeout: "31" is no number from 1 to 30"#,
        ),
        ("tcp/80", &[("check-timeout", "")], r#"check-timeout: """#),
        (
            "tcp/80",
            &[("check-timeout", "5")],
            r#"check-timeout: "5" is not less than check-interval, 5; write less"#,
        ),
        (
            "tcp/80",
            &[("check-attempts", "0")],
            r#"check-attempts: "0" is no number from 1 to 30; write one, like 2"#,
        ),
        ("tcp/80", &[("check-attempts", "")], r#"check-attempts: """#),
        (
            "tcp/80 udp/53",
            &[("check-passive", "yes")],
            r#"check-passive: "yes" is neither true nor false; write"#,
        ),
        ("tcp/80", &[("check-passive", "")], r#"check-passive: """#),
        (
            "tcp/80",
            &[("default-protocol", "https")],
            r#"port-80, tls-secret-name: "" TLS secret name for port 80 is not specified; write"#,
        ),
        (
            "tcp/80",
            &[("port-80", "")],
            r#"port-80: "" is not the JSON that is understood (EOF"#,
        ),
        (
            "tcp/80",
            &[("port-80", "{} x")],
            r#"port-80: "{} x" is not the JSON that is understood (trailing"#,
        ),
        (
            "tcp/80",
            &[("port-80", "[]")],
            "is not the JSON that is understood",
        ),
        (
            "udp/53",
            &[("port-53", r#"{"udp-check-port": 82}"#)],
            r#"has udp-check-port without quotes; write "udp-check-port": "82""#,
        ),
        (
            "tcp/80",
            &[("port-80", r#"{"Protocol": true}"#)],
            r#"write "Protocol": "true""#,
        ),
        (
            "tcp/80",
            &[("port-80", r#"{"protocol": "sctp"}"#)],
            r#"port-80, protocol: "sctp" is not among"#,
        ),
        (
            "udp/53",
            &[("port-53", r#"{"tls-secret-name": "s"}"#)],
            r#"port-53, tls-secret-name: "s" specifying TLS secret name is not supported for UDP; take it out"#,
        ),
        (
            "udp/53",
            &[("port-53", r#"{"algorithm": "source"}"#)],
            algorithm,
        ),
        (
            "sctp/80",
            &[],
            r#"spec.ports[0].protocol: "SCTP" is not served by load balancers of Linode; write TCP or UDP"#,
        ),
    ] {
        let all = faults(ports, annotations);
        assert_eq!(all.len(), 1, "{ports} {annotations:?}: {all:#?}");
        assert!(
            all[0].contains(expected),
            "{ports} {annotations:?}: {all:#?}"
        );
    }
}

/// What holds for all ports must hold for each; a port's own JSON is the way out.
#[test]
fn mixed_protocols_have_values_of_their_own() {
    let ports = "tcp/80 udp/53";
    let all = faults(
        ports,
        &[
            ("default-proxy-protocol", "v1"),
            ("default-algorithm", "source"),
        ],
    );
    assert_eq!(all.len(), 2, "{all:#?}");
    let own = (
        "port-53",
        r#"{"proxy-protocol": "none", "algorithm": "ring_hash"}"#,
    );
    let configs = configs(
        ports,
        &[
            ("default-proxy-protocol", "v1"),
            ("default-algorithm", "source"),
            own,
        ],
    );
    let of = |field: &str| [configs[0][field].clone(), configs[1][field].clone()];
    assert_eq!(of("proxy_protocol"), ["v1", "none"]);
    assert_eq!(of("algorithm"), ["source", "ring_hash"]);
}

/// Numbers may be the same where one port is UDP and the other is not.
#[test]
fn no_place_is_served_twice() {
    configs("tcp/53 udp/53", &[]);
    let all = faults("tcp/53 udp/53", &[("default-protocol", "tcp")]);
    assert_eq!(all.len(), 1, "{all:#?}");
    assert!(
        all[0].starts_with("spec.ports: \"53\" is served twice, by TCP; give"),
        "{all:#?}"
    );
    let both = faults("sctp/1 udp/53 tcp/53", &[("default-protocol", "udp")]);
    assert_eq!(both.len(), 2, "{both:#?}");
    assert!(both[1].contains("is served twice, by UDP"), "{both:#?}");
}
