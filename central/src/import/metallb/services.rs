//! What Services say to MetalLB.

use crate::import::finding::Findings;
use crate::import::objects::Objects;

/// The prefixes of its annotations, the older one last.
const PREFIXES: [&str; 2] = ["metallb.io/", "metallb.universe.tf/"];

/// Those that central reads as well.
const READ: [&str; 3] = ["address-pool", "loadBalancerIPs", "allow-shared-ip"];

/// What MetalLB writes, and nobody needs.
const WRITTEN: &str = "ip-allocated-from-pool";

/// Tells of annotations that central does not read.
pub(in crate::import) fn told_of_services(objects: &Objects, findings: &mut Findings) {
    for service in objects.of("Service") {
        for (key, value) in service.annotations() {
            let Some(name) = PREFIXES.iter().find_map(|prefix| key.strip_prefix(prefix)) else {
                continue;
            };
            if READ.contains(&name) || name == WRITTEN {
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
