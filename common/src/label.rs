//! What Kubernetes accepts as a label's key and value, and as a name.

/// The longest label value, and the longest name part of a label key.
const LONGEST: usize = 63;

fn has_label_shape(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= LONGEST
        && edge(text.chars().next())
        && edge(text.chars().next_back())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Whether a label may have this value. An empty one is permitted.
#[must_use]
pub fn is_value(text: &str) -> bool {
    text.is_empty() || has_label_shape(text)
}

/// Whether a label may have this key: a name, with or without a domain and a slash before it.
#[must_use]
pub fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((domain, name)) => is_dns_name(domain) && has_label_shape(name),
        None => has_label_shape(text),
    }
}

/// Whether this can be the name of a Node, or a host name in lower case.
#[must_use]
pub fn is_dns_name(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    text.len() <= 253
        && text.split('.').all(|part| {
            !part.is_empty()
                && part.len() <= LONGEST
                && !part.starts_with('-')
                && !part.ends_with('-')
                && part.chars().all(inner)
        })
}

/// The nearest valid label value to a free text, such as a product name: whatever a label cannot
/// have becomes a dash, no dash follows another, the ends are letters or digits, and what is too
/// long is cut. None if nothing is left. The same text always gives the same value.
#[must_use]
pub fn sanitize(text: &str) -> Option<String> {
    let mut value = String::with_capacity(text.len().min(LONGEST));
    for c in text.chars() {
        let kept = if c.is_ascii_alphanumeric() || "_.".contains(c) {
            c
        } else {
            '-'
        };
        let edge = value.is_empty() && !kept.is_ascii_alphanumeric();
        if edge || (kept == '-' && value.ends_with('-')) {
            continue;
        }
        if value.len() == LONGEST {
            break;
        }
        value.push(kept);
    }
    let trimmed = value.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    (!trimmed.is_empty()).then(|| trimmed.to_owned())
}
