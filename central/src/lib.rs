//! `mooring-central`: all that needs the cloud's word.
//!
//! ```text
//!        cloud ◄── clouds ◄─┐                 ┌─► controllers/node_init
//!                           ├── controllers ──┼─► controllers/node_lifecycle
//!   API server ◄── watches ─┘        ▲        ├─► controllers/service
//!                                    │        └─► controllers/address_pool
//!                     election: may this replica write?
//! ```
//!
//! Every controller observes, plans and applies, in files of those names. Who has read one has
//! read them all: begin with `controllers/service`.

pub mod cloud_api;
pub mod clouds;
pub mod controllers;
pub mod election;
pub mod engine;
pub mod flags;
pub mod inventory;
pub mod namespace_view;
pub mod plan_command;
pub mod providers;
pub mod run;
pub mod server;
pub mod service_view;
