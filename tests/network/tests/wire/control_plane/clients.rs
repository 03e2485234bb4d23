//! Who asks at the address of real API servers: a client that writes ten times a second, and new neighbours.

use std::time::{Duration, Instant};

use mooring_test_netlab::control_plane_nodes::{ControlPlaneNodes, Noticed, Watch, Writer};
use mooring_test_netlab::failover::Seen;
use mooring_test_support::wait::eventually;

use super::{MS, SOON};

/// The clients, for which all is well.
pub(super) struct Clients {
    writer: Writer,
    watch: Watch,
    began: Instant,
    /// Who has the address.
    pub(super) speaker: String,
}

impl Clients {
    /// Sets them to work. From then on is counted.
    pub(super) async fn at_work(nodes: &ControlPlaneNodes) -> Self {
        let writer = nodes.writer().await.unwrap();
        let (mut watch, speaker) = nodes.watch_speaker().await.unwrap();
        eventually("writes are done", SOON, async || writer.is_well(1000 * MS)).await;
        watch.begin();
        Self {
            writer,
            watch,
            began: Instant::now(),
            speaker,
        }
    }

    /// What they have noticed, once all is well again, which may take so long.
    pub(super) async fn end(self, nodes: &ControlPlaneNodes, limit: Duration) -> (Seen, Noticed) {
        self.watch.settle(1500 * MS, limit).await;
        eventually("writes are done again", limit, async || {
            self.writer.is_well(1000 * MS)
        })
        .await;
        let (seen, noticed) = (self.watch.end(nodes), self.writer.end(self.began));
        println!("{seen}; {noticed:?}");
        (seen, noticed)
    }
}
