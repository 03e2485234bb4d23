use std::collections::HashMap;

use super::*;

fn read(set: &[(&str, &str)]) -> Result<Config, Vec<Fault>> {
    let set: HashMap<&str, &str> = set.iter().copied().collect();
    Config::read(&|name| set.get(name).map(|v| (*v).to_owned()))
}

fn places(faults: &[Fault]) -> Vec<&str> {
    faults.iter().map(|fault| &*fault.variable).collect()
}

const ID: (&str, &str) = (CLIENT, "cli-12345");
const SECRET: (&str, &str) = (CLIENT_SECRET, "s3cr3t");
const NAME_OF_USER: (&str, &str) = (USER, "jane@example.com");
const OF_USER: (&str, &str) = (PASSWORD, "pa55word");
const OF_ACCOUNT: (&str, &str) = (ACCOUNT, "acc-12345");

#[test]
fn client_asks_for_itself_and_names_no_account() {
    let config = read(&[ID, SECRET, OF_ACCOUNT]).unwrap();
    assert_eq!(config.access.tokens.grant, Grant::ClientCredentials);
    assert_eq!(config.access.tokens.client.credentials.id, "cli-12345");
    assert_eq!(config.account, None);
    let base = (
        config.access.base.as_str(),
        config.access.tokens.token_url.as_str(),
    );
    let expected = (
        "https://api.gb1.brightbox.com/1.0/",
        "https://api.gb1.brightbox.com/token/",
    );
    assert_eq!(base, expected);
    let [notice] = &config.notices[..] else {
        panic!("{:?}", config.notices);
    };
    assert!(notice.contains(ACCOUNT), "{notice}");
}

#[test]
fn user_asks_by_application_and_names_account() {
    for (client, expected) in [(None, APPLICATION), (Some("app-12345"), "app-12345")] {
        let mut set = vec![SECRET, NAME_OF_USER, OF_USER, OF_ACCOUNT];
        set.extend(client.map(|id| (CLIENT, id)));
        let config = read(&set).unwrap();
        assert_eq!(config.access.tokens.client.credentials.id, expected);
        assert_eq!(config.account.as_deref(), Some("acc-12345"));
        assert!(matches!(config.access.tokens.grant, Grant::Password(_)));
        let shown = format!("{config:?}");
        assert!(
            !shown.contains("s3cr3t") && !shown.contains("pa55word"),
            "{shown}"
        );
    }
}

#[test]
fn reports_all_faults_together() {
    for (set, expected) in [
        (vec![], vec![CLIENT, CLIENT_SECRET]),
        (vec![ID], vec![CLIENT_SECRET]),
        (vec![NAME_OF_USER], vec![PASSWORD, CLIENT_SECRET, ACCOUNT]),
        (vec![OF_USER, SECRET, OF_ACCOUNT], vec![USER]),
        (
            vec![ID, SECRET, NAME_OF_USER, OF_USER, OF_ACCOUNT],
            vec![CLIENT],
        ),
        (vec![ID, (API_URL, "nowhere")], vec![CLIENT_SECRET, API_URL]),
    ] {
        let faults = read(&set).unwrap_err();
        assert_eq!(places(&faults), expected, "{set:?}");
        let shown = format!("{faults:?}");
        assert!(
            !shown.contains("s3cr3t") && !shown.contains("pa55word"),
            "{shown}"
        );
    }
}

#[test]
fn urls_are_relative_to_the_api() {
    for (url, base, token) in [
        (
            "http://x.example",
            "http://x.example/1.0/",
            "http://x.example/token/",
        ),
        (
            "http://x.example/a/",
            "http://x.example/a/1.0/",
            "http://x.example/a/token/",
        ),
        (
            "http://x.example/a",
            "http://x.example/1.0/",
            "http://x.example/token/",
        ),
    ] {
        let config = read(&[ID, SECRET, (API_URL, url)]).unwrap();
        let urls = (
            config.access.base.as_str(),
            config.access.tokens.token_url.as_str(),
        );
        assert_eq!(urls, (base, token), "{url}");
    }
}

#[test]
fn time_and_proxies_are_as_the_environment_says() {
    let plain = read(&[ID, SECRET]).unwrap();
    assert_eq!(plain.access.timeout, ACCESS.timeout.1);
    let proxy = ("HTTPS_PROXY", "http://proxy.example:3128");
    let config = read(&[ID, SECRET, (ACCESS.timeout.0, "7"), proxy]).unwrap();
    assert_eq!(config.access.timeout, Duration::from_secs(7));
    let shown = |config: &Config| format!("{:?}", config.access.proxies);
    assert!(shown(&config).contains("proxy.example"), "{config:?}");
    assert!(!shown(&plain).contains("proxy.example"), "{plain:?}");
    assert_eq!(config.access.tokens.scope, Some("infrastructure orbit"));
}
