//! Something goes wrong at each single call of central to cloudscale.ch, and all ends as if nothing
//! had.
//!
//! ```text
//!   an operation, undisturbed ──► n calls, and what there is in the end
//!                                   │                 ▲
//!   for each of the n calls ────────┘                 │ exactly equal
//!     the operation, disturbed at this call ──────────┘
//! ```
//!
//! | operation | what a user does |
//! |---|---|
//! | `create` | makes a Service with two ports, before three Nodes |
//! | `port` | changes one of its ports |
//! | `local` | sets its `externalTrafficPolicy` to `Local` |
//! | `floating-ip` | moves a floating IP from one Service to another |
//! | `join` | a fourth Node joins |
//! | `delete` | deletes the Service |
//!
//! | what goes wrong | |
//! |---|---|
//! | `kill-before`, `kill-after` | central is killed, and started again; the call is lost, or done |
//! | `500`, `401`, `429` | the call is refused, once |
//! | `html-502`, `html-200` | something between central and the cloud answers with a page |
//! | `cut` | half of the answer arrives |
//! | `hang` | there is no answer |
//! | `dropped` | the call is done, and its answer is lost |
//! | `late-early`, `late` | there is no answer, and the call is done only afterwards: before central tries again, or when it has |
//!
//! All cases share one API server, each with its own simulated cloud, namespace and central. Those
//! in which a Node joins come last, one after the other.
//! `CASE=create/kill-after/7` does one alone, `SEED=` chooses the order of all, and the sample that
//! `make test` does; `AT_ONCE=` says how many run side by side.

mod case;
mod case_cluster;
mod choice;
mod cluster;
mod disturbance;
mod operation;
mod reference;
mod report;
mod verdict;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use futures::{StreamExt as _, stream};

pub use case::Case;
pub use choice::{Choice, Scale};
pub use disturbance::Disturbance;
pub use operation::Operation;
pub use report::Report;

use cluster::Cluster;
use reference::Reference;

/// `make sweep-cloudscale`. Fails if a case does.
pub fn main() -> ExitCode {
    let swept = Scale::from_environment().and_then(|scale| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        runtime.block_on(run(&scale))
    });
    match swept {
        Ok(report) => {
            println!("\n{report}");
            ExitCode::from(u8::from(!report.is_good()))
        }
        Err(error) => {
            eprintln!("sweep: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Does all cases of this choice.
///
/// # Errors
/// If an operation does not even work undisturbed.
///
/// # Panics
/// If the API server has refused central anything.
pub async fn run(scale: &Scale) -> Result<Report> {
    let began = Instant::now();
    let cluster = Arc::new(Cluster::start().await?);
    let references = references(&cluster, scale).await?;
    for (operation, reference) in &references {
        println!(
            "[{:4} s] {operation} undisturbed: {} calls, {} of them writes",
            began.elapsed().as_secs(),
            reference.calls,
            reference.writes
        );
    }
    let cases = choice::cases(scale, &references)?;
    println!("{} cases, SEED={}", cases.len(), scale.seed);
    let mut report = Report::default();
    let count = cases.len();
    // Centrals look again when any Node comes or goes, which would hide what they have forgotten.
    let (joins, others): (Vec<_>, Vec<_>) = cases
        .into_iter()
        .partition(|case| case.operation == Operation::Join);
    for (cases, at_once) in [(others, scale.at_once), (joins, 1)] {
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

async fn references(
    cluster: &Arc<Cluster>,
    scale: &Scale,
) -> Result<BTreeMap<Operation, Reference>> {
    let operations = scale.choice.operations();
    let found = stream::iter(operations)
        .map(|operation| {
            let cluster = cluster.clone();
            async move {
                let found = Reference::take(&cluster, operation).await;
                (operation, found)
            }
        })
        .buffer_unordered(scale.at_once)
        .collect::<Vec<_>>();
    let mut references = BTreeMap::new();
    for (operation, reference) in found.await {
        match reference {
            Ok(reference) => drop(references.insert(operation, reference)),
            Err(error) => bail!("{operation}, undisturbed: {error:#}"),
        }
    }
    Ok(references)
}
