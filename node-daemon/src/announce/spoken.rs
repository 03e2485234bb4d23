//! What is said of an address that this node begins to announce.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use mooring_common::l2_network::SpokenFor;
use mooring_common::names::speaking_reasons;

use crate::protocol::Cause;

/// That it is announced from now on.
#[must_use]
pub fn spoken_for(address: IpAddr, cause: Cause) -> SpokenFor {
    let now = Timestamp::now();
    SpokenFor {
        address: address.to_string(),
        // As exact as the API server keeps it: what it says is compared with this.
        since: MicroTime(Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)),
        reason: reason(cause).to_owned(),
    }
}

/// Why, in one word.
#[must_use]
pub const fn reason(cause: Cause) -> &'static str {
    match cause {
        Cause::Unclaimed => speaking_reasons::UNCLAIMED,
        Cause::TakenOver => speaking_reasons::TAKEN_OVER,
        Cause::HandedOver => speaking_reasons::HANDED_OVER,
        Cause::GivenBack => speaking_reasons::GIVEN_BACK,
        Cause::Inherited => speaking_reasons::INHERITED,
        Cause::Lapsed => "Lapsed",
        Cause::SegmentLost => "SegmentLost",
        Cause::Withdrawn => "Withdrawn",
        Cause::Ended => "Ended",
    }
}
