//! When a load balancer was asked for, and of which cloud, by a Service's own word:
//! `mooring.dev/load-balancer-asked-for`.
//!
//! | value | |
//! |---|---|
//! | `<time>[cloud=<provider>]` | this cloud was asked then; the form is that of RFC 9557 |
//! | `<time>` | a cloud was asked then, whichever: so versions wrote it that named none |
//!
//! Those versions read the first form as the second: what they do not know behind the time is no fault.

use jiff::Timestamp;

use super::service_view::ServiceView;

const CLOUD: &str = "[cloud=";

/// The text for what this cloud is asked for.
#[must_use]
pub fn asked(at: Timestamp, provider: &str) -> String {
    format!("{at}{CLOUD}{provider}]")
}

/// The time in such a text, and the cloud.
fn parts(text: &str) -> (&str, Option<&str>) {
    let named = text
        .strip_suffix(']')
        .and_then(|text| text.split_once(CLOUD));
    named.map_or((text, None), |(time, provider)| (time, Some(provider)))
}

impl ServiceView {
    /// When a load balancer was asked for that the Service does not say to have yet, in RFC 3339.
    #[must_use]
    pub fn creation_asked_at(&self) -> Option<&str> {
        self.creation_asked.as_deref().map(|text| parts(text).0)
    }

    /// The same unless another cloud than this was asked.
    #[must_use]
    pub fn creation_asked_of(&self, provider: &str) -> Option<&str> {
        let (time, named) = parts(self.creation_asked.as_deref()?);
        named.is_none_or(|named| named == provider).then_some(time)
    }

    /// Whether it names this cloud as the one that was asked.
    #[must_use]
    pub fn names_asked(&self, provider: &str) -> bool {
        let text = self.creation_asked.as_deref();
        text.is_some_and(|text| parts(text).1 == Some(provider))
    }
}

#[cfg(test)]
mod tests {
    use super::super::service_view::tests::service;
    use super::*;

    #[test]
    fn names_its_cloud_and_is_read_by_versions_that_know_only_the_time() {
        let at: Timestamp = "2026-11-28T10:00:00.25Z".parse().unwrap();
        let text = asked(at, "cloudscale");
        assert_eq!(text.parse::<Timestamp>().unwrap(), at);
        let view = |text: &str| ServiceView {
            creation_asked: Some(text.to_owned()),
            ..service()
        };
        let (named, bare) = (view(&text), view(&at.to_string()));
        for (service, provider, is_asked, is_named) in [
            (&named, "cloudscale", true, true),
            (&named, "linode", false, false),
            (&bare, "cloudscale", true, false),
            (&service(), "cloudscale", false, false),
        ] {
            let read = service.creation_asked_of(provider);
            assert_eq!(read, is_asked.then_some("2026-11-28T10:00:00.25Z"));
            assert_eq!(service.names_asked(provider), is_named);
        }
        assert_eq!(named.creation_asked_at(), bare.creation_asked_at());
    }
}
