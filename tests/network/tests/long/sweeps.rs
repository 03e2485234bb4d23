//! What must hold of each sweep in small.

use mooring_bench::sweep::{Operation, Report};

pub(super) fn all_ended_well<O: Operation>(report: &Report<O>) {
    println!("{report}");
    assert!(report.is_good(), "{report}");
    assert_eq!(report.operations().len(), O::ALL.len());
    let missing = report.never_struck();
    assert!(missing.len() <= 1, "{missing:?} never struck");
}
