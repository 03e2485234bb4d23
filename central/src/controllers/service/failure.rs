//! Why a pass over a Service failed.

use mooring_common::errors::words;
use mooring_common::k8s::{ApiFailure, classify};

use crate::cloud_api::CloudError;
use crate::cloud_provider::load_balancers::Stop;
use crate::controllers::address_pool::Unavailable;
use crate::election::NotLeading;

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("the API server did not take the patch: {}", words(.0))]
    Api(#[source] kube::Error),
    #[error("the Service was changed meanwhile")]
    Conflict,
    #[error("the Service is gone")]
    Gone,
    #[error("a patch cannot be written")]
    Patch(#[from] serde_json::Error),
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error(transparent)]
    Cloud(#[from] CloudError),
    #[error("{0}")]
    Cluster(String),
    #[error(transparent)]
    Stopped(#[from] Stop),
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match classify(&error) {
            ApiFailure::NotFound => Self::Gone,
            ApiFailure::Conflict => Self::Conflict,
            ApiFailure::Refused | ApiFailure::Transient => Self::Api(error),
        }
    }
}
