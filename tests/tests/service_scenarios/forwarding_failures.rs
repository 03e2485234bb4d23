//! What befalls central and its cloud in the suites of clouds that forward: its end at any write, and many failures
//! at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::StatusCode;
use mooring_cloud_sim::{Fault, Injection, When};
use mooring_test_cluster::objects::ServiceBuilder;
use mooring_test_cluster::shipped::Central;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::cluster::{AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, SOON, ingress};
use super::forwarding::ForwardingCloud as _;

/// All that changes something; to get a token does not.
fn writes() -> When {
    When::write("**/*").but("/token/")
}

/// Central's end.
pub(super) struct Death {
    central: Central,
    switch: Injection,
    killed: Arc<AtomicBool>,
}

impl Death {
    /// At its n-th write from now on, which is done before if it is `executed`.
    pub(super) fn at(cluster: &CloudCluster, central: Central, n: u64, executed: bool) -> Self {
        let pid = Pid::from_raw(central.process.pid().try_into().unwrap());
        let killed = Arc::new(AtomicBool::new(false));
        let flag = killed.clone();
        let kill = move || flag.store(kill(pid, Signal::SIGKILL).is_ok(), Ordering::Relaxed);
        let faults = cluster.cloud.faults();
        let switch = faults.kill_switch(writes(), n, executed, kill);
        Self {
            central,
            switch,
            killed,
        }
    }

    /// Waits for it.
    pub(super) async fn comes(self) {
        self.switch.struck(1).await;
        self.central.process.wait_for_exit(SOON).await;
        assert!(self.killed.load(Ordering::Relaxed));
    }
}

/// Many Services, many workers, much that fails, and a Node that joins meanwhile: all are served in the end,
/// and then nothing is left of them. `busy`: how the cloud says that it was asked too much; `is_whole`: holds what
/// there is against so many Services.
pub(super) async fn storm(
    cluster: &CloudCluster,
    busy: Fault,
    service: impl Fn(&str) -> ServiceBuilder,
    is_whole: impl Fn(usize),
) {
    const SERVICES: usize = 6;
    cluster.cloud.set_latency(Duration::from_millis(5));
    let flags = cluster.flags().with("--concurrent-service-syncs=4");
    let _central = cluster.central_with(flags).await;
    let faults = cluster.cloud.faults();
    let failures = [
        (2, Fault::status(StatusCode::BAD_GATEWAY)),
        (3, Fault::reset().executed()),
        (4, Fault::status(StatusCode::SERVICE_UNAVAILABLE)),
        (6, Fault::torn()),
        (
            7,
            Fault::status(StatusCode::INTERNAL_SERVER_ERROR).executed(),
        ),
        (9, busy),
        (10, Fault::reset()),
    ];
    let injected = failures.map(|(nth, fault)| faults.inject(writes().nth(nth), fault));
    faults.inject(When::get("**/*").nth(7), Fault::cut_off());
    let names: Vec<String> = (0..SERVICES).map(|n| format!("web-{n}")).collect();
    for name in &names {
        cluster.make(service(name)).await;
    }
    cluster.join(3).await;
    for name in &names {
        cluster.provided_at_last(name).await;
        cluster.serves(name, &[1, 2, 3]).await;
    }
    // How many writes that took depends on when the Node was seen. With another one, there are enough.
    cluster.join(4).await;
    for name in &names {
        cluster.serves(name, &[1, 2, 3, 4]).await;
    }
    let struck = injected.iter().filter(|injected| injected.hits() > 0);
    assert_eq!(struck.count(), injected.len());
    assert_eq!(cluster.cloud.balancers().len(), SERVICES);
    is_whole(SERVICES);
    for name in &names {
        assert!(!ingress(&cluster.get(name).await).is_empty());
        cluster.delete(name).await;
    }
    for name in &names {
        cluster.gone_within(name, AFTER_RETRIES).await;
    }
    cluster.nothing_is_left().await;
}
