//! Every annotation at Brightbox, as its Go controller reads them.

use mooring_common::names::annotations as keys;

use crate::annotations;
use crate::cloud_provider::annotations::Annotation;
use crate::cloud_provider::annotations::Form::{Other, Words};

const NUMBER: &str = "0 to 4294967295; 0: as if it were absent";

annotations! {
    "service.beta.kubernetes.io/brightbox-load-balancer-", [AWS_INTERVAL]:
    POLICY = "policy", Words { default: "`least-connections`", words: &["least-connections", "round-robin", "source-address"] },
        "how connections are distributed";
    PROTOCOL = "listener-protocol", Words { default: "`http`", words: &["tcp", "http", "https"] },
        "the protocol of every listener; `http` becomes `https` at port 443 and at `ssl-ports`";
    IDLE_TIMEOUT = "listener-idle-timeout", Other(["`50000`", "5000 to 86400000; 0: as if it were absent"]),
        "after so many milliseconds without traffic a connection ends";
    OLD_IDLE_TIMEOUT = "idle-timeout", Other(["", "as `listener-idle-timeout`"]),
        "the name in the vendor's examples; read only without `listener-idle-timeout`";
    PROXY_PROTOCOL = "listener-proxy-protocol", Words { default: "", words: &["v1", "v2", "v2-ssl", "v2-ssl-cn"] },
        "the PROXY protocol towards the Nodes";
    SSL_PORTS = "ssl-ports", Other(["443 alone", "numbers and names of ports, separated by commas; needs `ssl-domains`; `*` names none"]),
        "ports with HTTPS besides 443";
    SSL_DOMAINS = "ssl-domains", Other(["", "names in the DNS, separated by commas"]),
        "domains of the certificate besides the names of the Cloud IP. See [HTTPS](brightbox.md#https)";
    CLOUD_IP = "cloudip-allocations", Other(["a Cloud IP of the Service's own", "the identifier of a Cloud IP: `cip-vsalc`"]),
        "the Cloud IP that leads to the load balancer. See [Cloud IPs](brightbox.md#cloud-ips)";
    CHECK_PROTOCOL = "healthcheck-protocol", Words { default: "`tcp` if `listener-protocol` is, and the traffic policy is not Local; else `http`", words: &["tcp", "http"] },
        "how Nodes are asked whether they are healthy";
    CHECK_REQUEST = "healthcheck-request", Other(["`/healthz`", "a path without `?`, `#` and `%`"]),
        "what is asked for by `http`";
    CHECK_INTERVAL = "healthcheck-interval", Other(["`5000`", NUMBER]), "milliseconds between two questions";
    CHECK_TIMEOUT = "healthcheck-timeout", Other(["`5000`", NUMBER]), "milliseconds that an answer may take";
    HEALTHY = "healthcheck-healthy-threshold", Other(["`3`", NUMBER]), "good answers in a row that make a Node healthy";
    UNHEALTHY = "healthcheck-unhealthy-threshold", Other(["`3`", NUMBER]),
        "bad answers in a row that make a Node unhealthy";
    BUFFER_SIZE = "buffer-size", Other(["", "none"]), "has no effect any more: Event `QuestionableAnnotation`";
}

pub(super) const AWS_INTERVAL: Annotation = Annotation::new(
    keys::AWS_HEALTH_CHECK_INTERVAL,
    Other(["", "as `healthcheck-interval`"]),
    "the only name that the Go controller reads; read only without `healthcheck-interval`",
);
