//! What every part of the rig stands on: child processes, waiting, temporary files, and where the workspace's
//! programs are.
//!
//! | module | what it gives |
//! |---|---|
//! | [`figures`] | the figures that the docs speak of, printed where `make test` finds them |
//! | [`process`] |  |
//! | [`program`] | `mooring-central` and `mooring-node`, started as users start them |
//! | [`scratch`] |  |
//! | [`wait`] | waiting for conditions, and proving that something does not happen |

pub mod figures;
pub mod process;
pub mod program;
pub mod scratch;
pub mod wait;
