//! Strangers who ask central for more than it has.

use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt as _};
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::endpoints::Endpoints;
use mooring_test_cluster::shipped::{CENTRAL_USER, CentralFlags};
use mooring_test_cluster::test_namespace::SOON;
use mooring_test_support::wait::eventually;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::endpoints::reader;

/// More connections than there may be at once.
const FLOOD: usize = 200;
/// More tokens than are asked about at once.
const TOKENS: usize = 50;
/// The chart's timeout of a probe.
const PROBE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn probes_are_answered_beside_idle_connections() {
    let cluster = Cluster::exclusive().await;
    let central = cluster.start_central(CentralFlags::alone()).await;
    eventually("it serves", SOON, async || {
        central.endpoints.status("/readyz").await == Some(200)
    })
    .await;
    let port = central.endpoints.port();
    let mut idle = Vec::new();
    for _ in 0..FLOOD {
        idle.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    }
    for path in ["/livez", "/readyz", "/healthz"] {
        // A probe comes by a connection of its own.
        let probe = Endpoints::new(port).unwrap();
        let asked = Instant::now();
        assert_eq!(probe.status(path).await, Some(200), "{path}");
        let took = asked.elapsed();
        assert!(took < PROBE, "{path} took {took:?}");
    }
    // The oldest made room: the kernel says so of one that was closed.
    let oldest = idle.first_mut().unwrap();
    let read = tokio::time::timeout(SOON, oldest.read(&mut [0; 1])).await;
    assert!(matches!(read, Ok(Ok(0) | Err(_))), "{read:?}");
    cluster.finish().await;
}

#[tokio::test]
async fn a_flood_of_tokens_costs_few_reviews_and_nobody_elses_access() {
    let cluster = Cluster::exclusive().await;
    let central = cluster.start_central(CentralFlags::alone()).await;
    let allowed = reader(&cluster, true).await;
    eventually("the permitted token reads the metrics", SOON, async || {
        let (status, _) = central.endpoints.get("/metrics", Some(&allowed)).await?;
        anyhow::ensure!(status == 200, "{status}");
        Ok(())
    })
    .await;
    let (start, begun) = (cluster.now(), Instant::now());
    let ask = async |number: usize| {
        let token = format!("bogus-{number}");
        let (status, _) = central.endpoints.get("/metrics", Some(&token)).await?;
        Ok::<_, anyhow::Error>(status)
    };
    let mut flood = stream::iter(0..TOKENS).map(ask).buffer_unordered(8);
    let mut refused = 0;
    while let Some(status) = flood.next().await {
        let status = status.unwrap();
        assert!(status == 401 || status == 429, "{status}");
        refused += 1;
        if refused % 10 == 0 {
            let (status, _) = central
                .endpoints
                .get("/metrics", Some(&allowed))
                .await
                .unwrap();
            assert_eq!(status, 200, "after {refused} others");
        }
    }
    // A path that there is not is nobody's to read: that costs no review at all.
    for number in 0..FLOOD {
        let path = format!("/nothing-{number}");
        let (status, _) = central.endpoints.get(&path, Some("bogus")).await.unwrap();
        assert_eq!(status, 404);
    }
    let took = begun.elapsed();
    let log = cluster.audit().await.since(start);
    let reviews = log.by(CENTRAL_USER).of("tokenreviews");
    // Ten at once, two a second, and those of the permitted token each ten seconds.
    let most = 10 + 3 * usize::try_from(took.as_secs() + 1).unwrap();
    assert!(
        reviews.len() <= most,
        "{} reviews in {took:?}",
        reviews.len()
    );
    assert!(!reviews.is_empty(), "or this test sees nothing");
    cluster.finish().await;
}
