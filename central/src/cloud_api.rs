//! Talking to a cloud's HTTP API: what all clouds have in common.
//!
//! ```text
//!   clouds/<name> ──► Client ──► Limiter: at most so many requests, none while told to wait
//!                        │  └──► Tokens: of a variable or file, afresh after a rotation, or by oauth2
//!                        └─────► the cloud, directly or through a proxy
//! ```
//!
//! A [`Client`] sends a request once. Whatever is no complete and well-formed answer is a
//! [`CloudError`], and when to try again is for the caller to decide, with
//! [`CloudError::retry_after`] as the cloud's own word on it. No request waits here for longer than
//! a few seconds for a cloud that wants to be left alone, so that no worker is held up by it; nor for
//! longer than half a minute for its turn at a cloud that has turned out to take few requests.

mod client;
mod constants;
mod credentials;
mod entries;
mod environment;
mod error;
mod first_answer;
mod json_file;
mod kind;
mod lenient;
mod limiter;
mod metrics;
pub mod oauth2;
mod proxies;
mod reference;
mod refused_parts;
mod remembered;
mod resource;
#[cfg(test)]
pub(crate) mod testing;
mod token_check;
pub(crate) mod wait;

pub use client::{
    Client, Connection, ConnectionVariables, ErrorDecoder, LimitFlags, Limits, Refusal, Request,
    Transport, http,
};
pub use constants::Constants;
pub use credentials::{Credentials, Secret, TokenTimes, TokenVariables, Tokens};
pub use entries::Entries;
pub use environment::{Environment, Fault, VersionedUrl};
pub use error::{CloudError, ErrorKind, permitted};
pub use first_answer::FirstAnswer;
pub use json_file::{FileKey, JsonFile, KeyKind};
pub use kind::{Kind, body, with};
pub use lenient::{id_text, lenient, nullable, or_default, plain, said, short_name};
pub use limiter::Limiter;
pub use metrics::Metrics;
pub use proxies::Proxies;
pub use reference::{Reference, ids, referred};
pub use refused_parts::leaves_out_refused;
pub use remembered::Remembered;
pub use resource::Resource;
pub use token_check::TokenCheck;
