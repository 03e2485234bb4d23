//! Kubeconfig files and clients for the administrator, for users and for ServiceAccounts.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::certificates::Identity;

/// Tokens outlive any test by far.
const TOKEN_LIFETIME_SECONDS: i64 = 24 * 3600;

/// How somebody proves who they are.
pub(super) enum Credentials {
    Certificate(Identity),
    Token(String),
}

/// The text of a kubeconfig file with everything embedded.
pub(super) fn kubeconfig(
    server: &str,
    authority: &str,
    credentials: &Credentials,
) -> Result<String> {
    let user = match credentials {
        Credentials::Certificate(identity) => json!({
            "client-certificate-data": base64(&identity.certificate)?,
            "client-key-data": base64(&identity.key)?,
        }),
        Credentials::Token(token) => json!({ "token": token }),
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "mooring-test",
            "cluster": { "server": server, "certificate-authority-data": base64(authority)? },
        }],
        "users": [{ "name": "user", "user": user }],
        "contexts": [{
            "name": "mooring-test",
            "context": { "cluster": "mooring-test", "user": "user" },
        }],
        "current-context": "mooring-test",
    });
    serde_norway::to_string(&config).context("writing a kubeconfig")
}

/// The configuration of a client from the text of a kubeconfig.
pub(super) async fn config(kubeconfig: &str) -> Result<kube::Config> {
    let parsed = Kubeconfig::from_yaml(kubeconfig)?;
    Ok(kube::Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await?)
}

/// A client of whoever has this kubeconfig file.
///
/// # Errors
/// If the file cannot be read, or says nothing that a client could be made of.
pub async fn client_from(kubeconfig: &Path) -> Result<kube::Client> {
    let text = fs::read_to_string(kubeconfig)
        .with_context(|| format!("reading {}", kubeconfig.display()))?;
    Ok(kube::Client::try_from(config(&text).await?)?)
}

/// Writes a kubeconfig that only its owner may read, as the programs would warn about otherwise.
pub(super) fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    let path = folder.join(format!("{name}.kubeconfig"));
    let unfinished = folder.join(format!(".{name}.{}", uuid::Uuid::new_v4()));
    fs::File::options()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&unfinished)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&unfinished, &path))
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// A token of a ServiceAccount, bound to a Pod where one is named.
///
/// The API server puts the Pod's node into a bound token.
pub(super) async fn token(
    admin: &kube::Client,
    namespace: &str,
    name: &str,
    pod: Option<(&str, &str)>,
) -> Result<String> {
    let bound_object_ref = match pod {
        None => None,
        Some((pod_namespace, pod_name)) => {
            let pod = Api::<Pod>::namespaced(admin.clone(), pod_namespace)
                .get(pod_name)
                .await
                .with_context(|| format!("looking for the Pod {pod_namespace}/{pod_name}"))?;
            Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: pod.metadata.name,
                uid: pod.metadata.uid,
            })
        }
    };
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: None,
            bound_object_ref,
            expiration_seconds: Some(TOKEN_LIFETIME_SECONDS),
        }),
        ..TokenRequest::default()
    };
    let answer = Api::<ServiceAccount>::namespaced(admin.clone(), namespace)
        .create_token_request(name, &PostParams::default(), &request)
        .await
        .with_context(|| format!("requesting a token of the ServiceAccount {namespace}/{name}"))?;
    answer
        .status
        .and_then(|status| status.token)
        .ok_or_else(|| anyhow!("the token request was answered without a token"))
}

fn base64(text: &str) -> Result<Value> {
    Ok(serde_json::to_value(ByteString(text.as_bytes().to_vec()))?)
}
