//! The guide of the change-over, with its own commands, there and back again: no write in the cloud.
//!
//! Real are the API server, kube-controller-manager, kubectl and `mooring-central`. Played are the cloud, the
//! kubelets, and helm, which applies what the chart is rendered to.

mod cluster;
mod guide;
mod kubelet;

use std::time::Duration;

use mooring_cloud_sim::TOKEN;
use mooring_test_cluster::objects::ServiceBuilder;
use mooring_test_support::wait::eventually;

use crate::linode_services::cluster::{assert_none, ingress};
use cluster::{GuideCluster, found_by_go, is_record};

/// What waits for rollouts and for a Lease that expires.
const AT_LAST: Duration = Duration::from_secs(90);

/// What `nodes` and `balancers` print must be as it was before, in the shell of the guide.
const COMPARE: &str = "nodes | diff nodes.before -\nbalancers | diff balancers.before -\n";

impl GuideCluster {
    /// Steps 1 and 2.
    async fn noted_and_planned(&self) {
        self.reader.follow("1. Note what there is", None).await;
        let plan = self
            .reader
            .follow("2. See that nothing would be done", None)
            .await;
        for name in self.names() {
            let line = plan
                .lines()
                .find(|line| line.contains(&format!("default/{name}")));
            assert!(line.is_some(), "{name} is missing: {plan}");
        }
        let idle = plan.matches("nothing to do").count();
        assert_eq!(idle, self.names().count(), "{plan}");
        for told in ["refused", "note:"] {
            assert!(!plan.contains(told), "{plan}");
        }
        self.assert_untouched().await;
    }
}

#[tokio::test]
async fn way_a_and_back_again_writes_nothing_in_the_cloud() {
    let cluster = GuideCluster::left_by_go().await;
    cluster.noted_and_planned().await;
    let told = cluster.reader.follow("Way A: swap the image", None).await;
    assert!(told.contains("chosen"), "{told}");
    cluster.adopted().await;
    cluster.reader.run(COMPARE).await;
    cluster.assert_untouched().await;

    cluster.reader.follow("From A", None).await;
    let image = "kubectl --namespace kube-system get daemonset ccm-linode --output \
                 'jsonpath={.spec.template.spec.containers[*].image}'";
    let image = cluster.reader.run(image).await;
    assert!(image.starts_with("linode/"), "{image}");
    cluster.reader.run(COMPARE).await;
    cluster.assert_untouched().await;
}

#[tokio::test]
async fn way_b_and_back_again_writes_nothing_in_the_cloud_and_leaves_no_trace() {
    let cluster = GuideCluster::left_by_go().await;
    cluster.noted_and_planned().await;
    let token = Some(("the token", TOKEN));
    cluster.reader.follow("The token", token).await;
    cluster.reader.follow("The values", None).await;
    cluster.reader.follow("Change over", None).await;
    cluster.adopted().await;
    let told = cluster.reader.look("Look whether all is well").await;
    assert!(told.contains("leading"), "{told}");
    for line in told.lines() {
        let is_difference = line.starts_with("< ") || line.starts_with("> ");
        assert!(!is_difference && !line.contains("to do"), "{told}");
        for fault in ["WARN", "ERROR", "Warning"] {
            assert!(!line.contains(fault), "{told}");
        }
    }
    cluster.assert_untouched().await;

    // What Mooring makes meanwhile is found by the old controller as well.
    let service = ServiceBuilder::load_balancer("default", "meanwhile").port(80, 8080);
    service.create(&cluster.cp.admin()).await.unwrap();
    let made = eventually("it has an address", AT_LAST, async || {
        let service = cluster.service("meanwhile").await;
        let is_provided = !ingress(&service).is_empty();
        is_provided.then_some(service)
    })
    .await;
    let id = found_by_go(cluster.sim(), &made);
    assert!(id.is_some(), "{made:?}");
    let writes = cluster.cloud.calls().writes().len();

    cluster.reader.follow("From B", None).await;
    let all = cluster.cloud.calls().writes();
    assert_eq!(all.len(), writes, "{}", all.summary());
    let kept = cluster.service("meanwhile").await;
    assert_eq!(found_by_go(cluster.sim(), &kept), id);
    assert_eq!(kept.metadata.finalizers, made.metadata.finalizers);
    assert_no_trace(&cluster).await;
    let balancers =
        "nodes | diff nodes.before -\nbalancers | grep -v meanwhile | diff balancers.before -\n";
    cluster.reader.run(balancers).await;
}

/// Of Mooring there is nothing in the cluster any more: no object, no annotation.
async fn assert_no_trace(cluster: &GuideCluster) {
    let everything = "for kind in $(kubectl api-resources --verbs=list --output=name | grep -v events); do\n\
                      kubectl get \"$kind\" --all-namespaces --output=name\ndone";
    let all = cluster.reader.run(everything).await;
    assert!(all.contains("daemonset.apps/ccm-linode"), "{all}");
    let named: Vec<&str> = all
        .lines()
        .filter(|line| line.contains("mooring"))
        .collect();
    assert_none(&named);
    for name in cluster.names() {
        let notes = cluster.service(name).await.metadata.annotations;
        let records: Vec<String> = notes
            .unwrap_or_default()
            .into_keys()
            .filter(|key| is_record(key))
            .collect();
        assert_none(&records);
    }
}
