//! `make bench-nodes` in small: the counts hold for few Nodes as for many. How long things take, and
//! how much memory, is for the bench itself to say.

use std::time::Duration;

use mooring_bench::bench_nodes::{Scale, run};
use mooring_test_netlab::netlab::in_netlab;

#[test]
fn the_costs_of_a_cluster_that_can_be_counted_are_as_wanted() {
    in_netlab(async || {
        let scale = Scale {
            nodes: 60,
            programs: 3,
            per_second: 10,
            steady: Duration::from_secs(10),
            monitor_period: Duration::from_secs(1),
            retry_after: Duration::from_secs(3),
        };
        let report = run(&scale).await.unwrap();
        println!("{report}");
        let missed = report.missed_counts();
        assert!(missed.is_empty(), "{missed:#?}");
        for id in ["T1", "T2", "T3", "T4", "T6", "T7", "T10", "T13", "T15"] {
            assert!(
                report.rows().iter().any(|row| row.id == id),
                "{id} is not measured"
            );
        }
    });
}
