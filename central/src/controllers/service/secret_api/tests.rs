use kube::core::Status;
use serde_json::json;

use super::*;

fn asked(namespace: &str, name: &str, freshness: Freshness) -> Option<String> {
    let request = request(&ObjectKey::new(namespace, name), freshness).unwrap();
    request.map(|request| format!("{} {}", request.method(), request.uri()))
}

#[test]
fn only_get_is_asked_for() {
    let latest = asked("shop", "web.example.org", Freshness::Latest);
    let path = "GET /api/v1/namespaces/shop/secrets/web.example.org";
    assert_eq!(latest.unwrap().trim_end_matches('?'), path);
    let cached = asked("shop", "web.example.org", Freshness::Cached).unwrap();
    let query = cached.strip_prefix(path).unwrap();
    assert_eq!(query.trim_start_matches(['?', '&']), "resourceVersion=0");
    let long = "a".repeat(253);
    assert!(asked("shop", &long, Freshness::Latest).is_some());
}

#[test]
fn name_leads_to_no_other_namespace() {
    let long = "a".repeat(254);
    for name in [
        "../../other/secrets/web",
        "..",
        ".",
        "",
        "web/status",
        "web?watch=1",
        "web%2fstatus",
        "web#x",
        "Web",
        "web.",
        "-web",
        "wéb",
        &long,
    ] {
        assert_eq!(asked("shop", name, Freshness::Latest), None, "{name}");
    }
}

#[test]
fn other_keys_of_a_secret_do_not_matter() {
    // "CERT", "KEY", and something that is not base64.
    let secret = json!({
        "kind": "Secret", "metadata": {"name": "web"}, "type": "Opaque",
        "data": {"tls.crt": "Q0VSVA==", "tls.key": "S0VZ", "ca.crt": "?"},
    });
    let read_now = read(&secret.to_string()).unwrap();
    let expected = ReadSecret::of(Some(b"CERT"), Some(b"KEY"));
    assert_eq!(read_now, expected);
    let empty = read(&json!({"kind": "Secret"}).to_string()).unwrap();
    assert_eq!(empty, ReadSecret::of(None, None));
}

#[test]
fn unreadable_answer_is_not_cited() {
    let error = read(r#"{"data": "VERY SECRET"}"#).unwrap_err();
    assert!(!error.contains("VERY"), "{error}");
}

#[test]
fn refusals_are_told_apart() {
    let refused = |code: u16| {
        let status = Status::failure("why", "Reason").with_code(code);
        refused(&kube::Error::Api(status.boxed()))
    };
    assert_eq!(refused(404), Ok(ReadSecret::Missing));
    assert_eq!(refused(403), Ok(ReadSecret::forbidden()));
    for transient in [401, 429, 500, 503] {
        assert_eq!(refused(transient), Err("why".to_owned()));
    }
}
