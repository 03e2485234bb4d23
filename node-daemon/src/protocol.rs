//! Who may speak for which address: the protocol among the daemons of a segment, as a state
//! machine without I/O.
//!
//! Nothing in it needs the API server to be up, and no clock of another machine is looked at.
//!
//! # Guarantees
//! * At one instant at most one member has the right to speak for a key ([`Machine::permits`]).
//!   A right rests on a heartbeat that a majority of the voters has echoed, and ends a little before
//!   the promises do that the voters made with their echoes.
//! * While a majority of the voters hear each other and a candidate, somebody has the right, within
//!   about a promise of the last speaker's end.

pub mod decision;
pub mod mac;
pub mod machine;
pub mod members;
pub mod message;
pub mod parameters;
pub mod random;
mod rules;
pub mod time;
pub mod view;
pub mod weight;

pub use self::decision::{
    AnnounceMode, Awaited, Cause, ConnectionEvent, Consent, Decision, Destination, Path, Request,
    Transition, Transmit,
};
pub use self::machine::{Figures, Machine, MachineState, UNANNOUNCED_FROM_FILE};
pub use self::message::{
    Answer, Body, Claim, Contact, Digest, Echo, Epoch, Flags, Grant, Heartbeat, Incarnation, Key,
    KeyId, Message, NodeId, Owned, VoterSet,
};
pub use self::parameters::Parameters;
#[cfg(feature = "simulator")]
pub use self::rules::Rules;
pub use self::time::Moment;
pub use self::view::{ApiAnswer, Candidates, Group, Local, View, Wanted};
pub use self::weight::Weight;
