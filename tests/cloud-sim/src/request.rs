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

/// Which paths are meant: `*` stands for one segment, `**` for any number of them.
#[derive(Clone, Debug)]
pub(super) struct PathPattern(Vec<String>);

impl PathPattern {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong, and what to write: a pattern that is not understood would match nothing, and nobody would
    /// see it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if !text.starts_with('/') && !text.starts_with("**/") {
            return Err(format!(
                "{text:?} begins with neither / nor **/; write the whole path"
            ));
        }
        let segments = text.strip_prefix('/').unwrap_or(text).split('/');
        let is_known = |one: &str| ["*", "**"].contains(&one) || !one.contains(['*', '?', '{']);
        match segments.clone().find(|one| !is_known(one)) {
            Some(strange) => Err(format!(
                "{strange:?} in {text:?} stands for nothing; write * for one segment, ** for any number of them"
            )),
            None => Ok(Self(segments.map(ToOwned::to_owned).collect())),
        }
    }

    /// One that is written in a test.
    ///
    /// # Panics
    /// If it is not understood.
    pub(super) fn of(text: &str) -> Self {
        Self::parse(text).unwrap_or_else(|why| panic!("{why}"))
    }

    /// Whether a path is meant.
    pub(super) fn matches(&self, path: &str) -> bool {
        let path: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
        is_alike(&self.0, &path)
    }
}

fn is_alike(pattern: &[String], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "**" => {
            (0..=path.len()).any(|skipped| is_alike(rest, path.get(skipped..).unwrap_or_default()))
        }
        (Some((first, pattern)), Some((found, path))) => {
            (first == "*" || first == found) && is_alike(pattern, path)
        }
        _ => false,
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
            ("**/instances", "/instances", true),
            ("**/instances/*", "/v4/linode/instances/7", true),
            ("**/instances", "/v4/linode/instances/7", false),
            ("**/linode/instances", "/instances", false),
            ("**/*", "/token/", true),
            ("/1.0/**", "/1.0/servers/srv-12345", true),
            ("/1.0/**", "/token/", false),
            ("/1.0/**/map", "/1.0/cloud_ips/cip-12345/map", true),
            ("/1.0/**/map", "/1.0/cloud_ips/cip-12345/unmap", false),
            (
                "**/instances/7/**",
                "/v4/linode/instances/7/configs/1",
                true,
            ),
            (
                "**/instances/7/**",
                "/v4/linode/instances/70/configs/1",
                false,
            ),
        ] {
            assert_eq!(
                PathPattern::of(pattern).matches(path),
                alike,
                "{pattern} {path}"
            );
        }
    }

    #[test]
    fn pattern_that_would_match_nothing_is_refused() {
        for pattern in [
            "servers",
            "*/servers",
            "/v1/server*",
            "/v1/***",
            "/v1/{id}",
            "",
        ] {
            let why = PathPattern::parse(pattern).unwrap_err();
            assert!(why.contains("write"), "{pattern}: {why}");
        }
    }
}
