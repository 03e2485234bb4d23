//! The daemon is replaced on its Node: who asks all the time is answered all the time.

use std::time::{Duration, Instant};

use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_support::figures::figure_time;
use mooring_test_support::process::Process;
use mooring_test_support::wait::eventually;
use nix::sys::signal::Signal;

use super::daemon::{Daemon, SOON};
use super::monitor::{Monitor, SPACING};

/// A monitor as clouds have them, and one that sees what lasts for a few milliseconds only.
fn monitors(daemon: &Daemon) -> [Monitor; 3] {
    let service = format!("/services/{}/web", daemon.namespace);
    [
        Monitor::start(daemon.address(), &service, SPACING),
        Monitor::start(daemon.address(), "/healthz", SPACING),
        Monitor::start(daemon.address(), &service, Duration::from_millis(3)),
    ]
}

/// The next process runs beside the last one, as with `maxSurge: 1`, when that is told to end.
async fn replace(daemon: &mut Daemon, next: Process) {
    let last = std::mem::replace(&mut daemon.process, next);
    last.terminate().unwrap();
    assert_eq!(last.wait_for_code(SOON).await, 0);
}

async fn logs(process: &Process, words: &str) {
    eventually(&format!("it logs {words:?}"), SOON, async || {
        process.log().contains(words)
    })
    .await;
}

#[tokio::test]
async fn an_update_of_the_daemon_is_seen_by_no_monitor() {
    let mut daemon = Daemon::start().await;
    daemon.has_web().await;
    let monitors = monitors(&daemon);
    for _ in 0..3 {
        let next = daemon.start_next();
        logs(&next, "waiting until it ends").await;
        monitors[0].asked(10).await;
        replace(&mut daemon, next).await;
        monitors[0].asked(20).await;
    }
    for monitor in monitors {
        assert_eq!(monitor.complaints(), Vec::<String>::new());
    }
}

/// What the last one knew is enough.
#[tokio::test]
async fn an_update_while_the_api_server_is_away_is_seen_by_no_monitor() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let mut daemon = Daemon::start_on(&control_plane, &[]).await;
    daemon.has_web().await;
    let monitors = monitors(&daemon);
    // What is known is written down within half a second.
    monitors[0].asked(15).await;
    control_plane.stop_api_server();
    let next = daemon.start_next();
    logs(&next, "waiting until it ends").await;
    logs(&next, "as the daemon before this one did").await;
    replace(&mut daemon, next).await;
    monitors[0].asked(20).await;
    for monitor in monitors {
        assert_eq!(monitor.complaints(), Vec::<String>::new());
    }
    // One that is killed leaves as much.
    daemon.process.signal(Signal::SIGKILL).unwrap();
    daemon.process.wait_for_exit(SOON).await;
    let start = Instant::now();
    daemon.process = daemon.start_next();
    daemon.service_is("web", 200).await;
    let took = start.elapsed();
    figure_time(
        "Start without an API server until health checks are answered",
        took,
    );
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(daemon.get("/healthz").status, 200);
    assert_eq!(daemon.service("none").status, 404);
}
