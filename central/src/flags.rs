//! What the command line asks of `mooring-central`.

mod choice;
mod pod_network;
mod secret_name;
mod table;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mooring_common::flags::{FlagFaults, Reader, Values};
use mooring_common::names::{CLOUDLESS_LEADER_LEASE, LEADER_LEASE};
use mooring_common::telemetry::LogFormat;

pub use choice::{Choice, NO_CLOUD, ProcessEnv, choose};
pub use pod_network::PodNetworkFlags;
pub use secret_name::SecretName;
pub use table::TABLE;

use crate::cloud_api::LimitFlags;
use crate::cloud_provider::load_balancers::{HealthTarget, TakeOver};
use crate::cloud_provider::registration::{Configure, Registration};
use crate::clouds::{CLOUDS, named};
use crate::election::LeaderFlags;

/// The command line, read whole.
#[derive(Clone, Debug)]
pub struct Flags {
    /// `--cloud-provider`, or what tells as much.
    pub choice: Choice,
    /// `--cloud-config`.
    pub cloud_config: Option<PathBuf>,
    /// How much is asked of one cloud by all controllers together.
    pub limits: LimitFlags,
    /// The clouds' own, in the order of [`CLOUDS`].
    pub clouds: Vec<Arc<dyn Configure>>,
    /// `--controllers`.
    pub controllers: Controllers,
    /// How Nodes are looked after.
    pub nodes: NodeFlags,
    /// `--heartbeat-secret`.
    pub heartbeat_secret: Option<SecretName>,
    /// Which Services are served, and how.
    pub services: ServiceFlags,
    /// Routes to Pods, and pod CIDRs.
    pub pod_network: PodNetworkFlags,
    /// Leader election; `None` with `--leader-elect=false`.
    pub leader: Option<LeaderFlags>,
    /// `--shutdown-timeout`.
    pub shutdown_timeout: Duration,
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--master`.
    pub master: Option<String>,
    /// Endpoints; `None` with `--secure-port=0`.
    pub serving: Option<ServingFlags>,
    /// `-v`.
    pub verbosity: u8,
    /// `--logging-format`.
    pub log_format: LogFormat,
    /// Flags that were set and have no effect.
    pub without_effect: Vec<&'static str>,
}

/// Which controllers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controllers {
    /// Initialisation and addresses of Nodes.
    pub node: bool,
    /// Shutdown taint and deletion of Nodes.
    pub node_lifecycle: bool,
    /// Services and L2Networks.
    pub service: bool,
    /// Routes to Pods.
    pub route: bool,
}

impl Controllers {
    /// Without a cloud, nothing is known of Nodes, and nothing about them is changed.
    fn for_clouds(self, clouds: &[&Registration]) -> Self {
        let any = !clouds.is_empty();
        Self {
            node: self.node && any,
            node_lifecycle: self.node_lifecycle && any,
            ..self
        }
    }
}

/// How Nodes are looked after.
#[derive(Clone, Copy, Debug)]
pub struct NodeFlags {
    /// `--node-daemon-grace`.
    pub daemon_grace: Duration,
    /// `--node-status-update-frequency`.
    pub address_period: Duration,
    /// `--node-monitor-period`.
    pub monitor_period: Duration,
    /// `--node-deletion-grace`.
    pub deletion_grace: Duration,
    /// `--max-node-deletions-percent`.
    pub max_deletions_percent: u8,
    /// `--concurrent-node-syncs`.
    pub concurrent_syncs: usize,
}

/// Which Services are served, and how.
#[derive(Clone, Debug)]
pub struct ServiceFlags {
    /// `--concurrent-service-syncs`.
    pub concurrent_syncs: usize,
    /// `--load-balancer-class`.
    pub own_classes: Vec<String>,
    /// `--serve-classless-services`.
    pub serves_classless: bool,
    /// `--load-balancer-resync-period`; `None`: never.
    pub resync_period: Option<Duration>,
    /// `--delete-orphans`.
    pub delete_orphans: bool,
    /// `--health-target`, and `--health-target-port`.
    pub health: HealthTarget,
    /// `--endpoint-aware-members`.
    pub follows_endpoints: bool,
    /// `--take-over-namespaces`.
    pub take_over: TakeOver,
    /// `--creation-settle-time`.
    pub settle_time: Duration,
}

/// Endpoints.
#[derive(Clone, Debug)]
pub struct ServingFlags {
    /// `--bind-address`.
    pub address: IpAddr,
    /// `--secure-port`.
    pub port: u16,
    /// `--tls-cert-file` and `--tls-private-key-file`.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// `--authorization-always-allow-paths`.
    pub always_allowed: Vec<String>,
}

/// Anything done more often is a mistake.
const SHORTEST_PERIOD: Duration = Duration::from_millis(50);
/// Clouds are not asked more often.
const SHORTEST_RESYNC: Duration = Duration::from_secs(1);
const WHOLE_NUMBER: &str = "write a whole number";

impl Flags {
    /// Reads the values, and where they do not name the provider, what else there is.
    ///
    /// # Errors
    /// [`FlagFaults`] with everything that is wrong.
    pub fn read(values: &Values, env: ProcessEnv<'_>) -> Result<Self, FlagFaults> {
        let mut reader = Reader::new(&TABLE, values);
        let choice = read_choice(&mut reader, env);
        let flags = Self {
            controllers: read_controllers(&mut reader).for_clouds(&choice.providers),
            leader: read_leader(&mut reader, &choice.providers),
            choice,
            limits: read_limits(&mut reader),
            clouds: CLOUDS
                .iter()
                .map(|cloud| (cloud.read)(&mut reader))
                .collect(),
            cloud_config: reader.text("cloud-config").map(Into::into),
            nodes: read_nodes(&mut reader),
            heartbeat_secret: reader.optional(
                "heartbeat-secret",
                "write NAMESPACE/NAME, like mooring-system/mooring-heartbeat",
            ),
            services: read_services(&mut reader),
            pod_network: PodNetworkFlags::read(&mut reader),
            shutdown_timeout: reader.duration("shutdown-timeout"),
            kubeconfig: reader.text("kubeconfig").map(Into::into),
            master: reader.text("master"),
            serving: read_serving(&mut reader),
            verbosity: reader.parsed("v", "write a whole number from 0 to 255"),
            log_format: reader.parsed("logging-format", "write text or json"),
            without_effect: reader.without_effect(),
        };
        reader.finish().map(|()| flags)
    }
}

fn read_choice(reader: &mut Reader<'_>, env: ProcessEnv<'_>) -> Choice {
    let mut providers = Vec::new();
    let because = "--cloud-provider says so".to_owned();
    let Some(text) = reader.text("cloud-provider") else {
        return choose(env).unwrap_or_else(|fault| {
            reader.other_fault(fault);
            Choice { providers, because }
        });
    };
    let names = text.split(',').map(str::trim);
    for name in names.filter(|_| text.trim() != NO_CLOUD) {
        match named(name) {
            Some(cloud) if !providers.contains(&cloud) => providers.push(cloud),
            _ => reader.fault("cloud-provider", name, &known_providers()),
        }
    }
    Choice { providers, because }
}

fn known_providers() -> String {
    let names: Vec<&str> = CLOUDS.iter().map(|cloud| cloud.name).collect();
    format!(
        "this version knows {}; separate several by commas, and name each once, or write {NO_CLOUD} alone \
         for addresses of L2Networks without a cloud",
        names.join(", ")
    )
}

fn read_limits(reader: &mut Reader<'_>) -> LimitFlags {
    let remedy = "write a number above 0";
    let qps = reader.optional::<f64>("cloud-api-qps", remedy);
    if let Some(number) = qps.filter(|number| !number.is_finite() || *number <= 0.0) {
        reader.fault("cloud-api-qps", number, remedy);
    }
    let remedy = "write a whole number above 0";
    let burst = reader.optional("cloud-api-burst", remedy);
    if burst == Some(0) {
        reader.fault("cloud-api-burst", 0, remedy);
    }
    LimitFlags { qps, burst }
}

fn read_controllers(reader: &mut Reader<'_>) -> Controllers {
    let mut controllers = Controllers {
        node: false,
        node_lifecycle: false,
        service: false,
        route: false,
    };
    let chosen = reader.list("controllers");
    // Who only leaves something out wants the rest.
    let all = chosen
        .iter()
        .all(|name| name == "*" || name.starts_with('-'))
        || chosen.iter().any(|name| name == "*");
    if all {
        controllers = Controllers {
            node: true,
            node_lifecycle: true,
            service: true,
            route: true,
        };
    }
    for name in chosen.iter().filter(|name| *name != "*") {
        let (name, on) = name
            .strip_prefix('-')
            .map_or((name.as_str(), true), |n| (n, false));
        match name {
            "cloud-node" | "cloud-node-controller" => controllers.node = on,
            "cloud-node-lifecycle" | "cloud-node-lifecycle-controller" => {
                controllers.node_lifecycle = on;
            }
            "service" | "service-lb-controller" => controllers.service = on,
            "route" | "node-route-controller" => controllers.route = on,
            other => reader.fault(
                "controllers",
                other,
                "write *, or names from cloud-node, cloud-node-lifecycle, service, route, each \
                 with - in front to leave it out",
            ),
        }
    }
    controllers
}

fn read_nodes(reader: &mut Reader<'_>) -> NodeFlags {
    let percent = reader.parsed("max-node-deletions-percent", "write a number from 0 to 100");
    if percent > 100 {
        reader.fault(
            "max-node-deletions-percent",
            percent,
            "write a number from 0 to 100",
        );
    }
    NodeFlags {
        daemon_grace: reader.duration("node-daemon-grace"),
        address_period: reader
            .duration_of_at_least("node-status-update-frequency", SHORTEST_PERIOD),
        monitor_period: reader.duration_of_at_least("node-monitor-period", SHORTEST_PERIOD),
        deletion_grace: reader.duration("node-deletion-grace"),
        max_deletions_percent: percent,
        concurrent_syncs: reader.parsed("concurrent-node-syncs", WHOLE_NUMBER),
    }
}

fn read_services(reader: &mut Reader<'_>) -> ServiceFlags {
    let period = reader.duration("load-balancer-resync-period");
    if !period.is_zero() && period < SHORTEST_RESYNC {
        reader.fault(
            "load-balancer-resync-period",
            format!("{period:?}"),
            "must be at least 1s, or 0 for never",
        );
    }
    ServiceFlags {
        concurrent_syncs: reader.parsed("concurrent-service-syncs", WHOLE_NUMBER),
        own_classes: reader.list("load-balancer-class"),
        serves_classless: reader.bool("serve-classless-services"),
        resync_period: Some(period).filter(|period| !period.is_zero()),
        delete_orphans: reader.bool("delete-orphans"),
        health: read_health_target(reader),
        follows_endpoints: reader.bool("endpoint-aware-members"),
        settle_time: reader.duration("creation-settle-time"),
        take_over: TakeOver::of(reader.list("take-over-namespaces")),
    }
}

fn read_health_target(reader: &mut Reader<'_>) -> HealthTarget {
    let port = reader.parsed("health-target-port", "write a port number, from 1 to 65535");
    if port == 0 {
        reader.fault(
            "health-target-port",
            port,
            "write a port number, from 1 to 65535",
        );
    }
    match reader.text("health-target").unwrap_or_default().as_str() {
        "service-proxy" => HealthTarget::ServiceProxy,
        "node-daemon" => HealthTarget::NodeDaemon { port },
        other => {
            reader.fault("health-target", other, "write service-proxy or node-daemon");
            HealthTarget::default()
        }
    }
}

fn read_leader(reader: &mut Reader<'_>, clouds: &[&Registration]) -> Option<LeaderFlags> {
    let elect = reader.bool("leader-elect");
    let lock = reader
        .text("leader-elect-resource-lock")
        .unwrap_or_default();
    if lock != "leases" {
        reader.fault("leader-elect-resource-lock", lock, "only leases exists");
    }
    // Where there is no cloud, a controller of some cloud may lead all the same.
    let lease = if clouds.is_empty() {
        CLOUDLESS_LEADER_LEASE
    } else {
        LEADER_LEASE
    };
    let flags = LeaderFlags {
        lease_duration: reader
            .duration_of_at_least("leader-elect-lease-duration", Duration::from_secs(1)),
        renew_deadline: reader.duration("leader-elect-renew-deadline"),
        retry_period: reader.duration_of_at_least("leader-elect-retry-period", SHORTEST_PERIOD),
        name: reader
            .text("leader-elect-resource-name")
            .unwrap_or_else(|| lease.to_owned()),
        namespace: reader
            .text("leader-elect-resource-namespace")
            .unwrap_or_default(),
    };
    if flags.lease_duration <= flags.renew_deadline || flags.renew_deadline <= flags.retry_period {
        reader.other_fault(
            "leader election needs --leader-elect-lease-duration > --leader-elect-renew-deadline \
             > --leader-elect-retry-period, or two leaders could act at once",
        );
    }
    elect.then_some(flags)
}

fn read_serving(reader: &mut Reader<'_>) -> Option<ServingFlags> {
    let address = reader.optional::<IpAddr>("bind-address", "write an IP address");
    let port = reader.parsed("secure-port", "write a port from 1 to 65535, or 0 for none");
    let certificate = match (
        reader.text("tls-cert-file"),
        reader.text("tls-private-key-file"),
    ) {
        (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
        (None, None) => None,
        _ => {
            reader.other_fault("--tls-cert-file and --tls-private-key-file go together");
            None
        }
    };
    let always_allowed = reader.list("authorization-always-allow-paths").into_iter();
    // The chart of Linode's Go controller puts quotes around the path.
    let always_allowed = always_allowed.map(|path| path.trim_matches('"').to_owned());
    (port != 0).then_some(())?;
    Some(ServingFlags {
        address: address?,
        port,
        certificate,
        always_allowed: always_allowed.collect(),
    })
}

#[cfg(test)]
mod tests;
