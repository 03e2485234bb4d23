//! What announcing costs while nothing fails.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::bench::proc;
use mooring_test_netlab::failover::faults::until;
use mooring_test_netlab::failover::{FailoverCluster, Layout};
use mooring_test_netlab::netlab::claims;

/// How many Services there are, each with an IPv4 and an IPv6 address: two hundred addresses, as the
/// two hundred Services of one address each that others were measured with.
const SERVICES: u8 = 100;

/// What was measured of three nodes at rest.
#[derive(Clone, Debug)]
pub struct AtRest {
    /// How many addresses there were.
    pub addresses: u32,
    /// Writes to the API server by the daemons, per second, all together.
    pub writes: f64,
    /// Announcements on the segment that nobody had asked for, per second.
    pub announcements: f64,
    /// Heartbeats on both paths, per second.
    pub heartbeats: f64,
    /// Resident memory of the largest daemon, in KiB.
    pub resident: u64,
    /// Of that, what is its own and no page of a file, of the largest, in KiB.
    pub anonymous: u64,
    /// Processor time of the busiest daemon, of a hundred.
    pub processor: f64,
    /// `release` or `debug`.
    pub profile: &'static str,
}

/// Measures for so long. In a netlab.
pub(super) async fn measure(span: Duration) -> Result<AtRest> {
    let layout = Layout {
        more_services: SERVICES - 1,
        release: true,
        ..Layout::of(3)
    };
    let cluster = FailoverCluster::build(layout).await?;
    let addresses: Vec<_> = (FailoverCluster::FIRST..FailoverCluster::FIRST + SERVICES)
        .flat_map(|number| cluster.numbered(number))
        .collect();
    // All bursts are over: the last round is 2 s after the first.
    until(Instant::now() + Duration::from_secs(5)).await;
    let control_plane = cluster.netlab.control_plane();
    let (start, since) = (Instant::now(), control_plane.now());
    let used = || -> Result<Vec<Duration>> {
        let daemons = cluster.daemons.values();
        daemons
            .map(|daemon| proc::processor_time(daemon.pid()))
            .collect()
    };
    let before = used()?;
    until(start + span).await;
    let after = used()?;
    let took = start.elapsed();
    let frames = cluster.capture.since(start);
    let log = control_plane.audit_settled().await.since(since);
    let writes = log
        .filter(|record| record.user.ends_with(":mooring-node"))
        .writes();
    let announced: usize = addresses
        .iter()
        .map(|address| claims::announcements(&frames, *address).len())
        .sum();
    let busiest = before
        .iter()
        .zip(&after)
        .map(|(before, after)| after.saturating_sub(*before))
        .max();
    let most = |what: &str| -> Result<u64> {
        let daemons = cluster.daemons.values();
        let each: Vec<u64> = daemons
            .map(|daemon| proc::memory_kib(daemon.pid(), what))
            .collect::<Result<_>>()?;
        Ok(each.into_iter().max().unwrap_or_default())
    };
    Ok(AtRest {
        addresses: u32::try_from(addresses.len())?,
        writes: claims::rate(writes.len(), took),
        announcements: claims::rate(announced, took),
        heartbeats: claims::rate(claims::heartbeats(&frames).values().sum(), took),
        resident: most("VmRSS")?,
        anonymous: most("RssAnon")?,
        processor: busiest.unwrap_or_default().as_secs_f64() / took.as_secs_f64() * 100.0,
        profile: mooring_test_support::program::Program::Node
            .release_or_own()?
            .0,
    })
}

fn in_mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

impl AtRest {
    /// What is not as wanted, in words.
    pub(super) fn missed(&self) -> Vec<String> {
        let [resident, anonymous] = [self.resident, self.anonymous].map(in_mib);
        let mut missed = Vec::new();
        if self.writes > 0.3 {
            missed.push(format!("at rest: {:.2} writes/s, wanted 0.3", self.writes));
        }
        if self.announcements > 10.0 {
            missed.push(format!(
                "at rest: {:.1} frames/s, wanted 10",
                self.announcements
            ));
        }
        if (resident >= 12.0 || anonymous >= 4.0) && self.profile == "release" {
            missed.push(format!(
                "at rest: {resident:.1} MiB resident, {anonymous:.1} of them anonymous, wanted under 12 and 4"
            ));
        }
        if self.processor >= 1.0 && self.profile == "release" {
            missed.push(format!(
                "at rest: {:.2} % of a processor, wanted under 1",
                self.processor
            ));
        }
        missed
    }
}

impl fmt::Display for AtRest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "3 nodes, {} addresses: {:.2} API writes/s, {:.1} unsolicited frames/s, {:.0} heartbeats/s, \
             {:.1} MiB ({:.1} anonymous) and {:.2} % of a processor per daemon ({} build). Wanted: 0.3; 10; \
             under 12 (4); under 1. MetalLB 0; 0; 70 (+61 controller); 0.3. kube-vip 0.5; 68; 43 to 75; 8.2",
            self.addresses,
            self.writes,
            self.announcements,
            self.heartbeats,
            in_mib(self.resident),
            in_mib(self.anonymous),
            self.processor,
            self.profile
        )
    }
}
