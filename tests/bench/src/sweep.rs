//! Something goes wrong at each single call of central to a cloud, and all ends as if nothing had.
//!
//! ```text
//!   an operation, undisturbed ──► n calls, and what there is in the end
//!                                   │                 ▲
//!   for each of the n calls ────────┘                 │ exactly equal
//!     the operation, disturbed at this call ──────────┘
//! ```
//!
//! What users do differs from cloud to cloud: [`cloudscale`], [`linode`].
//!
//! | what goes wrong | |
//! |---|---|
//! | `kill-before`, `kill-after` | central is killed, and started again; the call is lost, or done |
//! | `500`, `401`, `429` | the call is refused, once |
//! | `html-502`, `html-200` | something between central and the cloud answers with a page |
//! | `cut` | half of the answer arrives |
//! | `hang` | there is no answer |
//! | `dropped` | the call is done, and its answer is lost |
//! | `busy` | another write is under way, says Linode |
//! | `late-early`, `late` | there is no answer, and the call is done only afterwards: before central tries again, or when it has |
//!
//! All cases share one API server, each with its own simulated cloud, namespace and central. Those
//! in which a Node comes or goes come last, one after the other.
//! `CASE=create/kill-after/7` does one alone, `SEED=` chooses the order of all, and the sample that
//! `make test` does; `AT_ONCE=` says how many run side by side.

mod case;
mod case_cluster;
mod choice;
pub mod cloudscale;
mod cluster;
mod disturbance;
pub mod linode;
mod reference;
mod report;
mod swept_cloud;
mod verdict;
mod written;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use futures::{StreamExt as _, stream};

pub use case::Case;
pub use choice::{Choice, Scale};
pub use disturbance::Disturbance;
pub use report::Report;
pub use swept_cloud::Operation;

use cluster::Cluster;
use mooring_cloud_sim::cloudscale::Cloudscale;
use mooring_cloud_sim::linode::Linode;
use reference::Reference;
use swept_cloud::SweptCloud;

/// `make sweep-cloudscale`, `make sweep-linode`: the cloud is the first argument. Fails if a case does.
pub fn main() -> ExitCode {
    let swept = match std::env::args().nth(1).as_deref() {
        Some("cloudscale") => swept::<Cloudscale>(),
        Some("linode") => swept::<Linode>(),
        other => Err(anyhow::anyhow!("write cloudscale or linode, not {other:?}")),
    };
    match swept {
        Ok(is_good) => ExitCode::from(u8::from(!is_good)),
        Err(error) => {
            eprintln!("sweep: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all cases that the environment chooses end well.
fn swept<C: SweptCloud>() -> Result<bool> {
    let scale = Scale::from_environment()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(run::<C>(&scale))?;
    println!("\n{report}");
    Ok(report.is_good())
}

/// Does all cases of this choice.
///
/// # Errors
/// If an operation does not even work undisturbed.
///
/// # Panics
/// If the API server has refused central anything.
async fn run<C: SweptCloud>(scale: &Scale<C::Operation>) -> Result<Report<C::Operation>> {
    let began = Instant::now();
    let cluster = Arc::new(Cluster::<C>::start().await?);
    let references = references(&cluster, scale).await?;
    for (operation, reference) in &references {
        println!(
            "[{:4} s] {} undisturbed: {} calls, {} of them writes",
            began.elapsed().as_secs(),
            operation.name(),
            reference.calls,
            reference.writes
        );
    }
    let cases = choice::cases(scale, C::DISTURBANCES, &references)?;
    println!("{} cases, SEED={}", cases.len(), scale.seed);
    let mut report = Report::new(C::DISTURBANCES);
    let count = cases.len();
    let (alone, others): (Vec<_>, Vec<_>) = cases
        .into_iter()
        .partition(|case| case.operation.moves_nodes());
    for (cases, at_once) in [(others, scale.at_once), (alone, 1)] {
        let mut verdicts = stream::iter(cases)
            .map(|case| {
                let (cluster, reference) = (&cluster, references.get(&case.operation));
                async move {
                    let reference = reference.context("each operation was done undisturbed")?;
                    Ok::<_, anyhow::Error>(case.run(cluster, reference).await)
                }
            })
            .buffer_unordered(at_once);
        while let Some(verdict) = verdicts.next().await {
            let verdict = verdict?;
            report.add(verdict.clone());
            println!(
                "[{:4} s] {}/{count} {verdict}",
                began.elapsed().as_secs(),
                report.len()
            );
        }
    }
    cluster.shipped.assert_no_forbidden(&cluster.cp).await;
    Ok(report)
}

async fn references<C: SweptCloud>(
    cluster: &Arc<Cluster<C>>,
    scale: &Scale<C::Operation>,
) -> Result<BTreeMap<C::Operation, Reference>> {
    let operations = scale.choice.operations();
    let (alone, others): (Vec<_>, Vec<_>) = operations
        .into_iter()
        .partition(|operation| operation.moves_nodes());
    let mut references = BTreeMap::new();
    for (operations, at_once) in [(others, scale.at_once), (alone, 1)] {
        let found = stream::iter(operations)
            .map(|operation| {
                let cluster = cluster.clone();
                async move {
                    let found = Reference::take(&cluster, operation).await;
                    (operation, found)
                }
            })
            .buffer_unordered(at_once)
            .collect::<Vec<_>>();
        for (operation, reference) in found.await {
            match reference {
                Ok(reference) => drop(references.insert(operation, reference)),
                Err(error) => bail!("{}, undisturbed: {error:#}", operation.name()),
            }
        }
    }
    Ok(references)
}
