//! What a Service says of what was carried out for it, so that a start need not look at everything:
//! `mooring.dev/load-balancer-applied`.
//!
//! | value | |
//! |---|---|
//! | `<ID>/<fingerprint>` | this load balancer has all that is wanted, of which that is the fingerprint |
//! | `<ID>/<fingerprint>/changing` | it had that, and is being changed since |

use mooring_common::names::annotations;

use super::provider::{IdBy, Listed, Vocabulary};
use crate::views::service_view::ServiceView;

/// Stands behind it from before the first write until all is as wanted.
const CHANGING: &str = "/changing";

/// The text for a load balancer that has all of this fingerprint.
pub(super) fn applied(listed: &impl Listed, fingerprint: &str) -> String {
    format!("{}/{fingerprint}", listed.id())
}

/// The text once something is about to change. `None`: it says so already.
pub(super) fn changing(text: &str) -> Option<String> {
    (!text.is_empty() && !text.ends_with(CHANGING)).then(|| format!("{text}{CHANGING}"))
}

/// The ID that such a text names.
pub(crate) fn id_of(text: &str) -> Option<&str> {
    text.split_once('/').map(|(id, _)| id)
}

/// The ID that a Service notes of its load balancer, where no other annotation of central's does.
pub(super) fn noted<'a>(service: &'a ServiceView, words: &Vocabulary) -> Option<&'a str> {
    let text = service.annotation(annotations::APPLIED)?;
    id_of(text).filter(|_| words.id_by == IdBy::Person)
}

/// The fingerprint that such a text names, of what the load balancer has or had.
pub(crate) fn fingerprint_of(text: &str) -> Option<&str> {
    text.split('/').nth(1)
}

#[cfg(test)]
mod tests {
    use super::{changing, fingerprint_of, id_of};

    #[test]
    fn what_changes_is_known_by_id_and_fingerprint_and_says_so_once() {
        let text = changing("12/abc").unwrap();
        assert_eq!(text, "12/abc/changing");
        assert_eq!(
            (id_of(&text), fingerprint_of(&text)),
            (Some("12"), Some("abc"))
        );
        assert_eq!(changing(&text), None);
        assert_eq!(changing(""), None);
        assert_eq!((id_of("12"), fingerprint_of("12")), (None, None));
    }
}
