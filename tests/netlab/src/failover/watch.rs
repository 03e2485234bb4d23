//! All clients at work while something happens.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::FailoverCluster;
use super::faults::until;
use super::seen::Seen;
use crate::netlab::{Mac, Outage, Prober, TcpFlows, UdpFlow, claims};
use mooring_test_support::wait::try_eventually;

/// Datagrams a second over IPv4.
const RATE_V4: u32 = 1000;

/// Datagrams a second over IPv6: enough to see an outage, and little for the machine to do.
const RATE_V6: u32 = 200;

/// How long all must be well before a fault, and after it.
const WELL: Duration = Duration::from_millis(400);

/// How long the clients may take until all is well before the fault.
const START: Duration = Duration::from_secs(15);

/// Clients of a service address, at work until the end.
pub struct Watch {
    addresses: [IpAddr; 2],
    flows: [UdpFlow; 2],
    connections: TcpFlows,
    probers: [Prober; 2],
    began: Instant,
}

impl FailoverCluster {
    /// Sets all clients to work, and waits until all is well.
    ///
    /// # Errors
    /// If it is not so within 15 s.
    pub async fn watch(&self) -> Result<Watch> {
        self.watch_number(Self::FIRST).await
    }

    /// [`Self::watch`] of the Service with these addresses.
    ///
    /// # Errors
    /// If all is not well within 15 s.
    pub async fn watch_number(&self, number: u8) -> Result<Watch> {
        let addresses = self.numbered(number);
        let [v4, v6] = addresses;
        let at = |address: IpAddr| SocketAddr::new(address, Self::PORT);
        let count = self.connections();
        let connections = try_eventually(START, async || self.tcp.tcp_flows(at(v4), count))
            .await
            .map_err(anyhow::Error::msg)?;
        let client = &self.netlab.client;
        let watch = Watch {
            addresses,
            flows: [
                client.udp_flow(at(v4), RATE_V4)?,
                client.udp_flow(at(v6), RATE_V6)?,
            ],
            connections,
            probers: [
                self.asker.prober_on(self.interface(), v4)?,
                self.asker.prober_on(self.interface(), v6)?,
            ],
            began: Instant::now(),
        };
        watch.is_well(WELL, START).await?;
        Ok(watch)
    }
}

impl Watch {
    /// From now on is counted.
    pub fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// When the count began.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Who answers new neighbours over IPv4, if it is one and has answered all for so long.
    pub fn speaker(&self, span: Duration) -> Option<Mac> {
        self.probers[0].only_speaker(span)
    }

    /// Waits until all clients have what they want, for so long at a stretch.
    ///
    /// # Errors
    /// If that does not come to be within the limit.
    pub async fn is_well(&self, span: Duration, limit: Duration) -> Result<()> {
        try_eventually(limit, async || {
            let flows = self.flows.each_ref().map(|flow| flow.flows_since(span));
            let speakers = self
                .probers
                .each_ref()
                .map(|prober| prober.only_speaker(span));
            if flows == [true; 2]
                && speakers.iter().all(Option::is_some)
                && speakers[0] == speakers[1]
            {
                Ok(())
            } else {
                Err(format!("datagrams flow: {flows:?}, speakers: {speakers:?}"))
            }
        })
        .await
        .map_err(anyhow::Error::msg)
    }

    /// Waits until so long after the beginning, and then, up to the limit each, until all is well, and
    /// until each connection has had an answer or is broken.
    pub async fn settle(&self, at_least: Duration, limit: Duration) {
        until(self.began + at_least).await;
        // Whether all is well is for who looks at the figures to say.
        let _ = self.is_well(WELL, limit).await;
        let told = Instant::now();
        let _ = try_eventually(limit, async || self.connections.told_since(told)).await;
    }

    /// Ends, and says what was seen since the beginning.
    pub fn end(self, cluster: &FailoverCluster) -> Seen {
        let (began, ended) = (self.began, Instant::now());
        let broken = self.connections.broken();
        self.flows.iter().for_each(UdpFlow::stop);
        self.probers.iter().for_each(Prober::stop);
        let outages = self.flows.map(|flow| flow.end(began));
        let answers = self.probers.map(|prober| prober.end(began));
        // Who was asked and answered before is where the address moves from.
        let before = began.checked_sub(WELL).unwrap_or(began);
        let mut frames = cluster.capture.since(before);
        frames.retain(|frame| frame.at <= ended);
        let worst = |of: &dyn Fn(&Outage) -> Duration| outages.iter().map(of).max();
        let mut seen = Seen {
            outage: worst(&|outage| outage.lost).unwrap_or_default(),
            broken,
            connections: cluster.connections(),
            stall: cluster.watchdog.worst(began, ended),
            span: Some((began, ended)),
            ..Seen::default()
        };
        for (answers, address) in answers.iter().zip(self.addresses) {
            seen.dark = seen.dark.max(answers.dark());
            seen.two = seen.two.max(answers.two());
            seen.late += answers.late().len();
            seen.moves = seen.moves.max(claims::moves(&frames, address).len());
            let mut announced = claims::announcements(&frames, address);
            announced.retain(|claim| claim.at >= began);
            let names = announced.iter().map(|claim| cluster.name_of(claim.mac));
            seen.announcers.extend(names);
        }
        let speakers = answers[0].speakers();
        seen.speakers = speakers.iter().map(|mac| cluster.name_of(*mac)).collect();
        seen
    }
}
