//! The command line of a command, read.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use mooring_common::flags::{FlagFaults, Reader, Values};
use mooring_common::k8s::{ClientOptions, ObjectKey};

use super::commands::{Command, Program};

/// How it is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Output {
    #[default]
    Text,
    Wide,
    Json,
    Yaml,
}

impl FromStr for Output {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "text" => Ok(Self::Text),
            "wide" => Ok(Self::Wide),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            _ => Err(()),
        }
    }
}

/// What is examined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Target {
    #[default]
    All,
    Node(String),
    Service(ObjectKey),
    Address(IpAddr),
}

/// Where is looked.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// Where Mooring runs.
    pub(super) system: String,
    /// The only namespace whose Services are read; absent: all.
    pub(super) namespace: Option<String>,
}

/// Which Services are planned for.
#[derive(Clone, Debug, Default)]
pub(super) struct Chosen {
    pub(super) filename: Option<PathBuf>,
    pub(super) named: Vec<ObjectKey>,
    pub(super) all: bool,
    /// The namespace of what says none, and the only one; absent: `default`, and all.
    pub(super) namespace: Option<String>,
}

/// A command line, read.
#[derive(Clone, Debug)]
pub(super) struct InspectFlags {
    pub(super) client: ClientOptions,
    pub(super) scope: Scope,
    pub(super) output: Output,
    /// Of `doctor`.
    pub(super) target: Option<Target>,
    /// Of `drain-check`.
    pub(super) node: String,
    /// Of `support-bundle`.
    pub(super) file: Option<PathBuf>,
    /// Of `plan`.
    pub(super) chosen: Chosen,
}

/// `-f`, `-o` and `-n` as the flags that they are short for.
pub(super) fn long_names(arguments: Vec<String>) -> Vec<String> {
    let long = |argument: String| match argument.as_str() {
        "-f" => "--filename".to_owned(),
        "-o" => "--output".to_owned(),
        "-n" => "--namespace".to_owned(),
        short => match short.strip_prefix("-o") {
            Some(value) => format!("--output={}", value.trim_start_matches('=')),
            None => argument,
        },
    };
    arguments.into_iter().map(long).collect()
}

impl InspectFlags {
    pub(super) fn read(
        program: Program,
        command: Command,
        values: &Values,
    ) -> Result<Self, FlagFaults> {
        let table = command.table(program);
        let mut reader = Reader::new(&table, values);
        let output = match command {
            Command::SupportBundle => Output::Text,
            _ => reader.parsed("output", "write text, wide, json or yaml"),
        };
        let operands = reader.operands().to_vec();
        let mut flags = Self {
            client: ClientOptions {
                kubeconfig: reader.text("kubeconfig").map(Into::into),
                context: reader.text("context"),
                master: reader.text("master"),
                user_agent: "kubectl-mooring".to_owned(),
                ..ClientOptions::default()
            },
            scope: Scope {
                system: reader.text("mooring-namespace").unwrap_or_default(),
                namespace: reader.text("namespace"),
            },
            output,
            target: None,
            node: String::new(),
            file: None,
            chosen: Chosen::default(),
        };
        match command {
            Command::Doctor => match target(&operands, flags.scope.namespace.as_deref()) {
                Ok(target) => flags.target = Some(target),
                Err(fault) => reader.other_fault(fault),
            },
            Command::DrainCheck => match operands.as_slice() {
                [node] => flags.node = node.trim_start_matches("node/").to_owned(),
                _ => reader.other_fault("write the name of one Node"),
            },
            Command::SupportBundle => match operands.as_slice() {
                [] => {}
                [file] => flags.file = Some(file.into()),
                _ => reader.other_fault("write the name of one file, or none"),
            },
            Command::Plan => {
                // A plan takes all Services: they are read, whatever is shown.
                let namespace = flags.scope.namespace.take();
                let mut named = Vec::new();
                for operand in &operands {
                    match key(operand, namespace.as_deref()) {
                        Ok(key) => named.push(key),
                        Err(fault) => reader.other_fault(fault),
                    }
                }
                flags.chosen = Chosen {
                    filename: reader.text("filename").map(Into::into),
                    named,
                    all: reader.bool("all"),
                    namespace,
                };
                let Chosen { filename, all, .. } = &flags.chosen;
                let ways = [filename.is_some(), *all, !operands.is_empty()];
                if ways.iter().filter(|way| **way).count() != 1 {
                    reader.other_fault(
                        "write which Services: NAMESPACE/NAME, one or several, or -f FILE, or --all",
                    );
                }
            }
            Command::Status | Command::Completion => {}
        }
        reader.finish()?;
        Ok(flags)
    }
}

/// `NAMESPACE/NAME`, or `NAME` in the namespace of `--namespace`.
fn key(operand: &str, namespace: Option<&str>) -> Result<ObjectKey, String> {
    match (operand.split_once('/'), namespace) {
        (Some((own, _)), Some(only)) if own != only => Err(format!(
            "{operand} is not in the namespace {only} of --namespace; leave one of both out"
        )),
        (Some((own, name)), _) => Ok(ObjectKey::new(own, name)),
        (None, namespace) => Ok(ObjectKey::new(namespace.unwrap_or("default"), operand)),
    }
}

/// `node NAME`, `node/NAME`, and so on.
fn target(operands: &[String], namespace: Option<&str>) -> Result<Target, String> {
    let line = operands.join("/");
    let (kind, name) = line.split_once('/').unwrap_or((&line, ""));
    match (kind, name) {
        ("" | "all", "") => Ok(Target::All),
        ("node" | "nodes" | "no", name) if !name.is_empty() && !name.contains('/') => {
            Ok(Target::Node(name.to_owned()))
        }
        ("service" | "services" | "svc", name)
            if !name.is_empty() && name.matches('/').count() < 2 =>
        {
            key(name, namespace).map(Target::Service)
        }
        ("address", name) => name
            .parse()
            .map(Target::Address)
            .map_err(|_| format!("address {name:?} is no IP address; write one like 192.0.2.10")),
        _ => Err(format!(
            "{:?} is nothing to examine; write node NAME, service NAMESPACE/NAME, address IP, or all",
            operands.join(" ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooring_common::flags::Parsed;

    fn read(command: Command, line: &str) -> Result<InspectFlags, FlagFaults> {
        let arguments = line.split_whitespace().map(ToOwned::to_owned).collect();
        let table = command.table(Program::Plugin);
        match table.parse(long_names(arguments), |_| None)? {
            Parsed::Run(values) => InspectFlags::read(Program::Plugin, command, &values),
            Parsed::Print(text) => panic!("{text}"),
        }
    }

    #[test]
    fn reads_target_in_either_form() {
        let web = Target::Service(ObjectKey::new("shop", "web"));
        for (line, expected) in [
            ("", Target::All),
            ("all", Target::All),
            ("node n1", Target::Node("n1".to_owned())),
            ("node/n1", Target::Node("n1".to_owned())),
            ("service shop/web", web.clone()),
            ("svc/shop/web", web),
            (
                "service web",
                Target::Service(ObjectKey::new("default", "web")),
            ),
            (
                "service web -n shop",
                Target::Service(ObjectKey::new("shop", "web")),
            ),
            ("address 192.0.2.1", Target::Address([192, 0, 2, 1].into())),
        ] {
            let flags = read(Command::Doctor, line).unwrap();
            assert_eq!(flags.target, Some(expected), "{line}");
        }
        for wrong in [
            "node",
            "pod x",
            "address x",
            "service a/b/c",
            "service shop/web -n other",
        ] {
            assert!(read(Command::Doctor, wrong).is_err(), "{wrong}");
        }
    }

    /// It does not narrow what is read: other Services have addresses too.
    #[test]
    fn plan_has_the_namespace_for_what_says_none() {
        let flags = read(Command::Plan, "web shop/api -n shop").unwrap();
        let expected = ["web", "api"].map(|name| ObjectKey::new("shop", name));
        assert_eq!(flags.chosen.named, expected);
        assert_eq!(flags.chosen.namespace.as_deref(), Some("shop"));
        assert_eq!(flags.scope.namespace, None);
        let flags = read(Command::Plan, "web").unwrap();
        assert_eq!(flags.chosen.named, [ObjectKey::new("default", "web")]);
        let told = read(Command::Plan, "other/web -n shop").unwrap_err();
        let expected = "other/web is not in the namespace shop of --namespace";
        assert_eq!(told.faults.len(), 1, "{told}");
        assert!(told.to_string().contains(expected), "{told}");
        let flags = read(Command::Status, "-n shop").unwrap();
        assert_eq!(flags.scope.namespace.as_deref(), Some("shop"));
    }

    #[test]
    fn reports_all_faults_at_once() {
        let told = read(Command::DrainCheck, "a b -o table").unwrap_err();
        assert_eq!(told.faults.len(), 2, "{told}");
        let told = read(Command::Plan, "--all web -ojson").unwrap_err();
        assert!(told.to_string().contains("which Services"), "{told}");
    }
}
