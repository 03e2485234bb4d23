//! Talking to a cloud's HTTP API: what all clouds have in common.

mod error;

pub use error::CloudError;
