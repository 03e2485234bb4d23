//! What the command line asks of `mooring-node`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use mooring_common::flags::Action::Act;
use mooring_common::flags::Kind::{Bool, Duration as GoDuration, Integer, List, Text};
use mooring_common::flags::{Flag, FlagFaults, FlagTable, Reader, Values, flag};
use mooring_common::telemetry::LogFormat;

use crate::announce::Settings;
use crate::cluster::service_proxy::KUBE_PROXY;
use crate::report::metadata::{self, HostPaths, SourceChoice};
use crate::vlan;

/// Every flag of `mooring-node`.
pub const TABLE: FlagTable = FlagTable {
    program: "mooring-node",
    about: "Mooring's node daemon: describes its own Node, announces service addresses on the \
            segments that it is on, and answers health checks. It runs as a DaemonSet and holds no \
            cloud credentials.",
    flags: FLAGS,
    operand: "",
};

const NODE: &str = "This node";
const SEGMENTS: &str = "Segments";
const SERVING: &str = "Endpoints";
const CLIENT: &str = "API server";
const LOGGING: &str = "Logging";

/// One flag a line: a table to be read.
#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    Flag { env: Some("NODE_NAME"), ..flag(NODE, "node-name", Text, "", Act, "The name of the Node that this machine is.") },
    flag(NODE, "report", Bool, "true", Act, "Describe the Node: addresses, provider ID, labels, and the uninitialized taint off."),
    flag(NODE, "metadata-source", Text, "auto", Act, "Where to learn about the machine: file (the machines file), linode, cloudscale or brightbox (their metadata services), cloud-init (what it has written down), dmi (the machine's firmware), auto (the file if there is one, else the first of the others that knows the machine)."),
    flag(NODE, "metadata-endpoint", Text, "http://169.254.169.254", Act, "Where the metadata service is: http, an IP address, and a port and a path if need be."),
    Flag { env: Some("LINODE_EXTERNAL_SUBNET"), ..flag(NODE, "linode-external-subnet", Text, "", Act, "The block of private IPv4 addresses that are reported as ExternalIP on Linodes, like 172.24.0.0/16; the same as central is given.") },
    flag(NODE, "cloud-config", Text, "", Act, "The machines file."),
    flag(NODE, "node-status-update-frequency", GoDuration, "5m", Act, "How often the Node's addresses are compared with the machine's."),
    flag(NODE, "allow-unfenced", Bool, "false", Act, "Write without testing whether admission policies keep the daemon to its own Node. Where they are missing, a stolen token of one daemon can then write every Node. By default the daemon writes nothing until it finds them, and tests at least every minute."),
    flag(NODE, "host-sys", Text, "/sys", Act, "Where the host's /sys is mounted."),
    flag(NODE, "host-etc", Text, "/etc", Act, "Where the host's /etc is mounted."),
    flag(NODE, "host-proc", Text, "/proc", Act, "Where the host's /proc is mounted."),
    flag(NODE, "host-run", Text, "/run", Act, "Where the host's /run is mounted; of it, only cloud-init's folder is read."),
    flag(SEGMENTS, "announce", Bool, "true", Act, "Announce service addresses on the segments of L2Networks."),
    Flag { env: Some("POD_NAMESPACE"), ..flag(SEGMENTS, "lease-namespace", Text, "mooring-system", Act, "Where the daemons' Leases are.") },
    flag(SEGMENTS, "lease-duration", GoDuration, "30s", Act, "How long the daemon's Lease holds, from 1s to 30s. It is renewed after each third of that, and looked at only where half of a segment's voters or more are lost at once, where a daemon that has not renewed it for 20s counts as dead: fail-over does not wait for it."),
    flag(SEGMENTS, "heartbeat-key-file", Text, "", Act, "The secrets that heartbeats are signed with: a file with one a line, the newest first, or a folder of such files, of which the last by name comes first. As long as there is none, the daemon takes no part in any segment, and says so in the status of the L2Networks."),
    flag(SEGMENTS, "allow-unsigned-heartbeats", Bool, "false", Act, "Take part in segments also as long as there is no secret to sign heartbeats with. Any machine on a segment can then have a say in who speaks there."),
    flag(SEGMENTS, "heartbeat-port", Integer, "10268", Act, "The UDP port of heartbeats on the node network; the same on all nodes."),
    flag(SEGMENTS, "state-dir", Text, "/run/mooring", Act, "The directory with the state of the segments. A daemon that starts while the API server is down announces by it. It should be empty after a reboot."),
    flag(SEGMENTS, "return-path-mark-mask", Text, "0xf0", Act, "The bits of packet and connection marks by which answers leave by the VLAN that the request came in by: adjacent ones that nothing else on the node uses. kube-proxy has 0xc000, Cilium 0x0f00 and the upper half, Calico the upper half."),
    flag(SEGMENTS, "host-proc-sys-net", Text, "/proc/sys/net", Act, "Where the host's /proc/sys/net is mounted, writable, for the IPv6 settings of VLAN interfaces."),
    flag(SEGMENTS, "clean-up", Bool, "false", Act, "Take away what Mooring has made on this node (VLAN interfaces with its mark, its routes and rules, its nftables table), and end. For when Mooring is removed; the daemon must not run any more."),
    flag(SERVING, "livez-bind-address", Text, "[::]:10266", Act, "Where /livez, /healthz and /services/<namespace>/<name> answer health checks, by HTTP."),
    flag(SERVING, "livez-detail-networks", List, "", Act, "Networks, such as 10.0.0.0/8, whose clients get details from /services/<namespace>/<name>: the endpoints on the Node, and why the Service gets no traffic. Other clients get the status code only. Loopback is always included."),
    flag(SERVING, "probe-bind-address", Text, "", Act, "A second address for the kubelet's probes, such as 127.0.0.1:10269, with the same paths. Clients of --livez-bind-address cannot use up its connections. Absent: no second address."),
    flag(SERVING, "livez", Bool, "true", Act, "Answer health checks."),
    flag(SERVING, "livez-health-check-node-ports", Bool, "false", Act, "Answer them on the healthCheckNodePort of each Service too, for service proxies that do not: from when connections to --service-proxy-healthz have been refused for 60s, until one is accepted. If the proxy answers elsewhere, set that flag too; otherwise the daemon takes ports that are the proxy's."),
    flag(SERVING, "livez-read-through", Bool, "false", Act, "Call a Service with a healthCheckNodePort healthy only if the service proxy does so there as well."),
    flag(SERVING, "service-proxy-healthz", Text, "127.0.0.1:10256", Act, "The HTTP health endpoint of this Node's service proxy: kube-proxy's --healthz-bind-address. Its answer counts for health checks and for who announces addresses. No answer changes nothing."),
    flag(SERVING, "metrics-bind-address", Text, "127.0.0.1:10267", Act, "Where /metrics is served, by HTTP."),
    flag(SERVING, "metrics-secure-bind-address", Text, "", Act, "Where /metrics is served by HTTPS too, such as [::]:10270, for clients that the API server permits to get the path /metrics. The certificate is made in memory. The daemon's ServiceAccount must be permitted to create TokenReviews and SubjectAccessReviews. Absent: nowhere."),
    flag(SERVING, "metrics", Bool, "true", Act, "Serve metrics."),
    flag(CLIENT, "kubeconfig", Text, "", Act, "A kubeconfig file. Absent: the configuration that every Pod is given."),
    flag(CLIENT, "master", Text, "", Act, "The API server's address, overriding the kubeconfig's."),
    flag(LOGGING, "v", Integer, "2", Act, "How much is logged, from 0 to 255. Up to 3: changes, warnings and errors, and like warnings once a minute. 4 and 5: each warning, and decisions. From 6: everything. RUST_LOG overrides it."),
    flag(LOGGING, "logging-format", Text, "text", Act, "text or json."),
];

/// The command line, read whole.
#[derive(Clone, Debug)]
pub struct Flags {
    /// `--node-name`.
    pub node_name: String,
    /// How the Node is described; `None` with `--report=false`.
    pub report: Option<ReportFlags>,
    /// `--allow-unfenced`.
    pub allow_unfenced: bool,
    /// How addresses are announced; `None` with `--announce=false`.
    pub announce: Option<Settings>,
    /// `--clean-up`.
    pub clean_up: bool,
    /// How health checks are answered; `None` with `--livez=false`.
    pub livez: Option<LivezFlags>,
    /// `--metrics-bind-address`; `None` with `--metrics=false`.
    pub metrics: Option<SocketAddr>,
    /// `--metrics-secure-bind-address`; `None` with `--metrics=false` too.
    pub secure_metrics: Option<SocketAddr>,
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--master`.
    pub master: Option<String>,
    /// `-v`.
    pub verbosity: u8,
    /// `--logging-format`.
    pub log_format: LogFormat,
}

/// How health checks are answered.
#[derive(Clone, Debug)]
pub struct LivezFlags {
    /// `--livez-bind-address`.
    pub address: SocketAddr,
    /// `--probe-bind-address`.
    pub probes: Option<SocketAddr>,
    /// `--livez-detail-networks`.
    pub detail: Vec<IpNet>,
    /// `--livez-health-check-node-ports`.
    pub health_check_node_ports: bool,
}

/// How the Node is described.
#[derive(Clone, Debug)]
pub struct ReportFlags {
    /// Where to learn about the machine.
    pub metadata: metadata::Options,
    /// `--cloud-config`.
    pub machines: Option<PathBuf>,
    /// `--node-status-update-frequency`.
    pub period: Duration,
}

impl Flags {
    /// Reads the values.
    ///
    /// # Errors
    /// [`FlagFaults`] with everything that is wrong.
    pub fn read(values: &Values) -> Result<Self, FlagFaults> {
        let mut reader = Reader::new(&TABLE, values);
        let clean_up = reader.bool("clean-up");
        let node_name = reader.text("node-name").unwrap_or_else(|| {
            if !clean_up {
                reader.other_fault(
                    "--node-name is missing; name the Node that this machine is, or set NODE_NAME \
                     (in a Pod: from spec.nodeName)",
                );
            }
            String::new()
        });
        let flags = Self {
            node_name,
            report: read_report(&mut reader),
            allow_unfenced: reader.bool("allow-unfenced"),
            announce: read_announce(&mut reader),
            clean_up,
            livez: read_livez(&mut reader),
            metrics: read_address(&mut reader, "metrics", "metrics-bind-address"),
            secure_metrics: read_address(&mut reader, "metrics", "metrics-secure-bind-address"),
            kubeconfig: reader.text("kubeconfig").map(Into::into),
            master: reader.text("master"),
            verbosity: reader.parsed("v", "write a whole number from 0 to 255"),
            log_format: reader.parsed("logging-format", "write text or json"),
        };
        if flags.livez.is_some() && flags.announce.is_none() {
            reader.other_fault(
                "--announce=false leaves health checks without what they answer from; write \
                 --livez=false too",
            );
        }
        reader.finish().map(|()| flags)
    }
}

/// The same as central's.
const SHORTEST_PERIOD: Duration = Duration::from_millis(50);

const SOURCES: &str = "write auto, file, linode, cloudscale, brightbox, cloud-init or dmi";

fn read_report(reader: &mut Reader<'_>) -> Option<ReportFlags> {
    let path = |reader: &Reader<'_>, name| reader.text(name).unwrap_or_default().into();
    let metadata = metadata::Options {
        choice: reader.parsed("metadata-source", SOURCES),
        endpoint: reader.parsed(
            "metadata-endpoint",
            "write http:// and an IP address, like http://169.254.169.254",
        ),
        linode_external: reader.optional(
            "linode-external-subnet",
            "write a block of addresses, like 172.24.0.0/16",
        ),
        paths: HostPaths {
            sys: path(reader, "host-sys"),
            etc: path(reader, "host-etc"),
            proc: path(reader, "host-proc"),
            run: path(reader, "host-run"),
        },
    };
    let flags = ReportFlags {
        metadata,
        machines: reader.text("cloud-config").map(Into::into),
        period: reader.duration_of_at_least("node-status-update-frequency", SHORTEST_PERIOD),
    };
    if flags.metadata.choice == SourceChoice::File && flags.machines.is_none() {
        reader.other_fault("--metadata-source=file needs --cloud-config, the machines file");
    }
    reader.bool("report").then_some(flags)
}

fn read_announce(reader: &mut Reader<'_>) -> Option<Settings> {
    let flags = Settings {
        namespace: reader.text("lease-namespace").unwrap_or_default(),
        lease_duration: reader.duration("lease-duration"),
        state_dir: reader.text("state-dir").unwrap_or_default().into(),
        heartbeat_port: reader.parsed("heartbeat-port", "write a port number, from 1 to 65535"),
        heartbeat_keys: reader.text("heartbeat-key-file").map(Into::into),
        allow_unsigned: reader.bool("allow-unsigned-heartbeats"),
        vlan: vlan::Options {
            mask: reader.parsed("return-path-mark-mask", "write adjacent bits, like 0xf0"),
            proc_sys_net: reader.text("host-proc-sys-net").unwrap_or_default().into(),
        },
        service_proxy: reader
            .optional(
                "service-proxy-healthz",
                "write an IP address with a port, like 127.0.0.1:10256",
            )
            .unwrap_or(KUBE_PROXY),
        health_check_node_ports: reader.bool("livez-health-check-node-ports"),
        read_through: reader.bool("livez-read-through"),
    };
    if flags.heartbeat_port == 0 {
        reader.other_fault("--heartbeat-port must be a port number from 1 to 65535");
    }
    let permitted = Duration::from_secs(1)..=Duration::from_secs(30);
    if !permitted.contains(&flags.lease_duration) {
        reader.other_fault(
            "--lease-duration must be from 1s to 30s: central takes a daemon for dead whose Lease was not renewed for 20s",
        );
    }
    reader.bool("announce").then_some(flags)
}

fn read_livez(reader: &mut Reader<'_>) -> Option<LivezFlags> {
    let mut detail = Vec::new();
    for network in reader.list("livez-detail-networks") {
        match network.parse() {
            Ok(network) => detail.push(network),
            Err(_) => {
                let remedy = "write networks like 10.0.0.0/8 or fd00::/8, separated by commas";
                reader.fault("livez-detail-networks", network, remedy);
            }
        }
    }
    let probes = reader.optional(
        "probe-bind-address",
        "write an address with a port, like 127.0.0.1:10269",
    );
    let address = read_address(reader, "livez", "livez-bind-address")?;
    Some(LivezFlags {
        address,
        probes,
        detail,
        health_check_node_ports: reader.bool("livez-health-check-node-ports"),
    })
}

fn read_address(reader: &mut Reader<'_>, switch: &str, name: &str) -> Option<SocketAddr> {
    let address = reader.optional(name, "write an address with a port, like [::]:10266");
    address.filter(|_| reader.bool(switch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooring_common::flags::Parsed;

    fn read(line: &str) -> Result<Flags, FlagFaults> {
        let arguments = line.split_whitespace().map(ToOwned::to_owned);
        match TABLE.parse(arguments, |_| None)? {
            Parsed::Run(values) => Flags::read(&values),
            Parsed::Print(text) => panic!("{text}"),
        }
    }

    #[test]
    fn node_name_and_kubeconfig_are_enough() {
        let flags = read("--node-name=n1 --kubeconfig=/k").unwrap();
        assert!(flags.report.is_some() && flags.announce.is_some());
        assert_eq!(flags.livez.unwrap().address.port(), 10266);
        let quiet = read("--node-name=n1 --livez=false --announce=false --metrics=false").unwrap();
        assert!(quiet.livez.is_none() && quiet.announce.is_none() && quiet.metrics.is_none());
        assert!(flags.secure_metrics.is_none(), "nobody has asked for it");
        let secure = "--node-name=n1 --metrics-secure-bind-address=[::]:10270";
        assert_eq!(read(secure).unwrap().secure_metrics.unwrap().port(), 10270);
        let off = read(&format!("{secure} --metrics=false")).unwrap();
        assert!(off.secure_metrics.is_none());
    }

    #[test]
    fn searches_metadata_source_unless_named() {
        let metadata = |line: &str| {
            let line = format!("--node-name=n1 --kubeconfig=/k {line}");
            read(&line).unwrap().report.unwrap().metadata
        };
        assert_eq!(metadata(""), metadata::Options::default());
        let named = metadata(
            "--metadata-source=linode --metadata-endpoint=http://[fd00:a9fe:a9fe::1] \
             --linode-external-subnet=172.24.0.0/16 --host-run=/host/run",
        );
        assert_eq!(named.choice.as_str(), "linode");
        assert_eq!(named.endpoint.to_string(), "http://[fd00:a9fe:a9fe::1]");
        assert_eq!(
            named.linode_external,
            Some("172.24.0.0/16".parse().unwrap())
        );
        assert_eq!(named.paths.run, std::path::Path::new("/host/run"));
    }

    #[test]
    fn reports_all_faults_at_once() {
        let error = read(
            "--livez-bind-address=here --lease-duration=1ms --metadata-source=guess \
             --node-status-update-frequency=often --v=loud --metadata-endpoint=metadata \
             --linode-external-subnet=all --service-proxy-healthz=there \
             --livez-detail-networks=all,10.0.0.0/8 --probe-bind-address=10269",
        )
        .unwrap_err();
        assert_eq!(error.faults.len(), 11, "{error}");
        for (duration, faults) in [("30s", 0), ("31s", 1)] {
            let flags = format!("--node-name=n1 --lease-duration={duration}");
            let found = read(&flags).map_or_else(|e| e.faults.len(), |_| 0);
            assert_eq!(found, faults, "{duration}");
        }
        // Else it would look at the machine without a pause.
        let short = "--node-name=n1 --node-status-update-frequency=";
        for (period, faults) in [("0", 1), ("49ms", 1), ("50ms", 0)] {
            let found = read(&format!("{short}{period}")).map_or_else(|e| e.faults.len(), |_| 0);
            assert_eq!(found, faults, "{period}");
        }
    }
}
