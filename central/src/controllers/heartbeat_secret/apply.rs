//! Makes the Secret.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use mooring_common::engine::Plan;
use mooring_common::k8s::{ApiFailure, classify};
use mooring_common::names::{components, labels};
use rustls::crypto::{GetRandomFailed, ring};

use super::Controller;
use super::failure::Failure;
use super::plan::Step;

/// How long a key is, in bytes.
const KEY_LENGTH: usize = 32;
/// Under which name the first key is. The last by name is the newest.
const FIRST_KEY: &str = "key-1";

impl Controller {
    pub(super) async fn apply(&self, plan: Plan<Step>) -> Result<(), Failure> {
        for Step::Create in plan.steps() {
            let secret = secret(&self.name.name, &random_key()?);
            self.leadership.check()?;
            match self.secrets.create(&PostParams::default(), &secret).await {
                Ok(_) => tracing::info!(
                    secret = %self.name,
                    "made the Secret that the node daemons sign their heartbeats with"
                ),
                // Somebody else was faster.
                Err(error) if is_there(&error) => {}
                Err(source) => return Err(Failure::Create { source }),
            }
        }
        Ok(())
    }
}

fn is_there(error: &kube::Error) -> bool {
    classify(error) == ApiFailure::Conflict
}

/// A key of 256 bits, in the form in which `openssl rand -hex 32` prints it.
fn random_key() -> Result<String, Failure> {
    let mut bytes = [0; KEY_LENGTH];
    let random = ring::default_provider().secure_random;
    random
        .fill(&mut bytes)
        .map_err(|GetRandomFailed| Failure::NoRandomness)?;
    let mut text = String::with_capacity(2 * KEY_LENGTH);
    for byte in bytes {
        // A String takes all that is written to it.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

fn secret(name: &str, key: &str) -> Secret {
    let made_by = (
        labels::MANAGED_BY.to_owned(),
        components::CENTRAL.to_owned(),
    );
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([made_by])),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some(BTreeMap::from([(
            FIRST_KEY.to_owned(),
            ByteString(key.as_bytes().to_vec()),
        )])),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_have_256_bits_in_hex() {
        let keys = [random_key().unwrap(), random_key().unwrap()];
        assert_ne!(keys[0], keys[1]);
        for key in keys {
            assert!(key.len() == 64 && key.bytes().all(|b| b.is_ascii_hexdigit()));
        }
    }
}
