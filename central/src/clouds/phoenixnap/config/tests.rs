mod tokens;

use std::collections::HashMap;
use std::io::Write as _;

use super::*;

fn read(set: &[(&str, &str)], file: Option<&str>) -> Result<Config, Vec<Fault>> {
    let set: HashMap<&str, &str> = set.iter().copied().collect();
    let written = file.map(|text| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    });
    Config::read(
        &|name| set.get(name).map(|v| (*v).to_owned()),
        written.as_ref().map(tempfile::NamedTempFile::path),
        Flags::default(),
    )
}

fn told(set: &[(&str, &str)], file: Option<&str>) -> String {
    let faults = read(set, file).unwrap_err();
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

const CLIENT: [(&str, &str); 2] = [
    ("PNAP_CLIENT_ID", "an-id"),
    ("PNAP_CLIENT_SECRET", "s3cr3t"),
];

/// phoenixnap.md 7.7, rows 1 and 4: without a file the environment is enough.
#[test]
fn environment_alone_suffices() {
    for file in [None, Some("{}"), Some("null")] {
        let config = read(&CLIENT, file).unwrap();
        assert_eq!(config.access.tokens.client.credentials.id, "an-id");
        assert_eq!(config.access.tokens.client.credentials.secret, "s3cr3t");
        assert_eq!(config.access.base.as_str(), "https://api.phoenixnap.com/");
        assert_eq!(
            config.access.tokens.token_url.as_str(),
            "https://auth.phoenixnap.com/auth/realms/BMC/protocol/openid-connect/token"
        );
        assert_eq!(config.access.timeout, Duration::from_secs(30));
        assert_eq!(config.services, None);
        assert_eq!(config.notices, [""; 0]);
    }
}

/// Row 3 names the variable alone; here both places are named, and both things that lack.
#[test]
fn reports_missing_variables_at_once() {
    let told = told(&[("PNAP_LOAD_BALANCER", "metallb://x")], Some("{}"));
    for part in [
        "PNAP_CLIENT_ID: must be set",
        "clientID in the file",
        "PNAP_CLIENT_SECRET: must be set",
        "PNAP_LOAD_BALANCER=metallb://x: asks for metallb",
    ] {
        assert!(told.contains(part), "{part} is missing: {told}");
    }
}

/// Rows 2 and 7. A file that cannot be read is not said to lack anything.
#[test]
fn rejects_file_that_is_no_object() {
    for text in ["", " ", "{]", "[]", "7", "{} {}", r#"{"clientID": "a""#] {
        let told = told(&[], Some(text));
        assert!(told.contains("is no JSON object"), "{text}: {told}");
        assert!(!told.contains("PNAP_CLIENT_ID: must"), "{text}: {told}");
    }
    let faults = Config::read(
        &|_| None,
        Some(Path::new("/nowhere/cloud-sa.json")),
        Flags::default(),
    );
    let told = faults.unwrap_err()[0].to_string();
    assert!(
        told.contains("/nowhere/cloud-sa.json: cannot be read"),
        "{told}"
    );
}

/// Row 5, and what else Go does: capitals do not count, the last one does, null is nothing.
#[test]
fn reads_keys_like_go() {
    let file = r#"{
        "CLIENTid": "first", "clientsecret": "b", "extra": {"clientID": "no"},
        "clientID": "last", "clientId": null, "loadBalancer": "kube-vip:///60473c25",
        "Location": "phx", "annotationIPLocation": "example.com/where", "apiServerPort": 6443,
        "base-url": "https://bmc.example/pnap", "token-url": "http://127.0.0.1:1/token",
        "serviceNodeSelector": "role=edge"
    }"#;
    let config = read(&[], Some(file)).unwrap();
    assert_eq!(
        (
            &*config.access.tokens.client.credentials.id,
            &*config.access.tokens.client.credentials.secret
        ),
        ("last", "b")
    );
    let services = config.services.unwrap();
    assert_eq!(services.setting.to_string(), "kube-vip://60473c25");
    assert_eq!(services.location.as_deref(), Some("PHX"));
    assert_eq!(services.location_annotation, "example.com/where");
    assert_eq!(config.access.base.as_str(), "https://bmc.example/pnap/");
    assert_eq!(
        config.access.tokens.token_url.as_str(),
        "http://127.0.0.1:1/token"
    );
    let notices = config.notices.join("\n");
    assert!(
        notices.contains(r#"the key "extra" means nothing"#),
        "{notices}"
    );
    assert!(notices.contains("port has no effect"), "{notices}");
    assert!(
        notices.contains("serviceNodeSelector has no effect"),
        "{notices}"
    );
}

/// Row 6: the template of the old controller's Secret has this comma, and its users took it out.
#[test]
fn accepts_and_reports_extra_comma() {
    let file = "{\"clientID\": \"a,}\\\",}\", \"clientSecret\": \"b\",\n}\n";
    let config = read(&[], Some(file)).unwrap();
    assert_eq!(
        config.access.tokens.client.credentials.id, "a,}\",}",
        "nothing within quotes is touched"
    );
    assert!(config.notices[0].contains("a comma after its last entry"));
    let two = told(&[], Some(r#"{"clientID": "a",,}"#));
    assert!(two.contains("is no JSON object"), "{two}");
}

/// Row 8.
#[test]
fn environment_overrides_file_unless_empty() {
    let file = r#"{"clientID": "f", "clientSecret": "f", "location": "ASH",
        "loadbalancer": "kube-vip://f", "base-url": "https://f/", "token-url": "https://f/t"}"#;
    let mut set = vec![
        ("PNAP_LOCATION", "PHX"),
        ("PNAP_LOAD_BALANCER", "l2://e"),
        ("PNAP_BASE_URL", "https://e/"),
        ("PNAP_TOKEN_URL", "https://e/t"),
        ("PNAP_API_TIMEOUT", "7"),
    ];
    set.extend(CLIENT);
    let config = read(&set, Some(file)).unwrap();
    assert_eq!(
        (
            &*config.access.tokens.client.credentials.id,
            &*config.access.tokens.client.credentials.secret
        ),
        ("an-id", "s3cr3t")
    );
    let services = config.services.unwrap();
    assert_eq!(services.location.as_deref(), Some("PHX"));
    assert_eq!(services.setting.to_string(), "l2://e");
    assert_eq!(services.location_annotation, "phoenixnap.com/ip-location");
    assert_eq!(config.access.base.as_str(), "https://e/");
    assert_eq!(config.access.tokens.token_url.as_str(), "https://e/t");
    assert_eq!(config.access.timeout, Duration::from_secs(7));

    let empty: Vec<(&str, &str)> = set.iter().map(|(name, _)| (*name, "")).collect();
    let config = read(&empty, Some(file)).unwrap();
    assert_eq!(
        (
            &*config.access.tokens.client.credentials.id,
            &*config.access.tokens.client.credentials.secret
        ),
        ("f", "f")
    );
    let services = config.services.unwrap();
    assert_eq!(services.location.as_deref(), Some("ASH"));
    assert_eq!(services.setting.to_string(), "kube-vip://f");
    assert_eq!(services.location_annotation, "phoenixnap.com/ip-location");
    assert_eq!(config.access.base.as_str(), "https://f/");
}

/// Rows 9 and 10.
#[test]
fn accepts_port_number_without_effect() {
    let with = |port| [CLIENT[0], CLIENT[1], ("PNAP_API_SERVER_PORT", port)];
    assert!(told(&with("abc"), None).contains("PNAP_API_SERVER_PORT=abc: must be a number"));
    let notices = read(&with("6443"), None).unwrap().notices;
    assert!(notices[0].contains("no effect"), "{notices:?}");
    for port in [r#""6443""#, "6443.0", "4294967296", "true"] {
        let file = format!(r#"{{"apiServerPort": {port}}}"#);
        let told = told(&CLIENT, Some(&file));
        assert!(told.contains("is not a whole number"), "{port}: {told}");
    }
}

#[tokio::test]
async fn rereads_file_for_missing_variables() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let write = |text: &str| std::fs::write(file.path(), text).unwrap();
    write(r#"{"clientID": "one", "clientSecret": "old"}"#);
    let env = |name: &str| (name == "PNAP_CLIENT_ID").then(|| "an-id".to_owned());
    let config = Config::read(&env, Some(file.path()), Flags::default()).unwrap();
    assert_eq!(
        config.access.tokens.client.reread().await,
        Some(config.access.tokens.client.credentials.clone())
    );
    write(r#"{"clientID": "two", "clientSecret": "new"}"#);
    let read = config.access.tokens.client.reread().await.unwrap();
    assert_eq!((&*read.id, &*read.secret), ("an-id", "new"));
    for text in ["", "{}"] {
        write(text);
        assert_eq!(config.access.tokens.client.reread().await, None);
    }
}

#[test]
fn never_shows_credentials() {
    let config = read(&CLIENT, None).unwrap();
    let shown = format!("{config:?}");
    assert!(
        !shown.contains("s3cr3t") && !shown.contains("an-id"),
        "{shown}"
    );
    // Somebody has forgotten the quotes.
    let told = told(&[], Some(r#"{"clientSecret": 1234567}"#));
    assert!(
        told.contains("clientSecret: the value is not a text"),
        "{told}"
    );
    assert!(!told.contains("1234567"), "{told}");
    let broken = self::told(&[], Some(r#"{"clientSecret": s3cr3t}"#));
    assert!(!broken.contains("s3cr3t"), "{broken}");
}

#[test]
fn rejects_url_with_credentials() {
    for (set, part) in [
        (
            ("PNAP_BASE_URL", "api.phoenixnap.com"),
            "PNAP_BASE_URL=api.phoenixnap.com: is no address",
        ),
        (
            ("PNAP_TOKEN_URL", "https://a:s3cr3t@b/"),
            "PNAP_TOKEN_URL: must have no credentials",
        ),
    ] {
        let told = told(&[CLIENT[0], CLIENT[1], set], None);
        assert!(told.contains(part) && !told.contains("s3cr3t"), "{told}");
    }
    let file = told(&CLIENT, Some(r#"{"base-url": "nonsense"}"#));
    assert!(
        file.contains("base-url in --cloud-config=nonsense"),
        "{file}"
    );
}

/// Each other setting finds its location by its network.
#[test]
fn bgp_without_peer_group_needs_location() {
    let with = |setting, location| {
        let set = [
            CLIENT[0],
            CLIENT[1],
            ("PNAP_LOAD_BALANCER", setting),
            ("PNAP_LOCATION", location),
        ];
        read(&set, None).map(|config| config.services.unwrap().setting.to_string())
    };
    assert_eq!(with("bgp://", "ASH"), Ok("bgp://".to_owned()));
    assert_eq!(with("bgp://abc", ""), Ok("bgp://abc".to_owned()));
    assert_eq!(with("kube-vip://abc", ""), Ok("kube-vip://abc".to_owned()));
    let told = with("bgp://", "").unwrap_err()[0].to_string();
    assert!(
        told.contains("PNAP_LOCATION: must be set with bgp://"),
        "{told}"
    );
}

/// Credentials of a test cloud must not go to the public address unnoticed.
#[test]
fn warns_of_public_token_address_beside_another_api() {
    let with = |more: &[(&str, &str)], file: Option<&str>| {
        read(&[&CLIENT[..], more].concat(), file).unwrap().notices
    };
    let base = ("PNAP_BASE_URL", "https://pnap.test/");
    for notices in [
        with(&[base], None),
        with(&[], Some(r#"{"base-url": "https://pnap.test"}"#)),
    ] {
        assert_eq!(notices.len(), 1, "{notices:?}");
        let says_all = ["auth.phoenixnap.com", "PNAP_TOKEN_URL"].iter();
        assert!(
            says_all.clone().all(|words| notices[0].contains(words)),
            "{notices:?}"
        );
    }
    let public = ("PNAP_TOKEN_URL", DEFAULT_TOKEN_URL);
    let own = ("PNAP_BASE_URL", "https://api.phoenixnap.com");
    for silent in [with(&[base, public], None), with(&[own], None)] {
        assert_eq!(silent, [""; 0]);
    }
}
