//! The machines file: what an operator declares about the machines of a cluster that has no cloud
//! to ask. Both programs read it.
//!
//! ```text
//!   text ──► yaml ──► validate ──► Machines ──┐
//!            (every fault, with its place)    ├──► resolve ──► Resolution
//!   Node object, and on the node DMI ─────────┘    (pure)
//!                                  Identity
//! ```
//!
//! [`load`] keeps the file fresh while a program runs. Everything else here is pure.

pub mod builtin;
pub mod capacity;
pub mod hardware;
pub mod identity;
pub mod load;
pub mod resolve;
pub mod schema;
pub mod validate;

pub use capacity::Capacity;
pub use identity::Identity;
pub use load::{LoadError, MachinesFile, ReloadStatus};
pub use resolve::{Resolution, presence_of, resolve};
pub use schema::Machines;
pub use validate::{InvalidMachines, parse};

#[cfg(test)]
mod tests;
