//! `make bench-failover` in small: one repetition of each short fault, at moments that a seed chooses.

use std::time::Duration;

use mooring_bench::bench_failover::{Scale, run};
use mooring_test_netlab::netlab::in_netlab;

#[test]
fn one_repetition_of_each_short_fault_is_as_wanted() {
    in_netlab(async || {
        let scale = Scale {
            short: 1,
            long: 0,
            api_outage: Duration::from_secs(5),
            rest: Duration::ZERO,
            nodes: 0,
            only: String::new(),
            seed: 7,
            tells: true,
        };
        let table = run(&scale).await.unwrap();
        println!("{table}");
        assert_eq!(table.rows().len(), 11);
        assert_eq!(table.missed(), Vec::<String>::new());
    });
}
