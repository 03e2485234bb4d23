//! Durations as Go's flag library writes them: `1m30s`, `2h45m`, `1.5h`, `300ms`, `0`.

use std::time::Duration;

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no duration; write it like 30s, 5m or 1h30m")]
pub struct GoDurationError {
    /// What was written.
    pub text: String,
}

const UNITS: [(&str, f64); 7] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
];

/// Reads a duration that is not negative.
///
/// # Errors
/// [`GoDurationError`] if the text is no such duration.
pub fn parse(text: &str) -> Result<Duration, GoDurationError> {
    let error = || GoDurationError {
        text: text.to_owned(),
    };
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return Err(error());
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(error)?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let number: f64 = number.parse().map_err(|_| error())?;
        let (_, factor) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(error)?;
        seconds += number * factor;
        rest = tail;
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn accepts_what_go_accepts() {
        for (text, millis) in [
            ("0", 0),
            ("1m30s", 90_000),
            ("2h45m", 9_900_000),
            ("1.5h", 5_400_000),
            ("300ms", 300),
            ("1s500ms", 1_500),
            (".5s", 500),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn rejects_what_go_rejects() {
        for text in [
            "", "1", "s", "1x", "-1s", "1s2", "1..2s", "+", "1 s", "1e400h",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn parser_never_panics(text in "\\PC{0,20}") {
            let _ = parse(&text);
        }
    }
}
