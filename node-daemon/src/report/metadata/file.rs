//! The machines file as a metadata source: the daemon's own machine, found by what its Node says
//! and by what the machine itself shows.

use std::sync::Arc;

use async_trait::async_trait;
use mooring_common::machines::{Identity, MachinesFile, resolve};
use mooring_common::node_facts::Presence;

use super::dmi::LocalMachine;
use super::{HostPaths, MetadataError, MetadataSource, SourceAnswer};

/// The machines file, for the machine that the daemon runs on.
#[derive(Debug)]
pub struct FileSource {
    machines: Arc<MachinesFile>,
    paths: HostPaths,
}

impl FileSource {
    /// A source that reads this file, kept fresh by whoever holds it.
    #[must_use]
    pub const fn new(machines: Arc<MachinesFile>, paths: HostPaths) -> Self {
        Self { machines, paths }
    }
}

#[async_trait]
impl MetadataSource for FileSource {
    fn name(&self) -> &'static str {
        "file"
    }

    async fn facts(&self, node: &Identity) -> Result<SourceAnswer, MetadataError> {
        let local = LocalMachine::read(&self.paths).await?;
        let identity = node.clone().filled_from(&local.identity);
        let resolution = resolve(&self.machines.current(), &identity);
        if resolution.presence() == Presence::Gone && resolution.facts().is_some() {
            return Err(MetadataError::Terminated {
                entry: identity.name,
            });
        }
        let facts = resolution.into_facts().map_err(MetadataError::Unresolved)?;
        Ok(SourceAnswer::of(facts))
    }
}
