use super::*;
use AddressType::{ExternalIP, Hostname, InternalIP};

fn list(entries: &[(AddressType, &str)]) -> Vec<NodeAddress> {
    entries
        .iter()
        .map(|(kind, address)| NodeAddress::new(*kind, *address))
        .collect()
}

/// The table of framework behaviour that users rely on.
#[test]
fn provided_node_ip_filters_like_go_controllers() {
    type Entries = &'static [(AddressType, &'static str)];
    let cases: &[(Entries, &str, Entries)] = &[
        (
            &[
                (InternalIP, "10.0.0.1"),
                (InternalIP, "10.0.0.2"),
                (ExternalIP, "1.2.3.4"),
            ],
            "10.0.0.2",
            &[(InternalIP, "10.0.0.2"), (ExternalIP, "1.2.3.4")],
        ),
        (
            &[
                (InternalIP, "10.0.0.1"),
                (InternalIP, "fd00::1"),
                (ExternalIP, "1.2.3.4"),
            ],
            "fd00::1,10.0.0.1",
            &[
                (InternalIP, "fd00::1"),
                (InternalIP, "10.0.0.1"),
                (ExternalIP, "1.2.3.4"),
            ],
        ),
        (
            &[(InternalIP, "10.0.0.1"), (InternalIP, "fd00::1")],
            "fd00::1",
            &[(InternalIP, "fd00::1")],
        ),
        (
            &[(InternalIP, "10.0.0.1"), (ExternalIP, "2001:db8::1")],
            "10.0.0.1",
            &[(InternalIP, "10.0.0.1"), (ExternalIP, "2001:db8::1")],
        ),
        (
            &[(InternalIP, "10.0.0.1"), (ExternalIP, "10.0.0.1")],
            "10.0.0.1",
            &[(InternalIP, "10.0.0.1"), (ExternalIP, "10.0.0.1")],
        ),
    ];
    for (machine, annotation, expected) in cases {
        assert_eq!(
            wanted(&list(machine), &[], Some(annotation)),
            Ok(list(expected))
        );
    }
}

#[test]
fn unsatisfiable_node_ip_error_names_both_sides() {
    let machine = list(&[(InternalIP, "10.0.0.1")]);
    let error = wanted(&machine, &[], Some("10.9.9.9"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("10.9.9.9") && error.contains("10.0.0.1"),
        "{error}"
    );
    for garbage in [
        "",
        "x",
        "10.0.0.1,10.0.0.2",
        "10.0.0.1,fd00::1,fd00::2",
        ",",
    ] {
        assert!(matches!(
            wanted(&machine, &[], Some(garbage)),
            Err(ProvidedNodeIpError::Malformed { .. })
        ));
    }
}

/// Whether the Node's status has its host name yet must not make another text of one fault.
#[test]
fn unsatisfiable_node_ip_error_ignores_host_name() {
    let machine = list(&[(InternalIP, "10.0.0.1")]);
    let refusal = |current: &[NodeAddress]| wanted(&machine, current, Some("10.8.8.8"));
    let error = refusal(&[]).unwrap_err();
    assert_eq!(refusal(&list(&[(Hostname, "n1")])), Err(error));
}

#[test]
fn keeps_host_name_of_node() {
    let machine = list(&[(InternalIP, "10.0.0.1")]);
    let current = list(&[(InternalIP, "10.0.0.9"), (Hostname, "n1")]);
    let all = wanted(&machine, &current, None).unwrap();
    assert_eq!(all, list(&[(InternalIP, "10.0.0.1"), (Hostname, "n1")]));
}

#[test]
fn only_primary_address_order_matters() {
    let a = list(&[
        (InternalIP, "10.0.0.1"),
        (InternalIP, "10.0.0.2"),
        (ExternalIP, "1.1.1.1"),
    ]);
    let moved = list(&[
        (ExternalIP, "1.1.1.1"),
        (InternalIP, "10.0.0.1"),
        (InternalIP, "10.0.0.2"),
    ]);
    let swapped = list(&[
        (InternalIP, "10.0.0.2"),
        (InternalIP, "10.0.0.1"),
        (ExternalIP, "1.1.1.1"),
    ]);
    assert!(same(&a, &moved));
    assert!(!same(&a, &swapped));
    assert!(same_in_any_order(&a, &swapped));
    assert!(!same_in_any_order(&a, &a[..2]));
    assert!(!same(&a, &a[..2]));
}
