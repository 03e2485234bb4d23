//! The API of Brightbox, simulated: servers, load balancers, Cloud IPs, server groups, firewall policies
//! with their rules, accounts, and the endpoint where tokens come from.
//!
//! | as the real one | |
//! |---|---|
//! | token | client credentials or a user's password, the client by HTTP Basic or in the form; it expires, can be renewed with its refresh token, and revoked |
//! | account | a user's token needs `?account_id=`, a client's has one |
//! | listings | whole, bare arrays; load balancers without `acme` there; what is deleted stays for a while |
//! | writes | fields that are unknown or wrong: 422; what is not there: 404; what is in the way: 409; a full account: 403 |
//! | time | load balancers are `creating` and `deleting` for a while, Cloud IPs are mapped and unmapped later, certificates are `validating` |
//! | errors | `{"error_name": …, "errors": […]}`, of tokens `{"error": …, "error_description": …}` |
//!
//! What the vendor leaves open (whether a group is emptied at once, what listings show) is said by
//! [`Behaviour`].
//!
//! | what a test does | how |
//! |---|---|
//! | put something there | [`add`](Brightbox::add) a server, [`put`](Brightbox::put) anything, [`load`](Brightbox::load) all |
//! | change it by hand | [`set_in`](Brightbox::set_in), [`change_in`](Brightbox::change_in), [`take`](Brightbox::take), [`map`](Brightbox::map) |
//! | look | [`all`](Brightbox::all), [`get`](Brightbox::get), [`named`](Brightbox::named), [`snapshot`](Brightbox::snapshot) |
//! | say how it behaves | [`behave`](Brightbox::behave), [`faults`](Brightbox::faults), [`kill_switch`](Brightbox::kill_switch), [`set_down`](Brightbox::set_down) |
//! | let time pass | [`advance`](Brightbox::advance) |
//! | ask what was asked | [`calls`](Brightbox::calls) |
//! | ask what was served | [`traffic`](Brightbox::traffic), [`outages`](Brightbox::outages) |

mod answers;
mod api;
mod balancers;
mod behaviour;
mod by_hand;
mod cloud_ips;
mod control;
mod firewall;
mod groups;
mod kind;
mod machine;
mod objects;
mod shown;
mod snapshot;
mod state;
mod strict;
mod tokens;
mod traffic;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use futures::future::{BoxFuture, ready};
use serde_json::Value;

pub use crate::traffic::{Lack, Moment, Outage, Traffic};
pub use behaviour::Behaviour;
pub use kind::Kind;
pub use machine::Machine;
pub(crate) use machine::{interface, server_type};
pub use tokens::{ACCOUNT, APPLICATION, CLIENT_ID, CLIENT_SECRET, PASSWORD, USER};

use super::door::{Door, Entry, Handles, Held};
use super::request::Asked;
use super::server::{Api, Server};
use super::{Calls, Faults, Injection, Tls, When};
use state::State;

/// Where tokens come from.
pub const TOKEN_PATH: &str = "/token/";

/// A simulated Brightbox. It ends when it is dropped.
pub struct Brightbox {
    server: Server,
    state: Handle,
}

/// A shared state.
type Handle = Arc<Mutex<State>>;

/// Lets everybody in. With it the bodies of writes are in the log.
struct Open;

impl Door for Open {
    fn is_taken(&self, _: &Asked, _: &Option<Value>) -> bool {
        false
    }

    fn enter<'a>(&'a self, _: &'a Asked, _: &'a Option<Value>) -> BoxFuture<'a, Entry> {
        Box::pin(ready(Ok(Box::new(()) as Held)))
    }

    fn redact(&self, body: &mut Value) {
        if let Some(fields) = body.as_object_mut() {
            fields.remove("certificate_private_key");
        }
    }
}

impl Brightbox {
    /// Starts it on a free port of this machine, with nothing but the account in it.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn start() -> Result<Self> {
        Self::start_on((Ipv4Addr::LOCALHOST, 0).into()).await
    }

    /// Starts it on this address, with nothing but the account in it.
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
        let api = Api {
            router: api::router(state.clone()),
            error: answers::error,
            door: Some(Arc::new(Open)),
            control: Some(control::router(state.clone(), handles.clone())),
        };
        let server = Server::start(listen, tls, api, handles).await?;
        lock(&state).url = server.url();
        Ok(Self { server, state })
    }

    /// What to give as `BRIGHTBOX_API_URL`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// What goes wrong.
    pub fn faults(&self) -> &Faults {
        self.server.faults()
    }

    /// What has been asked so far, tokens among it.
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

    /// Every answer comes so much later, whatever else befalls it.
    pub fn set_latency(&self, latency: Duration) {
        self.server.set_latency(latency);
    }

    /// How it behaves from now on. What is under way keeps the pace that it had.
    pub fn behave(&self, behaviour: Behaviour) {
        self.state().behaviour = behaviour;
    }

    /// Changes how it behaves.
    pub fn adjust(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.state().behaviour);
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

    /// So much time passes at once, for tokens too.
    pub fn advance(&self, time: Duration) {
        self.state().advance(time);
    }

    /// Fills it from JSON: `{"servers": […], "load_balancers": […], "cloud_ips": […], "server_groups":
    /// […], "firewall_policies": […], "firewall_rules": […]}`, each as the API shows it, but that what it
    /// refers to may be an identifier. What is absent is filled in.
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

/// The state, with all that has come to pass by now.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    state.settle();
    state
}
