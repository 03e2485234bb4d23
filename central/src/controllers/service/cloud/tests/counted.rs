//! What is counted of plans, and of what keeps a Service from its address.

use mooring_common::engine::Impact;

use super::*;
use crate::cloud_api::{CloudError, ErrorKind};

/// A world, and what a scrape says of it.
struct Counted {
    world: World,
    registry: Registry,
}

impl Counted {
    fn new() -> Self {
        let mut registry = Registry::default();
        let mut world = World::new();
        world.services.metrics = Metrics::register(&mut registry);
        world.add("web");
        Self { world, registry }
    }

    /// A pass, and its end as the controller counts it.
    async fn pass(&self) {
        let key = key("web");
        let service = self.world.cluster.service(&key).unwrap();
        let outcome = self.world.services.pass(service).await;
        let service = self.world.cluster.service(&key);
        let counted = &self.world.services.metrics.without_address;
        counted.passed(&key, service.as_deref(), &outcome, 9);
    }

    fn says(&self, line: &str) -> bool {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text.lines().any(|l| l.starts_with(line))
    }
}

#[tokio::test(start_paused = true)]
async fn steps_count_by_impact_when_carried_out() {
    let counted = Counted::new();
    counted.world.cloud.state.lock().unwrap().impact = Impact::Major;
    let steps = "mooring_plan_steps_total{provider=\"fake\",impact=\"major\"}";
    counted.pass().await;
    assert!(counted.says(&format!("{steps} 1")));
    counted.pass().await;
    assert!(
        counted.says(&format!("{steps} 1")),
        "nothing was to be done"
    );
}

#[tokio::test(start_paused = true)]
async fn reason_is_that_of_the_cloud_until_there_is_an_address() {
    let counted = Counted::new();
    let later = CloudError {
        retry_after: Some(Duration::from_secs(20)),
        ..CloudError::new("fake", ErrorKind::RateLimited, "too much")
    };
    counted.world.cloud.state.lock().unwrap().failures = vec![later.into()];
    counted.pass().await;
    let waiting = "mooring_services_without_address{reason=\"cloud_rate_limited\"} 1";
    assert!(counted.says(waiting));
    counted.pass().await;
    assert!(!counted.says("mooring_services_without_address{"));
}
