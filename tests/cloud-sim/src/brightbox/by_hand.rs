//! What a test does past the API, as somebody would in the vendor's console.

use serde_json::Value;

use super::kind::Kind;
use super::machine::Machine;
use super::{Brightbox, snapshot};
use crate::CloudState;

impl Brightbox {
    // --- servers ------------------------------------------------------------------------------

    /// A new server; gives its identifier.
    pub fn add(&self, machine: Machine) -> String {
        self.put(Kind::Server, machine.into_value())
    }

    /// A server is gone, from groups and load balancers too; whether it was there.
    pub fn remove(&self, id: &str) -> bool {
        self.take(Kind::Server, id)
    }

    /// Puts a server back that was there before, under its old identifier and at the end of the listing.
    pub fn restore(&self, id: &str, machine: Machine) {
        let mut value = machine.into_value();
        value["id"] = id.into();
        self.put(Kind::Server, value);
    }

    /// Changes one field of a server.
    pub fn set(&self, id: &str, field: &str, value: impl Into<Value>) {
        self.set_in(Kind::Server, id, field, value);
    }

    // --- anything -----------------------------------------------------------------------------

    /// Puts an object there, as the API would show it, whatever the API would say to it. What is absent
    /// is filled in, what it refers to can be an identifier. Gives its identifier.
    ///
    /// # Panics
    /// If it is no object.
    pub fn put(&self, kind: Kind, value: Value) -> String {
        let mut state = self.state();
        let added = state.add(kind, &value);
        state.record_all("");
        added.unwrap_or_else(|error| panic!("{kind:?} {value}: {error:#}"))
    }

    /// Takes an object away; whether it was there. Nothing leads to it any more.
    pub fn take(&self, kind: Kind, id: &str) -> bool {
        self.state().take(kind, id)
    }

    /// Changes an object: what it refers to is an identifier here.
    ///
    /// # Panics
    /// If it is not there.
    pub fn change_in(&self, kind: Kind, id: &str, change: impl FnOnce(&mut Value)) {
        let mut state = self.state();
        let there = state.rows_mut(kind).change(id, change);
        state.record_all("");
        assert!(there, "there is no {kind:?} {id}");
    }

    /// Changes one field of an object.
    ///
    /// # Panics
    /// If it is not there.
    pub fn set_in(&self, kind: Kind, id: &str, field: &str, value: impl Into<Value>) {
        let value = value.into();
        self.change_in(kind, id, |object| object[field] = value);
    }

    /// A Cloud IP leads there at once, or nowhere, wherever it led before.
    pub fn map(&self, ip: &str, target: Option<&str>) {
        let mut state = self.state();
        state.is_unmapped(ip);
        if let Some(target) = target {
            state.is_mapped(ip, target);
        }
        state.record_all("");
    }

    // --- what is there ------------------------------------------------------------------------

    /// All objects of a kind, as the API shows each alone.
    pub fn all(&self, kind: Kind) -> Vec<Value> {
        let state = self.state();
        let rows = state.rows(kind).iter();
        rows.map(|row| state.shown(kind, row.key())).collect()
    }

    /// An object by its identifier.
    pub fn get(&self, kind: Kind, id: &str) -> Option<Value> {
        Some(self.state().shown(kind, id)).filter(|value| !value.is_null())
    }

    /// All objects of a kind that have this name and are not deleted.
    pub fn named(&self, kind: Kind, name: &str) -> Vec<Value> {
        let mut all = self.all(kind);
        all.retain(|object| object["name"] == name && object["status"] != "deleted");
        all
    }

    /// What there is, to be compared with another end.
    pub fn snapshot(&self) -> CloudState {
        snapshot::of(&self.state())
    }

    // --- tokens -------------------------------------------------------------------------------

    /// No token is good any more.
    pub fn revoke_tokens(&self) {
        self.state().tokens.revoke();
    }

    /// The client has another secret, or the one that it had at first.
    pub fn change_secret(&self, is_changed: bool) {
        self.state().tokens.change_secret(is_changed);
    }
}
