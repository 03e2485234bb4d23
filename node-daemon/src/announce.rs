//! Announcing.

pub mod frames;
pub mod mac;
pub mod members;
pub mod observe;
pub mod plan;
pub mod rendezvous;
pub mod speaker;
