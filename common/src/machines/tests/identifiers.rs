use crate::label::{is_dns_name, is_key, is_value, sanitize};
use crate::machines::Capacity;
use crate::machines::hardware::{MacAddress, MachineId, SystemUuid, is_placeholder};

#[test]
fn placeholder_values_identify_nothing() {
    for text in [
        "",
        "  ",
        "To Be Filled By O.E.M.",
        "to be filled by o.e.m. ",
        "None",
        "0",
        "00000000",
        "00000000-0000-0000-0000-000000000000",
        "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
        "03000200-0400-0500-0006-000700080009",
        "Default string",
        "N/A",
        "xxxxxxx",
        "........",
    ] {
        assert!(is_placeholder(text), "{text:?}");
        assert!(text.parse::<SystemUuid>().is_err(), "{text:?}");
        assert!(text.parse::<MachineId>().is_err(), "{text:?}");
    }
    for text in [
        "4C4C4544-0042-4810-8052-B4C04F4A3132",
        "RACK-7",
        "f00",
        "10",
    ] {
        assert!(!is_placeholder(text), "{text:?}");
    }
}

#[test]
fn uuid_is_lower_case_and_complete() {
    let uuid: SystemUuid = " 4C4C4544-0042-4810-8052-B4C04F4A3132\n".parse().unwrap();
    assert_eq!(uuid.as_str(), "4c4c4544-0042-4810-8052-b4c04f4a3132");
    for serial in [
        "10000000abcdef01",
        "SN_77.x-1",
        "b08dfa6083e7567a1921a715000001fb",
    ] {
        assert!(serial.parse::<SystemUuid>().is_ok(), "{serial:?}");
    }
    for text in [
        "4c4c4544-0042-4810-8052-b4c04f4a313",
        "4c4c4544-0042-4810-8052",
        "a b",
        "ä",
    ] {
        let error = text.parse::<SystemUuid>().unwrap_err();
        assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
    }
}

#[test]
fn machine_id_has_32_digits() {
    let plain: MachineId = "B08DFA6083E7567A1921A715000001FB\n".parse().unwrap();
    let dashed: MachineId = "b08dfa60-83e7-567a-1921-a715000001fb".parse().unwrap();
    assert_eq!(plain, dashed);
    for text in [
        "b08dfa",
        "uninitialized",
        "g08dfa6083e7567a1921a715000001fb",
    ] {
        assert!(text.parse::<MachineId>().is_err(), "{text:?}");
    }
}

#[test]
fn mac_address_is_unicast() {
    let colons: MacAddress = "08:00:27:AB:cd:ef".parse().unwrap();
    let dashes: MacAddress = "08-00-27-ab-cd-ef".parse().unwrap();
    assert_eq!(colons, dashes);
    assert_eq!(colons.to_string(), "08:00:27:ab:cd:ef");
    for text in [
        "",
        "08:00:27:ab:cd",
        "08:00:27:ab:cd:ef:01",
        "8:0:27:ab:cd:ef",
        "+8:00:27:ab:cd:ef",
        "08:00:27-ab:cd:ef",
        "00:00:00:00:00:00",
        "ff:ff:ff:ff:ff:ff",
        "01:00:5e:00:00:01",
    ] {
        assert!(text.parse::<MacAddress>().is_err(), "{text:?}");
    }
}

#[test]
fn memory_rounds_up_to_installed_size() {
    for (cpu, memory, expected) in [
        ("2", "985M", "vbox.vm.1g.2cpu"),
        ("2", "985Mi", "vbox.vm.1g.2cpu"),
        ("2", "1008632Ki", "vbox.vm.1g.2cpu"),
        ("2", "1073741824", "vbox.vm.1g.2cpu"),
        ("1", "490M", "vbox.vm.512mb.1cpu"),
        ("1", "490Mi", "vbox.vm.512mb.1cpu"),
        ("1", "512Mi", "vbox.vm.512mb.1cpu"),
        ("1", "257Mi", "vbox.vm.384mb.1cpu"),
        ("1", "560Mi", "vbox.vm.768mb.1cpu"),
        ("1", "700Mi", "vbox.vm.768mb.1cpu"),
        ("1900m", "1969Mi", "vbox.vm.2g.2cpu"),
        ("4", "3915Mi", "vbox.vm.4g.4cpu"),
        ("8", "15868Mi", "vbox.vm.16g.8cpu"),
        ("32", "128757Mi", "vbox.vm.128g.32cpu"),
        ("32", "386000Mi", "vbox.vm.384g.32cpu"),
        ("1", "1", "vbox.vm.128mb.1cpu"),
    ] {
        let capacity = Capacity::from_quantities(cpu, memory).unwrap();
        assert_eq!(capacity.instance_type("cloudlycke"), expected, "{memory}");
        assert!(is_value(&capacity.instance_type("cloudlycke")));
    }
    let capacity = Capacity::from_quantities("2", "1Gi").unwrap();
    assert_eq!(capacity.instance_type("static"), "machine.1g.2cpu");
}

#[test]
fn rejects_invalid_quantity() {
    for (cpu, memory) in [
        ("", "1Gi"),
        ("2", ""),
        ("2", "1.5Gi"),
        ("2", "1Xi"),
        ("0", "1Gi"),
        ("2", "0"),
        ("-1", "1Gi"),
        ("2", "99999999999Ti"),
    ] {
        assert_eq!(
            Capacity::from_quantities(cpu, memory),
            None,
            "{cpu} {memory}"
        );
    }
}

#[test]
fn labels_follow_kubernetes_rules() {
    for text in ["", "a", "A-b_c.9", &"x".repeat(63)] {
        assert!(is_value(text), "{text:?}");
    }
    for text in ["-a", "a-", "a b", "ä", &"x".repeat(64)] {
        assert!(!is_value(text), "{text:?}");
    }
    for text in ["rack", "example.org/rack", "a.b/C_d"] {
        assert!(is_key(text), "{text:?}");
    }
    for text in ["", "/a", "a/", "Example.org/a", "a/b/c", "-a/b"] {
        assert!(!is_key(text), "{text:?}");
    }
    assert!(is_dns_name("node-1.example.org") && !is_dns_name("node_1") && !is_dns_name("a..b"));
}

#[test]
fn free_text_becomes_stable_label_value() {
    for (text, expected) in [
        ("PowerEdge R640", Some("PowerEdge-R640")),
        (
            "  (R) Standard PC  (Q35 + ICH9, 2009) ",
            Some("R-Standard-PC-Q35-ICH9-2009"),
        ),
        ("innotek GmbH", Some("innotek-GmbH")),
        ("ä", None),
        ("--", None),
        ("", None),
        ("a_.-", Some("a")),
    ] {
        assert_eq!(sanitize(text).as_deref(), expected, "{text:?}");
    }
    let cut = sanitize(&format!("{} tail", "x".repeat(62))).unwrap();
    assert_eq!(cut, "x".repeat(62));
}
