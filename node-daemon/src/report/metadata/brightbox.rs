//! Brightbox's metadata service: one plain value for each path, as EC2 has it.
//!
//! It tells which server this is, where it stands and what it is. It does not tell the server's
//! IPv6 address, nor its Cloud IPs and their names, all of which Brightbox's controller reported. So
//! this is never enough to initialise a Node with.

use async_trait::async_trait;
use mooring_common::label;
use mooring_common::machines::Identity;
use mooring_common::node_facts::NodeFacts;
use mooring_common::provider_id::ProviderId;

use super::errors::MetadataError;
use super::http::{Answer, Endpoint};
use super::values::{contradictory, malformed, provider_id, shown};
use super::{MetadataSource, Probe, SourceAnswer, missing};

const NAME: &str = "brightbox";
const ID_PATH: &str = "/latest/meta-data/instance-id";
const ID_KEY: &str = "instance-id";
const ZONE_KEY: &str = "placement/availability-zone";
const ZONE_PATH: &str = "/latest/meta-data/placement/availability-zone";
const TYPE_PATH: &str = "/latest/meta-data/instance-type";
/// The longest value that is believed.
const LONGEST: usize = 253;

/// What Brightbox's controller gives.
const NEEDED: [&str; 6] = [
    missing::PROVIDER_ID,
    missing::INSTANCE_TYPE,
    missing::REGION,
    missing::ZONE,
    missing::IPV6,
    missing::CLOUD_IPS,
];

/// Brightbox's metadata service as a metadata source.
#[derive(Debug)]
pub struct BrightboxSource {
    endpoint: Endpoint,
}

impl BrightboxSource {
    /// The service at this endpoint.
    #[must_use]
    pub const fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    async fn server(&self) -> Result<String, MetadataError> {
        let answer = self.endpoint.get(ID_PATH, &[]).await?.found(NAME)?;
        plain(&answer, ID_KEY).map(ToOwned::to_owned)
    }

    /// A value that the service may lack.
    async fn optional(&self, path: &str, key: &str) -> Result<Option<String>, MetadataError> {
        let answer = self.endpoint.get(path, &[]).await?;
        if !answer.is_found() {
            return Ok(None);
        }
        let value = plain(&answer, key)?;
        Ok((!value.is_empty()).then(|| value.to_owned()))
    }
}

#[async_trait]
impl MetadataSource for BrightboxSource {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn facts(&self, _: &Identity) -> Result<SourceAnswer, MetadataError> {
        let id = self.server().await?;
        let zone = self.optional(ZONE_PATH, ZONE_KEY).await?;
        let instance_type = self.optional(TYPE_PATH, "instance-type").await?;
        let afterwards = self.server().await?;
        let from = self.endpoint.url(ID_PATH);
        if id != afterwards {
            let other = format!("was {} a moment before", shown(&id));
            return Err(contradictory(&from, ID_KEY, &afterwards, other));
        }
        let provider_id = server(&from, ID_KEY, &id)?;
        let from = self.endpoint.url(ZONE_PATH);
        let region = zone.as_deref().map(|zone| region_of(&from, ZONE_KEY, zone));
        let region = region.transpose()?;
        let facts = NodeFacts {
            provider_id: Some(provider_id),
            instance_type: instance_type.as_deref().and_then(label::sanitize),
            region: region.and_then(label::sanitize),
            zone: zone.as_deref().and_then(label::sanitize),
            ..NodeFacts::default()
        };
        Ok(SourceAnswer::measured(facts, &NEEDED))
    }
}

#[async_trait]
impl Probe for BrightboxSource {
    /// Other clouds have this path, but their instances are not called like this.
    async fn recognises(&self) -> Result<bool, MetadataError> {
        let answer = self.endpoint.get(ID_PATH, &[]).await?;
        Ok(answer.is_found() && is_server(plain(&answer, ID_KEY)?))
    }
}

/// A plain value: one short line of visible characters. A page of HTML is none.
fn plain<'a>(answer: &'a Answer, key: &str) -> Result<&'a str, MetadataError> {
    let value = answer.body.trim();
    let visible = |c: char| c.is_ascii_graphic() && c != '<' && c != '>';
    if value.len() <= LONGEST && value.chars().all(visible) {
        Ok(value)
    } else {
        Err(malformed(&answer.url, key, value, "no plain value"))
    }
}

/// Whether this is how Brightbox names servers: `srv-` and some letters and digits.
pub(super) fn is_server(text: &str) -> bool {
    let usual = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.strip_prefix("srv-")
        .is_some_and(|rest| !rest.is_empty() && rest.chars().all(usual))
}

/// The provider ID of a server.
pub(super) fn server(from: &str, key: &str, id: &str) -> Result<ProviderId, MetadataError> {
    if is_server(id) {
        provider_id(NAME, from, key, id)
    } else {
        Err(malformed(from, key, id, "no server of Brightbox (srv-…)"))
    }
}

/// The region of a zone: what stands before its last dash.
pub(super) fn region_of<'a>(
    from: &str,
    key: &str,
    zone: &'a str,
) -> Result<&'a str, MetadataError> {
    match zone.rsplit_once('-') {
        Some((region, letter)) if !region.is_empty() && !letter.is_empty() => Ok(region),
        _ => Err(malformed(
            from,
            key,
            zone,
            "no zone of Brightbox (like gb1-a)",
        )),
    }
}

#[cfg(test)]
mod tests;
