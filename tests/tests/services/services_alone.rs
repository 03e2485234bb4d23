//! Services across stops, starts and failures of `mooring-central`: one test after the other, each
//! with a central of its own.

mod crowd;
mod failures;
mod restarts;
mod tenants;

use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::control_plane::Record;
use mooring_test_cluster::shipped::CENTRAL_USER;
use mooring_test_cluster::test_namespace::TestNamespace;

/// What central wrote on the Services of a namespace.
async fn written(cluster: &Cluster, namespace: &TestNamespace) -> Vec<Record> {
    let log = cluster.audit().await;
    let log = log.writes_by(CENTRAL_USER).of("services");
    log.in_namespace(&namespace.name).to_vec()
}
