use super::*;

const WHOLE: &str = "
version: 1
revision: 4
addresses: [192.0.2.100, \"2001:db8::100\"]
port: 8443
interface: bond0.12
members:
  - {name: cp1, address: 192.0.2.11}
  - {name: cp2.example.com, address: 192.0.2.12}
witness: {name: worker1, address: 192.0.2.21}
keyFile: /etc/mooring/heartbeat.key
gateways: [192.0.2.1]
heartbeatPort: 10300
probe: {clientCertificate: /pki/client.crt, clientKey: /pki/client.key}
";

const SHORT: &str = "
version: 1
revision: 1
addresses: [192.0.2.100]
interface: eth0
members: [{name: cp1, address: 192.0.2.11}]
keyFile: /etc/mooring/heartbeat.key
";

fn faults(text: &str) -> Vec<String> {
    let error = parse(text).unwrap_err();
    error.faults.iter().map(ToString::to_string).collect()
}

/// The short file with one piece of text replaced.
fn with(from: &str, to: &str) -> String {
    assert!(SHORT.contains(from), "{from:?} is not in the file");
    SHORT.replace(from, to)
}

#[test]
fn reads_whole_file() {
    let file = parse(WHOLE).unwrap();
    assert_eq!(file.revision, 4);
    assert_eq!(file.addresses.len(), 2);
    assert_eq!((file.port, file.heartbeat_port), (8443, 10300));
    assert_eq!(file.interface, "bond0.12");
    assert_eq!(file.voters(), ["cp1", "cp2.example.com", "worker1"].into());
    assert_eq!(file.role_of("cp1"), Role::Member);
    assert_eq!(file.role_of("worker1"), Role::Witness);
    assert_eq!(file.role_of("cp3"), Role::Stranger);
    assert_eq!(file.segment(), "control-plane/192.0.2.100");
    assert!(file.probe.client.is_some());
    assert!(file.warnings().is_empty(), "{:?}", file.warnings());
}

#[test]
fn has_defaults() {
    let file = parse(SHORT).unwrap();
    assert_eq!((file.port, file.heartbeat_port), (6443, 10271));
    assert_eq!(file.probe, Probe::default());
    assert!(file.gateways.is_empty() && file.witness.is_none());
}

#[test]
fn tells_all_faults_at_once() {
    let told = faults(
        "{version: 2, revision: 0, addresses: [host, 127.0.0.1], port: 70000, interface: a/b, \
         members: [{name: CP1, address: 192.0.2.11}, {name: cp2}], keyFile: key, colour: red}",
    );
    let places = [
        "colour",
        "version",
        "revision",
        "addresses[0]",
        "addresses[1]",
        "port",
        "interface",
        "members[0].name",
        "members[1].address",
        "keyFile",
    ];
    for place in places {
        let of = |fault: &&String| fault.starts_with(&format!("{place}: "));
        assert_eq!(told.iter().filter(of).count(), 1, "{place} in {told:#?}");
    }
    assert_eq!(told.len(), places.len(), "{told:#?}");
}

#[test]
fn tells_what_is_missing() {
    let told = faults("{}");
    for key in [
        "version",
        "revision",
        "addresses",
        "interface",
        "members",
        "keyFile",
    ] {
        let of = |fault: &&String| fault.starts_with(&format!("{key}: is missing; "));
        assert_eq!(told.iter().filter(of).count(), 1, "{key} in {told:#?}");
    }
}

#[test]
fn refuses_empty_lists() {
    let told = faults(&with("[192.0.2.100]", "[]"));
    assert!(
        told[0].starts_with("addresses: lists no address"),
        "{told:#?}"
    );
    let told = faults(&with("[{name: cp1, address: 192.0.2.11}]", "[]"));
    assert!(told[0].starts_with("members: lists no node"), "{told:#?}");
}

#[test]
fn refuses_two_addresses_of_one_family() {
    let told = faults(&with("[192.0.2.100]", "[192.0.2.100, 192.0.2.101]"));
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("second address of IPv4"), "{told:#?}");
}

#[test]
fn refuses_node_that_is_listed_twice() {
    let twice = with(
        "[{name: cp1, address: 192.0.2.11}]",
        "[{name: cp1, address: 192.0.2.11}, {name: cp1, address: 192.0.2.11}]",
    );
    let told = faults(&twice);
    assert_eq!(told.len(), 2, "name and address: {told:#?}");
    let witness = format!("{SHORT}witness: {{name: cp1, address: 192.0.2.21}}\n");
    assert!(faults(&witness)[0].starts_with("witness.name"));
}

#[test]
fn refuses_control_planes_address_as_that_of_node() {
    let told = faults(&with("address: 192.0.2.11", "address: 192.0.2.100"));
    assert!(
        told[0].contains("is the control plane's address"),
        "{told:#?}"
    );
}

#[test]
fn refuses_more_voters_than_protocol_has() {
    let members = |count: usize| {
        let members = (1..=count).map(|i| format!("{{name: n{i}, address: 192.0.2.{i}}}"));
        let list = members.collect::<Vec<_>>().join(", ");
        with("[{name: cp1, address: 192.0.2.11}]", &format!("[{list}]"))
    };
    assert!(parse(&members(7)).is_ok());
    assert!(faults(&members(8))[0].contains("8 nodes would vote"));
}

#[test]
fn refuses_half_a_client_certificate() {
    let told = faults(&format!("{SHORT}probe: {{clientKey: /k}}\n"));
    assert!(
        told[0].starts_with("probe.clientCertificate: is missing"),
        "{told:#?}"
    );
}

#[test]
fn api_server_is_asked_at_loopback_or_where_the_file_says() {
    let asked = |probe: &str| parse(&format!("{SHORT}{probe}")).unwrap().api_server();
    assert_eq!(asked(""), "127.0.0.1:6443".parse().unwrap());
    for (address, server) in [("192.0.2.11", "192.0.2.11:6443"), ("\"::1\"", "[::1]:6443")] {
        let probe = format!("probe: {{address: {address}}}\n");
        assert_eq!(asked(&probe), server.parse().unwrap());
    }
    for (address, words) in [
        ("192.0.2.100", "where another node may answer"),
        ("0.0.0.0", "the address of no single host"),
        ("here", "is no IP address"),
    ] {
        let told = faults(&format!("{SHORT}probe: {{address: {address}}}\n"));
        assert_eq!(told.len(), 1, "{told:#?}");
        assert!(told[0].starts_with("probe.address: "), "{told:#?}");
        assert!(told[0].contains(words), "{told:#?}");
    }
}

#[test]
fn text_that_is_no_yaml_is_one_fault() {
    assert_eq!(faults("{members: [").len(), 1);
}

#[test]
fn warns_of_two_voters_and_of_even_numbers() {
    let members = |count: usize| {
        let mut file = parse(SHORT).unwrap();
        file.members = (1..=count)
            .map(|i| Member {
                name: format!("n{i}"),
                address: format!("192.0.2.{i}").parse().unwrap(),
            })
            .collect();
        file
    };
    for (count, warnings) in [(1, 0), (2, 1), (3, 0), (4, 1), (5, 0)] {
        assert_eq!(members(count).warnings().len(), warnings, "{count}");
    }
}
