//! `make bench-failover` in small: one repetition of each short fault, at moments that a seed chooses.

use std::time::Duration;

use mooring_tests::bench_failover::{Scale, Table, run};
use mooring_tests::netlab::in_world;

/// A debug build beside other suites is late now and then: each fault is to be over in time in one of
/// so many repetitions. `make bench-failover` is not as patient.
const REPETITIONS: usize = 3;

#[test]
fn one_repetition_of_each_short_fault_is_as_wanted() {
    in_world(async || {
        let all = Scale {
            short: 1,
            long: 0,
            api_outage: Duration::from_secs(5),
            rest: Duration::ZERO,
            nodes: 0,
            only: String::new(),
            seed: 7,
            tells: true,
        };
        let table = run(&all).await.unwrap();
        assert_eq!(table.rows().len(), 9);
        let mut late = late_rows(&table);
        for _ in 1..REPETITIONS {
            let mut late_again = Vec::new();
            for name in late {
                // The cable is plugged in again after it was pulled.
                let only = if name.starts_with("cable") {
                    "cable"
                } else {
                    name
                };
                let only = only.to_owned();
                let table = run(&Scale {
                    only,
                    ..all.clone()
                })
                .await
                .unwrap();
                assert!(table.rows().iter().any(|row| row.name == name), "{name}");
                late_again.extend(late_rows(&table).into_iter().filter(|row| *row == name));
            }
            late = late_again;
        }
        assert_eq!(late, Vec::<&str>::new());
    });
}

/// The rows that took longer than wanted. Nothing may be wrong with them but that.
fn late_rows(table: &Table) -> Vec<&'static str> {
    println!("{table}");
    let rows = table.rows();
    for row in &rows {
        assert_eq!(table.harm_of(row), Vec::<String>::new(), "{}", row.name);
    }
    let late = rows.iter().filter(|row| !table.delays_of(row).is_empty());
    late.map(|row| row.name).collect()
}
