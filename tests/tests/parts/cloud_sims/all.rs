//! Any of the clouds by one set of names.

use mooring_cloud_sim::cloud::{Cloud, CloudSim, Server};

use crate::cloud_sims::brightbox;
use crate::cloud_sims::client::get;
use crate::cloud_sims::phoenixnap;

/// What scenarios for all clouds expect of a Node's addresses is what the simulations show.
#[tokio::test]
async fn every_cloud_shows_the_same_machine() {
    for cloud in [
        Cloud::Linode,
        Cloud::Cloudscale,
        Cloud::Phoenixnap,
        Cloud::Brightbox,
    ] {
        let sim = CloudSim::start(cloud).await;
        let server = Server::named("n1")
            .public("192.0.2.1")
            .public("2001:db8::1");
        let id = sim.add(server.private("10.0.0.1"));
        assert!(id.starts_with(cloud.name()), "{id}");
        let url = sim.environment()[0].1.clone();
        let path = match cloud {
            Cloud::Linode => "/v4/linode/instances",
            Cloud::Cloudscale => "/v1/servers",
            Cloud::Phoenixnap => "/bmc/v1/servers",
            Cloud::Brightbox => "/1.0/servers",
        };
        let shown = match cloud {
            Cloud::Phoenixnap => phoenixnap::get(sim.phoenixnap().unwrap(), path).await.body,
            Cloud::Brightbox => brightbox::get(sim.brightbox().unwrap(), path).await.body,
            _ => get(&url, path).await.body,
        };
        for address in ["192.0.2.1", "2001:db8::1", "10.0.0.1"] {
            assert!(shown.contains(address), "{shown}");
        }
        assert_eq!((sim.listings().len(), sim.lookups().len()), (1, 0));
    }
}
