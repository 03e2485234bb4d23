//! What central counts: the figures that people are paged for, and that series go with their objects.

use jiff::Timestamp;
use kube::api::DeleteParams;
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::shipped::{Central, CentralFlags};
use mooring_test_cluster::test_namespace::SOON;
use mooring_test_support::wait::eventually;

use super::leadership::endpoints::reader;
use super::leadership::two_replicas;

/// A replica, as somebody reads it who may.
struct Scraped<'a> {
    central: &'a Central,
    token: String,
}

impl<'a> Scraped<'a> {
    async fn new(cluster: &Cluster, central: &'a Central) -> Self {
        let token = reader(cluster, true).await;
        Self { central, token }
    }

    async fn text(&self) -> anyhow::Result<String> {
        let endpoints = &self.central.endpoints;
        let (status, text) = endpoints.get("/metrics", Some(&self.token)).await?;
        anyhow::ensure!(status == 200, "{status}: {text}");
        Ok(text)
    }

    /// Waits until all these lines are there.
    async fn says(&self, lines: &[String]) {
        eventually(&format!("the metrics say {lines:?}"), SOON, async || {
            let text = self.text().await?;
            let missing = lines
                .iter()
                .find(|line| !text.lines().any(|l| l == line.as_str()));
            missing.map_or(Ok(()), |line| Err(anyhow::anyhow!("no {line}:\n{text}")))
        })
        .await;
    }

    /// Waits until nothing with this text is there any more.
    async fn forgets(&self, text: &str) {
        eventually(&format!("the metrics forget {text}"), SOON, async || {
            let all = self.text().await?;
            let line = all.lines().find(|line| line.contains(text));
            line.map_or(Ok(()), |line| Err(anyhow::anyhow!("{line}")))
        })
        .await;
    }

    /// The value of a series.
    async fn value(&self, series: &str) -> f64 {
        let text = self.text().await.unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        let line = line.unwrap_or_else(|| panic!("no {series}:\n{text}"));
        line.trim().parse().unwrap()
    }
}

#[tokio::test]
async fn services_without_address_are_counted_by_reason_until_they_have_one() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(1).await;
    let central = cluster.start_central(CentralFlags::alone()).await;
    let metrics = Scraped::new(&cluster, &central).await;
    let begun = Timestamp::now().as_second();
    namespace.create("first").await;
    namespace.served("first").await;
    namespace.create("second").await;
    let network = &namespace.network;
    let pool = |what: &str, count: i64| {
        format!("mooring_pool_addresses{what}{{network=\"{network}\",family=\"IPv4\"}} {count}")
    };
    let waiting = "mooring_services_without_address{reason=\"no_free_address\"}";
    metrics
        .says(&[
            format!("{waiting} 1"),
            pool("", 1),
            pool("_used", 1),
            pool("_free", 0),
            format!("mooring_l2_network_condition{{network=\"{network}\",condition=\"Ready\"}} 1"),
            "leader_election_master_status{name=\"none\"} 1".to_owned(),
        ])
        .await;
    let oldest =
        "mooring_services_without_address_oldest_timestamp_seconds{reason=\"no_free_address\"}";
    let oldest = metrics.value(oldest).await;
    let now = Timestamp::now().as_second();
    assert!(
        (begun as f64 - 1.0..=now as f64).contains(&oldest),
        "{begun} {oldest} {now}"
    );
    assert!(
        metrics
            .value("workqueue_adds_total{name=\"service\"}")
            .await
            >= 2.0
    );
    assert!(
        metrics
            .value("workqueue_retries_total{name=\"service\"}")
            .await
            >= 1.0
    );
    assert!(metrics.value("process_resident_memory_bytes").await > 1e6);
    let passes = "mooring_passes_total{controller=\"service\",outcome=\"failed\"}";
    assert!(metrics.value(passes).await >= 1.0);
    namespace.delete("first").await;
    namespace.served("second").await;
    metrics.forgets("no_free_address").await;
    namespace.delete("second").await;
    metrics.says(&[pool("_used", 0), pool("_free", 1)]).await;
    let networks = namespace.networks();
    networks
        .delete(network, &DeleteParams::default())
        .await
        .unwrap();
    metrics.forgets(network).await;
    cluster.finish().await;
}

#[tokio::test]
async fn the_leader_alone_tells_of_the_cluster() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(2).await;
    let (leader, standby) = two_replicas(&cluster).await;
    let leads = |yes: u8| {
        vec![format!(
            "leader_election_master_status{{name=\"cloud-controller-manager\"}} {yes}"
        )]
    };
    let metrics = Scraped::new(&cluster, &leader).await;
    metrics.says(&leads(1)).await;
    let free = format!(
        "mooring_pool_addresses_free{{network=\"{}\",family=\"IPv4\"}} 2",
        namespace.network
    );
    metrics.says(std::slice::from_ref(&free)).await;
    let metrics = Scraped::new(&cluster, &standby).await;
    metrics.says(&leads(0)).await;
    assert!(!metrics.text().await.unwrap().contains("mooring_pool_"));
    drop(leader);
    metrics.says(&leads(1)).await;
    metrics.says(std::slice::from_ref(&free)).await;
    cluster.finish().await;
}
