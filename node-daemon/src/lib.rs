//! Mooring.

pub mod announce;
pub mod metadata;
