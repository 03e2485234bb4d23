//! Every annotation at Linode, as its Go controller reads and writes them.

use mooring_common::names::annotations as keys;

use crate::annotations;
use crate::cloud_provider::annotations::Annotation;
use crate::cloud_provider::annotations::Form::{GoBool, Id, Other, Within, Words};

annotations! {
    "service.beta.kubernetes.io/linode-loadbalancer-", [APPLIED, PRIVATE_IP, PUBLIC_IPV6]:
    THROTTLE = "throttle", Other(["`0`", "0 to 20; what is above or below is cut, what is no number is 0, with an Event"]),
        "new connections of one client in a second; 0: as many as it likes";
    PROTOCOL = "default-protocol", Words { default: "of the port: `tcp` or `udp`", words: &["tcp", "udp", "http", "https"] },
        "the protocol of every port that [`port-<N>`](nodebalancers.md#port-n) gives none";
    PROXY_PROTOCOL = "default-proxy-protocol", Words { default: "`none`", words: &["none", "v1", "v2"] },
        "the PROXY protocol towards the Nodes; not with UDP";
    OLD_PROXY_PROTOCOL = "proxy-protocol", Other(["", "as `default-proxy-protocol`"]),
        "older name of `default-proxy-protocol`; read only without it";
    ALGORITHM = "default-algorithm", Other(["`roundrobin`", "`roundrobin`, `leastconn`, and `source`; with UDP `ring_hash` instead of `source`"]),
        "how connections are distributed";
    STICKINESS = "default-stickiness", Other(["HTTP and HTTPS: `table`, UDP: `session`", "HTTP and HTTPS: `none`, `table`, `http_cookie`; UDP: `none`, `session`, `source_ip`"]),
        "how a client stays with one Node; not with TCP";
    CHECK_TYPE = "check-type", Words { default: "`connection`; of UDP ports `none`", words: &["none", "connection", "http", "http_body"] },
        "how Nodes are asked whether they are healthy";
    CHECK_PATH = "check-path", Other(["`/`", "a path"]), "what is asked for by `http` and `http_body`";
    CHECK_BODY = "check-body", Other(["", "a regular expression"]),
        "what the answer must contain; needed by `http_body`";
    CHECK_INTERVAL = "check-interval", Within { default: 5, min: 2, max: 3600 }, "seconds between two questions";
    CHECK_TIMEOUT = "check-timeout", Within { default: 3, min: 1, max: 30 },
        "seconds that an answer may take; less than `check-interval`";
    CHECK_ATTEMPTS = "check-attempts", Within { default: 2, min: 1, max: 30 },
        "bad answers in a row that make a Node unhealthy";
    CHECK_PASSIVE = "check-passive", GoBool("`true`"),
        "whether what clients meet counts too; never with UDP";
    UDP_CHECK_PORT = "udp-check-port", Other(["`80`", "1 to 65535"]), "the port that is asked for UDP";
    PRESERVE = "preserve", GoBool("`false`"),
        "whether the NodeBalancer stays when the Service goes, or when `nodebalancer-id` names another";
    ID = "nodebalancer-id", Id("a NodeBalancer"),
        "which NodeBalancer the Service is to have. See [adoption](nodebalancers.md#which-nodebalancer-is-a-services)";
    TYPE = "nodebalancer-type", Other(["`--default-nodebalancer-type`", "`common`, `premium`, `premium_40gb`; what is none of them is not used, with an Event"]),
        "the type of a new NodeBalancer";
    HOSTNAME_ONLY = "hostname-only-ingress", GoBool("`LINODE_HOSTNAME_ONLY_INGRESS`"),
        "whether the status has the host name alone, so that Pods reach the Service through the NodeBalancer";
    IP_MODE = "ip-mode", Words { default: "", words: &["VIP", "Proxy"] },
        "`ipMode` of the addresses in the status; `Proxy`: Pods reach the Service through the NodeBalancer. Mooring's own";
    TAGS = "tags", Other(["", "texts, separated by commas"]),
        "tags besides those of `--cluster-name` and `--nodebalancer-tags`";
    FIREWALL_ID = "firewall-id", Id("a Cloud Firewall"),
        "the firewall that is attached; wins over `firewall-acl`";
    FIREWALL_ACL = "firewall-acl", Other(["", "`{\"allowList\": {\"ipv4\": [\"192.0.2.0/24\"], \"ipv6\": [\"2001:db8::/32\"]}}`, or `denyList` instead"]),
        "a firewall of the Service's own. Without it, `spec.loadBalancerSourceRanges` is an `allowList`";
    IPV6_INGRESS = "enable-ipv6-ingress", GoBool("`--enable-ipv6-for-loadbalancers`"),
        "whether the status has the IPv6 address too";
    IPV6_BACKENDS = "enable-ipv6-backends", GoBool("`--enable-ipv6-for-nodebalancer-backends`"),
        "whether Nodes are reached by their public IPv6 addresses";
    RESERVED_IPV4 = "reserved-ipv4", Other(["", "a reserved IPv4 address"]),
        "the address of a new NodeBalancer; that of an old one never changes";
    RETAIN_RESERVED_IPV4 = "retain-reserved-ipv4", GoBool("`true`"),
        "whether the address stays reserved when the NodeBalancer is deleted";
    BACKEND_IPV4_RANGE = "backend-ipv4-range", Other(["", "a block within `--nodebalancer-backend-ipv4-subnet`"]),
        "where a new NodeBalancer takes its addresses in the VPC from";
    BACKEND_VPC_NAME = "backend-vpc-name", Other(["the first of `--vpc-names`", "a VPC's label"]),
        "the VPC by which Nodes are reached";
    BACKEND_SUBNET_NAME = "backend-subnet-name", Other(["the first of `--subnet-names`", "a subnet's label"]),
        "its subnet";
    BACKEND_SUBNET_ID = "backend-subnet-id", Id("a subnet"),
        "the subnet by which Nodes are reached; wins over the names";
    FRONTEND_SUBNET_ID = "frontend-subnet-id", Id("a subnet"),
        "the subnet in which a new NodeBalancer has its address, instead of a public one";
    FRONTEND_VPC_NAME = "frontend-vpc-name", Other(["", "a VPC's label, with `frontend-subnet-name`"]),
        "the same by name";
    FRONTEND_SUBNET_NAME = "frontend-subnet-name", Other(["", "a subnet's label, with `frontend-vpc-name`"]),
        "the same by name";
    FRONTEND_IPV4_RANGE = "frontend-ipv4-range", Other(["", "a block of the subnet"]),
        "where the address is taken from";
    FRONTEND_IPV6_RANGE = "frontend-ipv6-range", Other(["", "a block of the subnet"]),
        "where the IPv6 address is taken from";
}

/// How the keys begin of what a single port is to have; its number follows.
pub(super) const PORT: &str = "service.beta.kubernetes.io/linode-loadbalancer-port-";

const APPLIED: Annotation = Annotation::new(
    keys::APPLIED,
    Other(["", ""]),
    "written by central: which NodeBalancer has all that was wanted, and a fingerprint of that",
)
.written();
const PRIVATE_IP: Annotation = Annotation::new(
    keys::LINODE_PRIVATE_IP,
    Other(["", "an IPv4 address"]),
    "the first private address of `ipv4`",
)
.written()
.on_nodes();
const PUBLIC_IPV6: Annotation = Annotation::new(
    keys::LINODE_PUBLIC_IPV6,
    Other(["", "an IPv6 address and its prefix length"]),
    "`ipv6`",
)
.written()
.on_nodes();
