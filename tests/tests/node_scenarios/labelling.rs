//! Labels (LA-…): the cloud's word counts, in both forms.

use mooring_cloud_sim::cloud::Server;
use mooring_common::names::labels;
use mooring_test_cluster::cluster::label;
use mooring_test_cluster::objects::unique;
use serde_json::{Value, json};

use super::CLOUD;
use super::cluster::CloudCluster;

/// Spoils a label of an initialised Node, and waits until it is mended.
async fn mended(key: &str, spoilt: Value) {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    cluster.cloud.add(Server::named(&name).private("10.1.0.1"));
    let _central = cluster.for_cloud().try_start().await;
    cluster.tainted(&name).await;
    let region = CLOUD.region_and_zone().0;
    let node = cluster.initialized(&name).await;
    assert_eq!(label(&node, key), Some(region));
    cluster
        .patch(&name, &json!({ "metadata": { "labels": { key: spoilt } } }))
        .await;
    let right = |node: &_| {
        [labels::REGION, labels::REGION_BETA].map(|key| label(node, key)) == [Some(region); 2]
    };
    cluster.is(&name, "labelled as before", right).await;
    cluster.finish().await;
}

#[tokio::test]
async fn la_01_a_label_that_somebody_took_away_comes_back() {
    mended(labels::REGION, Value::Null).await;
}

#[tokio::test]
async fn la_02_a_label_that_somebody_changed_is_set_back() {
    mended(labels::REGION, json!("elsewhere")).await;
}

#[tokio::test]
async fn la_02_the_older_form_is_no_source_of_truth() {
    mended(labels::REGION_BETA, json!("elsewhere")).await;
}

#[tokio::test]
async fn la_05_both_type_labels_follow_a_machine_that_is_resized() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let id = cluster.cloud.add(Server::named(&name).private("10.1.0.1"));
    let _central = cluster.for_cloud().try_start().await;
    cluster.tainted(&name).await;
    cluster.initialized(&name).await;
    let of_kind = |kind: &'static str| {
        move |node: &_| {
            let both = [labels::INSTANCE_TYPE, labels::INSTANCE_TYPE_BETA];
            both.map(|key| label(node, key)) == [Some(kind); 2]
        }
    };
    cluster.is(&name, "small", of_kind("small")).await;
    cluster.cloud.resize(&id, "large-4");
    cluster.is(&name, "large", of_kind("large-4")).await;
    cluster.finish().await;
}
