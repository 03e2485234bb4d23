//! The clouds whose names both programs and the chart's admission policies know. Adding one is a line in
//! [`CLOUDS`]; the chart's list (`files/clouds.json`) is written from it, and from the annotations of Services,
//! which central alone writes.

use serde_json::{Value, json};

use crate::names::{annotations, labels};

/// What a cloud's controllers and daemons write under names of its own, as its Go controller does.
#[derive(Debug)]
pub struct CloudNames {
    /// The provider's name, which is the scheme of its IDs too.
    pub scheme: &'static str,
    /// Labels on Nodes.
    pub node_labels: &'static [&'static str],
    /// Annotations on Nodes.
    pub node_annotations: &'static [&'static str],
    /// How the keys of annotations on Nodes begin that are counted.
    pub node_annotation_prefixes: &'static [&'static str],
    /// How the keys of the annotations begin that it reads on Services.
    pub service_prefixes: &'static [&'static str],
}

const NONE: CloudNames = CloudNames {
    scheme: "",
    node_labels: &[],
    node_annotations: &[],
    node_annotation_prefixes: &[],
    service_prefixes: &[],
};

/// All of them.
pub const CLOUDS: &[CloudNames] = &[
    CloudNames {
        scheme: "linode",
        node_labels: &[labels::LINODE_HOST_UUID],
        node_annotations: &[
            annotations::LINODE_PRIVATE_IP,
            annotations::LINODE_PUBLIC_IPV6,
        ],
        service_prefixes: &[
            "service.beta.kubernetes.io/linode-loadbalancer-",
            annotations::APPLIED,
        ],
        ..NONE
    },
    CloudNames {
        scheme: "cloudscale",
        service_prefixes: &["k8s.cloudscale.ch/"],
        ..NONE
    },
    CloudNames {
        scheme: "brightbox",
        service_prefixes: &[
            "service.beta.kubernetes.io/brightbox-load-balancer-",
            annotations::AWS_HEALTH_CHECK_INTERVAL,
        ],
        ..NONE
    },
    CloudNames {
        scheme: "phoenixnap",
        node_annotation_prefixes: &["phoenixnap.com/bgp-peers-"],
        service_prefixes: &["phoenixnap.com/"],
        ..NONE
    },
    CloudNames {
        scheme: "cloudlycke",
        ..NONE
    },
];

/// How the keys of those annotations on Services begin that are of no cloud, and are read all the same.
const COMMON_SERVICE_PREFIX: &str = "service.beta.kubernetes.io/load-balancer-";

/// Whether some cloud may read the annotation of this key on Services.
#[must_use]
pub fn is_read_on_services(key: &str) -> bool {
    let mut prefixes = CLOUDS.iter().flat_map(|cloud| cloud.service_prefixes);
    key.starts_with(COMMON_SERVICE_PREFIX) || prefixes.any(|prefix| key.starts_with(prefix))
}

/// Whether the annotation of this key on Nodes is some cloud's own.
#[must_use]
pub fn is_written_on_nodes(key: &str) -> bool {
    let mut keys = CLOUDS.iter().flat_map(|cloud| cloud.node_annotations);
    keys.any(|known| *known == key)
}

/// What the chart's policies permit for all clouds together: `files/clouds.json`. `service_annotations`: the
/// keys of those that central writes.
#[must_use]
pub fn for_the_chart(service_annotations: &[&str]) -> Value {
    let all = |names: fn(&CloudNames) -> &'static [&'static str]| -> Vec<&str> {
        CLOUDS.iter().flat_map(names).copied().collect()
    };
    let schemes: Vec<&str> = CLOUDS.iter().map(|cloud| cloud.scheme).collect();
    json!({
        "providerIDSchemes": schemes,
        "nodeLabels": all(|cloud| cloud.node_labels),
        "nodeAnnotations": all(|cloud| cloud.node_annotations),
        "nodeAnnotationPrefixes": all(|cloud| cloud.node_annotation_prefixes),
        "serviceAnnotations": service_annotations,
    })
}
