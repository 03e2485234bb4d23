//! What each Service was given, as far as the cluster does not say it (yet).

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use ipnet::Ipv4Net;
use tokio::time::Instant;

use super::IpRequest;
use crate::views::service_view::ServiceView;

/// How far apart the two listings are at least that do not have a block, before it counts as gone.
pub const APART: Duration = Duration::from_secs(10);

/// Addresses that were given to Services.
#[derive(Debug, Default)]
pub struct Given {
    by_uid: HashMap<String, OfService>,
    /// Since when the block of this address is missing.
    missing: HashMap<Ipv4Addr, Instant>,
    is_seeded: bool,
}

#[derive(Debug, Default)]
struct OfService {
    /// What it was given and does not say yet.
    given: Option<Ipv4Addr>,
    /// What it had when it was last looked at.
    had: Option<Ipv4Addr>,
    /// Two complete listings have not had the block of its address.
    lost: bool,
}

impl Given {
    /// Whether it is known what was given before this process began.
    #[must_use]
    pub const fn is_seeded(&self) -> bool {
        self.is_seeded
    }

    /// Takes up what the controller before us has given out. `all`: the Services as the API server has
    /// them, since a cache may lag.
    pub fn seed(&mut self, all: &[ServiceView]) {
        for service in all {
            let request = self.request(service);
            let is_held = service.is_load_balancer && request.recorded == request.published;
            if let Some(address) = request.recorded.filter(|_| is_held) {
                let known = self.of(&service.uid);
                (known.had, known.given) = (Some(address), Some(address));
            }
        }
        self.is_seeded = true;
    }

    /// What a Service has and asks for.
    #[must_use]
    pub fn request(&self, service: &ServiceView) -> IpRequest {
        let known = self.by_uid.get(&service.uid);
        IpRequest {
            lost: self.is_lost(&service.uid),
            ..IpRequest::of(service, known.and_then(|known| known.given))
        }
    }

    /// What a Service was given needs no keeping once its record says it: from then on that counts,
    /// whoever changes it.
    pub fn reads_record(&mut self, service: &ServiceView) {
        let request = self.request(service);
        if request.recorded.is_some() && request.recorded == request.given {
            self.of(&service.uid).given = None;
        }
    }

    /// A Service is about to have this address: nobody else is given it.
    pub fn gives(&mut self, uid: &str, address: Ipv4Addr) {
        self.of(uid).given = Some(address);
    }

    /// A Service has this address.
    pub fn has(&mut self, uid: &str, address: Ipv4Addr) {
        let known = self.of(uid);
        (known.given, known.had, known.lost) = (Some(address), Some(address), false);
    }

    /// A Service has none of ours.
    pub fn takes_back(&mut self, uid: &str) {
        self.of(uid).given = None;
    }

    /// The block of a Service's address is gone for good.
    pub fn loses(&mut self, uid: &str) {
        let known = self.of(uid);
        (known.given, known.lost) = (None, true);
    }

    /// Whether the block of a Service's last address is gone for good.
    #[must_use]
    pub fn is_lost(&self, uid: &str) -> bool {
        self.by_uid.get(uid).is_some_and(|known| known.lost)
    }

    /// Whether some Service had an address of this block when it was last looked at.
    #[must_use]
    pub fn was_used(&self, block: Ipv4Net) -> bool {
        let mut had = self.by_uid.values().filter_map(|service| service.had);
        had.any(|address| block.contains(&address))
    }

    /// A Service is no more.
    pub fn forget(&mut self, uid: &str) {
        self.by_uid.remove(uid);
    }

    /// A complete listing has blocks with these addresses.
    pub fn listed(&mut self, has: impl Fn(Ipv4Addr) -> bool) {
        self.missing.retain(|address, _| !has(*address));
    }

    /// A listing that was begun then does not have the block of this address. Whether one long before had
    /// not either.
    pub fn is_gone(&mut self, address: Ipv4Addr, begun: Instant) -> bool {
        let first = *self.missing.entry(address).or_insert(begun);
        begun >= first + APART
    }

    fn of(&mut self, uid: &str) -> &mut OfService {
        self.by_uid.entry(uid.to_owned()).or_default()
    }
}
