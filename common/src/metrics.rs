//! What both programs count alike: their build and their process.

mod process;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use self::process::Process;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    program: &'static str,
    version: &'static str,
}

/// Registers build and process of this program.
pub fn register_program(registry: &mut Registry, program: &'static str) {
    let build = Family::<BuildLabels, Gauge>::default();
    let version = env!("CARGO_PKG_VERSION");
    build
        .get_or_create(&BuildLabels { program, version })
        .set(1);
    registry.register(
        "mooring_build_info",
        "Always 1: which program of which version this is",
        build,
    );
    registry.register_collector(Box::new(Process::own()));
}
