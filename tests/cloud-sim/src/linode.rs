//! The API of Linode, simulated: the side of the instances.
//!
//! | as the real one | |
//! |---|---|
//! | versions | `/v4` and `/v4beta` |
//! | token | `Authorization: Bearer`, otherwise 401 |
//! | paging | `page` from 1, `page_size` 25 to 500, 100 if absent; outside of that 400; a page after the last 404 |
//! | `X-Filter` | equality and the operators, on the fields that can be filtered on; otherwise 400 |
//! | limits | all requests, and listings apart, in windows of a minute: `X-RateLimit-…` headers, 429 with `Retry-After` |
//! | errors | `{"errors":[{"field":…,"reason":…}]}` with exactly `application/json` |

mod answers;
mod api;
mod filter;
mod instance;
mod limits;
mod paging;
mod state;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use serde_json::{Value, json};

pub use instance::Instance;
pub use limits::Limits;

use super::door::Handles;
use super::server::{Api, Server};
use super::{Calls, Faults};
use state::State;

/// A simulated Linode. It ends when it is dropped.
pub struct Linode {
    server: Server,
    state: Arc<Mutex<State>>,
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
        let state = Arc::new(Mutex::new(State::new()));
        let api = api::router(state.clone());
        let api = Api::plain(api, answers::error);
        let server = Server::start(listen, api, Handles::default()).await?;
        Ok(Self { server, state })
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

    /// Whether nobody is at home: all connections are reset.
    pub fn set_down(&self, down: bool) {
        self.server.set_down(down);
    }

    /// How many connections were reset at once since nobody was at home.
    pub fn turned_away(&self) -> u64 {
        self.server.turned_away()
    }

    /// How much may be asked per minute.
    pub fn limit(&self, limits: Limits) {
        self.state().limits = limits;
    }

    /// No other token is taken from now on than this.
    pub fn set_token(&self, token: &str) {
        token.clone_into(&mut self.state().token);
    }

    /// A new instance; gives its id.
    pub fn add(&self, instance: Instance) -> u64 {
        self.state().add_instance(instance.into_value())
    }

    /// An instance is deleted; whether it was there.
    pub fn remove(&self, id: u64) -> bool {
        self.state().instances.remove(&id.to_string())
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
    /// "ipv6s": […]}]}`, each as the API shows it. What is absent is filled in.
    ///
    /// # Errors
    /// If it has another form.
    pub fn load(&self, content: &Value) -> Result<()> {
        self.state().load(content)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
