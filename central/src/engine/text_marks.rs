//! Marks of cluster and Service in a text for people, where a cloud has no tags: `mooring.dev service=…`.

/// A text of this prefix with what is said under each key, which has no spaces.
#[must_use]
pub fn text(prefix: &str, said: &[(&str, Option<&str>)]) -> String {
    let said = said
        .iter()
        .filter_map(|(key, value)| Some((key, (*value)?)));
    let words = said.map(|(key, value)| format!("{key}={value}"));
    let all: Vec<String> = [prefix.to_owned()].into_iter().chain(words).collect();
    all.join(" ")
}

/// What such a text says under this key. `None`: it is not there, or the text has another prefix.
#[must_use]
pub fn said<'a>(text: &'a str, prefix: &str, key: &str) -> Option<&'a str> {
    let said = text.strip_prefix(prefix)?;
    let mut words = said.split_whitespace();
    words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let written = text("ours", &[("cluster", None), ("service", Some("a-b"))]);
        assert_eq!(written, "ours service=a-b");
        assert_eq!(said(&written, "ours", "service"), Some("a-b"));
        assert_eq!(said(&written, "ours", "cluster"), None);
        assert_eq!(said("by hand, service=a-b", "ours", "service"), None);
    }
}
