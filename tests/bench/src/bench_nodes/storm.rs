//! The cloud refuses everything for a while: first for want of budget, with a time after which to ask
//! again, then as when it is broken, without one. Central wants to know about Nodes that are not Ready
//! all the while.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use http::StatusCode;

use super::cluster::{Cluster, LIMIT, refreshes};
use super::report::{Report, Row};
use crate::bench::Kind;
use mooring_cloud_sim::{Calls, Fault, When};
use mooring_test_support::wait::try_eventually;

/// The longest that central may leave a cloud alone after failures: its longest backoff, and a look.
const LONGEST_PAUSE: Duration = Duration::from_secs(65);

pub(super) async fn run(cluster: &mut Cluster, report: &mut Report) -> Result<()> {
    let pid = cluster.central.process.pid();
    let ill = cluster.a_tenth();
    cluster.kubelets.fall_silent(&ill).await?;
    let asked_for = cluster.scale.retry_after;
    let busy = Fault::status(StatusCode::TOO_MANY_REQUESTS).retry_after(asked_for);
    let (refused, recovered) = storm(cluster, busy, asked_for * 4).await?;
    let shortest = pauses(&refused).into_iter().min().unwrap_or_default();
    report.add(Row {
        id: "T13",
        quantity: format!(
            "every request answered 429, Retry-After {} s, for {} s",
            asked_for.as_secs(),
            asked_for.as_secs() * 4
        ),
        measured: format!(
            "{} requests, at least {:.1} s apart; recovered alone after {recovered:.1?}",
            refused.len(),
            shortest.as_secs_f64()
        ),
        target: format!("at least {} s apart", asked_for.as_secs()),
        met: refused.len() > 1 && shortest >= asked_for && recovered < LONGEST_PAUSE,
        kind: Kind::Count,
    });

    let span = cluster.scale.monitor_period * 12;
    let broken = Fault::status(StatusCode::SERVICE_UNAVAILABLE);
    let (refused, recovered) = storm(cluster, broken, span).await?;
    let pauses = pauses(&refused);
    let seldomer = pauses
        .windows(2)
        .all(|pair| matches!(pair, [one, next] if *next + Duration::from_secs(1) > *one));
    let listed: Vec<_> = pauses
        .iter()
        .map(|p| format!("{:.0}", p.as_secs_f64()))
        .collect();
    report.add(Row {
        id: "T13",
        quantity: format!("every request answered 503 for {} s", span.as_secs()),
        measured: format!(
            "{} requests, {} s apart; recovered alone after {recovered:.1?}",
            refused.len(),
            listed.join(", ")
        ),
        target: "never closer together".to_owned(),
        met: pauses.len() > 1 && seldomer && recovered < LONGEST_PAUSE,
        kind: Kind::Count,
    });
    cluster.kubelets.come_back(&ill).await?;
    ensure!(
        cluster.central.process.is_running() && cluster.central.process.pid() == pid,
        "central has ended in the storm"
    );
    Ok(())
}

/// What is refused in a storm of this length, which begins when it is noticed, and how long after it
/// all machines are listed again.
async fn storm(cluster: &Cluster, fault: Fault, span: Duration) -> Result<(Calls, Duration)> {
    let begun = Instant::now();
    let injection = cluster.linode.faults().inject(When::any("**/*"), fault);
    let noticed = tokio::time::timeout(LIMIT, injection.struck(1)).await;
    ensure!(noticed.is_ok(), "the cloud is not asked at all");
    cluster.tell("the cloud refuses everything");
    tokio::time::sleep(span).await;
    injection.lift();
    let lifted = Instant::now();
    let refused = cluster
        .linode
        .calls()
        .since(begun)
        .filter(|call| call.faulty);
    let listed = try_eventually(LIMIT, async || {
        let calls = cluster.linode.calls().since(lifted);
        !refreshes(&calls.answered(StatusCode::OK)).is_empty()
    });
    ensure!(
        listed.await.is_ok(),
        "central does not ask the cloud any more"
    );
    cluster.tell("the cloud answers, and is asked");
    Ok((refused, lifted.elapsed()))
}

/// Between one request and the next.
fn pauses(calls: &Calls) -> Vec<Duration> {
    let pairs = calls.iter().zip(calls.iter().skip(1));
    pairs
        .map(|(one, next)| next.at.duration_since(one.at))
        .collect()
}
