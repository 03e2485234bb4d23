//! Marks of clouds whose tags are texts without values: each begins so, and what it says follows.

use std::collections::BTreeSet;

use super::annotations::{Reader, parts};
use crate::cloud_provider::annotations::Annotation;

/// How the marks of a cloud begin.
#[derive(Debug)]
pub struct TagMarks {
    /// The UID of the Service that something was made for follows.
    pub service: &'static str,
    /// The UID of its cluster follows.
    pub cluster: &'static str,
    /// What else marks something.
    pub others: &'static [&'static str],
}

impl TagMarks {
    /// The tags that mark what is made for a Service.
    #[must_use]
    pub fn of(&self, service_uid: &str, cluster: Option<&str>) -> Vec<String> {
        let service = format!("{}{service_uid}", self.service);
        let cluster = cluster.map(|uid| format!("{}{uid}", self.cluster));
        std::iter::once(service).chain(cluster).collect()
    }

    /// The UID of the Service whose mark is among these tags.
    #[must_use]
    pub fn owner<'a>(&self, tags: &'a [String]) -> Option<&'a str> {
        find(tags, self.service)
    }

    /// The cluster whose mark is among them.
    #[must_use]
    pub fn cluster_of<'a>(&self, tags: &'a [String]) -> Option<&'a str> {
        find(tags, self.cluster)
    }

    /// Whether a tag is a mark.
    #[must_use]
    pub fn is_mark(&self, tag: &str) -> bool {
        let marks = [self.service, self.cluster].into_iter();
        let mut marks = marks.chain(self.others.iter().copied());
        marks.any(|mark| tag.starts_with(mark))
    }

    /// Whether a tag that somebody asks for begins like a mark, in upper or lower case.
    #[must_use]
    pub fn looks_like_mark(&self, tag: &str) -> bool {
        self.is_mark(&tag.trim().to_lowercase())
    }

    /// These tags without marks.
    #[must_use]
    pub fn unmarked(&self, tags: &[String]) -> Vec<String> {
        let unmarked = tags.iter().filter(|tag| !self.is_mark(tag));
        unmarked.cloned().collect()
    }

    /// Whether these are the tags that are wanted and no others, marks, order and repetitions aside.
    #[must_use]
    pub fn are_unmarked(&self, tags: &[String], wanted: &[String]) -> bool {
        let unmarked = tags.iter().filter(|tag| !self.is_mark(tag));
        unmarked.collect::<BTreeSet<_>>() == wanted.iter().collect()
    }
}

impl Reader<'_> {
    /// The tags that a Service is to have: `before`, and those of an annotation, separated by commas; each once. One
    /// that looks like a mark is a fault; `remedy` says why.
    pub fn tags(
        &mut self,
        annotation: &Annotation,
        before: impl Iterator<Item = String>,
        (marks, remedy): (&TagMarks, &str),
    ) -> Vec<String> {
        let text = self.value(annotation).unwrap_or_default();
        let before = before.map(|tag| tag.trim().to_owned());
        let before = before.filter(|tag| !tag.is_empty());
        let all = before.chain(parts(text).map(ToOwned::to_owned));
        let mut tags: Vec<String> = Vec::new();
        for tag in all {
            if marks.looks_like_mark(&tag) {
                self.fault_in(annotation, text, format!("has the tag {tag}, and {remedy}"));
            } else if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        tags
    }
}

/// What the first mark says that begins so.
fn find<'a>(tags: &'a [String], mark: &str) -> Option<&'a str> {
    tags.iter().find_map(|tag| tag.strip_prefix(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: TagMarks = TagMarks {
        service: "service-",
        cluster: "cluster-",
        others: &["network-"],
    };

    fn tags(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn marks_say_for_whom_something_was_made() {
        let marks = MARKS.of("1", Some("2"));
        assert_eq!(marks, ["service-1", "cluster-2"]);
        assert_eq!(MARKS.of("1", None), ["service-1"]);
        assert_eq!(MARKS.owner(&marks), Some("1"));
        assert_eq!(MARKS.cluster_of(&marks), Some("2"));
        assert_eq!(MARKS.owner(&tags(&["my-service-1"])), None);
    }

    #[test]
    fn marks_are_no_tags_of_users() {
        let there = tags(&["b", "service-1", "a", "network-3", "b"]);
        assert_eq!(MARKS.unmarked(&there), ["b", "a", "b"]);
        for (wanted, are_same) in [
            (&["a", "b"][..], true),
            (&["a"], false),
            (&["a", "b", "c"], false),
        ] {
            assert_eq!(MARKS.are_unmarked(&there, &tags(wanted)), are_same);
        }
        assert!(MARKS.looks_like_mark(" Service-x") && !MARKS.looks_like_mark("services"));
    }
}
