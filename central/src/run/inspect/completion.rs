//! Shell completion, from the table of commands.

use std::process::ExitCode;

use clap_complete::{Shell, generate};
use mooring_common::program::{self, Threads};
use mooring_common::telemetry::LogFormat;

use super::commands::{COMMANDS, Command, Program, command_named};

/// The name by which kubectl asks what completes `kubectl mooring`.
const FOR_KUBECTL: &str = "kubectl_complete-mooring";
/// What kubectl reads after the candidates: no file names.
const NO_FILES: &str = ":4";
/// For `doctor`.
const TARGETS: [&str; 4] = ["all", "node", "service", "address"];
/// For `completion`.
const SHELLS: [&str; 5] = ["bash", "zsh", "fish", "powershell", "kubectl"];

/// What is printed for a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    Shell(Shell),
    Kubectl,
}

/// The command `completion`.
pub(super) fn main(program: Program, arguments: Vec<String>) -> ExitCode {
    program::main(
        &Command::Completion.table(program),
        arguments,
        |values| {
            let table = Command::Completion.table(program);
            let mut reader = mooring_common::flags::Reader::new(&table, values);
            let script = match reader.operands() {
                [one] => script_named(one),
                _ => None,
            };
            if script.is_none() {
                reader.other_fault(format!("write for which shell: {}", SHELLS.join(", ")));
            }
            reader.finish()?;
            // A line without one is a fault, told above.
            Ok(script.unwrap_or(Script::Kubectl))
        },
        |_| (0, LogFormat::Text),
        Threads::One,
        |script| async move {
            let text = text(program, script);
            super::print_line(&text).map_err(|error| format!("{error:#}"))
        },
    )
}

fn script_named(name: &str) -> Option<Script> {
    Some(match name {
        "bash" => Script::Shell(Shell::Bash),
        "zsh" => Script::Shell(Shell::Zsh),
        "fish" => Script::Shell(Shell::Fish),
        "powershell" => Script::Shell(Shell::PowerShell),
        "kubectl" => Script::Kubectl,
        _ => return None,
    })
}

fn text(program: Program, script: Script) -> String {
    let Script::Shell(shell) = script else {
        return format!("#!/usr/bin/env bash\nexec -a {FOR_KUBECTL} kubectl-mooring \"$@\"\n");
    };
    let name = match program {
        Program::Plugin => "kubectl-mooring",
        Program::Central => "mooring-central",
    };
    let mut all = clap::Command::new(name).version(env!("CARGO_PKG_VERSION"));
    for command in COMMANDS {
        let table = command.table(program);
        all = all.subcommand(table.command().name(command.name()));
    }
    let mut written = Vec::new();
    generate(shell, &mut all, name, &mut written);
    String::from_utf8_lossy(&written).into_owned()
}

/// Whether kubectl has started this program to ask what completes a line.
pub(super) fn answers_kubectl(program: &str) -> bool {
    program.rsplit('/').next() == Some(FOR_KUBECTL)
}

/// What could stand at the end of these arguments, a line each, and the directive that kubectl expects.
pub(super) fn candidates(arguments: &[String]) -> String {
    let (typed, before) = match arguments.split_last() {
        Some((typed, before)) => (typed.as_str(), before),
        None => ("", arguments),
    };
    let command = before.first().and_then(|name| command_named(name));
    let mut all: Vec<String> = match command {
        None => COMMANDS.map(|command| command.name().to_owned()).to_vec(),
        Some(command) if typed.starts_with('-') => {
            let flags = command.table(Program::Plugin).flags;
            flags
                .iter()
                .map(|flag| format!("--{}", flag.name))
                .collect()
        }
        Some(Command::Doctor) if before.len() == 1 => TARGETS.map(str::to_owned).to_vec(),
        Some(Command::Completion) if before.len() == 1 => SHELLS.map(str::to_owned).to_vec(),
        Some(_) => Vec::new(),
    };
    all.retain(|candidate| candidate.starts_with(typed));
    all.push(NO_FILES.to_owned());
    all.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_gets_every_command_and_flag() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell] {
            let script = text(Program::Plugin, Script::Shell(shell));
            for command in COMMANDS {
                assert!(script.contains(command.name()), "{shell}: {command:?}");
            }
            assert!(script.contains("mooring-namespace"), "{shell}");
        }
        assert_eq!(script_named("tcsh"), None);
    }

    #[test]
    fn kubectl_is_told_what_fits() {
        let of = |line: &str| candidates(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("d"), "doctor\ndrain-check\n:4");
        assert_eq!(of("doctor n"), "node\n:4");
        assert_eq!(of("status --o"), "--output\n:4");
        assert_eq!(of("drain-check "), ":4");
        assert!(answers_kubectl("/usr/bin/kubectl_complete-mooring"));
        assert!(!answers_kubectl("kubectl-mooring"));
    }
}
