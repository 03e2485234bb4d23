//! Each panel of the dashboards has data, but for those of what has not happened.

use std::path::Path;

use mooring_test_support::wait::eventually;
use serde_json::Value;

use super::PAGED;
use super::dashboard::{draw, now};
use super::prometheus::Prometheus;

/// Waits until each query of this dashboard gives something, except those of these panels, which only have to be
/// understood; and draws it.
pub(super) async fn have_data(prometheus: &Prometheus, file: &str, quiet: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/monitoring/dashboards");
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let title_of = |panel: &Value| panel["title"].as_str().unwrap().to_owned();
    for name in quiet {
        assert!(
            panels.iter().any(|panel| title_of(panel) == *name),
            "{name}"
        );
    }
    for panel in panels {
        let title = title_of(panel);
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            eventually(&format!("{title} has data: {query}"), PAGED, async || {
                let values = prometheus.query(query).await?;
                let is_quiet = quiet.contains(&title.as_str());
                anyhow::ensure!(is_quiet || !values.is_empty(), "nothing");
                anyhow::Ok(())
            })
            .await;
        }
    }
    let svg = draw(&dashboard, prometheus, [now() - 60.0, now()]).await;
    let svg = svg.unwrap();
    assert!(svg.contains("<path class"), "{svg}");
    for panel in panels {
        let title = title_of(panel);
        assert!(svg.contains(&format!(">{title}</text>")), "{title}: {svg}");
    }
}
