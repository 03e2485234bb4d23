//! phoenixNAP Bare Metal Cloud.

mod ip_blocks;
mod model;

/// The provider's name, and the scheme of its IDs.
pub const NAME: &str = "phoenixnap";
