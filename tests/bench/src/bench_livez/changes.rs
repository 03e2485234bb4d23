//! How soon answers follow an EndpointSlice.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::time::sleep;

use super::cluster::{APP, LivezCluster, endpoint};
use mooring_test_netlab::netlab::{Answer, Host};

/// How long it may take before it counts as never.
const LIMIT: Duration = Duration::from_secs(30);
/// Between two questions: whoever asks all the time takes the processor from who is to answer.
const PAUSE: Duration = Duration::from_millis(1);

/// Half of all changes, and 99 of a hundred, took at most this long.
pub struct Changes {
    /// Until kube-proxy answered differently.
    pub kube_proxy: (Duration, Duration),
    /// Until the daemon did.
    pub mooring: (Duration, Duration),
}

/// Changes the Service's one endpoint so many times. The time begins when the change is sent: its way
/// to the API server and back is part of what is measured. The daemon is asked first, alone, and
/// kube-proxy, which takes a second, once the daemon has answered differently.
pub(super) async fn measure(cluster: &LivezCluster, times: usize) -> Result<Changes> {
    let slices = Api::<EndpointSlice>::namespaced(cluster.netlab.admin(), APP);
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for round in 0..times {
        let ready = round % 2 == 1;
        let patch = Patch::Merge(json!({ "endpoints": [endpoint(ready)] }));
        let status = if ready { 200 } else { 503 };
        let sent = Instant::now();
        slices
            .patch("web-1", &PatchParams::default(), &patch)
            .await?;
        let node = cluster.node();
        ours.push(until(node, &cluster.daemon.url, status, sent).await?);
        theirs.push(until(node, &cluster.kube_proxy.url, status, sent).await?);
    }
    Ok(Changes {
        kube_proxy: quantiles(theirs),
        mooring: quantiles(ours),
    })
}

async fn until(node: &Host, url: &str, status: u16, since: Instant) -> Result<Duration> {
    loop {
        let answer: Answer = node.get(url).await?;
        if answer.status == status {
            return Ok(since.elapsed());
        }
        ensure!(since.elapsed() < LIMIT, "{url} is still {}", answer.status);
        sleep(PAUSE).await;
    }
}

fn quantiles(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    let at = |percent: usize| {
        let index = (times.len() * percent).div_ceil(100).saturating_sub(1);
        times.get(index).copied().unwrap_or_default()
    };
    (at(50), at(99))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_what_was_measured() {
        let times = (1..=200).rev().map(Duration::from_millis).collect();
        let wanted = (Duration::from_millis(100), Duration::from_millis(198));
        assert_eq!(quantiles(times), wanted);
    }
}
