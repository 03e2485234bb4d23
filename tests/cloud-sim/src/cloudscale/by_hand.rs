//! What a test does to the cloud and reads off it without a request.

use http::{Method, StatusCode};
use serde_json::Value;

use super::Cloudscale;
use super::kind::Kind;
use super::machine::Machine;
use super::snapshot;
use crate::snapshot::CloudState;
use crate::traffic::{Outage, Traffic};

impl Cloudscale {
    // --- servers ------------------------------------------------------------------------------

    /// A new server; gives its UUID.
    pub fn add(&self, machine: Machine) -> String {
        self.put(Kind::Server, machine.into_value())
    }

    /// A server is deleted; whether it was there.
    pub fn remove(&self, uuid: &str) -> bool {
        self.take(Kind::Server, uuid)
    }

    /// Changes what the API shows of a server.
    pub fn change(&self, uuid: &str, change: impl FnOnce(&mut Value)) {
        self.change_in(Kind::Server, uuid, change);
    }

    /// Changes one field of a server.
    pub fn set(&self, uuid: &str, field: &str, value: impl Into<Value>) {
        self.set_in(Kind::Server, uuid, field, value);
    }

    /// Puts a server back that was there before, under its old UUID and at the end of the listing.
    pub fn restore(&self, uuid: &str, machine: Machine) {
        let mut value = machine.into_value();
        value["uuid"] = uuid.into();
        self.put(Kind::Server, value);
    }

    // --- anything -----------------------------------------------------------------------------

    /// Puts an object there, as the API would show it, whatever the API would say to it. What is
    /// absent is filled in; what it belongs to (`load_balancer` or `pool`) can be given as a UUID.
    /// Gives its UUID, of a floating IP the address.
    ///
    /// # Panics
    /// If it refers to what is not there.
    pub fn put(&self, kind: Kind, value: Value) -> String {
        let added = self.state().add(kind, &value);
        added.unwrap_or_else(|error| panic!("{kind:?} {value}: {error:#}"))
    }

    /// Takes an object away with all its parts; whether it was there.
    pub fn take(&self, kind: Kind, key: &str) -> bool {
        self.state().remove(kind, key)
    }

    /// Changes what the API shows of an object.
    ///
    /// # Panics
    /// If it is not there.
    pub fn change_in(&self, kind: Kind, key: &str, change: impl FnOnce(&mut Value)) {
        let there = self.state().change(kind, key, change);
        assert!(there, "there is no {kind:?} {key}");
    }

    /// Changes one field of an object.
    ///
    /// # Panics
    /// If it is not there.
    pub fn set_in(&self, kind: Kind, key: &str, field: &str, value: impl Into<Value>) {
        let value = value.into();
        self.change_in(kind, key, |object| object[field] = value);
    }

    /// What a load balancer is from now on, whenever it is not changing: `running`, `degraded`,
    /// `error`. With `changing` it never ends to be so, and yet takes writes.
    pub fn set_status(&self, uuid: &str, status: &str) {
        self.state().force(uuid, status);
    }

    // --- what is there ------------------------------------------------------------------------

    /// All objects of a kind, as the API shows them.
    pub fn all(&self, kind: Kind) -> Vec<Value> {
        let state = self.state();
        let rows = state.rows(kind).iter();
        rows.map(|row| row.value().clone()).collect()
    }

    /// An object by its UUID, a floating IP by its address.
    pub fn get(&self, kind: Kind, key: &str) -> Option<Value> {
        let state = self.state();
        let row = state.rows(kind).get(key);
        row.map(|row| row.value().clone())
    }

    /// All objects of a kind that have this name.
    pub fn named(&self, kind: Kind, name: &str) -> Vec<Value> {
        let mut all = self.all(kind);
        all.retain(|object| object["name"] == name);
        all
    }

    /// The load balancer of this name.
    ///
    /// # Panics
    /// If there is none, or more than one.
    pub fn load_balancer(&self, name: &str) -> Value {
        let mut found = self.named(Kind::LoadBalancer, name);
        assert!(found.len() == 1, "load balancers named {name}: {found:?}");
        found.remove(0)
    }

    /// The parts of this kind of the load balancer of this name, in the order of the API.
    pub fn parts_of(&self, name: &str, kind: Kind) -> Vec<Value> {
        let uuid = self.load_balancer(name)["uuid"].clone();
        let mut all = self.all(kind);
        all.retain(|part| part["load_balancer"]["uuid"] == uuid);
        all
    }

    /// The members of a pool of the load balancer of this name: `10.0.0.1:30080`, sorted.
    pub fn members_of(&self, name: &str, pool: &str) -> Vec<String> {
        let mut members = self.parts_of(name, Kind::Member);
        members.retain(|member| member["pool"]["name"] == pool);
        let mut members: Vec<String> = members.iter().map(super::traffic::address).collect();
        members.sort();
        members
    }

    /// What there is, to be compared with another end.
    pub fn snapshot(&self) -> CloudState {
        snapshot::of(&self.state())
    }

    // --- what was served ----------------------------------------------------------------------

    /// What the load balancer of this name or UUID has served so far; nothing if there never was
    /// one.
    pub fn traffic(&self, name: &str) -> Traffic {
        self.state().history.of(name).unwrap_or_default()
    }

    /// When listeners of this load balancer that had served did not, also those that still do not.
    pub fn outages(&self, name: &str) -> Vec<Outage> {
        self.traffic(name).outages()
    }

    /// The longest of the outages that ended, counted in writes on this load balancer.
    pub fn gaps_in_calls(&self, name: &str) -> u64 {
        let outages = self.outages(name).into_iter().filter(|outage| outage.over);
        outages.map(|outage| outage.writes).max().unwrap_or(0)
    }

    /// How many members were created by the API so far.
    pub fn member_posts(&self) -> usize {
        let posts = self.calls().to(Kind::Member.path()).method(&Method::POST);
        posts.answered(StatusCode::CREATED).len()
    }
}
