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
use super::{HostPaths, MetadataSource};

/// The values of `--metadata-source`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceChoice {
    /// The machines file if there is one, else whichever of the others recognises the machine.
    #[default]
    Auto,
    /// The machines file.
    File,
    /// Linode's metadata service.
    Linode,
    /// cloudscale.ch's metadata service.
    Cloudscale,
    /// Brightbox's metadata service.
    Brightbox,
    /// What cloud-init has written down.
    CloudInit,
    /// What the machine's firmware says.
    Dmi,
}

impl SourceChoice {
    const ALL: [Self; 7] = [
        Self::Auto,
        Self::File,
        Self::Linode,
        Self::Cloudscale,
        Self::Brightbox,
        Self::CloudInit,
        Self::Dmi,
    ];

    /// How it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::File => "file",
            Self::Linode => "linode",
            Self::Cloudscale => "cloudscale",
            Self::Brightbox => "brightbox",
            Self::CloudInit => "cloud-init",
            Self::Dmi => "dmi",
        }
    }
}

/// What is no value of `--metadata-source`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no metadata source; write auto, file, linode, cloudscale, brightbox, cloud-init or dmi"
)]
pub struct UnknownSource(pub String);

impl FromStr for SourceChoice {
    type Err = UnknownSource;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
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
    let Options {
        choice,
        endpoint,
        linode_external,
        paths,
    } = options;
    let source: Arc<dyn MetadataSource> = match (choice, machines) {
        (SourceChoice::Auto | SourceChoice::File, Some(machines)) => {
            Arc::new(FileSource::new(machines, paths))
        }
        (SourceChoice::File, None) => return Err(MetadataError::NoMachinesFile),
        (SourceChoice::Linode, _) => Arc::new(LinodeSource::new(endpoint, linode_external)),
        (SourceChoice::Cloudscale, _) => Arc::new(CloudscaleSource::new(endpoint)),
        (SourceChoice::Brightbox, _) => Arc::new(BrightboxSource::new(endpoint)),
        (SourceChoice::CloudInit, _) => Arc::new(CloudInitSource::new(&paths.run)),
        (SourceChoice::Dmi, _) => Arc::new(DmiSource::new(paths)),
        (SourceChoice::Auto, None) => {
            let (source, search) = Search::new(Candidates {
                services: vec![
                    Arc::new(LinodeSource::new(endpoint.clone(), linode_external)),
                    Arc::new(CloudscaleSource::new(endpoint.clone())),
                    Arc::new(BrightboxSource::new(endpoint)),
                ],
                written: Arc::new(CloudInitSource::new(&paths.run)),
                last: Arc::new(DmiSource::new(paths)),
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
