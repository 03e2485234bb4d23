//! Where credentials stand, and what looks like one and is none.

use super::*;
use serde_json::json;

#[test]
fn credentials_of_an_object_are_gone() {
    let token = "hunter2";
    let mut pod = json!({
        "metadata": {
            "name": "web",
            "uid": "7a3c1f64-0f7c-4f0e-9a53-1f3b3c9f2a11",
            "annotations": {
                "example.com/api-token": token,
                "example.com/note": "Authorization: Bearer abcdef",
                "kubectl.kubernetes.io/last-applied-configuration": token,
            },
            "managedFields": [token],
        },
        "data": {
            "passwords": [token, {"of": token}],
            "pin-password": 4711,
            "credentials": {"name": "x", "value": token},
            "hasToken": true,
        },
        "spec": {
            "volumes": [{"secret": {"secretName": "mooring-heartbeat", "optional": true}}],
            "containers": [{
                "args": ["--token=hunter2", "--cloud-provider=none", "--token", token, "--check-token", "--v=4"],
                "env": [
                    {"name": "CLOUD_ACCESS_TOKEN", "value": token},
                    {"name": "LOCATION", "value": "PHX"},
                    {"name": "SETTINGS", "value": "{\"password\":\"hunter2\",\"zone\":\"a\"}"},
                    {"name": "ODD", "value": "Abcdef0123456789abcdefXYZ"},
                    {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "x", "key": "token"}}},
                ],
            }],
        },
    });
    redact(&mut pod);
    let text = pod.to_string();
    for secret in [token, "4711", "abcdef", "Abcdef0123456789"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    for kept in [
        "7a3c1f64-0f7c",
        "mooring-heartbeat",
        "PHX",
        "--cloud-provider=none",
        "secretKeyRef",
        "\"hasToken\":true",
        "--check-token",
        "--v=4",
        "zone",
    ] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
}

#[test]
fn credentials_of_a_log_are_gone() {
    let log = "2026-11-25T22:00:00Z INFO asked url=https://me:hunter2@example.com/v1 \n\
               token: hunter2, password=\"hunter2\" node=n1\n\
               -----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n\
               eyJhbGciOiJSUzI1NiIsImtpZCI6.hunter2 end\n";
    let redacted = redact_text(log);
    assert!(!redacted.contains("hunter2"), "{redacted}");
    for kept in [
        "2026-11-25T22:00:00Z INFO asked",
        "@example.com/v1",
        "node=n1",
        " end",
    ] {
        assert!(redacted.contains(kept), "{kept}: {redacted}");
    }
}

#[test]
fn a_credential_ends_with_its_quotation_mark() {
    for (line, expected) in [
        (
            r#"{"password":"hunter2","user":"bob"}"#,
            r#"{"password":"REDACTED","user":"bob"}"#,
        ),
        (r#""token": "hunter2","#, r#""token": "REDACTED","#),
        (
            r#"{"note":"{\"token\":\"hunter2, (hunter2\",\"a\":1}"}"#,
            r#"{"note":"{\"token\":\"REDACTED\",\"a\":1}"}"#,
        ),
        (
            r#"{"password":"hunter2\"hunter2 hunter2","a":1}"#,
            r#"{"password":"REDACTED","a":1}"#,
        ),
        (r#"{"pin-password":4711}"#, r#"{"pin-password":REDACTED}"#),
        ("token = hunter2 x\n", "token = REDACTED x\n"),
        ("token: 'hunter2\n", "token: 'REDACTED\n"),
        (
            "run --token hunter2 --check-token --v=4",
            "run --token REDACTED --check-token --v=4",
        ),
        ("the token is old: why?", "the token is old: why?"),
    ] {
        assert_eq!(redact_text(line), expected);
    }
}

#[test]
fn names_addresses_and_digests_stay() {
    let kept = "mooring-central-6d5f7c9b8d-x2k4q 192.0.2.10 2001:db8::10 02:00:00:00:00:01 \
                node.kubernetes.io/exclude-from-external-load-balancers \
                example.com/mooring-node@sha256:0123456789abcdef0123456789abcdef kube-system\n";
    assert_eq!(redact_text(kept), kept);
}
