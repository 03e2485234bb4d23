//! The API of cloudscale.ch, simulated: servers, load balancers with their parts, floating IPs.
//!
//! | as the real one | |
//! |---|---|
//! | token | `Authorization: Bearer`, otherwise 401 |
//! | listings | whole, without pages; `?tag:key` and `?tag:key=value` choose, several of them together |
//! | writes | fields that are missing, unknown, wrong or constant, and more than one in a PATCH: 400 |
//! | time | a new load balancer is `changing` for a while, and none takes two writes at once |
//! | deletions | a load balancer takes its parts with it, a pool its members, monitor and listeners |
//! | errors | `{"detail": …}` or `{"field": ["…"]}`, as Django REST does it |
//!
//! | what a test does | how |
//! |---|---|
//! | put something there | [`add`](Cloudscale::add) a server, [`put`](Cloudscale::put) anything, [`load`](Cloudscale::load) all |
//! | change it by hand | [`set_in`](Cloudscale::set_in), [`change_in`](Cloudscale::change_in), [`take`](Cloudscale::take), [`set_status`](Cloudscale::set_status) |
//! | look | [`all`](Cloudscale::all), [`get`](Cloudscale::get), [`named`](Cloudscale::named), [`members_of`](Cloudscale::members_of), [`snapshot`](Cloudscale::snapshot) |
//! | say how it behaves | [`behave`](Cloudscale::behave), [`set_latency`](Cloudscale::set_latency), [`faults`](Cloudscale::faults), [`kill_switch`](Cloudscale::kill_switch), [`set_down`](Cloudscale::set_down) |
//! | let it forward | [`forward`](Cloudscale::forward): connections to its members, by what its monitors find |
//! | ask what was asked | [`calls`](Cloudscale::calls), [`concurrent_writes`](Cloudscale::concurrent_writes), [`member_posts`](Cloudscale::member_posts) |
//! | ask what was served | [`traffic`](Cloudscale::traffic), [`outages`](Cloudscale::outages), [`gaps_in_calls`](Cloudscale::gaps_in_calls) |

mod answers;
mod api;
mod behaviour;
mod by_hand;
mod control;
mod floating_ips;
mod forwarder;
mod in_flight;
mod kind;
mod machine;
mod objects;
mod parts;
mod snapshot;
mod state;
mod strict;
mod traffic;
mod writes;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

pub use crate::traffic::{Lack, Moment, Outage, Served, Traffic};
pub use behaviour::Behaviour;
pub use forwarder::Forwarder;
pub use kind::Kind;
pub use machine::{Interface, Machine, SUBNET};

use super::door::Handles;
use super::server::{Api, Server};
use super::{Calls, Faults, Injection, Tls, When};
use control::Control;
use in_flight::InFlight;
use state::State;

/// A simulated cloudscale.ch. It ends when it is dropped.
pub struct Cloudscale {
    server: Server,
    state: Arc<Mutex<State>>,
    in_flight: InFlight,
}

impl Cloudscale {
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
        let in_flight = InFlight::of(state.clone());
        let handles = Handles::default();
        let control = Control {
            state: state.clone(),
            handles: handles.clone(),
            in_flight: in_flight.clone(),
        };
        let api = Api {
            router: api::router(state.clone()),
            error: answers::error,
            door: Some(Arc::new(in_flight.clone())),
            control: Some(control::router(control)),
        };
        let server = Server::start(listen, tls, api, handles).await?;
        lock(&state).url = server.url();
        Ok(Self {
            server,
            state,
            in_flight,
        })
    }

    /// What to give as `CLOUDSCALE_API_URL`: without `/v1`.
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

    /// No other token is taken from now on than this.
    pub fn set_token(&self, token: &str) {
        token.clone_into(&mut self.state().token);
    }

    /// Every answer comes so much later, whatever else befalls it.
    pub fn set_latency(&self, latency: Duration) {
        self.server.set_latency(latency);
    }

    /// How load balancers behave from now on.
    pub fn behave(&self, behaviour: Behaviour) {
        self.state().behaviour = behaviour;
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

    /// How many writes came while another one on the same load balancer was under way: they were
    /// refused, or had to wait. No client that is any good ever does it.
    pub fn concurrent_writes(&self) -> u64 {
        self.in_flight.met()
    }

    /// Fills it from JSON: `{"servers": […], "load_balancers": […], "pools": […], "members": […],
    /// "listeners": […], "health_monitors": […], "floating_ips": […]}`, each as the API shows it.
    /// What is absent is filled in; `load_balancer`, `pool` and `subnet` may be UUIDs.
    ///
    /// # Errors
    /// If it has another form.
    pub fn load(&self, content: &Value) -> Result<()> {
        self.state().load(content)
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
