//! What the command line asks of `mooring-node control-plane`.

use std::net::SocketAddr;
use std::path::PathBuf;

use mooring_common::flags::Action::Act;
use mooring_common::flags::Kind::{Bool, Integer, Text};
use mooring_common::flags::{Flag, FlagFaults, FlagTable, Reader, Values, flag};
use mooring_common::telemetry::LogFormat;

/// Every flag of `mooring-node control-plane`.
pub const TABLE: FlagTable = FlagTable {
    program: "mooring-node control-plane",
    about: "Announces the address of the control plane from a node whose API server is ready, by a file: no API \
            server is needed. It runs as a static Pod on each control-plane node.",
    flags: FLAGS,
    operand: "",
};

const NODE: &str = "This node";
const SERVING: &str = "Serving";
const LOGGING: &str = "Logging";

/// One flag a line: a table to be read.
#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    Flag { env: Some("NODE_NAME"), ..flag(NODE, "node-name", Text, "", Act, "The name of this node, as the file has it among members.") },
    flag(NODE, "file", Text, "/etc/mooring/control-plane.yaml", Act, "The control plane file."),
    flag(NODE, "state-dir", Text, "/var/lib/mooring/control-plane", Act, "The directory with what this node remembers of who votes. It must survive a reboot."),
    flag(NODE, "status-dir", Text, "/run/mooring", Act, "The directory where this node's state is written, for the daemon of the DaemonSet: its --state-dir."),
    flag(NODE, "host-proc-sys-net", Text, "/proc/sys/net", Act, "Where the host's /proc/sys/net is mounted, writable, to set arp_ignore of the interface."),
    flag(SERVING, "metrics-bind-address", Text, "127.0.0.1:10272", Act, "Where /metrics is served, by HTTP."),
    flag(SERVING, "metrics", Bool, "true", Act, "Serve metrics."),
    flag(LOGGING, "v", Integer, "2", Act, "How much is logged: up to 3 changes, from 4 decisions, from 6 everything."),
    flag(LOGGING, "logging-format", Text, "text", Act, "text or json."),
];

/// The command line, read whole.
#[derive(Clone, Debug)]
pub struct Flags {
    /// `--node-name`.
    pub node_name: String,
    /// `--file`.
    pub file: PathBuf,
    /// `--state-dir`.
    pub state_dir: PathBuf,
    /// `--status-dir`.
    pub status_dir: PathBuf,
    /// `--host-proc-sys-net`.
    pub proc_sys_net: PathBuf,
    /// `--metrics-bind-address`; `None` with `--metrics=false`.
    pub metrics: Option<SocketAddr>,
    /// `-v`.
    pub verbosity: u8,
    /// `--logging-format`.
    pub log_format: LogFormat,
}

impl Flags {
    /// Reads the values.
    ///
    /// # Errors
    /// [`FlagFaults`] with everything that is wrong.
    pub fn read(values: &Values) -> Result<Self, FlagFaults> {
        let mut reader = Reader::new(&TABLE, values);
        let node_name = reader.text("node-name").unwrap_or_else(|| {
            reader.other_fault(
                "--node-name is missing; name this node as the control plane file does, or set NODE_NAME \
                 (in a Pod: from spec.nodeName)",
            );
            String::new()
        });
        let metrics = reader.optional(
            "metrics-bind-address",
            "write an address with a port, like 127.0.0.1:10272",
        );
        let flags = Self {
            node_name,
            file: reader.text("file").unwrap_or_default().into(),
            state_dir: reader.text("state-dir").unwrap_or_default().into(),
            status_dir: reader.text("status-dir").unwrap_or_default().into(),
            proc_sys_net: reader.text("host-proc-sys-net").unwrap_or_default().into(),
            metrics: metrics.filter(|_| reader.bool("metrics")),
            verbosity: reader.parsed("v", "write a whole number from 0 to 255"),
            log_format: reader.parsed("logging-format", "write text or json"),
        };
        reader.finish().map(|()| flags)
    }
}

#[cfg(test)]
mod tests {
    use mooring_common::flags::Parsed;

    use super::*;

    fn read(line: &str) -> Result<Flags, FlagFaults> {
        let arguments = line.split_whitespace().map(ToOwned::to_owned);
        match TABLE.parse(arguments, |_| None)? {
            Parsed::Run(values) => Flags::read(&values),
            Parsed::Print(text) => panic!("{text}"),
        }
    }

    #[test]
    fn node_name_is_enough() {
        let flags = read("--node-name=cp1").unwrap();
        assert_eq!(
            flags.file,
            std::path::Path::new("/etc/mooring/control-plane.yaml")
        );
        assert_eq!(flags.metrics.unwrap().port(), 10272);
        let quiet = read("--node-name=cp1 --metrics=false").unwrap();
        assert!(quiet.metrics.is_none());
        assert_eq!(read("--v=loud").unwrap_err().faults.len(), 2);
    }
}
