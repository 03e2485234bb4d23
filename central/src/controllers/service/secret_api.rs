//! Secrets as the API server has them. Only `get` is asked for: what the ClusterRole of Linode's Go
//! controller grants.
//!
//! An answer is read here and not by the client of the API, which logs the text of one that it cannot read.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::GetParams;
use kube::{Client, Resource as _};
use mooring_common::errors::with_causes;
use mooring_common::k8s::{ApiFailure, ObjectKey, classify};
use serde::Deserialize;
use tokio::time::timeout;

use crate::cloud_provider::secrets::{ReadSecret, Secrets};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The HTTP status that says that a right is missing.
const FORBIDDEN: u16 = 403;

/// As of when an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// As of now.
    Latest,
    /// As the cache of some API server has it, which costs its storage nothing. It may be older than
    /// an answer that was given before.
    Cached,
}

/// The part of a Secret that is looked at.
#[derive(Default, Deserialize)]
struct Answer {
    data: Option<Data>,
}

#[derive(Default, Deserialize)]
struct Data {
    #[serde(rename = "tls.crt")]
    certificate: Option<ByteString>,
    #[serde(rename = "tls.key")]
    key: Option<ByteString>,
}

/// Reads a Secret.
///
/// # Errors
/// In words, what may go well the next time.
pub(super) async fn secret(
    client: &Client,
    key: &ObjectKey,
    freshness: Freshness,
) -> Result<ReadSecret, String> {
    let Some(request) = request(key, freshness)? else {
        return Ok(ReadSecret::Missing);
    };
    match timeout(PATIENCE, client.request_text(request)).await {
        Ok(Ok(text)) => read(&text),
        Ok(Err(error)) => refused(&error),
        Err(_) => Err(format!(
            "the API server has not answered within {} s",
            PATIENCE.as_secs()
        )),
    }
}

/// Reads Secrets of a namespace once, as they are now.
pub async fn secrets(client: &Client, namespace: &str, names: BTreeSet<String>) -> Secrets {
    let mut all = Vec::new();
    for name in names {
        let key = ObjectKey::new(namespace, &name);
        let read = secret(client, &key, Freshness::Latest).await;
        let read = read.unwrap_or_else(ReadSecret::Unreadable);
        all.push((name, Arc::new(read)));
    }
    all.into_iter().collect()
}

/// `None`: no Secret has this name. Whoever writes Services chooses it, and it becomes part of a path:
/// `../../other/secrets/x` must not lead to another namespace.
fn request(key: &ObjectKey, freshness: Freshness) -> Result<Option<Request<Vec<u8>>>, String> {
    if !is_name(&key.name) {
        return Ok(None);
    }
    let parameters = match freshness {
        Freshness::Latest => GetParams::default(),
        Freshness::Cached => GetParams::any(),
    };
    let path = Secret::url_path(&(), Some(&key.namespace));
    let request = kube::core::Request::new(path).get(&key.name, &parameters);
    request.map(Some).map_err(|error| error.to_string())
}

/// Whether an object can have this name: a DNS subdomain as Kubernetes means it, with labels of any length.
fn is_name(text: &str) -> bool {
    let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(is_edge)
            && label.ends_with(is_edge)
            && label.chars().all(|c| is_edge(c) || c == '-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

fn read(text: &str) -> Result<ReadSecret, String> {
    // What the error says might cite the answer.
    let answer: Answer = serde_json::from_str(text)
        .map_err(|_| "the API server has answered with something that is no Secret".to_owned())?;
    let data = answer.data.unwrap_or_default();
    let certificate = data.certificate.as_ref().map(|bytes| &*bytes.0);
    let key = data.key.as_ref().map(|bytes| &*bytes.0);
    Ok(ReadSecret::of(certificate, key))
}

fn refused(error: &kube::Error) -> Result<ReadSecret, String> {
    match error {
        kube::Error::Api(status) if status.code == FORBIDDEN => Ok(ReadSecret::forbidden()),
        _ if classify(error) == ApiFailure::NotFound => Ok(ReadSecret::Missing),
        _ => Err(with_causes(error)),
    }
}

#[cfg(test)]
mod tests;
