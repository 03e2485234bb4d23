//! What each annotation changes in the cloud.

use mooring_cloud_sim::cloudscale::Kind;
use serde_json::{Value, json};

/// What an annotation changes: a field of all parts of a kind, by JSON pointer.
pub(crate) struct Row {
    /// What its name ends with.
    pub(crate) end: &'static str,
    /// Its value.
    pub(crate) value: &'static str,
    /// Other annotations without which it says nothing.
    pub(crate) beside: &'static [(&'static str, &'static str)],
    /// The parts that show it.
    pub(crate) kind: Kind,
    /// Where they show it.
    pub(crate) field: &'static str,
    /// What is shown with it.
    pub(crate) shown: Value,
    /// What is shown without it.
    pub(crate) default: Value,
}

fn row(
    (end, value): (&'static str, &'static str),
    (kind, field): (Kind, &'static str),
    shown: Value,
    default: Value,
) -> Row {
    Row {
        end,
        value,
        beside: &[],
        kind,
        field,
        shown,
        default,
    }
}

fn http(options: &'static str, field: &'static str, shown: Value, default: Value) -> Row {
    let place = (Kind::HealthMonitor, field);
    Row {
        beside: &[("health-monitor-type", "http")],
        ..row(("health-monitor-http", options), place, shown, default)
    }
}

/// All of them.
pub(crate) fn rows() -> Vec<Row> {
    use Kind::{HealthMonitor, Listener, Pool};
    vec![
        row(
            ("pool-algorithm", "source_ip"),
            (Pool, "/algorithm"),
            json!("source_ip"),
            json!("round_robin"),
        ),
        row(
            ("pool-algorithm", "least_connections"),
            (Pool, "/algorithm"),
            json!("least_connections"),
            json!("round_robin"),
        ),
        row(
            ("pool-protocol", "proxy"),
            (Pool, "/protocol"),
            json!("proxy"),
            json!("tcp"),
        ),
        row(
            ("pool-protocol", "proxyv2"),
            (Pool, "/protocol"),
            json!("proxyv2"),
            json!("tcp"),
        ),
        row(
            ("health-monitor-delay-s", "7"),
            (HealthMonitor, "/delay_s"),
            json!(7),
            json!(2),
        ),
        row(
            ("health-monitor-timeout-s", "+3"),
            (HealthMonitor, "/timeout_s"),
            json!(3),
            json!(1),
        ),
        row(
            ("health-monitor-up-threshold", "4"),
            (HealthMonitor, "/up_threshold"),
            json!(4),
            json!(2),
        ),
        row(
            ("health-monitor-down-threshold", "5"),
            (HealthMonitor, "/down_threshold"),
            json!(5),
            json!(3),
        ),
        row(
            ("health-monitor-type", "ping"),
            (HealthMonitor, "/type"),
            json!("ping"),
            json!("tcp"),
        ),
        row(
            ("health-monitor-type", "tls-hello"),
            (HealthMonitor, "/type"),
            json!("tls-hello"),
            json!("tcp"),
        ),
        http(
            r#"{"method": "HEAD"}"#,
            "/http/method",
            json!("HEAD"),
            json!("GET"),
        ),
        http(
            r#"{"url_path": "/ready"}"#,
            "/http/url_path",
            json!("/ready"),
            json!("/"),
        ),
        http(
            r#"{"host": "shop.example"}"#,
            "/http/host",
            json!("shop.example"),
            json!(null),
        ),
        http(
            r#"{"expected_codes": ["200-204"]}"#,
            "/http/expected_codes",
            json!(["200-204"]),
            json!(["200"]),
        ),
        http(
            r#"{"version": "1.0"}"#,
            "/http/version",
            json!("1.0"),
            json!("1.1"),
        ),
        row(
            (
                "listener-allowed-cidrs",
                r#"["10.0.0.0/8", "2001:db8::/32"]"#,
            ),
            (Listener, "/allowed_cidrs"),
            json!(["10.0.0.0/8", "2001:db8::/32"]),
            json!([]),
        ),
        row(
            ("timeout-client-data-ms", "30000"),
            (Listener, "/timeout_client_data_ms"),
            json!(30000),
            json!(50000),
        ),
        row(
            ("timeout-member-connect-ms", "3000"),
            (Listener, "/timeout_member_connect_ms"),
            json!(3000),
            json!(5000),
        ),
        row(
            ("timeout-member-data-ms", "40000"),
            (Listener, "/timeout_member_data_ms"),
            json!(40000),
            json!(50000),
        ),
        row(
            ("listener-protocol", "tcp"),
            (Listener, "/protocol"),
            json!("tcp"),
            json!("tcp"),
        ),
        row(
            ("flavor", "lb-standard"),
            (Kind::LoadBalancer, "/flavor/slug"),
            json!("lb-standard"),
            json!("lb-standard"),
        ),
    ]
}
