//! Commands that read the cluster with the rights of whoever runs them, and change nothing: those of
//! `kubectl mooring`, which `mooring-central` has too.
//!
//! ```text
//!   commands, flags ─► connection to the cluster
//!   observe ─► Snapshot: one read; what may not be read is a MissingRight     snapshot, rights
//!                 │
//!                 ├─► status           rows                                  } pure
//!                 ├─► doctor           findings, each with its remedy        }
//!                 ├─► drain_check      findings about one Node               }
//!                 ├─► plan             as central would plan                 }
//!                 └─► support_bundle   objects, redacted; logs
//!   print ◄──── text with colours, JSON, YAML
//! ```
//!
//! No Secret is ever read, and the cloud is not asked.

mod commands;
mod completion;
mod doctor;
mod drain_check;
mod finding;
mod flags;
mod observe;
mod plan;
mod print;
mod rights;
mod setup;
mod snapshot;
mod status;
mod support_bundle;
#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use jiff::Timestamp;
use kube::Client;
use mooring_common::k8s::client;
use mooring_common::program::{self, Threads};
use mooring_common::telemetry::LogFormat;

pub use commands::reference;
use commands::{Command, Program, command_named};
use finding::{Finding, Report};
use flags::{InspectFlags, Output};
use print::{Style, text_of};
use snapshot::Snapshot;

/// The exit code if something is wrong.
const WRONG: u8 = 1;

/// `kubectl-mooring`, from its name and its arguments to the exit code: 0, 1 if something is wrong or the cluster
/// cannot be read, 2 for a command line that cannot be read.
#[must_use]
pub fn plugin(program: &str, mut arguments: Vec<String>) -> ExitCode {
    if completion::answers_kubectl(program) {
        return print_text(&completion::candidates(&arguments));
    }
    let first = arguments.first().cloned().unwrap_or_default();
    match first.as_str() {
        "" | "-h" | "--help" | "help" => print_text(&commands::overview()),
        "--version" | "version" => print_text(&commands::version()),
        name => match command_named(name) {
            Some(command) => run(Program::Plugin, command, arguments.split_off(1)),
            None => {
                let told = commands::unknown(name);
                let _ = writeln!(std::io::stderr(), "{told}");
                ExitCode::from(2)
            }
        },
    }
}

/// The same commands of `mooring-central`, but for `plan`, which it has with clouds. `None`: the first argument is no
/// such command.
#[must_use]
pub fn of_central(arguments: &[String]) -> Option<ExitCode> {
    let (name, rest) = arguments.split_first()?;
    let command = command_named(name).filter(|command| *command != Command::Plan)?;
    Some(run(Program::Central, command, rest.to_vec()))
}

fn run(program: Program, command: Command, arguments: Vec<String>) -> ExitCode {
    if command == Command::Completion {
        return completion::main(program, arguments);
    }
    program::main(
        &command.table(program),
        flags::long_names(arguments),
        |values| InspectFlags::read(program, command, values),
        |_| (0, LogFormat::Text),
        Threads::One,
        |flags| execute(command, flags),
    )
}

async fn execute(command: Command, flags: InspectFlags) -> anyhow::Result<ExitCode> {
    let client = client(&flags.client).await?;
    let now = Timestamp::now();
    let snapshot = observe::observe(&client, &flags.scope, now).await?;
    let style = Style::of_standard_output(flags.output);
    match command {
        Command::Status => {
            print_line(&status_text(&snapshot, flags.output, style)?)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Doctor => {
            let target = flags.target.unwrap_or_default();
            let reach = doctor::reach(&snapshot, &target).await;
            report(
                doctor::examine(&snapshot, &target, reach)?,
                &snapshot,
                flags.output,
                style,
            )
        }
        Command::DrainCheck => report(
            drain_check::drain_check(&snapshot, &flags.node)?,
            &snapshot,
            flags.output,
            style,
        ),
        Command::Plan => plan_l2(&client, &snapshot, &flags).await,
        Command::SupportBundle => {
            let written = support_bundle::write(&client, &snapshot, flags.file.as_deref()).await?;
            print_line(&written)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Completion => Ok(ExitCode::SUCCESS),
    }
}

async fn plan_l2(
    client: &Client,
    snapshot: &Snapshot,
    flags: &InspectFlags,
) -> anyhow::Result<ExitCode> {
    let (text, refused) = plan::plan(client, snapshot, &flags.chosen, flags.output).await?;
    print_line(&text)?;
    Ok(match refused {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(WRONG),
    })
}

fn report(
    findings: Vec<Finding>,
    snapshot: &Snapshot,
    output: Output,
    style: Style,
) -> anyhow::Result<ExitCode> {
    let report = Report::new(findings, snapshot);
    print_line(&report_text(&report, output, style)?)?;
    Ok(match report.errors {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(WRONG),
    })
}

/// What `status` prints.
fn status_text(snapshot: &Snapshot, output: Output, style: Style) -> anyhow::Result<String> {
    let status = status::status(snapshot);
    text_of(&status, output, || status::text(&status, style))
}

/// What `doctor` and `drain-check` print.
fn report_text(report: &Report, output: Output, style: Style) -> anyhow::Result<String> {
    text_of(report, output, || finding::text(report, style))
}

fn print_line(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{}", text.trim_end()).context("cannot print")
}

fn print_text(text: &str) -> ExitCode {
    match print_line(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
