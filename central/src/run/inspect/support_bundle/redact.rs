//! Takes out what looks like a credential: by the name that it stands under, or by its form.

use serde_json::{Map, Value};

/// What stands in its place.
const REDACTED: &str = "REDACTED";
/// Parts of names under which credentials stand, in lower case.
const NAMES: [&str; 12] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "apikey",
    "api-key",
    "api_key",
    "private-key",
    "private_key",
    "authorization",
];
/// Names that contain such a part, and are no credentials.
const HARMLESS: [&str; 7] = [
    "secretname",
    "secretref",
    "secretkeyref",
    "tokenexpirationseconds",
    "expirationseconds",
    "automountserviceaccounttoken",
    "imagepullsecrets",
];
/// Of these, the whole value goes: they repeat other parts of the object.
const REPEATING: [&str; 2] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "managedFields",
];
/// A word of one alphabet that is so long is a key or a token.
const LONG_WORD: usize = 24;

/// Redacts everything in an object.
pub(super) fn redact(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for name in REPEATING {
                map.remove(name);
            }
            redact_variable(map);
            for (name, inner) in map.iter_mut() {
                match inner {
                    Value::String(text) if is_secret_name(name) => REDACTED.clone_into(text),
                    inner => redact(inner),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(redact),
        Value::String(text) => *text = redact_text(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A variable of a container: `{name: X_TOKEN, value: …}`.
fn redact_variable(map: &mut Map<String, Value>) {
    let Some(name) = map.get("name").and_then(Value::as_str) else {
        return;
    };
    if is_secret_name(name)
        && let Some(Value::String(value)) = map.get_mut("value")
    {
        REDACTED.clone_into(value);
    }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    NAMES.iter().any(|part| name.contains(part)) && !HARMLESS.contains(&name.as_str())
}

/// Redacts a text of any form, line by line and word by word.
pub(super) fn redact_text(text: &str) -> String {
    let mut in_key = false;
    let lines = text.split_inclusive('\n').filter_map(|line| {
        if line.contains("-----BEGIN") && line.contains("PRIVATE KEY") {
            in_key = !line.contains("-----END");
            return Some(format!("{REDACTED}\n"));
        }
        if in_key {
            in_key = !line.contains("-----END");
            return None;
        }
        Some(redact_line(line))
    });
    lines.collect()
}

/// Where a word ends.
fn ends_word(letter: char) -> bool {
    letter.is_whitespace() || ",;\"'`()[]{}<>".contains(letter)
}

fn redact_line(line: &str) -> String {
    let mut redacted = String::with_capacity(line.len());
    // Whether the word before says that this one is a credential.
    let mut follows = false;
    for part in line.split_inclusive(ends_word) {
        let word = part.trim_end_matches(ends_word);
        let end = &part[word.len()..];
        let shown = redact_word(word, follows);
        if !word.is_empty() {
            let bare = word.trim_end_matches([':', '=']);
            let announces = is_secret_name(bare) && bare.len() < word.len();
            follows =
                announces || ["bearer", "basic"].contains(&bare.to_ascii_lowercase().as_str());
        }
        redacted.push_str(&shown);
        redacted.push_str(end);
    }
    redacted
}

fn redact_word(word: &str, follows: bool) -> String {
    if word.is_empty() {
        return String::new();
    }
    if follows {
        return REDACTED.to_owned();
    }
    // key=value and --flag=value.
    if let Some((name, value)) = word.split_once('=') {
        if is_secret_name(name) && !value.is_empty() {
            return format!("{name}={REDACTED}");
        }
        return format!("{name}={}", redact_word(value, false));
    }
    // https://user:password@host
    if let Some((scheme, rest)) = word.split_once("://")
        && let Some((_, host)) = rest.split_once('@')
    {
        return format!("{scheme}://{REDACTED}@{host}");
    }
    match looks_like_token(word) {
        true => REDACTED.to_owned(),
        false => word.to_owned(),
    }
}

/// A JSON Web Token, or a long word with digits and letters of both cases, or a long one of hexadecimal digits, that is
/// no UUID, digest of an image, address, name or path.
fn looks_like_token(word: &str) -> bool {
    if word.starts_with("eyJ") && word.len() >= LONG_WORD {
        return true;
    }
    let is_alphabet = |c: char| c.is_ascii_alphanumeric() || "+_-=".contains(c);
    if word.len() < LONG_WORD || !word.chars().all(is_alphabet) {
        return false;
    }
    let is_hex = word.chars().all(|c| c.is_ascii_hexdigit());
    let has = |test: fn(&char) -> bool| word.chars().any(|c| test(&c));
    let mixed =
        has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase) && has(char::is_ascii_digit);
    mixed || (is_hex && word.len() >= 32 && has(char::is_ascii_digit))
}

#[cfg(test)]
mod tests {
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
            "spec": {
                "secretName": "mooring-heartbeat",
                "containers": [{
                    "args": ["--token=hunter2", "--cloud-provider=none"],
                    "env": [
                        {"name": "CLOUD_ACCESS_TOKEN", "value": token},
                        {"name": "LOCATION", "value": "PHX"},
                        {"name": "ODD", "value": "Abcdef0123456789abcdefXYZ"},
                        {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "x", "key": "token"}}},
                    ],
                }],
            },
        });
        redact(&mut pod);
        let text = pod.to_string();
        for secret in [token, "abcdef", "Abcdef0123456789"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        for kept in [
            "7a3c1f64-0f7c",
            "mooring-heartbeat",
            "PHX",
            "--cloud-provider=none",
            "secretKeyRef",
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
    fn names_addresses_and_digests_stay() {
        let kept = "mooring-central-6d5f7c9b8d-x2k4q 192.0.2.10 2001:db8::10 02:00:00:00:00:01 \
                    node.kubernetes.io/exclude-from-external-load-balancers \
                    example.com/mooring-node@sha256:0123456789abcdef0123456789abcdef kube-system\n";
        assert_eq!(redact_text(kept), kept);
    }
}
