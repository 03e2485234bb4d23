//! Load balancers of Services that choose among the Nodes, where the cloud has an annotation for that: the suite
//! names it in its module `cloud`.

use super::cloud::NODE_SELECTOR;
use super::cluster::CloudCluster;

#[tokio::test]
async fn ns_19_selected_nodes_follow_their_labels() {
    let cluster = CloudCluster::start().await;
    cluster.label_node("n1", "pool", Some("edge")).await;
    let _central = cluster.central().await;
    let service = cluster.service("web");
    let service = service.annotation(NODE_SELECTOR, "pool=edge");
    cluster.make(service).await;
    cluster.provided("web").await;
    cluster.serves("web", &[1]).await;
    cluster.label_node("n2", "pool", Some("edge")).await;
    cluster.serves("web", &[1, 2]).await;
    cluster.label_node("n1", "pool", Some("inner")).await;
    cluster.serves("web", &[2]).await;
    cluster.finish().await;
}
