//! What is counted of the control plane's address.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The state of this node.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// 1 while its API server is ready; empty where the file names none.
    ready: Family<[(&'static str, &'static str); 0], Gauge>,
    /// The revision of the voters that it serves; 0: none.
    pub revision: Gauge,
}

impl Metrics {
    /// Enters them into a registry.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "mooring_control_plane_ready",
            "1 while the API server of this node is ready; absent where none is to run",
            metrics.ready.clone(),
        );
        registry.register(
            "mooring_control_plane_revision",
            "The revision of the control plane file whose voters this node serves; 0 for none",
            metrics.revision.clone(),
        );
        metrics
    }

    /// Whether this node's API server is ready; `None`: it is to have none, as a witness.
    pub(super) fn set_ready(&self, is_ready: Option<bool>) {
        match is_ready {
            Some(is_ready) => {
                self.ready.get_or_create(&[]).set(is_ready.into());
            }
            None => self.ready.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(metrics: &Metrics, registry: &Registry, is_ready: Option<bool>) -> Option<String> {
        metrics.set_ready(is_ready);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        let mut lines = text.lines();
        let line = lines.find(|line| line.starts_with("mooring_control_plane_ready"));
        line.map(str::to_owned)
    }

    #[test]
    fn witness_has_no_api_server_that_is_not_ready() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let name = "mooring_control_plane_ready";
        for (is_ready, expected) in [
            (Some(false), Some(format!("{name}{{}} 0"))),
            (Some(true), Some(format!("{name}{{}} 1"))),
            (None, None),
        ] {
            assert_eq!(shown(&metrics, &registry, is_ready), expected);
        }
    }
}
