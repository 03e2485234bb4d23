//! `/livez`, `/readyz`, `/healthz` and `/services/<namespace>/<name>`: what load balancers in front
//! of this node ask, to know whether to send it traffic, and the kubelet, to know how it does.
//!
//! ```text
//!  Snapshot (see cluster) ──► plan: path -> status and body ──► response ──┐
//!                                                                           ▼
//!  listen, ports ──► serve: a thread ──► room ──► connection: time ──► request
//! ```
//!
//! The answers come from a snapshot in memory alone, which is also what addresses are announced by:
//! nothing is asked of the API server, and neither a slow API server nor a flood of probes can hold up
//! announcing.
//!
//! | Path | 200 | 503 |
//! |---|---|---|
//! | `/livez` | the daemon knows its Services, endpoints and Node, and the service proxy works | it does not yet, or the proxy says that it does not |
//! | `/livez/ping` | always | |
//! | `/readyz` | the daemon knows all that, and may write and announce | no admission policy keeps it to its own Node |
//! | `/healthz` | as `/livez`, and the Node may carry traffic | it is being deleted, excluded, or drained |
//! | `/services/<namespace>/<name>` | as `/healthz`, and the Service has a ready endpoint on this Node | it has none |
//!
//! A Service that is not of type LoadBalancer, or does not exist, is 404 once Services are known.
//!
//! # Guarantees
//! * When the API server is away, the last answer stands: age alone never makes a 503.
//!   `viewAgeSeconds` tells how long ago the API server was heard of. A daemon that is started
//!   meanwhile answers as the one before did ([`health_file`]).
//! * In an update of the daemon, the next process listens beside the last one as soon as it can answer,
//!   and the last one goes on until then: there is neither a refusal nor a 503.
//! * Who is neither on this node nor in a network that was named learns of a Service its status alone.
//! * The kubelet asks at a listener of its own, on loopback, so that no flood at the other keeps it
//!   waiting for a connection.
//! * HTTP/1.0 and 1.1 are served, with or without a `Host`, GET and HEAD. There is always room for a
//!   new client; who is slow, or only sits, makes room.
//!
//! # Caveats
//! A client that keeps its connection, and asks less often than every two seconds, may find it closed
//! after an update.

mod connection;
pub mod health_file;
mod listen;
mod metrics;
pub mod plan;
mod ports;
mod request;
mod response;
mod response_cache;
mod serve;
mod server;

pub use self::listen::{Bound, ListenError, listen};
pub use self::metrics::Metrics;
pub use self::serve::DetailNetworks;
pub use self::server::{Options, ServeError, Server};
