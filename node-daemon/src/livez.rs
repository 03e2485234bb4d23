//! `/livez`, `/readyz`, `/healthz` and `/services/<namespace>/<name>`: what load balancers in front
//! of this node ask, to know whether to send it traffic, and the kubelet, to know how it does.
//!
//! ```text
//!  Snapshot (see announce) ──► plan: path -> status and body ──► serve: HTTP with limits
//! ```
//!
//! The answers come from a snapshot in memory alone: nothing is asked of the API server, nothing
//! waits for a lock, and neither a slow API server nor a flood of probes can hold up announcing.
//!
//! | Path | 200 | 503 |
//! |---|---|---|
//! | `/livez` | the daemon knows its Services, endpoints and Node | it does not yet |
//! | `/readyz` | and it may write and announce | no admission policy keeps it to its own Node |
//! | `/healthz` | and the Node may carry traffic | it is being deleted, excluded, or drained |
//! | `/services/<namespace>/<name>` | and the Service has a ready endpoint on this Node | it has none |
//!
//! A Service that is not of type LoadBalancer, or does not exist, is 404 once Services are known.
//!
//! # Guarantees
//! * When the API server is away, the last answer stands: age alone never makes a 503.
//!   `viewAgeSeconds` tells how long ago the API server was heard of.
//! * HTTP/1.0 and 1.1 are served, with or without a `Host`, GET and HEAD.

mod connection;
pub mod plan;
mod serve;

pub use self::serve::{ServeError, bind, listen, serve};
