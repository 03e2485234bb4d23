//! Announcing on a real segment: three nodes and a client on a bridge, every frame captured, a real
//! API server, and the programs as they are shipped.

mod claimed;
mod cluster;
mod connection;
mod draining;
mod handover;
mod interfaces;
mod kernel;
mod kernel_answers;
mod keyless;
mod memory;
mod notices;
mod occupied;
mod outage;
mod sharing;
mod sound;
mod upgrade;
mod wire;
