//! The API of Linode, simulated: instances, VPCs, NodeBalancers, firewalls, reserved addresses.
//!
//! | as the real one | |
//! |---|---|
//! | versions | `/v4` and `/v4beta` |
//! | token | `Authorization: Bearer`, otherwise 401; with its scopes, and the grants of its user |
//! | paging | `page` from 1, `page_size` 25 to 500, 100 if absent; outside of that 400; a page after the last 404 |
//! | `X-Filter` | equality and the operators, on the fields that can be filtered on; otherwise 400 |
//! | limits | all requests, and listings apart, in windows of a minute, new Linodes in windows of 15 seconds: `X-RateLimit-…` headers, 429 with `Retry-After` |
//! | writes | fields that are missing or wrong, and what does not go together: 400; unknown fields are ignored |
//! | NodeBalancers | one config per port for UDP and one for the rest; nodes at private addresses of Linodes of the region, at their IPv6 addresses, or in the subnet of a VPC |
//! | TLS | a certificate is shown as its common name and fingerprint; its key is in no answer, in no log, and not kept |
//! | interfaces in VPCs | of a configuration profile or of the Linode itself, each by its own endpoints; ranges lie in the subnet and overlap with nothing |
//! | deletions | a NodeBalancer takes configs and nodes with it; its firewall and its reserved address stay |
//! | errors | `{"errors":[{"field":…,"reason":…}]}` with exactly `application/json`: all that is wrong, at once |
//!
//! What the documentation leaves open is said by [`Behaviour`]. The exact words of most reasons are
//! not documented, and differ from the real ones.
//!
//! | what a test does | how |
//! |---|---|
//! | put something there | [`add`](Linode::add) an instance, [`put_node_balancer`](Linode::put_node_balancer), [`put_firewall`](Linode::put_firewall), [`reserve`](Linode::reserve), what the Go controller has left ([`leave`](Linode::leave)), [`load`](Linode::load) all |
//! | change it by hand | [`set`](Linode::set) an instance, [`set_in`](Linode::set_in), [`set_node_status`](Linode::set_node_status), [`remove_node_balancer`](Linode::remove_node_balancer), [`remove_node`](Linode::remove_node), [`remove_firewall`](Linode::remove_firewall) |
//! | look | [`all`](Linode::all), [`get`](Linode::get), [`snapshot`](Linode::snapshot) |
//! | say how it behaves | [`behave`](Linode::behave), [`limit`](Linode::limit), [`allow`](Linode::allow), [`set_latency`](Linode::set_latency), [`faults`](Linode::faults), [`kill_switch`](Linode::kill_switch), [`set_down`](Linode::set_down) |
//! | ask what was asked | [`calls`](Linode::calls), [`writes`](Linode::writes) |
//! | ask what was served | [`traffic`](Linode::traffic), [`outages`](Linode::outages) |

mod access;
mod answers;
mod api;
mod backends;
mod behaviour;
mod by_hand;
mod certificate;
mod config_nodes;
mod config_rules;
mod configs;
mod contents;
mod control;
mod control_rights;
mod filter;
mod firewall_devices;
mod firewall_rules;
mod firewalls;
mod go_controller;
mod instance;
mod instance_ips;
mod instances;
mod kind;
mod limits;
mod node_balancers;
mod paging;
mod reserved_ips;
mod snapshot;
mod state;
mod strict;
mod traffic;
mod vpc_interfaces;
mod vpc_interfaces_by_hand;
mod vpc_ranges;
mod writers;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use http::StatusCode;
use serde_json::{Value, json};

pub use access::{Access, Entity, Grants, Right};
pub use behaviour::Behaviour;
pub use go_controller::{Left, Served};
pub use instance::Instance;
pub use kind::Kind;
pub use limits::Limits;
pub use writers::Writes;

pub use crate::traffic::{Lack, Moment, Outage, Traffic};

use super::door::Handles;
use super::server::{Api, Server};
use super::{Calls, Fault, Faults, Injection, Tls, When};
use state::State;
use writers::Writers;

/// A simulated Linode. It ends when it is dropped.
pub struct Linode {
    server: Server,
    state: Arc<Mutex<State>>,
    writers: Writers,
}

impl Linode {
    /// Starts it on a free port of this machine, without anything in it.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn start() -> Result<Self> {
        Self::start_on((Ipv4Addr::LOCALHOST, 0).into()).await
    }

    /// Starts it on this address, without anything in it.
    ///
    /// # Errors
    /// If the address is taken.
    pub async fn start_on(listen: SocketAddr) -> Result<Self> {
        Self::start_with(listen, None).await
    }

    /// The same, speaking TLS if there is a certificate.
    ///
    /// # Errors
    /// If the address is taken.
    pub async fn start_with(listen: SocketAddr, tls: Option<Tls>) -> Result<Self> {
        let state = Arc::new(Mutex::new(State::new()));
        let handles = Handles::default();
        let writers = Writers::of(state.clone());
        let api = Api {
            router: api::router(state.clone()),
            error: answers::error,
            door: Some(Arc::new(writers.clone())),
            control: Some(control::router(
                state.clone(),
                writers.clone(),
                handles.clone(),
            )),
        };
        let server = Server::start(listen, tls, api, handles).await?;
        Ok(Self {
            server,
            state,
            writers,
        })
    }

    /// What to give as `LINODE_URL`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// What goes wrong.
    pub fn faults(&self) -> &Faults {
        self.server.faults()
    }

    /// What has been asked so far.
    pub fn calls(&self) -> Calls {
        self.server.calls()
    }

    /// The writes on each NodeBalancer so far, and how many there were at once.
    pub fn writes(&self) -> BTreeMap<u64, Writes> {
        self.writers.counted()
    }

    /// Whether nobody is at home: all connections are reset.
    pub fn set_down(&self, down: bool) {
        self.server.set_down(down);
    }

    /// How many connections were reset at once since nobody was at home.
    pub fn turned_away(&self) -> u64 {
        self.server.turned_away()
    }

    /// Every answer comes so much later, whatever else befalls it.
    pub fn set_latency(&self, latency: Duration) {
        self.server.set_latency(latency);
    }

    /// At the n-th of these requests, counted from now on and from 1, `hook` is called and the
    /// connection is reset; `executed`: the request has taken effect by then.
    pub fn kill_switch(
        &self,
        when: When,
        n: u64,
        executed: bool,
        hook: impl Fn() + Send + Sync + 'static,
    ) -> Injection {
        self.faults().kill_switch(when, n, executed, hook)
    }

    /// How much may be asked per minute.
    pub fn limit(&self, limits: Limits) {
        self.state().limits = limits;
    }

    /// No other token is taken from now on than this.
    pub fn set_token(&self, token: &str) {
        token.clone_into(&mut self.state().token);
    }

    /// A write that is refused because another one is under way; clients are to ask again.
    pub fn busy() -> Fault {
        let body = r#"{"errors":[{"reason":"Linode busy."}]}"#;
        Fault::body(StatusCode::BAD_REQUEST, body)
    }

    /// What the token may do from now on.
    pub fn allow(&self, access: Access) {
        self.state().access = access;
    }

    /// A new instance; gives its id.
    pub fn add(&self, instance: Instance) -> u64 {
        self.state().add_instance(instance.into_value())
    }

    /// An instance is deleted; whether it was there.
    pub fn remove(&self, id: u64) -> bool {
        self.state().remove_instance(id)
    }

    /// Changes what the API shows of an instance.
    pub fn change(&self, id: u64, change: impl FnOnce(&mut Value)) {
        let there = self.state().instances.change(&id.to_string(), change);
        assert!(there, "there is no instance {id}");
    }

    /// Changes one field of an instance.
    pub fn set(&self, id: u64, field: &str, value: impl Into<Value>) {
        let value = value.into();
        self.change(id, |instance| instance[field] = value);
    }

    /// Puts an instance back that was there before, under its old id and at the end of the listing.
    pub fn restore(&self, id: u64, instance: Instance) {
        let mut value = instance.into_value();
        value["id"] = json!(id);
        self.state().add_instance(value);
    }

    /// A VPC; gives its id.
    pub fn add_vpc(&self, label: &str) -> u64 {
        self.state().add_vpc(json!({ "label": label }))
    }

    /// A subnet of a VPC; gives its id.
    pub fn add_subnet(&self, vpc: u64, label: &str, ipv4: &str) -> u64 {
        let subnet = json!({ "label": label, "ipv4": ipv4 });
        self.state().add_subnet(vpc, subnet)
    }

    /// An IPv4 address of an instance in a VPC.
    pub fn add_vpc_address(&self, vpc: u64, subnet: u64, instance: u64, address: &str) {
        let row = json!({ "subnet_id": subnet, "linode_id": instance, "address": address });
        self.state().add_vpc_ip(vpc, row);
    }

    /// A row of a VPC's addresses, as the API shows it; what is absent is filled in.
    pub fn add_vpc_row(&self, vpc: u64, row: Value) {
        self.state().add_vpc_ip(vpc, row);
    }

    /// IPv6 addresses of an instance in a VPC.
    pub fn add_vpc_ipv6(&self, vpc: u64, subnet: u64, instance: u64, slaac: &str, public: bool) {
        let row = json!({
            "subnet_id": subnet, "linode_id": instance, "ipv6_is_public": public,
            "ipv6_addresses": [{ "slaac_address": slaac }],
        });
        self.state().add_vpc_ipv6(vpc, row);
    }

    /// Fills it from JSON: `{"instances": […], "vpcs": [{…, "subnets": […], "ips": […],
    /// "ipv6s": […]}], "node_balancers": [{…, "configs": [{…, "nodes": […]}]}], "firewalls": […],
    /// "reserved_ips": […]}`, each as the API shows it. What is absent is filled in; firewalls are
    /// attached to their `entities`.
    ///
    /// # Errors
    /// If it has another form.
    pub fn load(&self, content: &Value) -> Result<()> {
        contents::load(&mut self.state(), content)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        state.settle();
        state
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
