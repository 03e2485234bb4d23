//! What the cluster's blocks cost per month: the cloud is asked once an hour, and a minute after there is another
//! block. It is told by a metric; nothing is decided by it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{sleep, timeout};
use tracing::info;

use super::ip_allocation::BlockMetrics;
use crate::cloud_api::CloudError;

/// The hours of a month on average.
pub const HOURS_PER_MONTH: f64 = 730.0;
/// How long a price is believed in.
const BELIEVED: Duration = Duration::from_hours(1);
/// Blocks that are bought together are asked for together.
const TOGETHER: Duration = Duration::from_mins(1);

/// A cloud whose billing tells what a block costs.
#[async_trait]
pub trait Prices: Send + Sync {
    /// What blocks of the account cost per month, in US dollars, by id: one request. A block that has not been
    /// rated yet is absent.
    async fn per_month(&self) -> Result<BTreeMap<String, f64>, CloudError>;
}

/// Keeps the metric as it is, without end. While the cluster has no blocks, or does not lead, nothing is asked;
/// while no block has been rated, the metric is absent rather than 0.
pub async fn follow(prices: Arc<dyn Prices>, metrics: BlockMetrics) {
    let mut held = metrics.held();
    loop {
        let blocks = held.borrow_and_update().clone();
        if blocks.is_empty() {
            metrics.set_cost(None);
        } else {
            match prices.per_month().await {
                Ok(prices) => {
                    let rated: Vec<f64> = blocks
                        .iter()
                        .filter_map(|block| prices.get(block).copied())
                        .collect();
                    metrics.set_cost((!rated.is_empty()).then(|| rated.iter().sum()));
                }
                Err(error) => info!(
                    "What the IP blocks cost is not known: {error}. Nothing else depends on it; it is asked again \
                     in an hour"
                ),
            }
        }
        let has_changed = if blocks.is_empty() {
            held.changed().await.is_ok()
        } else {
            timeout(BELIEVED, held.changed()).await.is_ok()
        };
        if has_changed {
            sleep(TOGETHER).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use prometheus_client::registry::Registry;
    use tokio::task::yield_now;
    use tokio::time::advance;

    use super::*;
    use crate::cloud_api::ErrorKind;

    const COST: &str = "mooring_ip_blocks_cost_dollars_per_month{provider=\"cloud\"}";

    /// Gives its answers one after the other; an empty one is an error.
    struct Answers(Mutex<VecDeque<BTreeMap<String, f64>>>);

    #[async_trait]
    impl Prices for Answers {
        async fn per_month(&self) -> Result<BTreeMap<String, f64>, CloudError> {
            let answer = self.0.lock().unwrap().pop_front().expect("asked too often");
            if answer.is_empty() {
                return Err(CloudError::new("cloud", ErrorKind::Forbidden, "no"));
            }
            Ok(answer)
        }
    }

    /// Lets everybody run who can.
    async fn settle() {
        for _ in 0..20 {
            yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_blocks_of_the_cluster_are_summed_and_asked_for_seldom() {
        let mut registry = Registry::default();
        let metrics = BlockMetrics::register(&mut registry, "cloud", 7);
        let text = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        let prices = |of: &[(&str, f64)]| {
            let owned = of.iter().map(|(id, price)| ((*id).to_owned(), *price));
            owned.collect::<BTreeMap<_, _>>()
        };
        let answers = Arc::new(Answers(Mutex::new(VecDeque::from([
            prices(&[("a", 5.0), ("b", 2.5), ("foreign", 100.0)]),
            prices(&[]),
            prices(&[("a", 6.0)]),
            prices(&[("foreign", 100.0)]),
        ]))));
        let left = || answers.0.lock().unwrap().len();
        let following = tokio::spawn(follow(answers.clone(), metrics.clone()));
        settle().await;
        advance(2 * BELIEVED).await;
        settle().await;
        assert_eq!(left(), 4, "without blocks nothing is asked");

        metrics.count([("a", Some(28), "assigned"), ("b", Some(29), "assigned")].into_iter());
        settle().await;
        advance(TOGETHER - Duration::from_secs(1)).await;
        settle().await;
        assert_eq!(left(), 4, "what is bought together is asked for together");
        advance(Duration::from_secs(1)).await;
        settle().await;
        assert_eq!(left(), 3);
        assert!(text().contains(&format!("{COST} 7.5")), "{}", text());

        metrics.count([("b", Some(29), "assigned"), ("a", Some(28), "assigned")].into_iter());
        settle().await;
        advance(BELIEVED - Duration::from_secs(1)).await;
        settle().await;
        assert_eq!(
            left(),
            3,
            "the same blocks are not asked for within the hour"
        );
        advance(Duration::from_secs(1)).await;
        settle().await;
        assert_eq!(left(), 2);
        assert!(
            text().contains(&format!("{COST} 7.5")),
            "what is known stays: {}",
            text()
        );

        metrics.count([("a", Some(28), "assigned")].into_iter());
        settle().await;
        advance(TOGETHER).await;
        settle().await;
        assert_eq!(left(), 1);
        assert!(text().contains(&format!("{COST} 6.0")), "{}", text());

        metrics.count([("c", Some(28), "assigned")].into_iter());
        settle().await;
        advance(TOGETHER).await;
        settle().await;
        assert_eq!(left(), 0);
        assert!(!text().contains(COST), "no block is rated: {}", text());

        metrics.count(std::iter::empty());
        settle().await;
        advance(TOGETHER).await;
        settle().await;
        assert!(!text().contains(COST), "{}", text());
        following.abort();
    }
}
