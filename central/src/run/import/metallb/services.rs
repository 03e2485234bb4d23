//! What Services say to MetalLB.

use mooring_common::names::annotations::{ADDRESS_POOL_REQUESTS, ADDRESSES_REQUESTS, SHARING_KEYS};

use crate::run::import::finding::Findings;
use crate::run::import::objects::Objects;

/// The prefixes of its annotations, the older one last.
const PREFIXES: [&str; 2] = ["metallb.io/", "metallb.universe.tf/"];

/// What MetalLB writes, and nobody needs.
const WRITTEN: &str = "ip-allocated-from-pool";

/// Tells of annotations that central does not read.
pub(in crate::run::import) fn told_of_services(objects: &Objects, findings: &mut Findings) {
    for service in objects.of("Service") {
        for (key, value) in service.annotations() {
            let Some(name) = PREFIXES.iter().find_map(|prefix| key.strip_prefix(prefix)) else {
                continue;
            };
            let mut read = ADDRESSES_REQUESTS
                .iter()
                .chain(&ADDRESS_POOL_REQUESTS)
                .chain(&SHARING_KEYS);
            if name == WRITTEN || read.any(|one| **one == key) {
                continue;
            }
            findings.cannot_say(
                format!(
                    "Service {}/{}: {key}: {value:?}",
                    service.namespace(),
                    service.name()
                ),
                "Mooring does not read this annotation; see what MetalLB does by it",
            );
        }
    }
}
