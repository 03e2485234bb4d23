//! Which node daemons are alive.
//!
//! Each daemon renews a Lease; the others watch it. What the Lease says about time is never
//! compared with a clock of this node: a peer is dead when *its Lease has not changed here* for a
//! whole lease duration, measured on this node's monotonic clock.
//!
//! Silence proves something only while the wire it would be broken on works. So a peer's age
//! counts only while this daemon's own renewals come back to it through the same watch. While they
//! do not (the API server is down, the watch hangs, this node is cut off) the view is frozen:
//! nobody dies of age and nothing moves. Once they come back, every peer is given a full lease
//! duration again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::observe::LeaseView;

/// Who is alive, as far as this daemon can tell.
#[derive(Debug)]
pub struct Members {
    own_node: String,
    own_holder: String,
    duration: Duration,
    peers: BTreeMap<String, Peer>,
    contact: Option<Contact>,
}

#[derive(Debug)]
struct Peer {
    lease: Arc<LeaseView>,
    unchanged_since: Instant,
    dead: bool,
}

#[derive(Clone, Copy, Debug)]
struct Contact {
    last: Instant,
    renewals: u64,
    /// Whether contact was lost since, so that ages must start anew when it is back.
    lost: bool,
}

impl Members {
    /// Nobody is known yet. `own_holder` is the holder identity that this run of the daemon writes
    /// into its Lease; `duration` is how long a Lease holds without renewal.
    #[must_use]
    pub fn new(own_node: &str, own_holder: &str, duration: Duration) -> Self {
        Self {
            own_node: own_node.to_owned(),
            own_holder: own_holder.to_owned(),
            duration,
            peers: BTreeMap::new(),
            contact: None,
        }
    }

    /// Takes in all Leases as the watch has them now.
    pub fn observe<'a>(
        &mut self,
        leases: impl IntoIterator<Item = &'a Arc<LeaseView>>,
        now: Instant,
    ) {
        let mut known = std::mem::take(&mut self.peers);
        let mut own_renewed = false;
        for lease in leases {
            let peer = match known.remove(&lease.node) {
                Some(peer) if peer.lease.version == lease.version => peer,
                _ => {
                    own_renewed |= self.is_own(lease);
                    Peer {
                        lease: Arc::clone(lease),
                        unchanged_since: now,
                        dead: false,
                    }
                }
            };
            self.peers.insert(lease.node.clone(), peer);
        }
        if own_renewed {
            self.contact_made(now);
        }
        self.age(now);
    }

    /// Lets time pass: who has been silent for too long is dead.
    pub fn age(&mut self, now: Instant) {
        if !self.in_contact(now) {
            if let Some(contact) = &mut self.contact {
                contact.lost = true;
            }
            return;
        }
        for peer in self.peers.values_mut() {
            let own = peer.lease.node == self.own_node;
            let silent = now.duration_since(peer.unchanged_since);
            peer.dead |= !own && silent >= self.duration;
        }
    }

    /// When, after `now`, [`Self::age`] next has something to look at. Without contact that is
    /// never: nobody dies of age then, and contact comes back through [`Self::observe`].
    #[must_use]
    pub fn next_look(&self, now: Instant) -> Option<Instant> {
        let contact = self.contact.filter(|contact| !contact.lost)?;
        let loss = contact.last + self.patience();
        let deaths = self.peers.values().filter_map(|peer| {
            let mortal = !peer.dead && peer.lease.node != self.own_node;
            mortal.then(|| peer.unchanged_since + self.duration)
        });
        deaths.chain([loss]).filter(|at| *at > now).min()
    }

    /// The Leases of those that are alive, this daemon included, by Node name.
    pub fn live(&self) -> impl Iterator<Item = &Arc<LeaseView>> {
        self.known()
            .filter(|(_, alive)| *alive)
            .map(|(lease, _)| lease)
    }

    /// All Leases by Node name, each with whether its daemon is alive.
    pub fn known(&self) -> impl Iterator<Item = (&Arc<LeaseView>, bool)> {
        self.peers.values().map(|peer| {
            let lease = &peer.lease;
            let of_an_earlier_run = lease.node == self.own_node && lease.holder != self.own_holder;
            let alive = !peer.dead && !lease.holder.is_empty() && !of_an_earlier_run;
            (lease, alive)
        })
    }

    /// How many of this daemon's own renewals have come back through the watch.
    #[must_use]
    pub fn renewals(&self) -> u64 {
        self.contact.map_or(0, |contact| contact.renewals)
    }

    /// Whether own renewals come back, so that the silence of others means something.
    #[must_use]
    pub fn in_contact(&self, now: Instant) -> bool {
        self.contact
            .is_some_and(|contact| now.duration_since(contact.last) < self.patience())
    }

    /// How long after the last own renewal contact is believed in. A peer's last renewal was heard
    /// while there was contact, so that half a lease is never enough to call it dead.
    fn patience(&self) -> Duration {
        self.duration / 2
    }

    fn is_own(&self, lease: &LeaseView) -> bool {
        lease.node == self.own_node && lease.holder == self.own_holder
    }

    fn contact_made(&mut self, now: Instant) {
        let was_lost = self
            .contact
            .is_none_or(|contact| contact.lost || !self.in_contact(now));
        if was_lost {
            for peer in self.peers.values_mut().filter(|peer| !peer.dead) {
                peer.unchanged_since = now;
            }
        }
        self.contact = Some(Contact {
            last: now,
            renewals: self.renewals() + 1,
            lost: false,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    /// A world of Leases that renew when told to.
    struct World {
        members: Members,
        leases: BTreeMap<String, Arc<LeaseView>>,
        now: Instant,
        version: u64,
    }

    impl World {
        fn new(peers: &[&str]) -> Self {
            let mut world = Self {
                members: Members::new("me", "me_1", LEASE),
                leases: BTreeMap::new(),
                now: Instant::now(),
                version: 0,
            };
            for node in peers {
                world.renew(node);
            }
            world.renew("me");
            world
        }

        fn put(&mut self, node: &str, holder: &str) {
            self.version += 1;
            let lease = LeaseView::test(node, holder, self.version);
            self.leases.insert(node.to_owned(), Arc::new(lease));
            self.members.observe(self.leases.values(), self.now);
        }

        fn renew(&mut self, node: &str) {
            self.put(node, &format!("{node}_1"));
        }

        fn pass(&mut self, seconds: u64) {
            self.now += Duration::from_secs(seconds);
            self.members.age(self.now);
        }

        fn live(&self) -> Vec<&str> {
            self.members
                .live()
                .map(|lease| lease.node.as_str())
                .collect()
        }
    }

    #[test]
    fn a_silent_peer_is_dead_after_a_lease_duration() {
        let mut world = World::new(&["a", "b"]);
        for _ in 0..3 {
            world.pass(9);
            world.renew("me");
            world.renew("b");
            assert_eq!(world.live(), ["a", "b", "me"]);
        }
        world.pass(2);
        assert_eq!(world.live(), ["a", "b", "me"], "29 s are not enough");
        world.pass(1);
        assert_eq!(world.live(), ["b", "me"]);
        world.renew("a");
        assert_eq!(world.live(), ["a", "b", "me"], "it has come back");
    }

    #[test]
    fn nobody_dies_while_own_renewals_do_not_come_back() {
        let mut world = World::new(&["a", "b"]);
        for _ in 0..40 {
            world.pass(15);
            assert_eq!(world.live(), ["a", "b", "me"]);
        }
        world.renew("me");
        world.pass(14);
        world.renew("me");
        world.pass(14);
        world.renew("me");
        assert_eq!(
            world.live(),
            ["a", "b", "me"],
            "a full duration after recovery"
        );
        world.pass(2);
        assert_eq!(world.live(), ["me"]);
    }

    #[test]
    fn nobody_dies_between_the_loss_of_contact_and_its_discovery() {
        // All renewed in the last moments of the API server; ours a little later than theirs.
        for lag in 0..10 {
            let mut world = World::new(&["a"]);
            world.pass(lag);
            world.renew("me");
            for _ in 0..60 {
                world.pass(1);
                assert_eq!(world.live(), ["a", "me"], "ours {lag} s later");
            }
        }
    }

    #[test]
    fn who_died_stays_dead_through_an_outage() {
        let mut world = World::new(&["a"]);
        for _ in 0..3 {
            world.pass(10);
            world.renew("me");
        }
        assert_eq!(world.live(), ["me"]);
        world.pass(100);
        world.renew("me");
        assert_eq!(world.live(), ["me"]);
    }

    #[test]
    fn a_released_lease_is_dead_at_once_even_without_contact() {
        let mut world = World::new(&["a", "b"]);
        world.pass(20);
        world.put("a", "");
        assert_eq!(world.live(), ["b", "me"]);
    }

    #[test]
    fn a_deleted_lease_is_gone() {
        let mut world = World::new(&["a", "b"]);
        world.leases.remove("a");
        world.members.observe(world.leases.values(), world.now);
        assert_eq!(world.live(), ["b", "me"]);
    }

    #[test]
    fn the_own_lease_counts_only_if_this_run_wrote_it() {
        let mut world = World::new(&["a"]);
        world.put("me", "me_0");
        assert_eq!(world.live(), ["a"]);
        assert_eq!(world.members.renewals(), 1);
        world.put("me", "me_1");
        assert_eq!(world.live(), ["a", "me"]);
        assert_eq!(world.members.renewals(), 2);
    }

    /// A moment that has passed would make a busy loop of whoever waits for it.
    #[test]
    fn the_next_look_is_never_in_the_past() {
        let mut outage = World::new(&["a", "b"]);
        let mut never = World::new(&[]);
        never.leases.remove("me");
        never.members = Members::new("me", "me_1", LEASE);
        never.renew("a");
        for world in [&mut outage, &mut never] {
            for _ in 0..100 {
                world.pass(1);
                let next = world.members.next_look(world.now);
                assert!(next.is_none_or(|at| at > world.now), "{next:?}");
            }
            assert_eq!(
                world.members.next_look(world.now),
                None,
                "nothing changes by itself"
            );
            world.renew("me");
            world.pass(1);
            let next = world.members.next_look(world.now);
            assert!(next.is_some_and(|at| at > world.now), "contact again");
        }
    }

    #[test]
    fn the_next_look_is_when_something_can_change() {
        let mut world = World::new(&["a"]);
        let start = world.now;
        assert_eq!(world.members.next_look(world.now), Some(start + LEASE / 2));
        world.pass(10);
        world.renew("me");
        world.pass(10);
        world.renew("me");
        assert_eq!(world.members.next_look(world.now), Some(start + LEASE));
        world.pass(10);
        assert_eq!(world.live(), ["me"]);
    }
}
