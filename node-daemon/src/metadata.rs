//! Where the daemon learns about the machine it runs on: without any cloud credentials.
//!
//! ```text
//!   /sys, /etc/machine-id ──► dmi ──┐
//!                                   ├──► file ──► facts and whether they suffice
//!   the machines file ──────────────┘
//! ```

pub mod dmi;
pub mod file;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use mooring_common::machines::{Identity, MachinesFile, Resolution};
use mooring_common::names::reasons;
use mooring_common::node_facts::NodeFacts;

use dmi::DmiSource;
use file::FileSource;

/// One place to learn about the machine from.
#[async_trait]
pub trait MetadataSource: Send + Sync + fmt::Debug {
    /// What the source is called, in logs and as a value of `--metadata-source`.
    fn name(&self) -> &'static str;

    /// What the source says of the machine, whose own Node object says `node`.
    ///
    /// # Errors
    /// [`MetadataError`] if it can say nothing that may be acted on.
    async fn facts(&self, node: &Identity) -> Result<SourceAnswer, MetadataError>;
}

/// What a source says of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceAnswer {
    /// What it knows.
    pub facts: NodeFacts,
    /// Whether that is enough to initialise the Node.
    pub completeness: Completeness,
}

/// Whether facts are enough to initialise a Node with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// They are.
    Whole,
    /// They are not: the daemon leaves the Node to central.
    Partial {
        /// What is missing, in words.
        missing: Vec<&'static str>,
    },
}

impl SourceAnswer {
    /// An answer of these facts. They suffice if there is a provider ID and an IP address among
    /// them; all else a Node can be without.
    #[must_use]
    pub fn of(facts: NodeFacts) -> Self {
        let mut missing = Vec::new();
        if facts.provider_id.is_none() {
            missing.push("a provider ID");
        }
        let is_ip = |text: &String| text.parse::<IpAddr>().is_ok();
        if !facts.addresses.iter().any(|a| is_ip(&a.address)) {
            missing.push("an IP address");
        }
        let completeness = if missing.is_empty() {
            Completeness::Whole
        } else {
            Completeness::Partial { missing }
        };
        Self {
            facts,
            completeness,
        }
    }
}

/// Why nothing can be said of the machine.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// A file of the host cannot be read.
    #[error("cannot read {path:?}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The machines file has no entry that can be taken.
    #[error("{}", .0.explanation().unwrap_or_default())]
    Unresolved(Box<Resolution>),
    /// The machines file says that this machine does not exist.
    #[error(
        "The machines file has state terminated for {entry}, yet it runs. Correct the state, or \
         switch the machine off."
    )]
    Terminated {
        /// What the entry is called.
        entry: String,
    },
    /// The source asked for has nothing to read.
    #[error("--metadata-source=file needs a machines file; name one, or choose auto or dmi")]
    NoMachinesFile,
}

impl MetadataError {
    /// Whether asking again soon may help, without anybody changing anything.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Read { .. })
    }

    /// The reason of the Event that tells of it.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Unresolved(resolution) => match resolution.reason() {
                Some(reason) => reason,
                None => reasons::INITIALIZATION_REFUSED,
            },
            _ => reasons::INITIALIZATION_REFUSED,
        }
    }
}

/// Where the host's files are: in a container, wherever they are mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPaths {
    /// The host's `/sys`.
    pub sys: PathBuf,
    /// The host's `/etc`.
    pub etc: PathBuf,
    /// The host's `/proc`.
    pub proc: PathBuf,
}

impl Default for HostPaths {
    fn default() -> Self {
        Self {
            sys: PathBuf::from("/sys"),
            etc: PathBuf::from("/etc"),
            proc: PathBuf::from("/proc"),
        }
    }
}

/// The values of `--metadata-source`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceChoice {
    /// The machines file if there is one, else DMI.
    #[default]
    Auto,
    /// The machines file.
    File,
    /// What the machine's firmware says.
    Dmi,
}

/// What is no value of `--metadata-source`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no metadata source; write auto, file or dmi")]
pub struct UnknownSource(pub String);

impl FromStr for SourceChoice {
    type Err = UnknownSource;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "file" => Ok(Self::File),
            "dmi" => Ok(Self::Dmi),
            _ => Err(UnknownSource(text.to_owned())),
        }
    }
}

impl fmt::Display for SourceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::File => "file",
            Self::Dmi => "dmi",
        })
    }
}

/// The source to ask.
///
/// # Errors
/// [`MetadataError::NoMachinesFile`] if the file is asked for and there is none.
pub fn select(
    choice: SourceChoice,
    machines: Option<Arc<MachinesFile>>,
    paths: HostPaths,
) -> Result<Arc<dyn MetadataSource>, MetadataError> {
    match (choice, machines) {
        (SourceChoice::Auto | SourceChoice::File, Some(machines)) => {
            Ok(Arc::new(FileSource::new(machines, paths)))
        }
        (SourceChoice::File, None) => Err(MetadataError::NoMachinesFile),
        (SourceChoice::Auto, None) | (SourceChoice::Dmi, _) => Ok(Arc::new(DmiSource::new(paths))),
    }
}
