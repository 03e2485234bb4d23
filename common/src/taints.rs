//! Taints of a Node.

use k8s_openapi::api::core::v1::Taint;

use crate::names::taints;

/// Where the taints with this key stand, the last first: the order in which to remove them by
/// index.
#[must_use]
pub fn positions(taints: &[Taint], key: &str) -> Vec<usize> {
    let mut found: Vec<usize> = taints
        .iter()
        .enumerate()
        .filter(|(_, t)| t.key == key)
        .map(|(i, _)| i)
        .collect();
    found.reverse();
    found
}

/// Whether a taint with this key is there. Value and effect are not looked at.
#[must_use]
pub fn has(taints: &[Taint], key: &str) -> bool {
    taints.iter().any(|taint| taint.key == key)
}

/// The taint that keeps pods off a Node whose machine is stopped.
#[must_use]
pub fn shutdown() -> Taint {
    Taint {
        key: taints::SHUTDOWN.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    }
}
