//! The simulations are cheap enough for the bench with 5,000 Nodes.

use std::time::{Duration, Instant};

use mooring_cloud_sim::cloudscale::Cloudscale;
use mooring_cloud_sim::linode::{Instance, Linode};

use crate::cloud_sims::client::get;

const MACHINES: usize = 5_000;

/// Generous, for a busy machine and a debug build.
const LIMIT: Duration = Duration::from_secs(5);

#[tokio::test]
async fn five_thousand_machines_are_listed_at_once() {
    let linode = Linode::start().await.unwrap();
    for index in 0..MACHINES {
        linode.add(Instance::labelled(&format!("n{index}")).ipv4("192.0.2.1"));
    }
    let start = Instant::now();
    for page in 1..=10 {
        let path = format!("/v4/linode/instances?page={page}&page_size=500");
        assert_eq!(get(&linode.url(), &path).await.status, 200);
    }
    assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());

    let cloudscale = Cloudscale::start().await.unwrap();
    for index in 0..MACHINES {
        let name = format!("n{index}");
        cloudscale.add(mooring_cloud_sim::cloudscale::Machine::named(&name));
    }
    let start = Instant::now();
    assert_eq!(get(&cloudscale.url(), "/v1/servers").await.status, 200);
    assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
}
