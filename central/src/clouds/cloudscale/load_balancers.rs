//! Load balancers of cloudscale.ch.
//!
//! ```text
//!   annotations ─► desired ─┐
//!                           ├─► plan: steps ─► apply ─► the API
//!   listings ───► observed ─┘                    └────► observed, as it is after each step
//! ```
//!
//! A Service has one load balancer; each of its ports a pool with members, one health monitor and
//! one listener.

#![expect(
    dead_code,
    reason = "what asks for plans and carries them out comes next"
)]

mod annotations;
mod desired;
mod model;
mod networks;
mod observed;
mod plan;
mod selector;
mod step;
