//! What a test does to the cloud and reads off it without a request.

use serde_json::{Value, json};

use super::Phoenixnap;
use super::kind::Kind;
use super::ledger::Purchase;
use super::machine::Machine;
use super::pending::Change;

impl Phoenixnap {
    // --- servers ------------------------------------------------------------------------------

    /// A new server; gives its id.
    pub fn add(&self, machine: Machine) -> String {
        self.put(Kind::Server, machine.into_value())
    }

    /// A server is gone; whether it was there.
    pub fn remove(&self, id: &str) -> bool {
        self.take(Kind::Server, id)
    }

    /// Changes one field of a server.
    pub fn set(&self, id: &str, field: &str, value: impl Into<Value>) {
        self.set_in(Kind::Server, id, field, value);
    }

    /// Puts a server back that was there before, under its old id and at the end of the listing.
    pub fn restore(&self, id: &str, machine: Machine) {
        let mut value = machine.into_value();
        value["id"] = id.into();
        self.put(Kind::Server, value);
    }

    // --- anything -----------------------------------------------------------------------------

    /// Puts an object there, as the API would show it; what is absent is filled in. Tags can be
    /// given as `{"name": "value"}`; a block with an `assignedResourceId` is on that network. Gives
    /// its id.
    ///
    /// # Panics
    /// If it has another form, or its id is taken.
    pub fn put(&self, kind: Kind, value: Value) -> String {
        let added = self.state().add(kind, &value);
        added.unwrap_or_else(|error| panic!("{kind:?} {value}: {error:#}"))
    }

    /// A public network in this location; gives its id.
    pub fn add_network(&self, name: &str, location: &str) -> String {
        self.put(Kind::Network, json!({ "name": name, "location": location }))
    }

    /// Takes an object away, and off all lists that it is on; whether it was there.
    pub fn take(&self, kind: Kind, id: &str) -> bool {
        self.state().remove(kind, id)
    }

    /// Changes one field of an object.
    ///
    /// # Panics
    /// If it is not there.
    pub fn set_in(&self, kind: Kind, id: &str, field: &str, value: impl Into<Value>) {
        let value = value.into();
        let there = self
            .state()
            .change(kind, id, |object| object[field] = value);
        assert!(there, "there is no {kind:?} {id}");
    }

    /// Somebody takes a block off the network that it is on: it is `unassigned` at once.
    ///
    /// # Panics
    /// If it is on none.
    pub fn detach(&self, block: &str) {
        let mut state = self.state();
        let network = state.rows(Kind::Block).value(block)["assignedResourceId"].clone();
        let network = network.as_str().expect("the block is on a network");
        state.show_block(block, "unassigned", None);
        state.unlist(network, block);
    }

    /// Somebody tags something with exactly these.
    ///
    /// # Panics
    /// If it is not there.
    pub fn tag(&self, kind: Kind, id: &str, tags: &[(&str, &str)]) {
        let mut state = self.state();
        for (name, _) in tags {
            if state.tag_named(name).is_none() {
                let added = state.add(Kind::Tag, &json!({ "name": name }));
                added.expect("a tag");
            }
        }
        let pairs: Vec<(String, Option<String>)> = tags
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())))
            .collect();
        let assigned = state.assigned(&pairs);
        let there = state.change(kind, id, |tagged| tagged["tags"] = assigned);
        assert!(there, "there is no {kind:?} {id}");
    }

    /// A public network is busy with something that nobody here has begun, until
    /// [`finish`](Self::finish).
    pub fn occupy(&self, network: &str) {
        let (server, network) = ("somebody-elses".to_owned(), network.to_owned());
        let change = Change::Leaving { server, network };
        self.state().begin(change, super::Pace::Held);
    }

    // --- tokens -------------------------------------------------------------------------------

    /// No token that was given out is good any more.
    pub fn revoke_tokens(&self) {
        self.state().tokens.revoke();
    }

    /// The client's secret is another from now on, or again the one it was; tokens stay good.
    pub fn change_secret(&self, changed: bool) {
        self.state().tokens.change_secret(changed);
    }

    /// What the client may ask for from now on: of `bmc`, `bmc.read`, `tags`, `tags.read`.
    pub fn permit(&self, scopes: &[&str]) {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned());
        self.state().tokens.scopes = scopes.collect();
    }

    // --- what is there ------------------------------------------------------------------------

    /// All objects of a kind, as the API shows them.
    pub fn all(&self, kind: Kind) -> Vec<Value> {
        let state = self.state();
        let rows = state.rows(kind).iter();
        rows.map(|row| state.shown(kind, row)).collect()
    }

    /// An object by its id.
    pub fn get(&self, kind: Kind, id: &str) -> Option<Value> {
        let state = self.state();
        let row = state.rows(kind).get(id);
        row.map(|row| state.shown(kind, row))
    }

    /// The blocks that have all of these tags.
    pub fn tagged(&self, tags: &[(&str, &str)]) -> Vec<Value> {
        let mut all = self.all(Kind::Block);
        all.retain(|block| {
            let found = tags_of(block);
            let mut tags = tags.iter();
            tags.all(|(name, value)| found.contains(&((*name).to_owned(), (*value).to_owned())))
        });
        all
    }

    /// The ids of the blocks on a network, in order.
    pub fn blocks_on(&self, network: &str) -> Vec<String> {
        let network = self.get(Kind::Network, network).unwrap_or_default();
        let blocks = network["ipBlocks"].as_array().into_iter().flatten();
        blocks
            .filter_map(|block| block["id"].as_str().map(ToOwned::to_owned))
            .collect()
    }

    // --- what it has cost ---------------------------------------------------------------------

    /// Every block that was ever bought through the API, in order.
    pub fn purchases(&self) -> Vec<Purchase> {
        let state = self.state();
        state.ledger.purchases(state.now())
    }

    /// The ids of the blocks that were given back through the API, in order.
    pub fn releases(&self) -> Vec<String> {
        self.state().ledger.releases()
    }

    /// Requests that no good client makes, in words: to take a block off a network that it is not
    /// on, to put one somewhere that is not free.
    pub fn misdirected(&self) -> Vec<String> {
        self.state().ledger.misdirected.clone()
    }
}

/// Names and values of something's tags; without a value it is empty.
pub(super) fn tags_of(value: &Value) -> Vec<(String, String)> {
    let tags = value["tags"].as_array().into_iter().flatten();
    tags.map(|tag| {
        let text = |field: &str| tag[field].as_str().unwrap_or_default().to_owned();
        (text("name"), text("value"))
    })
    .collect()
}
