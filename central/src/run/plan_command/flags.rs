//! The command line of `mooring-central plan`.

use std::path::PathBuf;
use std::sync::LazyLock;

use mooring_common::flags::Kind::{Bool, Text};
use mooring_common::flags::{Action, Flag, FlagFaults, FlagTable, Kind, Reader, Values};

use crate::flags::{Flags, ProcessEnv, TABLE};

/// What is to be planned, and for whom.
#[derive(Clone, Debug)]
pub(super) struct PlanFlags {
    /// What the controller itself is started with.
    pub(super) common: Flags,
    /// `--filename`; `-` is standard input.
    pub(super) filename: Option<PathBuf>,
    /// Namespace and name of each Service that is named.
    pub(super) named: Vec<(String, String)>,
    /// `--all`.
    pub(super) all: bool,
    /// `--output=json`.
    pub(super) as_json: bool,
}

const fn own(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Flag {
    Flag {
        name,
        kind,
        default,
        action: Action::Act,
        group: "Plan",
        help,
        env: None,
    }
}

const OWN: [Flag; 3] = [
    own(
        "filename",
        Text,
        "",
        "A manifest with the Services as they would be (-f for short, - for standard input). They \
         need not be in the cluster yet. Nothing is applied.",
    ),
    own(
        "all",
        Bool,
        "false",
        "All Services of the cluster that are served here.",
    ),
    own("output", Text, "table", "table, or json (-o for short)."),
];

/// The plan's own flags, and all of the controller's: who has its command line can write `plan` in
/// front of it.
pub(super) fn table() -> FlagTable {
    static FLAGS: LazyLock<Vec<Flag>> =
        LazyLock::new(|| OWN.iter().chain(TABLE.flags).copied().collect());
    FlagTable {
        program: "mooring-central plan",
        about: "Prints what would be done for Services of type LoadBalancer, in the cloud or with \
                addresses of L2Networks, step by step, with what their users would notice: none, brief (a few connection attempts \
                may fail), considerable (connections break) or major (the service is gone, or \
                changes its address). Changes nothing. Name Services as NAMESPACE/NAME (or NAME, \
                in the namespace default), or give -f or --all.",
        flags: &FLAGS,
        operand: "NAMESPACE/NAME",
    }
}

/// `-f` and `-o` as the flags that they are short for.
pub(super) fn long_names(arguments: Vec<String>) -> Vec<String> {
    let long = |argument: String| match argument.as_str() {
        "-f" => "--filename".to_owned(),
        "-o" => "--output".to_owned(),
        short => match short.strip_prefix("-o") {
            Some(value) => format!("--output={}", value.trim_start_matches('=')),
            None => argument,
        },
    };
    arguments.into_iter().map(long).collect()
}

impl PlanFlags {
    pub(super) fn read(values: &Values, env: ProcessEnv<'_>) -> Result<Self, FlagFaults> {
        let table = table();
        let mut reader = Reader::new(&table, values);
        let filename: Option<PathBuf> = reader.text("filename").map(Into::into);
        let all = reader.bool("all");
        let output = reader.text("output").unwrap_or_default();
        if output != "table" && output != "json" {
            reader.fault("output", &output, "write table or json");
        }
        let named: Vec<(String, String)> = reader.operands().iter().map(|o| key(o)).collect();
        let ways = [filename.is_some(), all, !named.is_empty()];
        if ways.iter().filter(|way| **way).count() != 1 {
            reader.other_fault(
                "write which Services: NAMESPACE/NAME, one or several, or -f FILE, or --all",
            );
        }
        let common = Flags::read(values, env);
        match (reader.finish(), common) {
            (Ok(()), Ok(common)) => Ok(Self {
                common,
                filename,
                named,
                all,
                as_json: output == "json",
            }),
            (own, common) => Err(FlagFaults {
                faults: [own.err(), common.err()]
                    .into_iter()
                    .flatten()
                    .flat_map(|faults| faults.faults)
                    .collect(),
            }),
        }
    }
}

fn key(operand: &str) -> (String, String) {
    let (namespace, name) = operand.split_once('/').unwrap_or(("default", operand));
    (namespace.to_owned(), name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooring_common::flags::Parsed;

    fn read(line: &str) -> Result<PlanFlags, FlagFaults> {
        let arguments = line.split(' ').map(ToOwned::to_owned).collect();
        match table().parse(long_names(arguments), |_| None)? {
            Parsed::Run(values) => {
                let (program, env) = ("mooring-central", &|_: &str| None);
                PlanFlags::read(&values, ProcessEnv { program, env })
            }
            Parsed::Print(text) => panic!("{text}"),
        }
    }

    #[test]
    fn names_services_uniformly() {
        let cloud = "--cloud-provider=cloudscale";
        let flags = read(&format!("web shop/api {cloud} -o json")).unwrap();
        let named = flags
            .named
            .iter()
            .map(|(ns, name)| (ns.as_str(), name.as_str()));
        assert!(named.eq([("default", "web"), ("shop", "api")]) && flags.as_json);
        assert!(
            read(&format!("-f web.yaml {cloud}"))
                .unwrap()
                .filename
                .is_some()
        );
        assert!(read(&format!("--all {cloud} -ojson")).unwrap().all);
        for wrong in ["--v=2", "--all web", "-f x web"] {
            let told = read(&format!("{wrong} {cloud}")).unwrap_err().to_string();
            assert!(told.contains("which Services"), "{wrong}: {told}");
        }
    }

    #[test]
    fn reports_all_faults_at_once() {
        let told = read("web -o yaml --cloud-provider=nobody").unwrap_err();
        assert_eq!(told.faults.len(), 2, "{told}");
    }
}
