//! Services across stops, starts and failures of `mooring-central`: one test after the other, each
//! with a central of its own.

mod crowd;
mod failures;
mod restarts;
mod tenants;

use mooring_tests::control_plane::Record;
use mooring_tests::shipped::CENTRAL_USER;
use mooring_tests::stage::Stage;
use mooring_tests::turn::Turn;

/// What central wrote on the Services of a stage.
async fn written(turn: &Turn, stage: &Stage) -> Vec<Record> {
    let log = turn.audit_settled().await;
    let log = log.writes_by(CENTRAL_USER).of("services");
    log.in_namespace(&stage.namespace).to_vec()
}
