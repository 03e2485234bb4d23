use std::collections::HashMap;

use super::*;

fn read(set: &[(&str, &str)]) -> Result<Config, Vec<Fault>> {
    let set: HashMap<&str, &str> = set.iter().copied().collect();
    Config::read(&|name| set.get(name).map(|v| (*v).to_owned()))
}

const TOKEN: (&str, &str) = ("CLOUDSCALE_ACCESS_TOKEN", "s3cr3t");

#[test]
fn reads_url_with_and_without_version() {
    for (url, expected) in [
        ("", "https://api.cloudscale.ch/v1/"),
        (
            "https://api.cloudscale.ch/",
            "https://api.cloudscale.ch/v1/",
        ),
        ("https://api.cloudscale.ch", "https://api.cloudscale.ch/v1/"),
        (
            "https://api.cloudscale.ch/v1",
            "https://api.cloudscale.ch/v1/",
        ),
        (
            "https://api.cloudscale.ch/v1/",
            "https://api.cloudscale.ch/v1/",
        ),
        ("http://proxy.example/cs/", "http://proxy.example/cs/v1/"),
        ("http://proxy.example/cs/v1", "http://proxy.example/cs/v1/"),
        ("http://proxy.example/cs/v1/", "http://proxy.example/cs/v1/"),
        ("http://proxy.example/cs", "http://proxy.example/v1/"),
    ] {
        let config = read(&[TOKEN, ("CLOUDSCALE_API_URL", url)]).unwrap();
        assert_eq!(config.connection.base.as_str(), expected, "{url}");
    }
}

/// cloudscale.md 7.1.
#[test]
fn timeout_defaults_to_20_seconds() {
    let timeout = |text| {
        read(&[TOKEN, ("CLOUDSCALE_API_TIMEOUT", text)])
            .unwrap()
            .connection
            .timeout
    };
    assert_eq!(timeout(""), Duration::from_secs(20));
    assert_eq!(timeout("5"), Duration::from_secs(5));
    assert_eq!(timeout("0"), Duration::from_secs(20));
    // A pass is longer than any request in it.
    assert_eq!(timeout("3600"), mooring_common::work_queue::LONGEST_REQUEST);
}

#[test]
fn requires_token_and_never_shows_it() {
    let faults = read(&[("CLOUDSCALE_API_URL", "not an address")]).unwrap_err();
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(
        faults[0]
            .to_string()
            .contains("CLOUDSCALE_ACCESS_TOKEN_FILE")
    );
    assert!(faults[1].to_string().contains("not an address"));
    assert!(!format!("{:?}", read(&[TOKEN]).unwrap()).contains("s3cr3t"));
}
