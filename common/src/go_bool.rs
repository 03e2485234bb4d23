//! Booleans as Go reads them: `1`, `t`, `T`, `true`, `True`, `TRUE`, and likewise for `false`.

/// Reads one. None: it is another text.
#[must_use]
pub fn parse(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Some(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn takes_what_go_takes_and_nothing_else() {
        for text in ["1", "t", "T", "true", "True", "TRUE"] {
            assert_eq!(parse(text), Some(true), "{text}");
        }
        for text in ["0", "f", "F", "false", "False", "FALSE"] {
            assert_eq!(parse(text), Some(false), "{text}");
        }
        for text in ["", "yes", "tRue", " true", "on"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
