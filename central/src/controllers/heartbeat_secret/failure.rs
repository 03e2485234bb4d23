//! Why a pass over the Secret failed.

use crate::election::NotLeading;

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(
        "cannot look for the Secret; mooring-central must be permitted to get it, as by the chart's \
         Role whose name ends in central-heartbeat-secret"
    )]
    Look { source: kube::Error },
    #[error(
        "cannot make the Secret; mooring-central must be permitted to create it, as by the chart's Role \
         whose name ends in central-heartbeat-secret; or make it yourself"
    )]
    Create { source: kube::Error },
    #[error("this machine gives no random numbers for a key")]
    NoRandomness,
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
}
