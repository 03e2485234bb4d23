//! What a machine shows of itself: DMI, or the device tree where there is no DMI, the machine ID,
//! and the network cards.
//!
//! None of it tells where the machine stands or which addresses it should have, so as a metadata
//! source this is never enough to initialise a Node with. It serves to find the machine's entry in
//! the machines file.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use mooring_common::label;
use mooring_common::machines::Identity;
use mooring_common::machines::hardware::{MacAddress, is_placeholder};
use mooring_common::node_facts::NodeFacts;

use super::{HostPaths, MetadataError, MetadataSource, SourceAnswer};

/// The machine's firmware as a metadata source.
#[derive(Debug)]
pub struct DmiSource {
    paths: HostPaths,
}

impl DmiSource {
    /// A source that reads below these paths.
    #[must_use]
    pub const fn new(paths: HostPaths) -> Self {
        Self { paths }
    }
}

#[async_trait]
impl MetadataSource for DmiSource {
    fn name(&self) -> &'static str {
        "dmi"
    }

    async fn facts(&self, _: &Identity) -> Result<SourceAnswer, MetadataError> {
        let local = LocalMachine::read(&self.paths).await?;
        Ok(SourceAnswer::of(NodeFacts {
            instance_type: local.product.as_deref().and_then(label::sanitize),
            ..NodeFacts::default()
        }))
    }
}

/// What a machine shows of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalMachine {
    /// By what it can be found in the machines file: UUID, machine ID, MAC addresses, asset tag
    /// and vendor. The rest is left open.
    pub identity: Identity,
    /// Its model, as the vendor writes it.
    pub product: Option<String>,
}

impl LocalMachine {
    /// Reads the host's files. What is not there, is a placeholder, or may not be read by this
    /// process is left out.
    ///
    /// # Errors
    /// [`MetadataError::Read`] if a file is there but cannot be read for another reason.
    pub async fn read(paths: &HostPaths) -> Result<Self, MetadataError> {
        let owned = paths.clone();
        tokio::task::spawn_blocking(move || read_host(&owned))
            .await
            .unwrap_or_else(|panic| {
                Err(MetadataError::Read {
                    path: paths.sys.clone(),
                    source: std::io::Error::other(panic),
                })
            })
    }
}

pub(super) fn read_host(paths: &HostPaths) -> Result<LocalMachine, MetadataError> {
    let dmi = paths.sys.join("class/dmi/id");
    let mut machine = if dmi.is_dir() {
        of_dmi(&dmi)?
    } else {
        of_device_tree(paths)?
    };
    let machine_id = text(paths.etc.join("machine-id"))?.known();
    machine.identity.machine_id = machine_id.and_then(|id| id.parse().ok());
    machine.identity.macs = macs(&paths.sys.join("class/net"))?;
    Ok(machine)
}

fn of_dmi(dmi: &Path) -> Result<LocalMachine, MetadataError> {
    let uuid = text(dmi.join("product_uuid"))?.known();
    let identity = Identity {
        system_uuid: uuid.and_then(|uuid| uuid.parse().ok()),
        asset_tag: text(dmi.join("chassis_asset_tag"))?.known_or_empty(),
        vendor: text(dmi.join("sys_vendor"))?.known_or_empty(),
        ..Identity::default()
    };
    Ok(LocalMachine {
        identity,
        product: text(dmi.join("product_name"))?.known(),
    })
}

/// Boards without DMI have neither asset tag nor vendor, which is worth knowing; but only if this
/// is the host's `/sys` at all.
fn of_device_tree(paths: &HostPaths) -> Result<LocalMachine, MetadataError> {
    let tree = paths.proc.join("device-tree");
    let serial = text(tree.join("serial-number"))?.known();
    let none = || paths.sys.join("class").is_dir().then(String::new);
    let identity = Identity {
        system_uuid: serial.and_then(|serial| serial.parse().ok()),
        asset_tag: none(),
        vendor: none(),
        ..Identity::default()
    };
    Ok(LocalMachine {
        identity,
        product: text(tree.join("model"))?.known(),
    })
}

/// What stands in one of the host's files.
enum Reading {
    Text(String),
    Absent,
    Denied,
}

impl Reading {
    /// The text, if it says anything.
    fn known(self) -> Option<String> {
        match self {
            Self::Text(text) if !is_placeholder(&text) => Some(text),
            _ => None,
        }
    }

    /// The text, empty if there is provably none. `None`: it may not be read.
    fn known_or_empty(self) -> Option<String> {
        match self {
            Self::Denied => None,
            other => Some(other.known().unwrap_or_default()),
        }
    }
}

/// Reads a short text without the blanks, the end of line and the NUL (device tree) around it.
fn text(path: PathBuf) -> Result<Reading, MetadataError> {
    match std::fs::read(&path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let blank = |c: char| c.is_whitespace() || c == '\0';
            Ok(Reading::Text(text.trim_matches(blank).to_owned()))
        }
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(Reading::Absent),
            ErrorKind::PermissionDenied => Ok(Reading::Denied),
            _ => Err(MetadataError::Read {
                path,
                source: error,
            }),
        },
    }
}

/// The addresses of real network cards. Bridges, container interfaces and the like have no device
/// behind them, and addresses that are made up anew after each boot.
fn macs(net: &Path) -> Result<Vec<MacAddress>, MetadataError> {
    let failed = |source| MetadataError::Read {
        path: net.to_owned(),
        source,
    };
    let interfaces = match std::fs::read_dir(net) {
        Ok(interfaces) => interfaces,
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::PermissionDenied
            ) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => return Err(failed(error)),
    };
    let mut macs: Vec<MacAddress> = Vec::new();
    for interface in interfaces {
        let interface = interface.map_err(failed)?.path();
        if !interface.join("device").exists() {
            continue;
        }
        let address = text(interface.join("address"))?.known();
        macs.extend(address.and_then(|a| a.parse::<MacAddress>().ok()));
    }
    macs.sort();
    macs.dedup();
    Ok(macs)
}
