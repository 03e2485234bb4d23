//! The command line of `mooring-central import`.

use std::path::PathBuf;

use mooring_common::flags::Kind::{List, Text};
use mooring_common::flags::{Action, Flag, FlagFaults, FlagTable, Kind, Reader, Values};
use mooring_common::k8s::ClientOptions;

use super::subnets::{self, KnownSubnet};

/// Whose configuration is imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    MetalLb,
    KubeVip,
}

/// What is imported, and from where.
#[derive(Clone, Debug)]
pub(super) struct ImportFlags {
    pub(super) source: Source,
    pub(super) client: ClientOptions,
    /// `--filename`; `-` is standard input.
    pub(super) filename: Option<PathBuf>,
    pub(super) subnets: Vec<KnownSubnet>,
}

const fn own(name: &'static str, kind: Kind, help: &'static str) -> Flag {
    Flag {
        name,
        kind,
        default: "",
        action: Action::Act,
        group: "Import",
        help,
        env: None,
    }
}

const FLAGS: [Flag; 4] = [
    own(
        "subnet",
        List,
        "A subnet of the segment as CIDR or CIDR,GATEWAY; repeat it for each. What is not named is guessed from \
         the addresses of Nodes, and the guess is printed.",
    ),
    own(
        "filename",
        Text,
        "Reads the objects from this file (-f for short, - for standard input), as kubectl get -o yaml prints \
         them, and asks no cluster.",
    ),
    own(
        "kubeconfig",
        Text,
        "The kubeconfig of the cluster. Absent: KUBECONFIG, or that of the Pod.",
    ),
    own(
        "master",
        Text,
        "The address of the API server; it overrides that of the kubeconfig.",
    ),
];

pub(super) const TABLE: FlagTable = FlagTable {
    program: "mooring-central import",
    about: "Prints the L2Networks that say what MetalLB's or kube-vip's configuration says, as YAML. On standard \
            error: what no L2Network says, what was assumed, and each Service with its address now and \
            afterwards. It only reads. Exit codes: 0 all is said; 1 the cluster or file cannot be read; 2 the \
            command line cannot be read; 3 something cannot be said.",
    flags: &FLAGS,
    operand: "metallb|kube-vip",
};

/// `-f` as the flag that it is short for.
pub(super) fn long_names(arguments: Vec<String>) -> Vec<String> {
    let long = |argument: String| match argument.as_str() {
        "-f" => "--filename".to_owned(),
        _ => argument,
    };
    arguments.into_iter().map(long).collect()
}

impl ImportFlags {
    pub(super) fn read(values: &Values) -> Result<Self, FlagFaults> {
        let mut reader = Reader::new(&TABLE, values);
        let source = match reader.operands() {
            [one] if one == "metallb" => Some(Source::MetalLb),
            [one] if one == "kube-vip" => Some(Source::KubeVip),
            _ => None,
        };
        if source.is_none() {
            reader.other_fault("write whose configuration to import: metallb or kube-vip");
        }
        let subnets = subnets::read(&reader.list("subnet")).unwrap_or_else(|fault| {
            reader.other_fault(format!("--subnet: {fault}"));
            Vec::new()
        });
        let client = ClientOptions {
            kubeconfig: reader.text("kubeconfig").map(Into::into),
            master: reader.text("master"),
            user_agent: "mooring-import".to_owned(),
            ..ClientOptions::default()
        };
        let filename = reader.text("filename").map(Into::into);
        reader.finish()?;
        Ok(Self {
            // A line without one is a fault, told above.
            source: source.unwrap_or(Source::MetalLb),
            client,
            filename,
            subnets,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooring_common::flags::Parsed;

    fn read(line: &str) -> Result<ImportFlags, FlagFaults> {
        let arguments = line.split(' ').map(ToOwned::to_owned).collect();
        match TABLE.parse(long_names(arguments), |_| None)? {
            Parsed::Run(values) => ImportFlags::read(&values),
            Parsed::Print(text) => panic!("{text}"),
        }
    }

    #[test]
    fn reads_source_subnets_and_file() {
        let line = "metallb --subnet 192.0.2.0/24,192.0.2.1 --subnet=2001:db8::/64 -f -";
        let flags = read(line).unwrap();
        assert_eq!(flags.source, Source::MetalLb);
        let gateways: Vec<_> = flags
            .subnets
            .iter()
            .map(|subnet| subnet.gateway.is_some())
            .collect();
        assert_eq!(gateways, [true, false]);
        assert_eq!(flags.filename, Some(PathBuf::from("-")));
        assert_eq!(read("kube-vip").unwrap().source, Source::KubeVip);
    }

    #[test]
    fn reports_all_faults_at_once() {
        let told = read("cilium --subnet=192.0.2.1").unwrap_err();
        assert_eq!(told.faults.len(), 2, "{told}");
        assert!(read("metallb kube-vip").is_err());
    }
}
