//! The scenario, step by step.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use mooring_common::names::{LEADER_LEASE, LEADER_LEASE_NAMESPACE};

use super::console::{Console, Step};
use super::picture::picture;
use super::{failover, look_around, nodes, service};
use mooring_test_netlab::netlab_cluster::{Kubelet, NetlabCluster, Site};
use mooring_test_support::process::Process;

pub(super) const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// Mooring's programs, for the logs that a failed step shows.
pub(super) const MOORING: &[&str] = &["mooring"];

/// All that plays. Dropping it ends it.
pub(super) struct Cast {
    pub(super) servers: Vec<Process>,
    pub(super) proxies: BTreeMap<String, Process>,
    pub(super) daemons: BTreeMap<String, Process>,
    pub(super) kubelets: BTreeMap<String, Kubelet>,
    _central: Process,
    pub(super) cluster: NetlabCluster,
}

/// Tells it to the end, or to the first step that does not happen.
pub(super) async fn run(console: &Console, keep: bool) -> Result<()> {
    let mut cast = gather(console).await?;
    nodes::initialise(console, &mut cast).await?;
    service::serve(console, &mut cast).await?;
    let (addresses, figure) = service::expose(console, &cast).await?;
    service::check_health(console, &cast).await?;
    failover::take_down(console, &mut cast, &addresses).await?;
    check_refusals(console, &cast.cluster).await?;
    console.print_table();
    println!(
        "FIGURE Time from Service creation to the first HTTP answer: {} ms",
        figure.as_millis()
    );
    if keep {
        look_around::explain(console, &cast.cluster, &addresses.v4.to_string())?;
        std::future::pending::<()>().await;
    }
    Ok(())
}

/// The lab, the control plane, the manifests, and central.
async fn gather(console: &Console) -> Result<Cast> {
    let site = Site::build(&NODES)?;
    println!("\n{}", picture(&site));
    let cluster = start_cluster(console, site).await?;
    let central = cluster.start_central(&["--node-daemon-grace=30s"]).await?;
    await_leader(console, &cluster, &central).await?;
    Ok(Cast {
        servers: Vec::new(),
        proxies: BTreeMap::new(),
        daemons: BTreeMap::new(),
        kubelets: BTreeMap::new(),
        _central: central,
        cluster,
    })
}

/// The control plane, with the manifests in force.
pub(super) async fn start_cluster(console: &Console, site: Site) -> Result<NetlabCluster> {
    console.chapter("A Kubernetes control plane, and Mooring as it is shipped");
    let step = Step::new("control plane ready", 120, &[]);
    let control_plane = console
        .run(step, async {
            let control_plane = site.control_plane().await?;
            let version = control_plane.admin().apiserver_version().await?;
            let seen = format!(
                "Kubernetes {} at {}",
                version.git_version,
                control_plane.url()
            );
            Ok((control_plane, seen))
        })
        .await?;
    let step = Step::new("manifests in force", 60, &[]);
    console
        .run(step, async {
            let cluster = site.install(control_plane).await?;
            Ok((
                cluster,
                "CRD, permissions, admission policies, workloads".to_owned(),
            ))
        })
        .await
}

/// Waits until central leads.
pub(super) async fn await_leader(
    console: &Console,
    cluster: &NetlabCluster,
    central: &Process,
) -> Result<()> {
    console.heed(central);
    let step = Step::new("mooring-central leads", 30, MOORING);
    console
        .run(step, async {
            let leases = Api::<Lease>::namespaced(cluster.admin.clone(), LEADER_LEASE_NAMESPACE);
            let holder = step
                .until(async || {
                    let spec = leases.get(LEADER_LEASE).await?.spec.unwrap_or_default();
                    spec.holder_identity
                        .filter(|holder| !holder.is_empty())
                        .context("nobody leads")
                })
                .await?;
            let holder = holder.split('_').next().unwrap_or_default().to_owned();
            Ok((
                (),
                format!("Lease {LEADER_LEASE_NAMESPACE}/{LEADER_LEASE} held by {holder}"),
            ))
        })
        .await
}

/// The shipped permissions are enough, and nobody tried more.
pub(super) async fn check_refusals(console: &Console, cluster: &NetlabCluster) -> Result<()> {
    let step = Step::new("permissions suffice", 30, MOORING);
    console
        .run(step, async {
            let log = cluster.audit_settled().await;
            let refused = cluster.shipped.forbidden(&log);
            ensure!(
                refused.is_empty(),
                "the API server refused:\n{}",
                refused.summary()
            );
            let asked = log
                .filter(|record| record.user.contains(":mooring-system:"))
                .len();
            Ok((
                (),
                format!("{asked} requests by Mooring in the audit log, none refused"),
            ))
        })
        .await
}
