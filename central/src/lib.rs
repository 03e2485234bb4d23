//! `mooring-central`: all that needs the cloud's word.
//!
//! ```text
//!   run             the program put together: leader, endpoints; the commands `plan`, `import`, and those of `kubectl mooring`
//!   providers       the clouds that the flags ask for, opened
//!   controllers     Nodes, Services, L2Networks: each observes, plans and applies
//!   flags           the command line
//!   clouds          one folder for each cloud, and the list of them
//!   engine          what is the same for all clouds: machines, load balancers, credentials
//!   cloud_provider  what central asks of a cloud
//!   views           what is kept of Services and Namespaces
//!   election        may this replica write?
//!   cloud_api       requests to a cloud: credentials, limits, errors
//! ```
//!
//! A module imports only modules below it: `tests/tests/parts/imports.rs` checks that. Every controller observes,
//! plans and applies, in files of those names. Who has read one has read them all: begin with `controllers/service`.

pub mod cloud_api;
pub mod cloud_provider;
pub mod clouds;
pub mod controllers;
pub mod election;
pub mod engine;
pub mod flags;
pub mod providers;
pub mod run;
pub mod views;
