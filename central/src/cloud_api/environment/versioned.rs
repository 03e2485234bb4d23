//! Addresses of APIs that end with a version.

use reqwest::Url;

use super::Environment;

/// How the address of an API with a version is said.
#[derive(Clone, Copy, Debug)]
pub struct VersionedUrl {
    /// The variable with the address.
    pub url: &'static str,
    /// The address without a version, if that variable does not say.
    pub default_url: &'static str,
    /// The variable with the version.
    pub version: &'static str,
    /// The version, if that variable does not say.
    pub default_version: &'static str,
    /// Another version, for messages.
    pub example: &'static str,
}

impl Environment<'_> {
    /// The address, `/`, the version, `/`. A version in the path of the address wins over the variable for it; what
    /// else stands in that path is left out, with a notice.
    pub fn versioned_url(&mut self, said: &VersionedUrl) -> Option<Url> {
        let text = self.text(said.url);
        let version = self.text(said.version);
        let default = said.default_url;
        let remedy = format!(
            "is no address of an API; write it like {default} or {default}/{}",
            said.example
        );
        let mut url = self.url(said.url, text.as_deref().unwrap_or(default), &remedy)?;
        let segments = url.path_segments().into_iter().flatten();
        let segments = segments.filter(|segment| !segment.is_empty());
        let segments: Vec<String> = segments.map(ToOwned::to_owned).collect();
        let in_path = segments.iter().rev().find(|s| is_version(s)).cloned();
        if segments.len() > usize::from(in_path.is_some()) {
            self.notice(format!(
                "{}={url}: of its path only a version such as {} is used",
                said.url, said.default_version
            ));
        }
        let version = in_path
            .or(version)
            .unwrap_or(said.default_version.to_owned());
        if !is_version(&version) {
            let remedy = format!("write {} or {}", said.default_version, said.example);
            self.fault(said.version, Some(&version), remedy);
            return None;
        }
        url.set_path(&format!("/{version}/"));
        Some(url)
    }
}

/// `v4`, `v4beta`
fn is_version(segment: &str) -> bool {
    let rest = segment.strip_prefix('v');
    rest.is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_alphanumeric()))
}
