//! `make bench-livez` in small: everything is measured once, and briefly.

use std::time::Duration;

use mooring_bench::bench_livez::{Scale, run};
use mooring_test_netlab::netlab::in_netlab;

#[test]
fn everything_is_measured() {
    in_netlab(async || {
        let scale = Scale {
            span: Duration::from_secs(1),
            repetitions: 1,
            paced: 1000,
            changes: 10,
            services: 20,
        };
        let report = run(&scale).await.unwrap();
        println!("{report}");
        assert_eq!(report.rows().len(), 4 * (3 + 1) + 1 + 1 + 1 + 2 + 1);
        // Times depend on the build and on what else the machine does; that all is answered does not.
        assert!(report.rows().iter().all(|row| !row.mooring.is_empty()));
    });
}
