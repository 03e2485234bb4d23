//! Reads the objects: from the cluster, or from a file.

use std::path::Path;

use anyhow::{Context as _, bail};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use mooring_common::k8s::{ApiFailure, classify};

use super::finding::Findings;
use super::flags::Source;
use super::objects::Objects;
use super::{kube_vip, metallb};
use crate::run::manifest;

/// A kind that is listed.
struct Listed {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    /// The namespace; absent: all.
    namespace: Option<&'static str>,
    /// Whether there is nothing to import without it.
    needed: bool,
}

const fn listed(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    needed: bool,
) -> Listed {
    Listed {
        group,
        version: "v1",
        kind,
        plural,
        namespace: None,
        needed,
    }
}

/// What each import reads.
fn kinds(source: Source) -> Vec<Listed> {
    let mut all = vec![
        listed("", "Service", "services", true),
        listed("", "Node", "nodes", false),
        listed("apps", "DaemonSet", "daemonsets", false),
    ];
    match source {
        Source::MetalLb => all.extend(metallb::KINDS.map(
            |(group, version, kind, plural, needed)| Listed {
                version,
                ..listed(group, kind, plural, needed)
            },
        )),
        Source::KubeVip => all.extend(
            [("ConfigMap", "configmaps", true), ("Pod", "pods", false)].map(
                |(kind, plural, needed)| Listed {
                    namespace: Some(kube_vip::NAMESPACE),
                    ..listed("", kind, plural, needed)
                },
            ),
        ),
    }
    all
}

/// From the cluster. What is needed and cannot be read is an error that names all of it; other things are told.
///
/// # Errors
/// If a kind that is needed is not there or may not be listed, or the API server does not answer.
pub(super) async fn cluster(
    client: &Client,
    source: Source,
    findings: &mut Findings,
) -> anyhow::Result<Objects> {
    let mut objects = Objects::default();
    let mut missing = Vec::new();
    for kind in kinds(source) {
        match list(client, &kind).await {
            Ok(found) => {
                for object in found {
                    objects.add(kind.kind, serde_json::to_value(object)?);
                }
            }
            Err(error) => match (classify(&error), kind.needed) {
                (ApiFailure::NotFound, false) => {}
                (ApiFailure::NotFound, true) => missing.push(format!(
                    "the cluster has no {}.{} {}: MetalLB's CRDs are not installed, or are of another version. \
                     If they are gone already, give their objects with -f",
                    kind.plural, kind.group, kind.version
                )),
                (ApiFailure::Refused, needed) => {
                    let fault = format!(
                        "{} may not be listed ({}); bind a ClusterRole that permits list on them, or give the \
                         objects with -f",
                        qualified(&kind),
                        reason(&error)
                    );
                    match needed {
                        true => missing.push(fault),
                        false => findings.assume(qualified(&kind), fault),
                    }
                }
                _ => return Err(error).with_context(|| format!("cannot list {}", qualified(&kind))),
            },
        }
    }
    if !missing.is_empty() {
        bail!("{}", missing.join("; "));
    }
    Ok(objects)
}

fn qualified(kind: &Listed) -> String {
    match kind.group {
        "" => kind.plural.to_owned(),
        group => format!("{}.{group}", kind.plural),
    }
}

fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

async fn list(client: &Client, kind: &Listed) -> kube::Result<Vec<DynamicObject>> {
    let named = GroupVersionKind::gvk(kind.group, kind.version, kind.kind);
    let resource = ApiResource::from_gvk_with_plural(&named, kind.plural);
    let api: Api<DynamicObject> = match kind.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    Ok(api.list(&ListParams::default()).await?.items)
}

/// From a file: every document, and the items of lists.
///
/// # Errors
/// If it cannot be read, is no YAML, or has nothing to import.
pub(super) fn file(path: &Path, source: Source) -> anyhow::Result<Objects> {
    let shown = path.display();
    let objects = Objects::of_all(manifest::read(path)?);
    let (kind, get) = match source {
        Source::MetalLb => (
            "IPAddressPool",
            "ipaddresspools.metallb.io,l2advertisements.metallb.io",
        ),
        Source::KubeVip => ("ConfigMap", "configmaps,pods"),
    };
    if objects.of(kind).is_empty() {
        bail!(
            "{shown} has no {kind}; write it by kubectl get -A -o yaml services,nodes,daemonsets,{get}"
        );
    }
    Ok(objects)
}
