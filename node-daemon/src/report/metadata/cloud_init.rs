//! What cloud-init has written down of the machine: `/run/cloud-init/instance-data.json`.
//!
//! It is as old as the machine's last start, and most clouds tell cloud-init less than they tell
//! their controllers. So this is never enough to initialise a Node with. Where it is certain which
//! cloud it is, the provider ID is known; elsewhere only what cloud-init calls region and zone.

use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use mooring_common::label;
use mooring_common::machines::Identity;
use mooring_common::node_facts::NodeFacts;
use mooring_common::provider_id::ProviderId;

use super::errors::MetadataError;
use super::values::{Document, provider_id, shown};
use super::{MetadataSource, Probe, SourceAnswer, brightbox, cloudscale, missing};

/// The file, below the host's `/run`. Secrets are left out of it by cloud-init itself.
const FILE: &str = "cloud-init/instance-data.json";
/// The longest file that is read, in bytes.
const LONGEST: u64 = 512 * 1024;

const CLOUD_KEY: &str = "v1.cloud_name";
const ID_KEY: &str = "v1.instance_id";
const ZONE_KEY: &str = "v1.availability_zone";
const REGION_KEY: &str = "v1.region";
const OPENSTACK_KEY: &str = "ds.meta_data.meta.cloudscale_uuid";

/// What the clouds' controllers give.
const NEEDED: [&str; 5] = [
    missing::PROVIDER_ID,
    missing::INSTANCE_TYPE,
    missing::REGION,
    missing::ZONE,
    missing::ADDRESSES,
];

/// cloud-init's instance data as a metadata source.
#[derive(Debug)]
pub struct CloudInitSource {
    path: PathBuf,
}

impl CloudInitSource {
    /// The file below this `/run`.
    #[must_use]
    pub fn new(run: &Path) -> Self {
        Self {
            path: run.join(FILE),
        }
    }

    async fn read(&self) -> Result<Document, MetadataError> {
        let path = self.path.clone();
        let failed = |source| MetadataError::Read {
            path: self.path.clone(),
            source,
        };
        let text = tokio::task::spawn_blocking(move || read_limited(&path))
            .await
            .unwrap_or_else(|panic| Err(std::io::Error::other(panic)))
            .map_err(failed)?;
        Document::read(&self.path.display().to_string(), &text)
    }
}

fn read_limited(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(LONGEST + 1).read_to_end(&mut text)?;
    if u64::try_from(text.len()).is_ok_and(|length| length <= LONGEST) {
        Ok(text)
    } else {
        Err(ErrorKind::FileTooLarge.into())
    }
}

#[async_trait]
impl MetadataSource for CloudInitSource {
    fn name(&self) -> &'static str {
        "cloud-init"
    }

    async fn facts(&self, _: &Identity) -> Result<SourceAnswer, MetadataError> {
        describe(&self.read().await?)
    }
}

#[async_trait]
impl Probe for CloudInitSource {
    async fn recognises(&self) -> Result<bool, MetadataError> {
        match self.read().await {
            Ok(document) => Ok(document.has("v1")),
            Err(MetadataError::Read { source, .. })
                if matches!(
                    source.kind(),
                    ErrorKind::NotFound | ErrorKind::NotADirectory
                ) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// The clouds that can be told from the others for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cloud {
    Linode,
    Cloudscale,
    Brightbox,
    Other,
}

fn cloud(document: &Document) -> Result<Cloud, MetadataError> {
    if document.text(OPENSTACK_KEY)?.is_some() {
        return Ok(Cloud::Cloudscale);
    }
    Ok(match document.text(CLOUD_KEY)? {
        Some("akamai") => Cloud::Linode,
        Some("brightbox") => Cloud::Brightbox,
        _ => Cloud::Other,
    })
}

fn describe(document: &Document) -> Result<SourceAnswer, MetadataError> {
    let cloud = cloud(document)?;
    let zone = document.text(ZONE_KEY)?;
    let facts = NodeFacts {
        provider_id: machine(document, cloud)?,
        instance_type: instance_type(document, cloud)?,
        region: region(document, cloud, zone)?,
        zone: zone.and_then(label::sanitize),
        ..NodeFacts::default()
    };
    // Linode has no zones.
    let needed = NEEDED
        .into_iter()
        .filter(|what| cloud != Cloud::Linode || *what != missing::ZONE)
        .collect::<Vec<_>>();
    Ok(SourceAnswer::measured(facts, &needed))
}

fn machine(document: &Document, cloud: Cloud) -> Result<Option<ProviderId>, MetadataError> {
    let from = document.from();
    let id = document.text(ID_KEY)?;
    match (cloud, id) {
        (Cloud::Cloudscale, _) => cloudscale::server(document, OPENSTACK_KEY),
        (Cloud::Linode, Some(id)) => match id.parse::<u64>() {
            Ok(number) if number > 0 => {
                provider_id("linode", from, ID_KEY, &number.to_string()).map(Some)
            }
            _ => Err(document.malformed(ID_KEY, id, "no number of a Linode")),
        },
        (Cloud::Brightbox, Some(id)) => brightbox::server(from, ID_KEY, id).map(Some),
        (Cloud::Other, _) | (_, None) => Ok(None),
    }
}

fn instance_type(document: &Document, cloud: Cloud) -> Result<Option<String>, MetadataError> {
    match cloud {
        Cloud::Linode => document.label("ds.meta_data.type"),
        Cloud::Brightbox => document.label("ds.meta_data.instance-type"),
        Cloud::Cloudscale | Cloud::Other => Ok(None),
    }
}

/// The region, which the zone tells where it is known how the cloud names its zones. cloud-init
/// itself cuts the last letter off a zone like EC2's, which leaves a dash there.
fn region(
    document: &Document,
    cloud: Cloud,
    zone: Option<&str>,
) -> Result<Option<String>, MetadataError> {
    let stated = match document.text(REGION_KEY)? {
        None if cloud == Cloud::Linode => document.text("ds.meta_data.region")?,
        stated => stated,
    };
    let of_zone = match (cloud, zone) {
        (Cloud::Cloudscale, Some(zone)) => cloudscale::region_of(zone),
        (Cloud::Brightbox, Some(zone)) => brightbox::region_of(document.from(), ZONE_KEY, zone)?,
        _ => return Ok(stated.and_then(label::sanitize)),
    };
    match stated {
        Some(stated) if stated.trim_end_matches('-') != of_zone => {
            let other = format!("{ZONE_KEY} is {}", shown(zone.unwrap_or_default()));
            Err(document.contradictory(REGION_KEY, stated, other))
        }
        _ => Ok(label::sanitize(of_zone)),
    }
}

#[cfg(test)]
mod tests;
