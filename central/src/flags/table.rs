//! Every flag of `mooring-central`.
//!
//! All that the Go controllers take is taken, so that a manifest works as it is.

use std::sync::LazyLock;

use mooring_common::flags::Action::{Accept, Act};
use mooring_common::flags::Kind::{Bool, Duration, Integer, List, Number, Text};
use mooring_common::flags::{Flag, FlagTable, flag};

use super::choice::NO_CLOUD;
use crate::cloud_api::Limits;
use crate::cloud_provider::registration::{ConfigFile, Registration};
use crate::clouds::CLOUDS;

/// The table: what holds for all clouds, and what each of them registers.
pub static TABLE: LazyLock<FlagTable> = LazyLock::new(|| FlagTable {
    program: "mooring-central",
    about: "Mooring's cloud controller manager: looks after load balancers, service addresses and \
            the life of Nodes. It runs as a Deployment; one replica leads, the others stand by. \
            With plan, import, status, doctor, drain-check, support-bundle or completion in front it is a \
            command, which has a --help of its own.",
    flags: &FLAGS,
    operand: "",
});

static FLAGS: LazyLock<Vec<Flag>> = LazyLock::new(|| {
    let help = &*HELP;
    let choice = [
        flag(CLOUD, "cloud-provider", Text, "", Act, &help.provider),
        flag(CLOUD, "cloud-config", Text, "", Act, &help.config),
        flag(CLOUD, "cloud-api-qps", Number, "", Act, &help.qps),
        flag(CLOUD, "cloud-api-burst", Integer, "", Act, &help.burst),
    ];
    let of_clouds = CLOUDS.iter().flat_map(|cloud| cloud.flags);
    let all = choice
        .iter()
        .chain(OF_ALL)
        .chain(of_clouds)
        .chain(OF_PROCESS);
    all.copied().collect()
});

/// What is told of the clouds that there are.
struct Help {
    provider: String,
    config: String,
    qps: String,
    burst: String,
}

static HELP: LazyLock<Help> = LazyLock::new(|| {
    let names: Vec<&str> = CLOUDS.iter().map(|cloud| cloud.name).collect();
    let programs: Vec<&str> = CLOUDS.iter().filter_map(|cloud| cloud.program).collect();
    let files: Vec<String> = CLOUDS.iter().filter_map(|cloud| file(cloud)).collect();
    Help {
        provider: format!(
            "The providers that the cluster has machines of, separated by commas: {}. Absent: the one \
             whose Go controller the program is started as ({}), else the one whose credentials are in \
             the environment. {NO_CLOUD}: there is no cloud; Services get addresses of L2Networks, and nothing \
             about Nodes is changed.",
            names.join(", "),
            programs.join(", ")
        ),
        config: format!(
            "The path of the provider's configuration file: {}. With several of these it is the last one's. \
             Without any of them it is ignored, and the log says so.",
            files.join("; ")
        ),
        qps: format!(
            "How many requests per second all controllers together make to one cloud in the long run. \
             Absent: {}.",
            limits(|limits| limits.qps.to_string())
        ),
        burst: format!(
            "How many requests they may make at once after a pause. Absent: {}.",
            limits(|limits| limits.burst.to_string())
        ),
    }
});

/// `for phoenixnap a JSON file`
fn file(cloud: &Registration) -> Option<String> {
    match cloud.config_file {
        ConfigFile::None => None,
        ConfigFile::Shared(what) | ConfigFile::Own(what) => {
            Some(format!("for {} {what}", cloud.name))
        }
    }
}

/// `5 to linode, 20 to cloudscale`
fn limits(number: fn(Limits) -> String) -> String {
    let limited = CLOUDS
        .iter()
        .filter_map(|cloud| Some((cloud, cloud.limits?)));
    let texts = limited.map(|(cloud, limits)| format!("{} to {}", number(limits), cloud.name));
    texts.collect::<Vec<_>>().join(", ")
}

const CLOUD: &str = "Cloud";
const NODES: &str = "Nodes";
const SERVICES: &str = "Services";
const ROUTES: &str = "Routes";
const LEADER: &str = "Leader election";
const CLIENT: &str = "API server";
const SERVING: &str = "Endpoints";
const LOGGING: &str = "Logging";
const LEGACY: &str = "Taken from older manifests";

/// What controllers do, whatever the cloud. One flag a line: a table to be read.
#[rustfmt::skip]
const OF_ALL: &[Flag] = &[
    flag(CLOUD, "cluster-name", Text, "kubernetes", Act, "A tag of Linode's NodeBalancers, for people to read. At Brightbox, the end of all names that central gives; whoever changes it leaves all that was made behind. What belongs to the cluster is marked with the UID of the Service default/kubernetes, which no two clusters share."),
    flag(CLOUD, "controllers", List, "*", Act, "Which controllers run: * for all, -NAME to leave one out. Names: cloud-node-controller (cloud-node), cloud-node-lifecycle-controller (cloud-node-lifecycle), service-lb-controller (service), node-route-controller (route)."),
    flag(NODES, "node-daemon-grace", Duration, "0", Act, "How long a new Node's own mooring-node may take to initialise it before central does. 0: there is no node daemon, nobody is waited for."),
    flag(NODES, "node-status-update-frequency", Duration, "5m", Act, "How often a cloud's machines are listed, and every Node is compared with its machine: addresses and labels."),
    flag(NODES, "node-monitor-period", Duration, "5s", Act, "How often Nodes that are not Ready are looked at again."),
    flag(NODES, "node-deletion-grace", Duration, "30s", Act, "How long a Node that has not been initialised yet is kept although its machine seems gone, from when the leader first sees it. Shorter than a cloud takes to list a new machine: the Node of that machine may be deleted, and comes back only when its kubelet starts again."),
    flag(NODES, "max-node-deletions-percent", Integer, "20", Act, "If the machines of more than this share of a cloud's Nodes (and of more than one) seem gone at once, no Node is deleted and an Event says so. 100 switches the guard off."),
    flag(NODES, "concurrent-node-syncs", Integer, "4", Act, "How many Nodes are reconciled at the same time."),
    flag(NODES, "concurrent-node-status-updates", Integer, "0", Accept, "Addresses are updated by the same workers as all else."),
    flag(NODES, "concurrent-node-lifecycle-syncs", Integer, "1", Accept, "All Nodes are judged in one pass."),
    flag(NODES, "heartbeat-secret", Text, "", Act, "The Secret with which the node daemons sign their heartbeats, as NAMESPACE/NAME: where it is missing it is made, with one random key. One that is there is never changed. Absent: none is made."),
    flag(SERVICES, "concurrent-service-syncs", Integer, "4", Act, "How many Services are reconciled at the same time."),
    flag(SERVICES, "load-balancer-class", List, "", Act, "Each spec.loadBalancerClass whose Services are served like those without one: with a load balancer of the first cloud of --cloud-provider that has any, else with addresses of an L2Network. Those of the class mooring.dev/PROVIDER always get a load balancer of that provider, those of mooring.dev/l2 always addresses of an L2Network; those of any other class are others'."),
    flag(SERVICES, "serve-classless-services", Bool, "true", Act, "Serve Services without a spec.loadBalancerClass: with a load balancer of the first cloud of --cloud-provider that has any, else with addresses of an L2Network. false: only those of a class that names us; the others' finalizers, load balancers and addresses are not touched."),
    flag(SERVICES, "load-balancer-resync-period", Duration, "10m", Act, "How often the load balancers of a cloud are compared with what is wanted although nothing is known to have changed, so that changes by hand are undone; a tenth more or less, and less often where it takes many requests. 0: never."),
    flag(SERVICES, "delete-orphans", Bool, "false", Act, "Delete load balancers that bear this cluster's marks and whose Service no longer exists; and routes in --cluster-cidr to machines of Nodes that no Node needs, whoever made them. Not where a cluster was restored from a copy of another one's etcd, which has the same marks: it would delete the other's. false: only report load balancers, in Events on the Service default/kubernetes, and count such routes."),
    flag(SERVICES, "health-target", Text, "service-proxy", Act, "Whom the clouds' health monitors ask whether a Node should get a Service's traffic: service-proxy (as the Go controllers do: the healthCheckNodePort where there is one, else what answers at the node port), or node-daemon (mooring-node's /services/<namespace>/<name> with externalTrafficPolicy Local, else its /healthz)."),
    flag(SERVICES, "health-target-port", Integer, "10266", Act, "The port of --health-target=node-daemon: the one of mooring-node's --livez-bind-address. The clouds' load balancers must be let in there."),
    flag(SERVICES, "endpoint-aware-members", Bool, "false", Act, "Follow the EndpointSlices of Services with externalTrafficPolicy Local: a Node gets no new connections from the cloud's load balancer as soon as its last ready endpoint terminates, and gets them again as soon as one is ready, without waiting for the health monitor. Never the last Node that serves. Needs to list and watch EndpointSlices. Where a cloud's load balancers cannot stop new connections alone it has no effect: the log says so."),
    flag(SERVICES, "take-over-namespaces", List, "", Act, "Namespaces whose Services may take over what somebody else uses in the cloud: a load balancer without marks that an annotation names, a floating IP that leads elsewhere, an address of an IP block without marks. * for all. Absent: none; a Service gets only what is unused or provably its own."),
    flag(SERVICES, "creation-settle-time", Duration, "90s", Act, "How long a cloud may take to list what it was asked to create. If a request got no answer, from this process or the one before it, central looks for its result by its marks for this long and creates or buys nothing a second time. It must not be shorter than the cloud needs; 0 believes each listing immediately."),
    flag(ROUTES, "configure-cloud-routes", Bool, "true", Act, "Make routes to the Pods of Nodes where the provider can. At linode that takes --enable-route-controller too."),
    flag(ROUTES, "route-reconciliation-period", Duration, "10s", Act, "How often routes are compared with the Nodes, besides at once when a Node changes."),
    flag(ROUTES, "cluster-cidr", Text, "", Act, "Where the Nodes' pod CIDRs lie: one range, or one of each family, separated by a comma. Routes outside of it are never deleted. Needed for routes and for --allocate-node-cidrs."),
    flag(ROUTES, "allocate-node-cidrs", Bool, "false", Act, "Give Nodes their pod CIDRs, out of the one IPv4 range of --cluster-cidr, where the provider supports it (linode). kube-controller-manager must not do that then."),
    flag(ROUTES, "cidr-allocator-type", Text, "RangeAllocator", Accept, "The provider decides how pod CIDRs are allocated."),
];

/// The process itself.
#[rustfmt::skip]
const OF_PROCESS: &[Flag] = &[
    flag(LEADER, "leader-elect", Bool, "true", Act, "Act only while holding the Lease. false: this is the only instance."),
    flag(LEADER, "leader-elect-lease-duration", Duration, "15s", Act, "How long the others wait for a leader that is silent."),
    flag(LEADER, "leader-elect-renew-deadline", Duration, "10s", Act, "How long the leader tries to renew before it gives up and ends."),
    flag(LEADER, "leader-elect-retry-period", Duration, "2s", Act, "How often the Lease is renewed, or tried for."),
    flag(LEADER, "leader-elect-resource-lock", Text, "leases", Act, "The kind of lock; only leases exists."),
    flag(LEADER, "leader-elect-resource-name", Text, "", Act, "The Lease's name. Absent: cloud-controller-manager, the one of the Go controllers, so that an old one and Mooring never both act; with --cloud-provider=none mooring-central."),
    flag(LEADER, "leader-elect-resource-namespace", Text, "kube-system", Act, "The Lease's namespace."),
    flag(LEADER, "shutdown-timeout", Duration, "25s", Act, "How long the program, after SIGTERM, waits for answers to requests in flight before it releases the Lease. If they do not come, the Lease expires instead. Keep it below the Pod's terminationGracePeriodSeconds and above the timeout of requests to the cloud."),
    flag(CLIENT, "kubeconfig", Text, "", Act, "A kubeconfig file. Absent: the configuration that every Pod is given."),
    flag(CLIENT, "master", Text, "", Act, "The API server's address, overriding the kubeconfig's."),
    flag(CLIENT, "kube-api-qps", Number, "20", Accept, "The API server's own priority and fairness limits what is asked."),
    flag(CLIENT, "kube-api-burst", Integer, "30", Accept, "The API server's own priority and fairness limits what is asked."),
    flag(CLIENT, "kube-api-content-type", Text, "", Accept, "Central always uses JSON."),
    flag(CLIENT, "min-resync-period", Duration, "12h", Accept, "Watches are resumed, not repeated."),
    flag(CLIENT, "controller-start-interval", Duration, "0", Accept, "All controllers start at once."),
    flag(SERVING, "bind-address", Text, "0.0.0.0", Act, "Where /healthz, /livez, /readyz and /metrics are served by HTTPS."),
    flag(SERVING, "secure-port", Integer, "10258", Act, "On which port. 0: nowhere."),
    flag(SERVING, "cert-dir", Text, "", Accept, "Without --tls-cert-file a certificate is made in memory."),
    flag(SERVING, "tls-cert-file", Text, "", Act, "The certificate to serve with, PEM. Absent: one is made in memory."),
    flag(SERVING, "tls-private-key-file", Text, "", Act, "The key to --tls-cert-file, PEM."),
    flag(SERVING, "tls-min-version", Text, "", Accept, "TLS 1.2 and 1.3 are served."),
    flag(SERVING, "tls-cipher-suites", List, "", Accept, "The safe suites of rustls are served."),
    flag(SERVING, "tls-sni-cert-key", Text, "", Accept, "One certificate is served."),
    flag(SERVING, "tls-curve-preferences", List, "", Accept, "The curves of rustls are served."),
    flag(SERVING, "http2-max-streams-per-connection", Integer, "0", Accept, "HTTP/1.1 is served."),
    flag(SERVING, "disable-http2-serving", Bool, "false", Accept, "HTTP/1.1 is served."),
    flag(SERVING, "permit-port-sharing", Bool, "false", Accept, ""),
    flag(SERVING, "permit-address-sharing", Bool, "false", Accept, ""),
    flag(SERVING, "profiling", Bool, "true", Accept, "There is no /debug/pprof."),
    flag(SERVING, "contention-profiling", Bool, "false", Accept, "There is no /debug/pprof."),
    flag(SERVING, "authentication-kubeconfig", Text, "", Accept, "Tokens are reviewed with the client's own credentials."),
    flag(SERVING, "authorization-kubeconfig", Text, "", Accept, "Access is reviewed with the client's own credentials."),
    flag(SERVING, "authorization-always-allow-paths", List, "/healthz,/readyz,/livez", Act, "Paths served without asking who is there."),
    flag(SERVING, "authentication-skip-lookup", Bool, "false", Accept, ""),
    flag(SERVING, "authentication-tolerate-lookup-failure", Bool, "false", Accept, ""),
    flag(SERVING, "client-ca-file", Text, "", Accept, "Clients show tokens, not certificates."),
    flag(SERVING, "authentication-token-webhook-cache-ttl", Duration, "10s", Accept, ""),
    flag(SERVING, "authorization-webhook-cache-authorized-ttl", Duration, "10s", Accept, ""),
    flag(SERVING, "authorization-webhook-cache-unauthorized-ttl", Duration, "10s", Accept, ""),
    flag(SERVING, "requestheader-allowed-names", List, "", Accept, ""),
    flag(SERVING, "requestheader-client-ca-file", Text, "", Accept, ""),
    flag(SERVING, "requestheader-extra-headers-prefix", List, "x-remote-extra-", Accept, ""),
    flag(SERVING, "requestheader-group-headers", List, "x-remote-group", Accept, ""),
    flag(SERVING, "requestheader-username-headers", List, "x-remote-user", Accept, ""),
    flag(SERVING, "requestheader-uid-headers", List, "", Accept, ""),
    flag(LOGGING, "v", Integer, "2", Act, "How much is logged, from 0 to 255. Up to 3: changes, warnings and errors, and like warnings once a minute. 4 and 5: each warning, and decisions. From 6: everything, with each request to a cloud, without credentials. RUST_LOG overrides it."),
    flag(LOGGING, "vmodule", List, "", Accept, "Set RUST_LOG to choose per module."),
    flag(LOGGING, "logging-format", Text, "text", Act, "text or json."),
    flag(LOGGING, "log-flush-frequency", Duration, "5s", Accept, "Lines are written at once."),
    flag(LOGGING, "log-json-info-buffer-size", Text, "0", Accept, "Lines are written at once."),
    flag(LOGGING, "log-json-split-stream", Bool, "false", Accept, "Everything goes to standard error."),
    flag(LOGGING, "log-text-info-buffer-size", Text, "0", Accept, "Lines are written at once."),
    flag(LOGGING, "log-text-split-stream", Bool, "false", Accept, "Everything goes to standard error."),
    flag(LOGGING, "allow-metric-labels", List, "", Accept, "Labels are bounded as they are."),
    flag(LOGGING, "allow-metric-labels-manifest", Text, "", Accept, "Labels are bounded as they are."),
    flag(LOGGING, "disabled-metrics", List, "", Accept, ""),
    flag(LOGGING, "show-hidden-metrics-for-version", Text, "", Accept, ""),
    flag(LEGACY, "allow-untagged-cloud", Bool, "false", Accept, "Every cluster has an id here."),
    flag(LEGACY, "use-service-account-credentials", Bool, "false", Accept, "One identity with few rights does all."),
    flag(LEGACY, "external-cloud-volume-plugin", Text, "", Accept, ""),
    flag(LEGACY, "node-sync-period", Duration, "0", Accept, ""),
    flag(LEGACY, "feature-gates", List, "", Accept, ""),
    flag(LEGACY, "enable-leader-migration", Bool, "false", Accept, ""),
    flag(LEGACY, "leader-migration-config", Text, "", Accept, ""),
    flag(LEGACY, "address", Text, "", Accept, "Use --bind-address."),
    flag(LEGACY, "port", Integer, "0", Accept, "Use --secure-port."),
    flag(LEGACY, "webhooks", List, "", Accept, "There are no webhooks."),
    flag(LEGACY, "webhook-bind-address", Text, "", Accept, "There are no webhooks."),
    flag(LEGACY, "webhook-cert-dir", Text, "", Accept, "There are no webhooks."),
    flag(LEGACY, "webhook-secure-port", Integer, "10260", Accept, "There are no webhooks."),
    flag(LEGACY, "webhook-tls-cert-file", Text, "", Accept, "There are no webhooks."),
    flag(LEGACY, "webhook-tls-private-key-file", Text, "", Accept, "There are no webhooks."),
];
