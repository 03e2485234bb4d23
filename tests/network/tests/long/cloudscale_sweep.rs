//! `make sweep-cloudscale` in small: each operation with a central that is killed, and each other
//! thing that can go wrong once. Another seed each time; `SEED=` replays one.

use std::collections::BTreeSet;

use mooring_bench::sweep::{Disturbance, Operation, Scale, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_goes_wrong_at_a_call_all_ends_as_if_nothing_had() {
    let report = run(&Scale::sample().unwrap()).await.unwrap();
    println!("{report}");
    assert!(report.is_good(), "{report}");
    assert_eq!(report.operations(), BTreeSet::from(Operation::ALL));
    let missing: Vec<Disturbance> = Disturbance::ALL
        .into_iter()
        .filter(|wanted| !report.disturbances().contains(wanted))
        .collect();
    assert!(missing.len() <= 1, "{missing:?} never struck");
}
