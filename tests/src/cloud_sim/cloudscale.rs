//! The API of cloudscale.ch, simulated: the side of the servers.
//!
//! | as the real one | |
//! |---|---|
//! | token | `Authorization: Bearer`, otherwise 401 |
//! | listings | whole, without pages; `?tag:key` and `?tag:key=value` choose, several of them together |
//! | errors | `{"detail": …}`, as Django REST does it |

mod answers;
mod api;
mod machine;
mod state;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use serde_json::Value;

pub use machine::{Interface, Machine};

use super::server::Server;
use super::{Calls, Faults};
use state::State;

/// A simulated cloudscale.ch. It ends when it is dropped.
pub struct Cloudscale {
    server: Server,
    state: Arc<Mutex<State>>,
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
        let state = Arc::new(Mutex::new(State::new()));
        let api = api::router(state.clone());
        let server = Server::start(listen, api, answers::error).await?;
        let url = server.url();
        lock(&state).url = url;
        Ok(Self { server, state })
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

    /// A new server; gives its UUID.
    pub fn add(&self, machine: Machine) -> String {
        self.state().add_server(&machine.into_value())
    }

    /// A server is deleted; whether it was there.
    pub fn remove(&self, uuid: &str) -> bool {
        self.state().servers.remove(uuid)
    }

    /// Changes what the API shows of a server.
    pub fn change(&self, uuid: &str, change: impl FnOnce(&mut Value)) {
        let there = self.state().servers.change(uuid, change);
        assert!(there, "there is no server {uuid}");
    }

    /// Changes one field of a server.
    pub fn set(&self, uuid: &str, field: &str, value: impl Into<Value>) {
        let value = value.into();
        self.change(uuid, |server| server[field] = value);
    }

    /// Puts a server back that was there before, under its old UUID and at the end of the listing.
    pub fn restore(&self, uuid: &str, machine: Machine) {
        let mut value = machine.into_value();
        value["uuid"] = uuid.into();
        self.state().add_server(&value);
    }

    /// Fills it from JSON: `{"servers": […]}`, each as the API shows it. What is absent is filled
    /// in.
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
