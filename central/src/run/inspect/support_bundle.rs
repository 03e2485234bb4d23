//! An archive for whoever helps: objects, Events, logs, versions, status and findings. No Secret is read; what looks
//! like a credential is redacted.

mod redact;

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams};
use kube::{Client, Error, ResourceExt as _};
use serde::Serialize;
use tar::{Builder, Header};

use super::doctor;
use super::finding::{self, Report};
use super::flags::Target;
use super::observe::PODS;
use super::print::Style;
use super::rights::{Kind, MissingRight};
use super::setup::{CENTRAL_CONTAINER, NODE_CONTAINER};
use super::snapshot::Snapshot;
use super::status;
use redact::{redact, redact_text};

/// How many lines of each log.
const LOG_LINES: i64 = 5000;

/// A file of the archive.
struct Entry {
    name: String,
    content: String,
}

/// Writes the archive, and says where it is.
///
/// # Errors
/// If it cannot be written.
pub(super) async fn write(
    client: &Client,
    snapshot: &Snapshot,
    file: Option<&Path>,
) -> anyhow::Result<String> {
    let mut snapshot = snapshot.clone();
    let logs = logs(client, &mut snapshot).await;
    let mut entries = objects(&snapshot)?;
    entries.extend(logs);
    entries.extend(reports(&snapshot)?);
    let time = snapshot.now.strftime("%Y%m%d-%H%M%S").to_string();
    let folder = format!("mooring-support-{time}");
    let path = file.map_or_else(|| PathBuf::from(format!("{folder}.tar.gz")), Path::to_owned);
    let created = std::fs::File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path);
    let created = created.with_context(|| {
        format!(
            "cannot make {}; name a file that is not there yet",
            path.display()
        )
    })?;
    let seconds = u64::try_from(snapshot.now.as_second()).unwrap_or_default();
    archive(created, &folder, seconds, &entries)
        .with_context(|| format!("cannot write {}", path.display()))?;
    let missing = match snapshot.missing.len() {
        0 => "all could be read".to_owned(),
        count => format!("{count} rights are missing, see missing-rights.txt in it"),
    };
    Ok(format!(
        "{}: {} files; {missing}. Read it before you hand it on: redaction goes by names and forms.",
        path.display(),
        entries.len()
    ))
}

fn archive(file: impl Write, folder: &str, seconds: u64, entries: &[Entry]) -> std::io::Result<()> {
    let mut builder = Builder::new(GzEncoder::new(file, Compression::default()));
    for Entry { name, content } in entries {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(seconds);
        builder.append_data(&mut header, format!("{folder}/{name}"), content.as_bytes())?;
    }
    builder.into_inner()?.finish()?.flush()
}

/// A list of objects, redacted.
fn listed<K: Serialize>(name: &str, all: Option<&Vec<K>>) -> anyhow::Result<Option<Entry>> {
    let Some(all) = all else { return Ok(None) };
    let mut value = serde_json::to_value(all)?;
    redact(&mut value);
    Ok(Some(Entry {
        name: format!("objects/{name}.yaml"),
        content: serde_norway::to_string(&value)?,
    }))
}

fn objects(snapshot: &Snapshot) -> anyhow::Result<Vec<Entry>> {
    let objects = &snapshot.objects;
    let load_balancers = objects.services.as_ref().map(|all| {
        let is_wanted = |service: &&k8s_openapi::api::core::v1::Service| {
            let spec = service.spec.as_ref();
            spec.and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
        };
        all.iter().filter(is_wanted).collect::<Vec<_>>()
    });
    let of_load_balancers = objects.slices.as_ref().map(|all| {
        let is_wanted = |slice: &&k8s_openapi::api::discovery::v1::EndpointSlice| {
            let name = slice
                .labels()
                .get(mooring_common::names::labels::SERVICE_NAME);
            let namespace = slice.namespace().unwrap_or_default();
            snapshot.load_balancers().any(|service| {
                service.key.namespace == namespace && Some(&service.key.name) == name
            })
        };
        all.iter().filter(is_wanted).collect::<Vec<_>>()
    });
    let entries = [
        listed("nodes", objects.nodes.as_ref())?,
        listed("services", load_balancers.as_ref())?,
        listed("endpointslices", of_load_balancers.as_ref())?,
        listed("l2networks", objects.networks.as_ref())?,
        listed("events-nodes", objects.node_events.as_ref())?,
        listed("events-l2networks", objects.network_events.as_ref())?,
        listed("events-services", objects.service_events.as_ref())?,
        listed("pods", objects.pods.as_ref())?,
        listed("deployments", objects.deployments.as_ref())?,
        listed("daemonsets", objects.daemon_sets.as_ref())?,
        listed("leases-daemons", objects.leases.as_ref())?,
        listed("leases-leader", objects.leader_leases.as_ref())?,
        listed("admission-policies", objects.policies.as_ref())?,
    ];
    Ok(entries.into_iter().flatten().collect())
}

/// The container of Mooring's in a Pod, beside which users may run others.
fn container_of(pod: &Pod) -> Option<String> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut names = containers.map(|container| container.name.as_str());
    let found = names.find(|name| [CENTRAL_CONTAINER, NODE_CONTAINER].contains(name));
    found.map(str::to_owned)
}

/// The logs of Mooring's Pods, also of containers that have ended.
async fn logs(client: &Client, snapshot: &mut Snapshot) -> Vec<Entry> {
    let pods = snapshot.objects.pods.clone().unwrap_or_default();
    let api = Api::<Pod>::namespaced(client.clone(), &snapshot.system);
    let kind = Kind {
        resource: "pods/log",
        shows: "what Mooring's programs have logged",
        ..PODS
    };
    let mut entries = Vec::new();
    for pod in pods {
        for previous in [false, true] {
            let params = LogParams {
                container: container_of(&pod),
                previous,
                tail_lines: Some(LOG_LINES),
                timestamps: true,
                ..LogParams::default()
            };
            let suffix = if previous { "-previous" } else { "" };
            match api.logs(&pod.name_any(), &params).await {
                Ok(log) => entries.push(Entry {
                    name: format!("logs/{}{suffix}.txt", pod.name_any()),
                    content: redact_text(&log),
                }),
                Err(Error::Api(status)) if status.code == 403 => {
                    let right = MissingRight::new("get", kind, Some(&snapshot.system));
                    snapshot.missing.push(right);
                    return entries;
                }
                // No container has ended before this one.
                Err(_) if previous => {}
                Err(error) => entries.push(Entry {
                    name: format!("logs/{}.txt", pod.name_any()),
                    content: format!("the log cannot be read: {error}\n"),
                }),
            }
        }
    }
    entries
}

/// Status and findings, as the other commands print them, and what is missing.
fn reports(snapshot: &Snapshot) -> anyhow::Result<Vec<Entry>> {
    let status = status::status(snapshot);
    let findings = doctor::examine(snapshot, &Target::All, Vec::new())?;
    let report = Report::new(findings, snapshot);
    let wide = Style {
        colours: false,
        wide: true,
    };
    let mut as_json = serde_json::to_value(&status)?;
    redact(&mut as_json);
    let missing: Vec<String> = snapshot
        .missing
        .iter()
        .map(|right| format!("{right}\n"))
        .collect();
    let entry = |name: &str, content: String| Entry {
        name: name.to_owned(),
        content,
    };
    Ok(vec![
        entry("status.txt", redact_text(&status::text(&status, wide))),
        entry("status.json", serde_json::to_string_pretty(&as_json)?),
        entry("doctor.txt", redact_text(&finding::text(&report, wide))),
        entry("missing-rights.txt", missing.concat()),
    ])
}
