//! Command lines, as the Go programs take them, from one table per program.
//!
//! The table gives the parser, `--help`, and the reference page in `docs/reference`, so that they
//! cannot differ. Accepted are `--flag=value`, `--flag value`, bare booleans, underscores for
//! hyphens, and empty values (they count as absent). Every fault of a command line is told at once.

mod reader;

use std::collections::HashMap;
use std::fmt::Write as _;

pub use reader::Reader;

/// What a flag's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`; the bare flag means `true`.
    Bool,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// A Go duration: `30s`, `5m`, `1h30m`.
    Duration,
    /// Any text.
    Text,
    /// Texts separated by commas; the flag may be repeated.
    List,
}

impl Kind {
    const fn placeholder(self) -> &'static str {
        match self {
            Self::Bool => "BOOL",
            Self::Integer => "N",
            Self::Number => "NUMBER",
            Self::Duration => "DURATION",
            Self::Text => "TEXT",
            Self::List => "A,B",
        }
    }
}

/// What becomes of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It does what its help says.
    Act,
    /// It is taken, so that manifests of the Go controllers work as they are, and has no effect.
    /// Where it is set to something else than its default, the log says so once.
    Accept,
}

/// One flag.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The name without hyphens in front.
    pub name: &'static str,
    /// What its value is.
    pub kind: Kind,
    /// The value when it is absent; empty: none.
    pub default: &'static str,
    /// What becomes of it.
    pub action: Action,
    /// The heading that it stands under in `--help`.
    pub group: &'static str,
    /// One or two sentences for a person.
    pub help: &'static str,
    /// The environment variable that gives its value when the flag is absent.
    pub env: Option<&'static str>,
}

/// A row of a table: a flag without an environment variable.
#[must_use]
pub const fn flag(
    group: &'static str,
    name: &'static str,
    kind: Kind,
    default: &'static str,
    action: Action,
    help: &'static str,
) -> Flag {
    Flag {
        name,
        kind,
        default,
        action,
        group,
        help,
        env: None,
    }
}

/// A program and its flags.
#[derive(Clone, Copy, Debug)]
pub struct FlagTable {
    /// The program's name.
    pub program: &'static str,
    /// What it is for, for `--help`.
    pub about: &'static str,
    /// The flags.
    pub flags: &'static [Flag],
    /// What may stand there without hyphens, any number of times; empty: nothing.
    pub operand: &'static str,
}

/// What a command line asks for.
#[derive(Debug)]
pub enum Parsed {
    /// To run, with these values.
    Run(Values),
    /// To print this text and to end.
    Print(String),
}

/// The values given, by name. Absent ones are not in it.
#[derive(Clone, Debug, Default)]
pub struct Values {
    given: HashMap<&'static str, String>,
    operands: Vec<String>,
}

/// Every fault of a command line, each with its remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", list(faults))]
pub struct FlagFaults {
    /// One sentence each.
    pub faults: Vec<String>,
}

fn list(faults: &[String]) -> String {
    let mut text = format!("{} fault(s) on the command line:", faults.len());
    for fault in faults {
        let _ = write!(text, "\n  - {fault}");
    }
    text
}

impl FlagTable {
    /// Reads a command line (without the program's own name) and the environment.
    ///
    /// # Errors
    /// [`FlagFaults`] with every unknown flag and every missing value. Whether values can be read
    /// is for [`Reader`] to say.
    pub fn parse(
        &self,
        arguments: impl IntoIterator<Item = String>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Parsed, FlagFaults> {
        let mut faults = Vec::new();
        let mut given: HashMap<&'static str, String> = HashMap::new();
        let mut operands = Vec::new();
        let mut arguments = arguments.into_iter().peekable();
        while let Some(argument) = arguments.next() {
            let Some(name) = argument.strip_prefix('-') else {
                if !self.operand.is_empty() {
                    operands.push(argument);
                    continue;
                }
                faults.push(format!("{argument:?} is no flag; flags begin with --"));
                continue;
            };
            let name = name.strip_prefix('-').unwrap_or(name);
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (name, None),
            };
            match name {
                "h" | "help" => return Ok(Parsed::Print(self.help())),
                "version" => return Ok(Parsed::Print(self.version())),
                _ => {}
            }
            let Some(flag) = self.find(name) else {
                faults.push(self.unknown(name));
                continue;
            };
            let value = match (value, flag.kind) {
                (Some(value), _) => value,
                (None, Kind::Bool) => "true".to_owned(),
                (None, _) => match arguments.next_if(|next| !next.starts_with("--")) {
                    Some(value) => value,
                    None => {
                        faults.push(format!("--{} needs a value", flag.name));
                        continue;
                    }
                },
            };
            let entry = given.entry(flag.name).or_default();
            if flag.kind == Kind::List && !entry.is_empty() && !value.is_empty() {
                entry.push(',');
                entry.push_str(&value);
            } else {
                *entry = value;
            }
        }
        for flag in self.flags {
            if let (Some(variable), false) = (flag.env, given.contains_key(flag.name))
                && let Some(value) = environment(variable)
            {
                given.insert(flag.name, value);
            }
        }
        given.retain(|_, value| !value.is_empty());
        if faults.is_empty() {
            Ok(Parsed::Run(Values { given, operands }))
        } else {
            Err(FlagFaults { faults })
        }
    }

    fn find(&self, name: &str) -> Option<&'static Flag> {
        let name = name.replace('_', "-");
        self.flags.iter().find(|flag| flag.name == name)
    }

    fn unknown(&self, name: &str) -> String {
        let closest = self
            .flags
            .iter()
            .map(|flag| (strsim::jaro_winkler(flag.name, name), flag.name))
            .filter(|(likeness, _)| *likeness > 0.8)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        match closest {
            Some((_, known)) => format!("--{name} is unknown; did you mean --{known}?"),
            None => format!("--{name} is unknown; --help lists all flags"),
        }
    }

    fn version(&self) -> String {
        format!("{} {}", self.program, env!("CARGO_PKG_VERSION"))
    }

    /// The text of `--help`.
    #[must_use]
    pub fn help(&self) -> String {
        self.command().render_long_help().to_string()
    }

    /// The same for what writes helps and shell completions.
    #[must_use]
    pub fn command(&self) -> clap::Command {
        let mut command = clap::Command::new(self.program)
            .about(self.about)
            .version(env!("CARGO_PKG_VERSION"))
            .next_line_help(true)
            .disable_help_flag(true)
            .disable_version_flag(true);
        for flag in self.flags {
            let mut help = flag.help.to_owned();
            if flag.action == Action::Accept {
                help = format!("Taken for compatibility, without effect: {help}");
            }
            if let Some(variable) = flag.env {
                let _ = write!(help, " [env: {variable}]");
            }
            if !flag.default.is_empty() {
                let _ = write!(help, " [default: {}]", flag.default);
            }
            command = command.arg(
                clap::Arg::new(flag.name)
                    .long(flag.name)
                    .value_name(flag.kind.placeholder())
                    .help(help)
                    .help_heading(flag.group),
            );
        }
        if !self.operand.is_empty() {
            command = command.arg(clap::Arg::new(self.operand).num_args(0..));
        }
        command
    }

    /// The reference page: a table of all flags, in Markdown.
    #[must_use]
    pub fn reference(&self) -> String {
        let mut page = format!("# Flags of `{}`\n\n{}\n", self.program, self.about);
        let mut group = "";
        for flag in self.flags {
            if flag.group != group {
                group = flag.group;
                let _ = write!(
                    page,
                    "\n## {group}\n\n| Flag | Default | |\n|---|---|---|\n"
                );
            }
            let default = match flag.default {
                "" => String::new(),
                default => format!("`{default}`"),
            };
            let mut help = flag.help.replace('<', "&lt;");
            if flag.action == Action::Accept {
                help = format!("*Taken for compatibility, without effect.* {help}");
            }
            if let Some(variable) = flag.env {
                let _ = write!(help, " Environment: `{variable}`.");
            }
            let _ = writeln!(page, "| `--{}` | {default} | {help} |", flag.name);
        }
        page
    }
}

#[cfg(test)]
mod tests;
