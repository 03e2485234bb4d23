//! What configs present to clients.

use super::*;

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----
MIIBhDCCASugAwIBAgIUO2R4WbPveiTRKe8GUN9d+O/DXoEwCgYIKoZIzj0EAwIw
FzEVMBMGA1UEAwwMZXhhbXBsZS50ZXN0MCAXDTI2MTEyNTAzMDUxNFoYDzIxMjYx
MTAxMDMwNTE0WjAXMRUwEwYDVQQDDAxleGFtcGxlLnRlc3QwWTATBgcqhkjOPQIB
BggqhkjOPQMBBwNCAARwdK4JBZc5Ctt0pnmqij0UGGUgaZZSmB9rHSNJJ3GNl28f
PvPZCEeOXYKONpNlfLT0IOghMbdImTNA9rpNpevEo1MwUTAdBgNVHQ4EFgQUQcQc
ojcfYyKB1ejfKxgkCfVwXIQwHwYDVR0jBBgwFoAUQcQcojcfYyKB1ejfKxgkCfVw
XIQwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiA8pLXOPh6uFKM4
NN9GFzn9L8sv+C5N+RaCHhaIAzJPQQIgGDar8EAYpX8Bp0kMM6jlV9els4VTPhju
Z3CVQmz+8Eg=
-----END CERTIFICATE-----";
/// By `openssl x509 -fingerprint`.
const SHA1: &str = "ED:02:E4:65:D8:6D:D8:13:66:34:CE:BD:B7:DC:79:FE:2F:6D:90:61";
const SHA256: &str = "1D:34:8B:13:14:85:8B:AA:2E:9A:B4:46:3C:6A:82:BC:6A:09:E5:23:1A:A8:89:7B:76:74:D8:EF:58:F2:C8:93";

fn presents(certificate: &str, key: &str) -> Desired {
    let secret = ReadSecret::of(Some(certificate.as_bytes()), Some(key.as_bytes()));
    let all = [("web".to_owned(), Arc::new(secret))];
    let port = (
        "port-443",
        r#"{"protocol": "https", "tls-secret-name": "web"}"#,
    );
    with_secrets("tcp/443", &[port], &[1], all.into_iter().collect())
}

#[test]
fn certificate_is_told_by_its_fingerprint() {
    let desired = presents(CERTIFICATE, "key");
    let set = "set the certificate of config https/443 (c0)";
    for (fingerprint, expected) in [
        (SHA1.to_owned(), &[][..]),
        (SHA1.to_lowercase(), &[]),
        (SHA1.replace(':', ""), &[]),
        (SHA256.to_owned(), &[]),
        (SHA256.replace(':', "").to_lowercase(), &[]),
        (SHA1[..8].to_owned(), &[set]),
        (String::new(), &[set]),
        (SHA1.replace("ED", "EE"), &[set]),
    ] {
        let mut observed = built(&desired);
        observed.configs[0].part.spec.tls = None;
        observed.configs[0].fingerprint.clone_from(&fingerprint);
        assert_eq!(steps(&desired, &observed), expected, "{fingerprint}");
    }
    // What was sent by this process is known as a whole.
    let observed = built(&desired);
    assert!(steps(&desired, &observed).is_empty());
    assert_eq!(steps(&presents(CERTIFICATE, "renewed"), &observed), [set]);
    assert_eq!(steps(&presents("no certificate", "key"), &observed), [set]);
}

#[test]
fn certificate_leaves_no_trace_but_in_the_fingerprint() {
    use crate::engine::provider::Desired as _;
    let desired = presents(CERTIFICATE, "the-key");
    let shown = format!("{desired:?} {}", serde_json::to_string(&desired).unwrap());
    assert!(
        !shown.contains("the-key") && !shown.contains("MIIBhDC"),
        "{shown}"
    );
    let prints = [
        desired.fingerprint(),
        presents(CERTIFICATE, "renewed").fingerprint(),
        presents("renewed", "the-key").fingerprint(),
    ];
    assert!(prints[0] != prints[1] && prints[0] != prints[2] && prints[1] != prints[2]);
    assert_eq!(
        desired.fingerprint(),
        presents(CERTIFICATE, "the-key").fingerprint()
    );
}

#[test]
fn config_without_a_usable_secret_is_not_made_and_keeps_what_it_presents() {
    use crate::engine::provider::Desired as _;
    let port = (
        "port-443",
        r#"{"protocol": "https", "tls-secret-name": "web"}"#,
    );
    let missing = || {
        let secret = Arc::new(ReadSecret::Missing);
        Secrets::from_iter([("web".to_owned(), secret)])
    };
    let desired = with_secrets("tcp/443 tcp/80", &[port], &[1], missing());
    let observed = built(&wanted("tcp/80", &[], &[1]));
    for observed in [None, Some(&observed)] {
        let Err(ReconcileError::Invalid(faults)) = plan(&desired, observed) else {
            panic!();
        };
        assert_eq!(faults.len(), 1);
        let text = faults[0].to_string();
        assert!(
            text.contains("port-443, tls-secret-name: \"web\" is no Secret of"),
            "{text}"
        );
    }
    // One that presents another follows the Nodes.
    let desired = with_secrets("tcp/443", &[port], &[1, 2], missing());
    let observed = built(&presents(CERTIFICATE, "key"));
    let steps = steps(&desired, &observed);
    let [step] = &*steps else { panic!("{steps:?}") };
    assert!(step.starts_with("add node node-2"), "{step}");
    assert_eq!(desired.fingerprint(), None);
}
