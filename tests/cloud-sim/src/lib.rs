//! Clouds, simulated: what their APIs answer, and how they fail.
//!
//! Each cloud is an HTTP server with machines that a test adds, changes and takes away, as strict
//! as the real one: it wants the token, pages as the real one does, and puts its errors in the same
//! shape. What is asked is in a [log](Calls); what goes wrong is up to the test ([`Fault`]).
//!
//! ```no_run
//! # use std::time::Duration;
//! # use http::StatusCode;
//! # use mooring_cloud_sim::{Fault, When, linode::{Instance, Linode}};
//! # async fn example() -> anyhow::Result<()> {
//! let linode = Linode::start().await?;
//! linode.add(Instance::labelled("n1").ipv4("192.0.2.1"));
//! let busy = Fault::status(StatusCode::TOO_MANY_REQUESTS).retry_after(Duration::from_secs(5));
//! linode.faults().inject(When::get("/v4/linode/instances").page(2).times(3), busy);
//! // ... what the suite is about ...
//! assert_eq!(linode.calls().to("/v4/linode/instances").len(), 1);
//! # Ok(()) }
//! ```
//!
//! | module | what it gives |
//! |---|---|
//! | [`linode`] | the API of Linode |
//! | [`cloudscale`] | the API of cloudscale.ch |
//! | [`phoenixnap`] | the API of PhoenixNAP |
//! | [`brightbox`] | the API of Brightbox |
//! | [`cloud`] | any of them by one set of names, for scenarios that must hold on all |
//!
//! Nothing is kept of a request's credentials. What a request means to write is in the log, without
//! the keys of certificates; of a request for a token no body is kept at all.

pub mod brightbox;
pub mod cloud;
pub mod cloudscale;
mod control;
mod door;
mod faults;
mod links;
pub mod linode;
mod log;
pub mod phoenixnap;
mod request;
mod rows;
mod server;
mod snapshot;
mod tls;
mod traffic;

pub use faults::{Fault, Faults, Injection, When};
pub use log::{Call, Calls};
pub use snapshot::CloudState;
pub use tls::Tls;

/// The only token that the simulated clouds take. It opens nothing else.
pub const TOKEN: &str = "a-token-of-the-simulation-that-opens-nothing-else";
