//! The API of PhoenixNAP's Bare Metal Cloud, simulated: servers, IP blocks, public networks, tags,
//! BGP peer groups, and the endpoint where tokens come from.
//!
//! | as the real one | |
//! |---|---|
//! | token | client credentials by HTTP Basic or in the form; it expires, can be revoked, and has scopes |
//! | listings | whole, without pages; `?tag=name.value` and `?tag=name` choose, several of them together |
//! | writes | fields that are missing, unknown or wrong: 400 with `validationErrors` |
//! | what is not there | is forbidden: 403, not 404 |
//! | time | blocks, memberships and peer groups change later than they are asked to; a public network is busy meanwhile, and refuses: 409 |
//! | limits | ten IPv4 blocks and one IPv6 block per public network |
//! | errors | `{"message": …, "validationErrors": […]}` |
//!
//! What the vendor leaves open (in which spelling it says what a block is assigned to, whether several
//! tags narrow or widen a listing, how it refuses the eleventh block) is said by [`Behaviour`].
//!
//! | what a test does | how |
//! |---|---|
//! | put something there | [`add`](Phoenixnap::add) a server, [`put`](Phoenixnap::put) anything, [`load`](Phoenixnap::load) all |
//! | change it by hand | [`set_in`](Phoenixnap::set_in), [`take`](Phoenixnap::take), [`detach`](Phoenixnap::detach), [`tag`](Phoenixnap::tag) |
//! | look | [`all`](Phoenixnap::all), [`get`](Phoenixnap::get), [`tagged`](Phoenixnap::tagged), [`blocks_on`](Phoenixnap::blocks_on) |
//! | say how it behaves | [`behave`](Phoenixnap::behave), [`faults`](Phoenixnap::faults), [`kill_switch`](Phoenixnap::kill_switch), [`set_down`](Phoenixnap::set_down) |
//! | let time pass | [`advance`](Phoenixnap::advance), [`finish`](Phoenixnap::finish) |
//! | ask what was asked | [`calls`](Phoenixnap::calls), [`writes`](Phoenixnap::writes) |
//! | ask what it has cost | [`purchases`](Phoenixnap::purchases), [`releases`](Phoenixnap::releases), [`misdirected`](Phoenixnap::misdirected) |

mod answers;
mod api;
mod behaviour;
mod billing;
mod blocks;
mod by_hand;
mod control;
mod kind;
mod ledger;
mod machine;
mod members;
mod networks;
mod objects;
mod peer_groups;
mod pending;
mod shown;
mod state;
mod strict;
mod tags;
mod tokens;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use futures::future::{BoxFuture, ready};
use serde_json::Value;

pub use behaviour::{Behaviour, Pace, Spelling};
pub use billing::per_hour;
pub use kind::Kind;
pub use ledger::Purchase;
pub use machine::Machine;
pub use tokens::{CLIENT_ID, CLIENT_SECRET};

use super::door::{Door, Entry, Handles, Held};
use super::request::Asked;
use super::server::{Api, Server};
use super::{Calls, Faults, Injection, Tls, When};
use state::State;

/// Where tokens come from.
pub const TOKEN_PATH: &str = "/auth/realms/BMC/protocol/openid-connect/token";

/// A simulated PhoenixNAP. It ends when it is dropped.
pub struct Phoenixnap {
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
}

impl Phoenixnap {
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
        let api = Api {
            router: api::router(state.clone()),
            error: answers::error,
            door: Some(Arc::new(Open)),
            control: Some(control::router(state.clone(), handles.clone())),
        };
        let server = Server::start(listen, tls, api, handles).await?;
        Ok(Self { server, state })
    }

    /// What stands for `https://api.phoenixnap.com`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Where its tokens come from.
    pub fn token_url(&self) -> String {
        format!("{}{TOKEN_PATH}", self.server.url())
    }

    /// What goes wrong.
    pub fn faults(&self) -> &Faults {
        self.server.faults()
    }

    /// What has been asked so far, tokens among it.
    pub fn calls(&self) -> Calls {
        self.server.calls()
    }

    /// What has been asked so far that meant to change something.
    pub fn writes(&self) -> Calls {
        self.calls().writes()
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

    /// Whatever is under way ends now, also what is held.
    pub fn finish(&self) {
        self.state().finish();
    }

    /// Fills it from JSON: `{"servers": […], "tags": […], "networks": […], "blocks": […],
    /// "peer_groups": […]}`, each as the API shows it; what is absent is filled in. Tags may also be
    /// given as `{"name": "value"}`, and need not be there before.
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
