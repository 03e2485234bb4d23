//! Mooring.

pub mod announce;
