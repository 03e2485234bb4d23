//! The order in which `kubectl apply` makes the objects of the manifests.

use std::fs;

use super::deployed::deploy;

/// A daemon writes nothing before it finds the admission policies.
#[test]
fn what_starts_pods_comes_last() {
    for file in ["manifests/mooring.yaml", "manifests/bare-metal.yaml"] {
        let text = fs::read_to_string(deploy(file)).unwrap();
        let kinds: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("kind: "))
            .collect();
        let [before @ .., daemon, central] = kinds.as_slice() else {
            panic!("{file} has {kinds:?}")
        };
        assert_eq!([*daemon, *central], ["DaemonSet", "Deployment"], "{file}");
        assert!(
            before.contains(&"ValidatingAdmissionPolicyBinding"),
            "{file}"
        );
    }
}
