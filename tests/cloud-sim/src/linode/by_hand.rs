//! What a test does to the cloud and reads off it without a request.

use serde_json::Value;

use super::behaviour::Behaviour;
use super::kind::Kind;
use super::{
    Linode, contents, firewall_devices, firewalls, node_balancers, reserved_ips, snapshot,
};
use crate::snapshot::CloudState;

impl Linode {
    /// How NodeBalancers and firewalls behave from now on.
    pub fn behave(&self, behaviour: Behaviour) {
        self.state().behaviour = behaviour;
    }

    /// All objects of a kind, as the API shows them.
    pub fn all(&self, kind: Kind) -> Vec<Value> {
        let state = self.state();
        let rows = state.rows(kind).iter();
        rows.map(|row| row.value().clone()).collect()
    }

    /// An object as the API shows it, if it is there.
    pub fn get(&self, kind: Kind, key: impl ToString) -> Option<Value> {
        let state = self.state();
        let row = state.rows(kind).get(&key.to_string());
        row.map(|row| row.value().clone())
    }

    /// What there is, to be compared with another end.
    pub fn snapshot(&self) -> CloudState {
        snapshot::of(&self.state())
    }

    /// Puts a NodeBalancer there, as the API shows it, with `configs` that have `nodes`; what is
    /// absent is filled in. Gives its id.
    pub fn put_node_balancer(&self, balancer: &Value) -> u64 {
        contents::put_node_balancer(&mut self.state(), balancer)
    }

    /// Puts a firewall there, as the API shows it, attached to its `entities`; what is absent is
    /// filled in. Gives its id.
    pub fn put_firewall(&self, firewall: &Value) -> u64 {
        contents::put_firewall(&mut self.state(), firewall)
    }

    /// Lets a firewall protect this NodeBalancer too.
    pub fn attach_firewall(&self, firewall: u64, balancer: u64) {
        firewall_devices::attach(&mut self.state(), firewall, "nodebalancer", balancer);
    }

    /// Reserves an IPv4 address, this one or any; gives it.
    pub fn reserve(&self, region: &str, address: Option<&str>) -> String {
        reserved_ips::reserve(&mut self.state(), region, address)
    }

    /// Changes one field of an object.
    ///
    /// # Panics
    /// If it is not there.
    pub fn set_in(&self, kind: Kind, key: impl ToString, field: &str, value: impl Into<Value>) {
        let (key, value) = (key.to_string(), value.into());
        let mut state = self.state();
        let rows = state.rows_mut(kind);
        let there = rows.change(&key, |object| object[field] = value);
        assert!(there, "there is no {kind:?} {key}");
        if let Some(balancer) = state.node_balancer_of(kind, &key) {
            state.record(balancer);
        }
    }

    /// A node is taken out of its config.
    ///
    /// # Panics
    /// If it is not there.
    pub fn remove_node(&self, id: u64) {
        let (key, mut state) = (id.to_string(), self.state());
        let balancer = state.node_balancer_of(Kind::Node, &key);
        let config = state.rows(Kind::Node).value(&key)["config_id"].as_u64();
        let there = state.rows_mut(Kind::Node).remove(&key);
        assert!(there, "there is no node {id}");
        state.count_nodes(config.expect("a node has a config"));
        state.record(balancer.expect("a node has a NodeBalancer"));
    }

    /// What the check says of a node: `UP`, `DOWN` or `Unknown`.
    ///
    /// # Panics
    /// If it is not there.
    pub fn set_node_status(&self, node: u64, status: &str) {
        let mut state = self.state();
        let there = state.show_node_status(&node.to_string(), status);
        assert!(there, "there is no node {node}");
        let config = state.rows(Kind::Node).value(&node.to_string())["config_id"].as_u64();
        state.count_nodes(config.expect("a node has a config"));
    }

    /// A NodeBalancer is deleted with its configs and nodes; whether it was there.
    pub fn remove_node_balancer(&self, id: u64) -> bool {
        let mut state = self.state();
        let there = node_balancers::remove(&mut state, id);
        state.record(id);
        there
    }

    /// A firewall is deleted; whether it was there.
    pub fn remove_firewall(&self, id: u64) -> bool {
        firewalls::remove(&mut self.state(), &id.to_string())
    }
}
