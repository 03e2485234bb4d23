//! When all is well, and what was said until then.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kube::api::Api;
use mooring_common::l2_network::{L2Network, SegmentNode};
use mooring_node::protocol::{Body, NodeId};

use super::{FailoverCluster, QUIET, SOON};
use crate::netlab::{Frame, claims};
use crate::netlab_cluster::NETWORK;
use mooring_test_support::process::Process;
use mooring_test_support::wait::try_eventually;

/// Long enough for a voter that has died to be replaced.
const REPLACED: Duration = Duration::from_secs(60);

impl FailoverCluster {
    /// Waits until all members take part, one node answers for both addresses, and no burst is under
    /// way.
    ///
    /// # Errors
    /// If it does not come to be in time.
    pub async fn settled(&self) -> Result<()> {
        self.members_take_part().await?;
        let addresses = self.addresses();
        let probers: Vec<_> = addresses
            .iter()
            .map(|address| self.asker.prober_on(self.interface(), *address))
            .collect::<Result<_>>()?;
        try_eventually(SOON, async || {
            let speakers: Vec<_> = probers
                .iter()
                .map(|prober| prober.only_speaker(QUIET / 2))
                .collect();
            let frames = self.capture.since(Instant::now() - QUIET);
            let announced: usize = addresses
                .iter()
                .map(|address| claims::announcements(&frames, *address).len())
                .sum();
            ensure!(
                speakers.iter().all(Option::is_some)
                    && speakers.first() == speakers.last()
                    && announced == 0,
                "speakers {speakers:?}, {announced} announcements in the last second"
            );
            Ok(())
        })
        .await
        .map_err(|reason| anyhow::anyhow!("the cluster does not settle: {reason}"))
    }

    /// Who decides on the segment.
    ///
    /// # Errors
    /// If the API server does not say.
    pub async fn voters(&self) -> Result<Vec<String>> {
        let networks = Api::<L2Network>::all(self.netlab.admin.clone());
        let status = networks.get(NETWORK).await?.status.unwrap_or_default();
        Ok(status.voters.unwrap_or_default().nodes)
    }

    /// Waits until a voter that has died is one no more, and another one votes in its place.
    ///
    /// # Errors
    /// If it does not come to be in time.
    pub async fn replaced(&self, dead: &str) -> Result<()> {
        try_eventually(REPLACED, async || {
            let voters = self.voters().await?;
            ensure!(
                voters.len() == 3 && !voters.iter().any(|name| name == dead),
                "{voters:?}"
            );
            Ok(())
        })
        .await
        .map_err(|reason| anyhow::anyhow!("the dead voter {dead} is not replaced: {reason}"))
    }

    /// When a node first said on the segment that it takes part, since then: it hears most of the voters,
    /// and they hear it.
    pub fn took_part(&self, name: &str, since: Instant) -> Option<Instant> {
        let node = NodeId::of(name);
        let takes_part = |frame: &Frame| {
            let message = claims::segment_message((frame.at >= since).then_some(frame)?)?;
            let Body::Heartbeat(heartbeat) = message.body else {
                return None;
            };
            let flags = heartbeat.flags;
            (message.from == node && flags.hears_quorum && !flags.starting && !flags.released)
                .then_some(())
        };
        let said = self.capture.pick(takes_part);
        said.first().map(|(at, ())| *at)
    }

    /// Waits until each member's daemon speaks to the others, and all are voters, or three of them.
    ///
    /// # Errors
    /// If it does not come to be in time.
    pub async fn members_take_part(&self) -> Result<()> {
        let members: Vec<_> = self.members().collect();
        let start = Instant::now();
        try_eventually(SOON, async || {
            let heard = claims::heartbeats(&self.capture.since(start));
            for name in &members {
                let beats = heard.get(&self.mac_of(name)).copied().unwrap_or_default();
                ensure!(beats >= 10, "{name} has sent {beats} heartbeats");
            }
            Ok(())
        })
        .await
        .map_err(anyhow::Error::msg)?;
        let networks = Api::<L2Network>::all(self.netlab.admin.clone());
        try_eventually(SOON, async || {
            let status = networks.get(NETWORK).await?.status.unwrap_or_default();
            let voters = self.voters().await?;
            let votes = |name: &&&str| voters.iter().any(|voter| voter == **name);
            let voting = members.iter().filter(votes).count();
            ensure!(
                voting >= members.len().min(3),
                "the voters are {voters:?}, of {members:?}"
            );
            for name in &members {
                let is_ready = |node: &SegmentNode| node.name == *name && node.ready;
                ensure!(
                    status.nodes.iter().any(is_ready),
                    "{name} is not ready: {:?}",
                    status.nodes
                );
            }
            Ok(())
        })
        .await
        .map_err(anyhow::Error::msg)
    }

    /// Lines that Mooring's programs have logged in which a Rust value shows, where words should.
    pub fn lines_with_rust_values(&self) -> Vec<String> {
        let programs = self.daemons.values().chain([&self.central]);
        let logs = programs.map(Process::log).collect::<Vec<_>>();
        let lines = logs.iter().flat_map(|log| log.lines());
        let shows = |line: &&str| {
            ["Some(", "None,", " { ", "Err("]
                .iter()
                .any(|sign| line.contains(sign))
        };
        lines.filter(shows).map(str::to_owned).collect()
    }

    /// What was said on the wire about the watched addresses since then, line by line: for failures.
    pub fn timeline(&self, since: Instant) -> String {
        let frames = self.capture.since(since);
        let mut lines: Vec<(Instant, String)> = Vec::new();
        for address in self.addresses() {
            // Of many equal ones in a row, the first.
            let mut last = None;
            for claim in claims::claims(&frames, address) {
                if last.replace((claim.mac, claim.unasked)) == Some((claim.mac, claim.unasked)) {
                    continue;
                }
                let after = claim.at.duration_since(since).as_millis();
                let how = if claim.unasked {
                    "announces"
                } else {
                    "answers for"
                };
                let who = self.name_of(claim.mac);
                lines.push((claim.at, format!("{after:6} ms {who} {how} {address}")));
            }
        }
        lines.sort();
        let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
        lines.join("\n")
    }
}
