//! All clients at work while something happens.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::{ADDRESSES, ControlPlaneNodes, ECHO};
use crate::failover::Seen;
use crate::failover::faults::until;
use crate::netlab::{Mac, Prober, UdpFlow};
use mooring_test_support::wait::try_eventually;

/// Datagrams a second, for each family.
const RATE: u32 = 200;

/// How long all must be well before a fault, and after it.
const WELL: Duration = Duration::from_millis(400);

/// How long the clients may take until all is well before the fault.
const START: Duration = Duration::from_secs(15);

/// Clients of the control plane's addresses, at work until the end.
pub struct Watch {
    /// None where nothing sends datagrams back: real API servers do not.
    flows: Vec<UdpFlow>,
    probers: [Prober; 2],
    began: Instant,
}

impl ControlPlaneNodes {
    /// Sets all clients to work.
    ///
    /// # Errors
    /// If one does not start.
    pub fn begin_watch(&self) -> Result<Watch> {
        let [v4, v6] = ADDRESSES;
        let echoes = ADDRESSES.iter().filter(|_| self.stacked.is_none());
        let flows = echoes.map(|address| {
            let echo = SocketAddr::new(*address, ECHO);
            self.client.udp_flow(echo, RATE)
        });
        Ok(Watch {
            flows: flows.collect::<Result<_>>()?,
            probers: [self.asker.prober(v4)?, self.asker.prober(v6)?],
            began: Instant::now(),
        })
    }

    /// [`Self::begin_watch`], and waits until all is well.
    ///
    /// # Errors
    /// If it is not so within 15 s.
    pub async fn watch(&self) -> Result<Watch> {
        let watch = self.begin_watch()?;
        watch.is_well(WELL, START).await?;
        Ok(watch)
    }

    /// [`Self::watch`], and who has the address.
    ///
    /// # Errors
    /// If all is not well within 15 s, or not one node alone has it.
    pub async fn watch_speaker(&self) -> Result<(Watch, String)> {
        let watch = self.watch().await?;
        let speaker = watch
            .speaker()
            .context("nobody, or more than one, speaks")?;
        Ok((watch, self.name_of(speaker)))
    }
}

impl Watch {
    /// From now on is counted.
    pub fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// Who has answered all new neighbours for a while, if it is one.
    pub fn speaker(&self) -> Option<Mac> {
        let [v4, v6] = self.speakers();
        v4.filter(|mac| v6 == Some(*mac))
    }

    /// The same for each family.
    fn speakers(&self) -> [Option<Mac>; 2] {
        self.probers.each_ref().map(|one| one.only_speaker(WELL))
    }

    /// Waits until all clients have what they want, for so long at a stretch.
    ///
    /// # Errors
    /// If that does not come to be within the limit.
    pub async fn is_well(&self, span: Duration, limit: Duration) -> Result<()> {
        try_eventually(limit, async || {
            let flows = self.flows.iter().all(|flow| flow.flows_since(span));
            let [v4, v6] = self.speakers();
            if flows && v4.is_some() && v4 == v6 {
                Ok(())
            } else {
                Err(format!(
                    "datagrams flow: {flows}, IPv4 is with {v4:?}, IPv6 with {v6:?}"
                ))
            }
        })
        .await
        .map_err(anyhow::Error::msg)
    }

    /// Waits until so long after the beginning, and then, up to the limit, until all is well.
    pub async fn settle(&self, at_least: Duration, limit: Duration) {
        until(self.began + at_least).await;
        // Whether all is well is for who looks at the figures to say.
        let _ = self.is_well(WELL, limit).await;
    }

    /// Ends, and says what was seen since the beginning.
    pub fn end(self, nodes: &ControlPlaneNodes) -> Seen {
        let (began, ended) = (self.began, Instant::now());
        self.flows.iter().for_each(UdpFlow::stop);
        self.probers.iter().for_each(Prober::stop);
        let outages = self.flows.into_iter().map(|flow| flow.end(began).lost);
        let answers = self.probers.map(|prober| prober.end(began));
        let mut seen = Seen {
            outage: outages.max().unwrap_or_default(),
            stall: nodes.watchdog.worst(began, ended),
            span: Some((began, ended)),
            ..Seen::default()
        };
        for answers in &answers {
            seen.dark = seen.dark.max(answers.dark());
            seen.two = seen.two.max(answers.two());
            seen.late += answers.late().len();
        }
        let speakers = answers[0].speakers();
        seen.speakers = speakers.iter().map(|mac| nodes.name_of(*mac)).collect();
        seen
    }
}
