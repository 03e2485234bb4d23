//! cloudscale.ch's metadata service: a document as OpenStack has it.
//!
//! It tells which server this is and where it stands; neither its flavor nor which of its addresses
//! are public. So this is never enough to initialise a Node with.

use async_trait::async_trait;
use mooring_common::label;
use mooring_common::machines::Identity;
use mooring_common::node_facts::NodeFacts;
use mooring_common::provider_id::ProviderId;
use uuid::Uuid;

use super::errors::MetadataError;
use super::http::{Answer, Endpoint};
use super::values::{Document, provider_id};
use super::{MetadataSource, Probe, SourceAnswer, missing};

const NAME: &str = "cloudscale";
/// The dated form first: its shape is settled, and cloudscale.ch's own tools ask for it.
const PATHS: [&str; 2] = [
    "/openstack/2017-02-22/meta_data.json",
    "/openstack/latest/meta_data.json",
];
/// The server's UUID as the API has it. The document's own `uuid` is OpenStack's, and nobody
/// promises that the two are the same.
pub(super) const UUID_KEY: &str = "meta.cloudscale_uuid";
const ZONE_KEY: &str = "availability_zone";

/// What cloudscale.ch's controller gives.
const NEEDED: [&str; 5] = [
    missing::PROVIDER_ID,
    missing::INSTANCE_TYPE,
    missing::REGION,
    missing::ZONE,
    missing::ADDRESSES,
];

/// cloudscale.ch's metadata service as a metadata source.
#[derive(Debug)]
pub struct CloudscaleSource {
    endpoint: Endpoint,
}

impl CloudscaleSource {
    /// The service at this endpoint.
    #[must_use]
    pub const fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    async fn get(&self) -> Result<Answer, MetadataError> {
        let [dated, latest] = PATHS;
        let answer = self.endpoint.get(dated, &[]).await?;
        if answer.is_found() {
            return Ok(answer);
        }
        self.endpoint.get(latest, &[]).await
    }
}

#[async_trait]
impl MetadataSource for CloudscaleSource {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn facts(&self, _: &Identity) -> Result<SourceAnswer, MetadataError> {
        let answer = self.get().await?.found(NAME)?;
        let document = Document::read(&answer.url, answer.body.as_bytes())?;
        describe(&document)
    }
}

#[async_trait]
impl Probe for CloudscaleSource {
    /// Other clouds have such a document, but not with this key.
    async fn recognises(&self) -> Result<bool, MetadataError> {
        let answer = self.get().await?;
        if !answer.is_found() {
            return Ok(false);
        }
        let document = Document::read(&answer.url, answer.body.as_bytes())?;
        Ok(document.has(UUID_KEY))
    }
}

fn describe(document: &Document) -> Result<SourceAnswer, MetadataError> {
    let server = server(document, UUID_KEY)?;
    let zone = document.text(ZONE_KEY)?;
    let facts = NodeFacts {
        zone: zone.and_then(label::sanitize),
        region: zone.map(region_of).and_then(label::sanitize),
        provider_id: server,
        ..NodeFacts::default()
    };
    Ok(SourceAnswer::measured(facts, &NEEDED))
}

/// The provider ID of the server with the UUID at this key, in the form that the API has it.
pub(super) fn server(document: &Document, key: &str) -> Result<Option<ProviderId>, MetadataError> {
    let Some(text) = document.text(key)? else {
        return Ok(None);
    };
    let uuid = Uuid::try_parse(text).ok().filter(|uuid| !uuid.is_nil());
    let Some(uuid) = uuid else {
        return Err(document.malformed(key, text, "no UUID of a server"));
    };
    let id = provider_id("cloudscale", document.from(), key, &uuid.to_string())?;
    Ok(Some(id))
}

/// The region of a zone: its name without the digits at its end.
pub(super) fn region_of(zone: &str) -> &str {
    zone.trim_end_matches(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::metadata::Completeness;
    use serde_json::{Value, json};

    const UUID: &str = "47cec963-fcd2-482f-bdb6-24461b2d47b1";

    fn answer(document: &Value) -> Result<SourceAnswer, MetadataError> {
        describe(&Document::read("here", document.to_string().as_bytes())?)
    }

    #[test]
    fn reports_identity_and_zone_only() {
        let document = json!({
            "uuid": "00000000-1111-2222-3333-444444444444",
            "name": "renamed", "hostname": "n1", "unheard_of": {"a": [1]},
            "availability_zone": "rma1",
            "meta": {"cloudscale_uuid": UUID.to_uppercase()},
        });
        let answer = answer(&document).unwrap();
        let expected = NodeFacts {
            provider_id: Some(format!("cloudscale://{UUID}").parse().unwrap()),
            zone: Some("rma1".to_owned()),
            region: Some("rma".to_owned()),
            ..NodeFacts::default()
        };
        assert_eq!(answer.facts, expected);
        let missing = vec![missing::INSTANCE_TYPE, missing::ADDRESSES];
        assert_eq!(answer.completeness, Completeness::Partial { missing });
    }

    #[test]
    fn missing_values_stay_missing() {
        let answer = answer(&json!({"uuid": UUID, "name": "n1"})).unwrap();
        assert_eq!(answer.facts, NodeFacts::default());
        let missing = NEEDED.into();
        assert_eq!(answer.completeness, Completeness::Partial { missing });
    }

    #[test]
    fn names_invalid_uuid() {
        for wrong in [
            "server-1",
            "00000000-0000-0000-0000-000000000000",
            "47cec963",
        ] {
            let error = answer(&json!({"meta": {"cloudscale_uuid": wrong}})).unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains(wrong) && text.contains(UUID_KEY) && !error.is_retryable(),
                "{text}"
            );
        }
        answer(&json!({"meta": {"cloudscale_uuid": 5}})).unwrap_err();
    }

    #[test]
    fn region_is_zone_without_number() {
        for (zone, region) in [
            ("rma1", "rma"),
            ("lpg12", "lpg"),
            ("a1b2", "a1b"),
            ("x", "x"),
            ("1", ""),
        ] {
            assert_eq!(region_of(zone), region);
        }
    }
}
