//! Evening out: one node has all addresses, and gives some of them to nodes that are back.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::FailoverCluster;
use crate::netlab::TcpFlows;
use mooring_test_support::wait::try_eventually;

/// How long addresses may take to be where they should.
const LIMIT: Duration = Duration::from_secs(40);

/// It begins after a minute, and moves the addresses of one Service in a second.
const EVENED: Duration = Duration::from_secs(200);

/// What clients have seen of it.
#[derive(Clone, Copy, Debug)]
pub struct EvenedOut {
    /// Connections before, to the IPv4 addresses of all Services that were watched.
    pub connections: usize,
    /// Of them, those that broke.
    pub broken: usize,
    /// How many of these addresses another node has now.
    pub moved: usize,
}

impl FailoverCluster {
    /// All nodes but one are excluded and included again, until at least half of the Services of these numbers are
    /// elsewhere. Clients talk on `connections`, with all of these Services alike.
    ///
    /// # Errors
    /// If it does not come about in time, or a client cannot connect.
    pub async fn suffer_even_out(
        &mut self,
        numbers: RangeInclusive<u8>,
        connections: usize,
    ) -> Result<EvenedOut> {
        let former = self.speaker().await?;
        let others: Vec<&str> = self.members().filter(|name| *name != former).collect();
        for name in others {
            self.exclude(name).await?;
        }
        let each = connections.div_ceil(numbers.len());
        let mut clients = Vec::new();
        for number in numbers.clone() {
            try_eventually(LIMIT, async || {
                let speaker = self.speaker_of(number).await?;
                ensure!(speaker == former, "{speaker} speaks for number {number}");
                Ok(())
            })
            .await
            .map_err(anyhow::Error::msg)?;
            let [v4, _] = self.numbered(number);
            clients.push(self.tcp.tcp_flows(SocketAddr::new(v4, Self::PORT), each)?);
        }
        self.include_all().await?;
        let moved = try_eventually(EVENED, async || {
            let mut moved = 0;
            for number in numbers.clone() {
                moved += usize::from(self.speaker_of(number).await? != former);
            }
            ensure!(
                moved * 2 >= numbers.len(),
                "{moved} of {} have moved",
                numbers.len()
            );
            Ok(moved)
        })
        .await
        .map_err(anyhow::Error::msg)?;
        let told = Instant::now();
        try_eventually(LIMIT, async || {
            let all = clients.iter().all(|client| client.told_since(told));
            all.then_some(())
        })
        .await
        .ok()
        .context("a connection is neither answered nor broken")?;
        Ok(EvenedOut {
            connections: each * numbers.len(),
            broken: clients.iter().map(TcpFlows::broken).sum(),
            moved,
        })
    }
}
