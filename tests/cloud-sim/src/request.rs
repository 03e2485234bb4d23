//! What a request asks for, apart from its body.

use http::{Method, Request};

/// Method, path and decoded query of a request.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
}

impl Asked {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        let uri = request.uri();
        Self {
            method: request.method().clone(),
            path: uri.path().to_owned(),
            query: decoded(uri.query().unwrap_or_default()),
        }
    }
}

/// The parameters of a query, in order.
pub(super) fn decoded(query: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect()
}

/// Whether a path is as in the pattern: `*` stands for one segment, and a `**` at the start for any
/// number of them.
pub(super) fn matches_path(pattern: &str, path: &str) -> bool {
    let is_alike = |pattern: &[&str], path: &[&str]| {
        pattern.len() == path.len()
            && pattern
                .iter()
                .zip(path)
                .all(|(wanted, found)| *wanted == "*" || wanted == found)
    };
    let path: Vec<&str> = path.split('/').collect();
    match pattern.strip_prefix("**/") {
        None => is_alike(&pattern.split('/').collect::<Vec<_>>(), &path),
        Some(ending) => {
            let ending: Vec<&str> = ending.split('/').collect();
            let start = path.len().checked_sub(ending.len());
            start.is_some_and(|start| is_alike(&ending, &path[start..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_segments() {
        for (pattern, path, alike) in [
            ("/v1/servers", "/v1/servers", true),
            ("/v1/servers", "/v1/servers/a", false),
            ("/v1/servers/*", "/v1/servers/a", true),
            ("/v1/servers/*", "/v1/servers", false),
            ("**/instances", "/v4/linode/instances", true),
            ("**/instances/*", "/v4/linode/instances/7", true),
            ("**/instances", "/v4/linode/instances/7", false),
            ("**/linode/instances", "/instances", false),
        ] {
            assert_eq!(matches_path(pattern, path), alike, "{pattern} {path}");
        }
    }
}
