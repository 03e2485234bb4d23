use std::collections::HashMap;

use super::*;

const REGION: (&str, &str) = ("LINODE_REGION", "us-east");
const TOKEN: (&str, &str) = ("LINODE_API_TOKEN", "s3cr3t");
/// So that no file of this machine is read.
const NO_FILE: (&str, &str) = ("LINODE_API_TOKEN_FILE", "/nowhere/token");

fn read(set: &[(&str, &str)]) -> Result<Config, Vec<Fault>> {
    let set: HashMap<&str, &str> = set.iter().copied().collect();
    Config::read(
        &|name| set.get(name).map(|v| (*v).to_owned()),
        Flags::default(),
    )
}

fn base(set: &[(&str, &str)]) -> String {
    let all = [set, &[REGION, TOKEN, NO_FILE]].concat();
    read(&all).unwrap().connection.base.to_string()
}

#[test]
fn api_version_comes_from_path_or_variable() {
    for (url, version, expected) in [
        ("", "", "https://api.linode.com/v4/"),
        ("", "v4beta", "https://api.linode.com/v4beta/"),
        (
            "https://api.linode.com/v4beta",
            "",
            "https://api.linode.com/v4beta/",
        ),
        (
            "https://api.linode.com/v4beta/",
            "v4",
            "https://api.linode.com/v4beta/",
        ),
        ("http://127.0.0.1:8080", "", "http://127.0.0.1:8080/v4/"),
        (
            "http://proxy.example/linode/v4",
            "",
            "http://proxy.example/v4/",
        ),
    ] {
        let set = [("LINODE_URL", url), ("LINODE_API_VERSION", version)];
        assert_eq!(base(&set), expected, "{url} {version}");
    }
}

#[test]
fn reports_all_faults_without_secrets() {
    let faults = read(&[
        ("LINODE_API_TOKEN", "two words"),
        ("LINODE_URL", "ftp://me:hunter2@x"),
        ("LINODE_EXTERNAL_SUBNET", "192.0.2.0/99"),
        ("LINODE_CA", "/nowhere/ca.pem"),
        ("HTTPS_PROXY", "socks5://me:hunter2@x"),
    ])
    .unwrap_err();
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let told = told.join("\n");
    for variable in [
        "LINODE_API_TOKEN",
        "LINODE_URL",
        "LINODE_REGION",
        "LINODE_EXTERNAL_SUBNET=192.0.2.0/99",
        "LINODE_CA=/nowhere/ca.pem",
        "HTTPS_PROXY",
    ] {
        assert!(told.contains(variable), "{variable}: {told}");
    }
    assert!(
        !told.contains("two words") && !told.contains("hunter2"),
        "{told}"
    );
    assert_eq!(faults.len(), 6, "{told}");
}

#[test]
fn missing_token_error_names_both_ways() {
    let told = read(&[REGION]).unwrap_err()[0].to_string();
    assert!(
        told.contains("LINODE_API_TOKEN:") && told.contains("LINODE_API_TOKEN_FILE"),
        "{told}"
    );
    let told = read(&[REGION, NO_FILE]).unwrap_err()[0].to_string();
    assert!(
        told.contains("/nowhere/token") && told.contains("LINODE_API_TOKEN"),
        "{told}"
    );
}

#[tokio::test]
async fn token_file_overrides_variable() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let with_file = [REGION, TOKEN, ("LINODE_API_TOKEN_FILE", path)];
    let shown = async |set: &[(&str, &str)]| {
        let config = read(set).unwrap();
        assert!(!format!("{config:?}").contains("s3cr3t"));
        let secret = config.connection.credentials.current().await;
        (
            secret.unwrap().header().to_str().unwrap().to_owned(),
            config.notices.len(),
        )
    };
    assert_eq!(shown(&with_file).await, ("Bearer s3cr3t".to_owned(), 1));
    std::fs::write(file.path(), "  in-the-file\n").unwrap();
    assert_eq!(
        shown(&with_file).await,
        ("Bearer in-the-file".to_owned(), 0)
    );
}

#[test]
fn invalid_numbers_give_default_with_notice() {
    for text in ["0", "-1", "soon"] {
        let config = read(&[
            REGION,
            TOKEN,
            NO_FILE,
            ("LINODE_REQUEST_TIMEOUT_SECONDS", text),
        ]);
        let config = config.unwrap();
        assert_eq!(config.connection.timeout, Duration::from_secs(120));
        assert!(
            config
                .notices
                .iter()
                .any(|n| n.contains("LINODE_REQUEST_TIMEOUT_SECONDS")),
            "{text}"
        );
    }
    let config = read(&[REGION, TOKEN, ("LINODE_REQUEST_TIMEOUT_SECONDS", " 7 ")]).unwrap();
    assert_eq!(config.connection.timeout, Duration::from_secs(7));
}

#[test]
fn hostname_only_ingress_is_boolean() {
    let with = |text| {
        let set = [
            REGION,
            TOKEN,
            NO_FILE,
            ("LINODE_HOSTNAME_ONLY_INGRESS", text),
        ];
        let config = read(&set).unwrap();
        (config.settings.hostname_only, config.notices.len())
    };
    // One notice is about the file of the token.
    assert_eq!(with(""), (false, 1));
    assert_eq!(with("T"), (true, 1));
    assert_eq!(with("yes"), (false, 2));
}

#[test]
fn variables_without_effect_are_named_together() {
    let set = [
        ("SENTRY_DSN", "https://key@sentry.example/1"),
        ("K8S_NODECACHE_TTL", "9"),
    ];
    let config = read(&[&set[..], &[REGION, TOKEN, NO_FILE]].concat()).unwrap();
    let told = config
        .notices
        .iter()
        .filter(|n| n.contains("without effect"));
    let told: Vec<_> = told.collect();
    assert_eq!(told, ["without effect here: K8S_NODECACHE_TTL, SENTRY_DSN"]);
}

#[test]
fn notices_of_flags_are_told() {
    let mut flags = Flags::default();
    flags.notices.push("a flag".to_owned());
    let set = HashMap::from([REGION, TOKEN]);
    let env = |name: &str| set.get(name).map(|v| (*v).to_owned());
    let config = Config::read(&env, flags).unwrap();
    assert_eq!(config.notices, ["a flag"]);
}

#[test]
fn variable_of_linodes_client_turns_log_of_exchanges_on() {
    let with = |text| {
        let config = read(&[REGION, TOKEN, NO_FILE, ("LINODE_DEBUG", text)]);
        config.unwrap().settings.flags.logs_exchanges
    };
    assert!(with("1") && !with("0") && !with(""));
}
