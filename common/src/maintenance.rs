//! What a person says of a Node's maintenance, in an annotation.

use std::fmt;

use jiff::Timestamp;

use crate::names::annotations::MAINTENANCE;

/// What comes before the time at which it ends.
const UNTIL: &str = "until=";
/// So many characters are kept of what cannot be read.
const KEPT: usize = 60;

/// Whether a Node is in maintenance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Maintenance {
    /// It is not.
    Off,
    /// It is, as long as the annotation is there.
    On,
    /// It is until then.
    Until(Timestamp),
    /// It is as long as the annotation is there, although that is to name an end: what cannot be read.
    Unreadable(String),
}

impl Maintenance {
    /// Reads the annotation's value: `false`, `until=` with a time as in RFC 3339, or anything else.
    #[must_use]
    pub fn read(value: Option<&str>) -> Self {
        let Some(value) = value.filter(|value| *value != "false") else {
            return Self::Off;
        };
        match value.strip_prefix(UNTIL).map(str::parse) {
            None => Self::On,
            Some(Ok(end)) => Self::Until(end),
            Some(Err(_)) => Self::Unreadable(value.chars().take(KEPT).collect()),
        }
    }

    /// Whether the Node is to carry no traffic at this time.
    #[must_use]
    pub fn lasts(&self, now: Timestamp) -> bool {
        match self {
            Self::Off => false,
            Self::On | Self::Unreadable(_) => true,
            Self::Until(end) => now < *end,
        }
    }
}

/// What the Node is.
impl fmt::Display for Maintenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("not in maintenance"),
            Self::On => write!(
                f,
                "in maintenance until its annotation {MAINTENANCE} is removed"
            ),
            Self::Until(end) => write!(
                f,
                "in maintenance until {end}, as its annotation {MAINTENANCE} says"
            ),
            Self::Unreadable(value) => write!(
                f,
                "in maintenance until its annotation {MAINTENANCE} is removed: {value:?} names no \
                 time; write one with its time zone, as in until=2026-11-25T22:00:00Z"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn reads_values_of_annotation() {
        let end = Maintenance::Until(at("2026-11-25T22:00:00Z"));
        for (value, maintenance) in [
            (None, Maintenance::Off),
            (Some("false"), Maintenance::Off),
            (Some(""), Maintenance::On),
            (Some("true"), Maintenance::On),
            (Some("a new disk"), Maintenance::On),
            (Some("2026-11-25T22:00:00Z"), Maintenance::On),
            (Some("until=2026-11-25T22:00:00Z"), end.clone()),
            (Some("until=2026-11-25T23:00:00+01:00"), end),
        ] {
            assert_eq!(Maintenance::read(value), maintenance, "{value:?}");
        }
        // Neither a duration nor a time without its zone says when.
        for value in [
            "until=",
            "until=2h",
            "until=tomorrow",
            "until=2026-11-25T22:00:00",
        ] {
            let unreadable = Maintenance::Unreadable(value.to_owned());
            assert_eq!(Maintenance::read(Some(value)), unreadable);
            assert!(unreadable.to_string().contains(value));
        }
    }

    #[test]
    fn ends_at_its_time() {
        let until = Maintenance::read(Some("until=2026-11-25T22:00:00Z"));
        assert!(until.lasts(at("2026-11-25T21:59:59Z")));
        assert!(!until.lasts(at("2026-11-25T22:00:00Z")));
        let now = at("2026-11-25T22:00:00Z");
        let lasts = |value| Maintenance::read(value).lasts(now);
        assert!(lasts(Some("")) && lasts(Some("until=2h")));
        assert!(!lasts(None) && !lasts(Some("false")));
    }
}
