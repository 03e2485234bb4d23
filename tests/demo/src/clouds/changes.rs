//! What happens in one cloud, and leaves the other alone.

use std::time::Instant;

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use mooring_cloud_sim::cloud::Cloud;
use mooring_test_cluster::objects::NodeBuilder;
use serde_json::{Value, json};

use super::super::console::{Console, Step};
use super::super::scenario::MOORING;
use super::cluster::Clouds;
use super::services::class_of;

/// Where each cloud lists its load balancers.
const LISTINGS: [(Cloud, &str); 2] = [
    (Cloud::Linode, "/v4/nodebalancers"),
    (Cloud::Cloudscale, "/v1/load-balancers"),
];

/// All of them.
pub(super) async fn make(console: &Console, clouds: &mut Clouds) -> Result<()> {
    console.chapter("What happens in one cloud leaves the other alone");
    a_machine_joins(console, clouds).await?;
    an_outage(console, clouds).await?;
    a_service_moves(console, clouds).await?;
    a_restart_and_a_loss(console, clouds).await
}

/// Asserts that nothing was written in this cloud since then.
fn unwritten(clouds: &Clouds, cloud: Cloud, since: Instant) -> Result<()> {
    let writes = clouds.sim(cloud).calls().writes().since(since);
    let name = cloud.name();
    ensure!(
        writes.is_empty(),
        "{name} was written to:\n{}",
        writes.summary()
    );
    Ok(())
}

async fn a_machine_joins(console: &Console, clouds: &mut Clouds) -> Result<()> {
    let since = Instant::now();
    clouds.join_one(console, Cloud::Linode).await?;
    let step = Step::new("NodeBalancers get the new Node", 30, MOORING);
    console
        .run(step, async {
            for name in ["web", "any"] {
                step.until(async || clouds.served_by(name, Cloud::Linode).await)
                    .await?;
            }
            unwritten(clouds, Cloud::Cloudscale, since)?;
            let writes = clouds
                .sim(Cloud::Linode)
                .calls()
                .writes()
                .since(since)
                .len();
            Ok((
                (),
                format!("{writes} writes at Linode, none at cloudscale.ch"),
            ))
        })
        .await
}

async fn say_ready(clouds: &Clouds, node: &str, status: &str) -> Result<()> {
    let admin = &clouds.cluster.admin;
    NodeBuilder::set_condition(admin, node, "Ready", status).await?;
    Ok(())
}

async fn an_outage(console: &Console, clouds: &Clouds) -> Result<()> {
    let (linode, since) = (clouds.sim(Cloud::Linode), Instant::now());
    linode.set_down(true);
    console.event("the API of Linode is down");
    clouds
        .provide(
            console,
            "meanwhile",
            Some(Cloud::Cloudscale),
            Cloud::Cloudscale,
        )
        .await?;
    let step = Step::new("nothing of Linode is lost", 30, MOORING);
    console
        .run(step, async {
            // Whether the machine of a silent Node is there is asked of its cloud.
            say_ready(clouds, "linode-1", "Unknown").await?;
            step.until(async || {
                ensure!(linode.turned_away() > 0, "nobody has asked it");
                Ok(())
            })
            .await?;
            for machine in clouds.of(Cloud::Linode) {
                clouds.nodes().get(&machine.name).await?;
            }
            say_ready(clouds, "linode-1", "True").await?;
            linode.set_down(false);
            for name in ["web", "any"] {
                clouds.served_by(name, Cloud::Linode).await?;
            }
            unwritten(clouds, Cloud::Linode, since)?;
            Ok(((), "its Nodes and NodeBalancers are as before".to_owned()))
        })
        .await
}

/// The class cannot be changed: the type goes and comes back.
async fn a_service_moves(console: &Console, clouds: &Clouds) -> Result<()> {
    let (from, to) = (Cloud::Linode, Cloud::Cloudscale);
    let before = clouds.balancers(from).len();
    let away = json!({ "spec": { "type": "ClusterIP", "loadBalancerClass": null } });
    write(clouds, "any", &away).await?;
    let step = Step::new("Service leaves its cloud", 30, MOORING);
    console
        .run(step, async {
            step.until(async || {
                let left = clouds.balancers(from).len();
                ensure!(
                    left + 1 == before,
                    "there are {left} of {before} NodeBalancers"
                );
                Ok(())
            })
            .await?;
            Ok(((), "any: its NodeBalancer is deleted".to_owned()))
        })
        .await?;
    let back = json!({ "spec": { "type": "LoadBalancer", "loadBalancerClass": class_of(to) } });
    write(clouds, "any", &back).await?;
    let step = Step::new("Service comes to another cloud", 30, MOORING);
    console
        .run(step, async {
            let found = step
                .until(async || clouds.served_by("any", to).await)
                .await?;
            Ok(((), format!("any: cloudscale at {}", found.told())))
        })
        .await
}

async fn write(clouds: &Clouds, name: &str, patch: &Value) -> Result<()> {
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    clouds.services().patch(name, &params, &patch).await?;
    Ok(())
}

/// A restart writes nothing; what shows that it has looked at everything is a server that is deleted.
async fn a_restart_and_a_loss(console: &Console, clouds: &mut Clouds) -> Result<()> {
    let since = Instant::now();
    clouds.start_central(console).await;
    let Some(at) = clouds
        .machines
        .iter()
        .rposition(|machine| machine.cloud == Cloud::Cloudscale)
    else {
        return Ok(());
    };
    let lost = clouds.machines.remove(at);
    clouds.sim(lost.cloud).remove(&lost.id);
    say_ready(clouds, &lost.name, "Unknown").await?;
    console.event(&format!(
        "central restarts, and the server {} is deleted",
        lost.name
    ));
    let step = Step::new("Node and members go with the server", 60, MOORING);
    console
        .run(step, async {
            step.until(async || {
                let found = clouds.nodes().get_opt(&lost.name).await?;
                ensure!(found.is_none(), "the Node is still there");
                Ok(())
            })
            .await?;
            for name in ["api", "meanwhile", "any"] {
                step.until(async || clouds.served_by(name, Cloud::Cloudscale).await)
                    .await?;
            }
            step.until(async || {
                for (cloud, balancers) in LISTINGS {
                    let asked = clouds.sim(cloud).calls().since(since).to(balancers);
                    ensure!(!asked.is_empty(), "{} was not asked", cloud.name());
                }
                Ok(())
            })
            .await?;
            clouds.served_by("web", Cloud::Linode).await?;
            unwritten(clouds, Cloud::Linode, since)?;
            let writes = clouds.sim(Cloud::Cloudscale).calls().writes().since(since);
            ensure!(
                writes.iter().all(|call| call.method == "DELETE"),
                "more than members were taken out:\n{}",
                writes.summary()
            );
            Ok((
                (),
                format!("{} writes at cloudscale.ch, none at Linode", writes.len()),
            ))
        })
        .await
}
