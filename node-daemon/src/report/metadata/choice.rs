//! Which source is asked: by flag, or found.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;
use mooring_common::machines::MachinesFile;

use super::brightbox::BrightboxSource;
use super::cloud_init::CloudInitSource;
use super::cloudscale::CloudscaleSource;
use super::dmi::DmiSource;
use super::errors::MetadataError;
use super::file::FileSource;
use super::http::Endpoint;
use super::linode::LinodeSource;
use super::search::{Candidates, Search};
use super::{HostPaths, MetadataSource, Probe};

/// A cloud's metadata service.
#[derive(Debug)]
pub struct Service {
    /// The cloud's name, as `--metadata-source` has it.
    name: &'static str,
    make: fn(&Options) -> Arc<dyn Probe>,
}

impl PartialEq for Service {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Service {}

/// The metadata services, one a line, in the order in which they are asked.
#[rustfmt::skip]
const SERVICES: &[Service] = &[
    Service { name: "linode", make: |of| Arc::new(LinodeSource::new(of.endpoint.clone(), of.linode_external)) },
    Service { name: "cloudscale", make: |of| Arc::new(CloudscaleSource::new(of.endpoint.clone())) },
    Service { name: "brightbox", make: |of| Arc::new(BrightboxSource::new(of.endpoint.clone())) },
];

/// The values of `--metadata-source`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceChoice {
    /// The machines file if there is one, else whichever of the others recognises the machine.
    #[default]
    Auto,
    /// The machines file.
    File,
    /// This metadata service.
    Service(&'static Service),
    /// What cloud-init has written down.
    CloudInit,
    /// What the machine's firmware says.
    Dmi,
}

impl SourceChoice {
    /// Each of them.
    fn all() -> impl Iterator<Item = Self> {
        let services = SERVICES.iter().map(Self::Service);
        let first = [Self::Auto, Self::File].into_iter();
        first.chain(services).chain([Self::CloudInit, Self::Dmi])
    }

    /// How it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::File => "file",
            Self::Service(service) => service.name,
            Self::CloudInit => "cloud-init",
            Self::Dmi => "dmi",
        }
    }

    /// All that can be written: `auto, file, ... or dmi`.
    fn values() -> String {
        let names: Vec<&str> = Self::all().map(Self::as_str).collect();
        match names.split_last() {
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        }
    }
}

/// What is no value of `--metadata-source`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no metadata source; write {values}", values = SourceChoice::values())]
pub struct UnknownSource(pub String);

impl FromStr for SourceChoice {
    type Err = UnknownSource;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::all()
            .find(|choice| choice.as_str() == text)
            .ok_or_else(|| UnknownSource(text.to_owned()))
    }
}

impl fmt::Display for SourceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the sources are made with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Which source.
    pub choice: SourceChoice,
    /// Where the metadata service is.
    pub endpoint: Endpoint,
    /// Private addresses of Linodes that count as public ones.
    pub linode_external: Option<IpNet>,
    /// Where the host's files are.
    pub paths: HostPaths,
}

/// The source to ask, and what has to run beside it.
#[derive(Debug)]
pub struct Selected {
    /// The source.
    pub source: Arc<dyn MetadataSource>,
    /// What looks for the source, where it has to be found.
    pub search: Option<Search>,
}

/// The source to ask.
///
/// # Errors
/// [`MetadataError::NoMachinesFile`] if the file is asked for and there is none.
pub fn select(
    options: Options,
    machines: Option<Arc<MachinesFile>>,
) -> Result<Selected, MetadataError> {
    let paths = &options.paths;
    let source: Arc<dyn MetadataSource> = match (options.choice, machines) {
        (SourceChoice::Auto | SourceChoice::File, Some(machines)) => {
            Arc::new(FileSource::new(machines, options.paths))
        }
        (SourceChoice::File, None) => return Err(MetadataError::NoMachinesFile),
        (SourceChoice::Service(service), _) => (service.make)(&options),
        (SourceChoice::CloudInit, _) => Arc::new(CloudInitSource::new(&paths.run)),
        (SourceChoice::Dmi, _) => Arc::new(DmiSource::new(options.paths)),
        (SourceChoice::Auto, None) => {
            let services = SERVICES.iter();
            let (source, search) = Search::new(Candidates {
                services: services.map(|service| (service.make)(&options)).collect(),
                written: Arc::new(CloudInitSource::new(&paths.run)),
                last: Arc::new(DmiSource::new(options.paths)),
            });
            return Ok(Selected {
                source: Arc::new(source),
                search: Some(search),
            });
        }
    };
    Ok(Selected {
        source,
        search: None,
    })
}
