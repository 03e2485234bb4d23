//! The address of the control plane, without a cluster.

use std::time::Instant;

use anyhow::Result;

use super::{Fault, Moments, Row, Scale, Table};
use mooring_test_netlab::control_plane_nodes::{ControlPlaneNodes, Members};
use mooring_test_netlab::failover::faults::until;

const THREE: [&str; 3] = ["cp1", "cp2", "cp3"];

/// Measures those of the rows that concern the control plane. Something that answers `/readyz` stands in for each
/// API server.
pub(super) async fn measure(
    rows: &[&'static Row],
    scale: &Scale,
    moments: &mut Moments,
    table: &mut Table,
) -> Result<()> {
    let faults = rows.iter().filter_map(|row| match row.fault {
        Fault::ControlPlane(fault) => Some((*row, fault)),
        Fault::Cluster(..) => None,
    });
    let faults: Vec<_> = faults.collect();
    if faults.is_empty() {
        return Ok(());
    }
    let mut nodes = ControlPlaneNodes::new(&THREE)?;
    nodes.run_release()?;
    let members = Members::new(1, &THREE);
    nodes.start(&members).await?;
    for (row, fault) in faults {
        let start = Instant::now();
        for _ in 0..scale.repetitions(row) {
            until(Instant::now() + moments.next()).await;
            for seen in nodes.measure(1, &members, fault).await? {
                table.add(row, seen);
            }
        }
        scale.tell(row, table, start);
    }
    Ok(())
}
