//! The part of a Namespace that is looked at.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use mooring_common::k8s::Slim;

/// What is kept of a Namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceView {
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
}

impl Slim for NamespaceView {
    type Object = Namespace;

    fn slim(namespace: Namespace) -> Self {
        Self {
            labels: namespace.metadata.labels.unwrap_or_default(),
        }
    }
}
