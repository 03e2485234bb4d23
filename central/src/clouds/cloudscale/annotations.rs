//! Every annotation of Services at cloudscale.ch: those of its Go controller, with its defaults. Requests to the cloud
//! contain the defaults too, so that they can never change.

use mooring_common::names::cloudscale_annotations as keys;

use crate::cloud_provider::annotations::{Annotation, Form};

/// How all of their keys begin.
pub const PREFIX: &str = "k8s.cloudscale.ch/loadbalancer-";

/// A day: whatever waits longer was not meant to.
const DAY: u32 = 86_400;
/// More answers in a row than anybody waits for.
const MOST_ANSWERS: u32 = 1_000;
/// What a signed number of 32 bits holds: 24 days.
const MOST_MILLISECONDS: u32 = i32::MAX.cast_unsigned();

const fn number(key: &'static str, default: u32, max: u32, effect: &'static str) -> Annotation {
    Annotation::new(key, Form::Number { default, max }, effect)
}

const fn text(
    key: &'static str,
    default: &'static str,
    legal: &'static str,
    effect: &'static str,
) -> Annotation {
    Annotation::new(key, Form::Text { default, legal }, effect)
}

const fn json(
    key: &'static str,
    page: [&'static str; 2],
    example: &'static str,
    effect: &'static str,
) -> Annotation {
    Annotation::new(key, Form::Json { page, example }, effect)
}

macro_rules! annotations {
    ($($name:ident = $row:expr;)*) => {
        $(pub(super) const $name: Annotation = $row;)*

        /// All of them, in the order of the reference page.
        pub const ALL: &[&Annotation] = &[$(&$name),*];
    };
}

annotations! {
    UUID = Annotation::new(
        keys::UUID,
        Form::Other(["", "a UUID; another text is not used: Event `QuestionableAnnotation`"]),
        "written by central; which load balancer it is. See [adoption](#adoption)",
    ).written();
    CONFIG_VERSION = Annotation::new(
        keys::CONFIG_VERSION,
        Form::Other(["", ""]),
        "written by central, always `1`; not read",
    ).written();
    NAME = text(keys::NAME, "k8s-service-<UID>", "not empty", "the load balancer's name");
    FLAVOR = text(keys::FLAVOR, "lb-standard", "a flavor; not empty", "**for a new one only**");
    ZONE = Annotation::new(
        keys::ZONE,
        Form::Other(["the zone of its Nodes", "`rma1`, `lpg1`"]),
        "**for a new one only**; written by central. Must be said if the Nodes stand in several zones, or if \
         there is none",
    ).written();
    VIP_ADDRESSES = json(
        keys::VIP_ADDRESSES,
        [
            "`[]`",
            "JSON list of `{\"subnet\": \"<UUID>\", \"address\": \"<IP>\"}`, one of the two at least",
        ],
        r#"[{"subnet": "2db69ba3-1864-4608-853a-0771b6885a3a", "address": "10.0.0.9"}]"#,
        "**for a new one only**; private addresses instead of a public IPv4 and a public IPv6 address",
    );
    FLOATING_IPS = json(
        keys::FLOATING_IPS,
        [
            "`[]`",
            "JSON list of networks or addresses: `[\"203.0.113.9/32\", \"2001:db8::7/128\"]`",
        ],
        r#"["192.0.2.0/24", "2001:db8::7/128"]"#,
        "[floating IPs](#floating-ips) that lead to it",
    );
    POOL_ALGORITHM = Annotation::new(
        keys::POOL_ALGORITHM,
        Form::OneOf(&["round_robin", "least_connections", "source_ip"]),
        "how connections are distributed",
    );
    POOL_PROTOCOL = Annotation::new(
        keys::POOL_PROTOCOL,
        Form::OneOf(&["tcp", "proxy", "proxyv2"]),
        "what members of TCP ports are spoken to; those of UDP ports always `udp`. Not looked at with UDP ports \
         alone",
    );
    NODE_SELECTOR = Annotation::new(
        keys::NODE_SELECTOR,
        Form::Other([
            "all Nodes",
            "a label selector: `env=prod,tier in (web, edge),!spare,cores>3`",
        ]),
        "which Nodes carry traffic",
    );
    ALLOWED_SUBNETS = json(
        keys::ALLOWED_SUBNETS,
        ["`[]`: all", "JSON list of UUIDs of subnets"],
        r#"["2db69ba3-1864-4608-853a-0771b6885a3a"]"#,
        "which private addresses become members",
    );
    ALLOWED_CIDRS = json(
        keys::ALLOWED_CIDRS,
        ["`[]`: everybody", "JSON list of networks"],
        r#"["192.0.2.0/24", "2001:db8::7/128"]"#,
        "who may connect",
    );
    LISTENER_PROTOCOL = Annotation::new(
        keys::LISTENER_PROTOCOL,
        Form::OneOf(&["tcp"]),
        "nothing else exists; listeners of UDP ports speak `udp`. Not looked at with UDP ports alone",
    );
    TIMEOUT_CLIENT_DATA_MS = number(
        keys::TIMEOUT_CLIENT_DATA_MS,
        50_000,
        MOST_MILLISECONDS,
        "how long a client may be silent",
    );
    TIMEOUT_MEMBER_CONNECT_MS = number(
        keys::TIMEOUT_MEMBER_CONNECT_MS,
        5_000,
        MOST_MILLISECONDS,
        "how long connecting to a member may take",
    );
    TIMEOUT_MEMBER_DATA_MS = number(
        keys::TIMEOUT_MEMBER_DATA_MS,
        50_000,
        MOST_MILLISECONDS,
        "how long a member may be silent",
    );
    MONITOR_TYPE = Annotation::new(
        keys::MONITOR_TYPE,
        Form::OneOf(&["tcp", "ping", "http", "https", "tls-hello", "udp-connect"]),
        "how members are asked, those of UDP ports as well",
    );
    MONITOR_DELAY_S = number(keys::MONITOR_DELAY_S, 2, DAY, "seconds between two questions");
    MONITOR_TIMEOUT_S = number(keys::MONITOR_TIMEOUT_S, 1, DAY, "seconds that an answer may take");
    MONITOR_UP_THRESHOLD = number(
        keys::MONITOR_UP_THRESHOLD,
        2,
        MOST_ANSWERS,
        "good answers in a row until a member is healthy",
    );
    MONITOR_DOWN_THRESHOLD = number(
        keys::MONITOR_DOWN_THRESHOLD,
        3,
        MOST_ANSWERS,
        "bad answers in a row until it is not",
    );
    MONITOR_HTTP = json(
        keys::MONITOR_HTTP,
        ["`{}`", "JSON object, below"],
        r#"{"method": "GET", "url_path": "/livez", "expected_codes": ["200"]}"#,
        "how HTTP is spoken, with type `http` or `https`",
    );
    FORCE_HOSTNAME = Annotation::new(
        keys::FORCE_HOSTNAME,
        Form::Other(["", "a host name"]),
        "stands in the status instead of the addresses",
    );
    IP_MODE = Annotation::new(
        keys::IP_MODE,
        Form::OneOf(&["Proxy", "VIP"]),
        "`ipMode` of the addresses in the status; not looked at with `force-hostname`",
    );
}
