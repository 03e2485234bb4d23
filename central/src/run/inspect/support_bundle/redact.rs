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
/// All that an object has which only names a Secret or a token, such as the volume of a Pod.
const REFERENCE: [&str; 8] = [
    "audience",
    "defaultMode",
    "expirationSeconds",
    "items",
    "name",
    "optional",
    "path",
    "secretName",
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
                    Value::Null | Value::Bool(_) => {}
                    inner if is_secret_name(name) && !is_reference(inner) => {
                        *inner = REDACTED.into();
                    }
                    inner => redact(inner),
                }
            }
        }
        Value::Array(all) => redact_list(all),
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

/// A list, which may be of arguments: `["--token", "…"]`.
fn redact_list(all: &mut [Value]) {
    let mut before = Says::Nothing;
    for item in all {
        let says = item.as_str().map_or(Says::Nothing, Says::of_argument);
        match item {
            Value::String(text) if before.hides(text) => REDACTED.clone_into(text),
            Value::Number(_) if before == Says::Flag => *item = REDACTED.into(),
            item => redact(item),
        }
        before = says;
    }
}

/// Whether it only names a Secret or a token.
fn is_reference(value: &Value) -> bool {
    let keys = value.as_object().map(Map::keys);
    keys.is_some_and(|mut keys| keys.all(|key| REFERENCE.contains(&key.as_str())))
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

/// What stands between a name and its value.
const SEPARATORS: [char; 2] = [':', '='];

/// What a word says of the one behind it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    /// Nothing.
    Nothing,
    /// It is a credential if `:` or `=` is between them.
    Name,
    /// It is a credential unless it is a flag.
    Flag,
    /// It is a credential.
    Credential,
}

impl Says {
    /// An argument of a program.
    fn of_argument(word: &str) -> Self {
        let is_flag = word.starts_with('-') && !word.contains('=');
        match is_flag && is_secret_name(word) {
            true => Self::Flag,
            false => Self::Nothing,
        }
    }

    /// A word of a text.
    fn of_word(word: &str) -> Self {
        let bare = word.trim_end_matches(SEPARATORS);
        let is_scheme = ["bearer", "basic"].contains(&bare.to_ascii_lowercase().as_str());
        match is_secret_name(bare) {
            _ if is_scheme => Self::Credential,
            true if bare.len() < word.len() => Self::Credential,
            true => match Self::of_argument(bare) {
                Self::Nothing => Self::Name,
                flag => flag,
            },
            false => Self::Nothing,
        }
    }

    /// What is said once `:` or `=` has come.
    const fn separated(self) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::Name | Self::Flag | Self::Credential => Self::Credential,
        }
    }

    /// Whether it makes this word a credential.
    fn hides(self, word: &str) -> bool {
        match self {
            Self::Nothing | Self::Name => false,
            Self::Flag => !word.starts_with("--"),
            Self::Credential => true,
        }
    }
}

/// Where a word ends.
fn ends_word(letter: char) -> bool {
    letter.is_whitespace() || ",;\"'`()[]{}<>\\".contains(letter)
}

fn redact_line(line: &str) -> String {
    let mut redacted = String::with_capacity(line.len());
    let mut before = Says::Nothing;
    let mut is_escaped = false;
    // What ends the credential between quotation marks that this is inside of, and whether a backslash is before it.
    let mut until = None;
    for part in line.split_inclusive(ends_word) {
        let word = part.trim_end_matches(ends_word);
        let end = &part[word.len()..];
        let mark = (end, is_escaped && word.is_empty());
        is_escaped = end == "\\";
        if until.is_some() {
            if until == Some(mark) {
                redacted.push_str(if mark.1 { "\\" } else { "" });
                redacted.push_str(end);
                (until, before) = (None, Says::Nothing);
            }
            continue;
        }
        let value = word.trim_start_matches(SEPARATORS);
        if value.len() < word.len() {
            before = before.separated();
        }
        redacted.push_str(&word[..word.len() - value.len()]);
        redacted.push_str(&redact_word(value, before));
        redacted.push_str(end);
        if !value.is_empty() {
            before = Says::of_word(value);
        }
        let begins = word.is_empty() || word.ends_with(SEPARATORS);
        if begins && before == Says::Credential && ["\"", "'"].contains(&end) {
            redacted.push_str(REDACTED);
            until = Some(mark);
        }
    }
    if until.is_some() && line.ends_with('\n') {
        redacted.push('\n');
    }
    redacted
}

fn redact_word(word: &str, before: Says) -> String {
    if word.is_empty() {
        return String::new();
    }
    if before.hides(word) {
        return REDACTED.to_owned();
    }
    // key=value and --flag=value.
    if let Some((name, value)) = word.split_once('=') {
        if is_secret_name(name) && !value.is_empty() {
            return format!("{name}={REDACTED}");
        }
        return format!("{name}={}", redact_word(value, Says::Nothing));
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
mod tests;
