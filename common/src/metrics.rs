//! What both programs count alike: their build and their process; and a gauge that may be absent.

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

/// A gauge that is exported while it has a value: what nobody asks about is not 0.
#[derive(Clone, Debug, Default)]
pub struct OptionalGauge(Family<[(&'static str, &'static str); 0], Gauge>);

impl OptionalGauge {
    /// Enters it into a registry.
    pub fn register(&self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.0.clone());
    }

    /// Its value from now on.
    pub fn set(&self, value: Option<bool>) {
        match value {
            Some(value) => {
                self.0.get_or_create(&[]).set(value.into());
            }
            None => self.0.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauge_without_a_value_is_absent() {
        let mut registry = Registry::default();
        let gauge = OptionalGauge::default();
        gauge.register(&mut registry, "works", "Whether it works");
        let shown = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            let line = text.lines().find(|line| line.starts_with("works"));
            line.map(str::to_owned)
        };
        assert_eq!(shown(), None);
        for (value, expected) in [
            (Some(false), Some("works{} 0")),
            (Some(true), Some("works{} 1")),
            (None, None),
        ] {
            gauge.set(value);
            assert_eq!(shown().as_deref(), expected);
        }
    }
}
