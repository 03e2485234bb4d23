//! The commands and their flags: one table for parser, help, reference page and shell completion.

use std::fmt::Write as _;

use mooring_common::flags::Action::Act;
use mooring_common::flags::Kind::{Bool, Text};
use mooring_common::flags::{Flag, FlagTable, flag};
use mooring_common::names::NAMESPACE;

/// Which program has been started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// `kubectl mooring`.
    Plugin,
    /// `mooring-central`.
    Central,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Status,
    Doctor,
    Plan,
    DrainCheck,
    SupportBundle,
    Completion,
}

const KUBECONFIG: Flag = flag(
    "Cluster",
    "kubeconfig",
    Text,
    "",
    Act,
    "The kubeconfig of the cluster. Absent: KUBECONFIG, or ~/.kube/config, or that of the Pod.",
);
const CONTEXT: Flag = flag(
    "Cluster",
    "context",
    Text,
    "",
    Act,
    "The context of the kubeconfig. Absent: its current one.",
);
const MASTER: Flag = flag(
    "Cluster",
    "master",
    Text,
    "",
    Act,
    "The address of the API server; it overrides that of the kubeconfig.",
);
const SYSTEM: Flag = flag(
    "Cluster",
    "mooring-namespace",
    Text,
    NAMESPACE,
    Act,
    "The namespace that Mooring runs in.",
);
const ONLY: Flag = flag(
    "Cluster",
    "namespace",
    Text,
    "",
    Act,
    "Reads only the Services of this namespace (-n for short), for users who may not read all.",
);
const PLANNED: Flag = flag(
    "Cluster",
    "namespace",
    Text,
    "",
    Act,
    "The namespace of the Services to plan for (-n for short): of names and of a manifest that say none, and with \
     --all only those in it are shown. Absent: default, and with --all every namespace. All Services are read all \
     the same, since addresses are given out among them.",
);
const OUTPUT: Flag = flag(
    "Output",
    "output",
    Text,
    "text",
    Act,
    "text, wide, json or yaml (-o for short). Text has colours on a terminal, unless NO_COLOR is set.",
);
const FILENAME: Flag = flag(
    "Plan",
    "filename",
    Text,
    "",
    Act,
    "A manifest with the Services as they would be (-f for short, - for standard input). Nothing is applied.",
);
const ALL: Flag = flag(
    "Plan",
    "all",
    Bool,
    "false",
    Act,
    "All Services that Mooring serves.",
);

const READING: &[Flag] = &[KUBECONFIG, CONTEXT, MASTER, SYSTEM, ONLY, OUTPUT];
const PLANNING: &[Flag] = &[
    KUBECONFIG, CONTEXT, MASTER, SYSTEM, PLANNED, OUTPUT, FILENAME, ALL,
];
const BUNDLING: &[Flag] = &[KUBECONFIG, CONTEXT, MASTER, SYSTEM, ONLY];

/// All of them, in the order of the help.
pub(super) const COMMANDS: [Command; 6] = [
    Command::Status,
    Command::Doctor,
    Command::Plan,
    Command::DrainCheck,
    Command::SupportBundle,
    Command::Completion,
];

const ABOUT: &str = "Shows what Mooring does in a cluster, and why something does not work. It reads with your own \
                     rights, says which are missing, and changes nothing.";

impl Command {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Doctor => "doctor",
            Self::Plan => "plan",
            Self::DrainCheck => "drain-check",
            Self::SupportBundle => "support-bundle",
            Self::Completion => "completion",
        }
    }

    /// Its flags and what it is for, for this program.
    pub(super) const fn table(self, program: Program) -> FlagTable {
        let (plugin, central, about, flags, operand) = self.row();
        FlagTable {
            program: match program {
                Program::Plugin => plugin,
                Program::Central => central,
            },
            about,
            flags,
            operand,
        }
    }

    const fn row(
        self,
    ) -> (
        &'static str,
        &'static str,
        &'static str,
        &'static [Flag],
        &'static str,
    ) {
        match self {
            Self::Status => (
                "kubectl mooring status",
                "mooring-central status",
                "Shows the leader, clouds, Nodes, Services with their addresses, who speaks for each since when, \
                 L2Networks, the last Warning about each, and versions.",
                READING,
                "",
            ),
            Self::Doctor => (
                "kubectl mooring doctor",
                "mooring-central doctor",
                "Finds out why a Node is tainted, why a Service has no address, or why an address does not answer \
                 from here. Each finding has its evidence and its remedy. Name what to examine: node NAME, service \
                 NAMESPACE/NAME, address IP, or all, which is the default. Of a Service and of an address it tries \
                 the TCP ports. Exit code 1: something is wrong.",
                READING,
                "TARGET",
            ),
            Self::Plan => (
                "kubectl mooring plan",
                "mooring-central plan",
                "Prints which address each Service of L2Networks would get, or why it would get none, as central \
                 decides it. For load balancers of clouds it names the command that has the cloud's credentials. \
                 Name Services as NAMESPACE/NAME (or NAME, in the namespace of -n, else default), or give -f or --all. Exit code \
                 1: a Service is refused.",
                PLANNING,
                "NAMESPACE/NAME",
            ),
            Self::DrainCheck => (
                "kubectl mooring drain-check",
                "mooring-central drain-check",
                "Shows what happens to addresses when a Node is drained and its machine stops: what it speaks for and \
                 who takes over, Services whose only endpoints are there, and whether the voters keep their \
                 majority. Exit code 1: something would be interrupted.",
                READING,
                "NODE",
            ),
            Self::SupportBundle => (
                "kubectl mooring support-bundle",
                "mooring-central support-bundle",
                "Writes an archive (.tar.gz) with Mooring's objects, Events, logs, versions, the status and the \
                 findings of the doctor. No Secret is read, and values that look like credentials are redacted. \
                 Without a name it is mooring-support-TIME.tar.gz in this folder.",
                BUNDLING,
                "FILE",
            ),
            Self::Completion => (
                "kubectl mooring completion",
                "mooring-central completion",
                "Prints a script that completes command lines in bash, zsh, fish or powershell; kubectl prints what \
                 completes `kubectl mooring`, to be installed as kubectl_complete-mooring.",
                &[],
                "SHELL",
            ),
        }
    }
}

/// The command of this name.
pub(super) fn command_named(name: &str) -> Option<Command> {
    COMMANDS.into_iter().find(|command| command.name() == name)
}

/// The help of the plugin as a whole.
pub(super) fn overview() -> String {
    let mut text = format!("{ABOUT}\n\nUsage: kubectl mooring COMMAND\n\nCommands:\n");
    for command in COMMANDS {
        let about = command.table(Program::Plugin).about;
        let first = about.split_once(". ").map_or(about, |(first, _)| first);
        let first = first.trim_end_matches('.');
        let _ = writeln!(text, "  {:15} {first}", command.name());
    }
    text.push_str("\nkubectl mooring COMMAND --help shows the flags of a command.");
    text
}

/// The version of the plugin.
pub(super) fn version() -> String {
    format!("kubectl-mooring {}", env!("CARGO_PKG_VERSION"))
}

/// That there is no such command.
pub(super) fn unknown(name: &str) -> String {
    let names: Vec<&str> = COMMANDS.iter().map(|command| command.name()).collect();
    format!(
        "kubectl mooring has no command {name:?}; it has {}",
        names.join(", ")
    )
}

/// The reference page of the plugin.
#[must_use]
pub fn reference() -> String {
    let mut page = format!("# `kubectl mooring`\n\n{ABOUT}\n\n");
    page.push_str(
        "`mooring-central` has the same commands, and a `plan` with clouds: [its \
         flags](flags-mooring-central.md). [How to use them](../how-to/kubectl-mooring.md).\n",
    );
    for command in COMMANDS {
        let FlagTable {
            program,
            about,
            flags,
            operand,
        } = command.table(Program::Plugin);
        let operand = match operand {
            "" => String::new(),
            operand => format!(" {operand}"),
        };
        let _ = write!(page, "\n## `{program}{operand}`\n\n{about}\n");
        if flags.is_empty() {
            continue;
        }
        page.push_str("\n| Flag | Default | |\n|---|---|---|\n");
        for flag in flags {
            let default = match flag.default {
                "" => String::new(),
                default => format!("`{default}`"),
            };
            let _ = writeln!(page, "| `--{}` | {default} | {} |", flag.name, flag.help);
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overview_names_every_command() {
        let text = overview();
        for command in COMMANDS {
            assert!(text.contains(command.name()), "{text}");
        }
    }

    #[test]
    fn other_commands_are_answered_with_those_that_there_are() {
        assert_eq!(
            unknown("stat"),
            "kubectl mooring has no command \"stat\"; it has status, doctor, plan, drain-check, \
             support-bundle, completion"
        );
        let expected = format!("kubectl-mooring {}", env!("CARGO_PKG_VERSION"));
        assert_eq!(version(), expected);
    }
}
