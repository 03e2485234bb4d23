//! Where the routers of the segment are. On a VLAN the daemon tells the kernel, which may forget it after a
//! quarter of a minute: so it is asked for again and again while something is spoken for.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::protocol::Moment;
use crate::protocol::mac::Mac;
use crate::wire::frames::Claim;

/// How long after it was heard a router is asked for again. An entry of the kernel's is good for 15 s at
/// the least (`base_reachable_time`).
const FRESH: Duration = Duration::from_secs(8);
/// How often one that does not answer is asked for.
const AGAIN: Duration = Duration::from_secs(1);
/// How soon the same is reported again.
const SAME: Duration = Duration::from_secs(2);
/// How soon something else is reported.
const OTHER: Duration = Duration::from_millis(100);

/// What is known of one router.
#[derive(Clone, Copy, Debug, Default)]
struct Router {
    heard: Option<Moment>,
    asked: Option<Moment>,
    told: Option<(Mac, Moment)>,
}

/// The routers of one segment.
#[derive(Debug, Default)]
pub(super) struct Routers(BTreeMap<IpAddr, Router>);

impl Routers {
    /// Takes in where a router says that it is. Says whether that is to be reported.
    pub(super) fn heard(&mut self, claim: Claim, now: Moment) -> bool {
        let router = self.0.entry(claim.address).or_default();
        router.heard = Some(now);
        let is_news = router.told.is_none_or(|(mac, at)| {
            let pause = if mac == claim.mac { SAME } else { OTHER };
            now.since(at) >= pause
        });
        if is_news {
            router.told = Some((claim.mac, now));
        }
        is_news
    }

    /// Whether a router is to be asked for now; it counts as asked then.
    pub(super) fn is_due(&mut self, address: IpAddr, now: Moment) -> bool {
        let router = self.0.entry(address).or_default();
        let passed = |since: Option<Moment>, time| since.is_none_or(|at| now.since(at) >= time);
        let is_due = passed(router.heard, FRESH) && passed(router.asked, AGAIN);
        if is_due {
            router.asked = Some(now);
        }
        is_due
    }

    /// The interface is another one.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Moment = Moment(3_600_000_000_000);

    fn claim(last: u8) -> Claim {
        Claim {
            address: [192, 0, 2, 1].into(),
            mac: Mac::new([2, 0, 0, 0, 0, last]),
        }
    }

    #[test]
    fn asks_for_router_before_kernel_forgets_it() {
        let mut routers = Routers::default();
        let address = claim(1).address;
        let at = |milliseconds| START + Duration::from_millis(milliseconds);
        let mut asked = Vec::new();
        for time in (0..20_000).step_by(200) {
            if routers.is_due(address, at(time)) {
                asked.push(time);
                if time == 2000 {
                    routers.heard(claim(1), at(time));
                }
            }
        }
        assert_eq!(asked[..5], [0, 1000, 2000, 10_000, 11_000]);
    }

    #[test]
    fn reports_router_changes_at_limited_rate() {
        let mut routers = Routers::default();
        let at = |milliseconds| START + Duration::from_millis(milliseconds);
        assert!(routers.heard(claim(1), at(0)));
        assert!(!routers.heard(claim(1), at(1999)));
        assert!(routers.heard(claim(1), at(2000)));
        assert!(
            !routers.heard(claim(2), at(2050)),
            "two who claim it in turn"
        );
        assert!(routers.heard(claim(2), at(2100)), "it has moved");
        routers.forget();
        assert!(routers.heard(claim(2), at(2101)));
    }
}
