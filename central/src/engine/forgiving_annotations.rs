//! Annotations that a Go controller takes whatever they say. What it makes of them is told.

use super::annotations::{Reader, either};
use crate::cloud_provider::annotations::Annotation;

impl Reader<'_> {
    /// A number, cut to what is at most possible. What is no number is 0, and so is what is absent; `none` says what
    /// that means.
    pub fn cut_number(&mut self, annotation: &Annotation, most: u32, none: &str) -> u32 {
        let Some(text) = self.optional(annotation) else {
            return 0;
        };
        let write = format!("write a number from 0 to {most}");
        let Ok(number) = text.parse::<i64>() else {
            let what = format!("is no number, and counts as 0: {none}; {write}");
            self.question(annotation, text, &what);
            return 0;
        };
        let cut = u32::try_from(number.max(0)).unwrap_or(u32::MAX).min(most);
        if i64::from(cut) != number {
            let what = format!("is out of range, and counts as {cut}; {write}");
            self.question(annotation, text, &what);
        }
        cut
    }

    /// One of these words, in upper or lower case. What is none of them counts as the default; `what`: what they are.
    pub fn any_case_word(
        &mut self,
        annotation: &Annotation,
        (what, words): (&str, &[&'static str]),
        default: &'static str,
    ) -> &'static str {
        let Some(text) = self.value(annotation) else {
            return default;
        };
        in_any_case(text, words).unwrap_or_else(|| {
            let legal = either(words);
            let told = format!("is no {what}, and {default} is taken; write {legal}");
            self.question(annotation, text, &told);
            default
        })
    }
}

/// The word that this is, in upper or lower case.
#[must_use]
pub fn in_any_case(text: &str, words: &[&'static str]) -> Option<&'static str> {
    let mut words = words.iter();
    words.find(|word| word.eq_ignore_ascii_case(text)).copied()
}
