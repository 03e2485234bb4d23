//! Reads annotations of Services by the rows of their cloud's table. Everything that is wrong is noted and
//! read on.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use mooring_common::names::reasons;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::canonical::{address_of, canonical_network};
use super::selector::{Selector, SelectorError};
use crate::cloud_provider::annotations::{Annotation, Form};
use crate::cloud_provider::load_balancers::{InvalidField, Notice, cite};
use crate::views::service_view::ServiceView;

/// Reads one Service, noting what is wrong with it.
pub struct Reader<'a> {
    /// The Service.
    pub service: &'a ServiceView,
    faults: Vec<InvalidField>,
    notices: Vec<Notice>,
}

impl<'a> Reader<'a> {
    /// Nothing of it is read yet.
    #[must_use]
    pub const fn new(service: &'a ServiceView) -> Self {
        Self {
            service,
            faults: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// What was taken as it is, and means little.
    ///
    /// # Errors
    /// All that cannot be understood, together.
    pub fn finish(self) -> Result<Vec<Notice>, Vec<InvalidField>> {
        if self.faults.is_empty() {
            Ok(self.notices)
        } else {
            Err(self.faults)
        }
    }

    /// Something is wrong.
    pub fn fault(&mut self, place: String, value: &str, remedy: impl Into<String>) {
        self.faults.push(InvalidField::new(place, value, remedy));
    }

    /// Something is wrong in an annotation.
    pub fn fault_in(&mut self, annotation: &Annotation, value: &str, remedy: impl Into<String>) {
        self.fault(format!("annotation {}", annotation.key), value, remedy);
    }

    /// Something is taken as the Go controller takes it, and means little.
    pub fn question(&mut self, annotation: &Annotation, value: &str, what: &str) {
        self.notices.push(Notice {
            reason: reasons::QUESTIONABLE_ANNOTATION,
            note: format!("Annotation {}: {:?} {what}", annotation.key, cite(value)),
            by_provider: false,
        });
    }

    /// What stands there.
    #[must_use]
    pub fn value(&self, annotation: &Annotation) -> Option<&'a str> {
        self.service.annotation(annotation.key)
    }

    /// The same where an empty value means none.
    #[must_use]
    pub fn optional(&self, annotation: &Annotation) -> Option<&'a str> {
        self.value(annotation).filter(|text| !text.is_empty())
    }

    /// The first of two annotations that say the same, unless only the second is there.
    #[must_use]
    pub fn first_of<'b>(&self, first: &'b Annotation, second: &'b Annotation) -> &'b Annotation {
        match self.value(first) {
            Some(_) => first,
            None => second,
        }
    }

    /// A number of 32 bits without a sign; 0 says nothing.
    pub fn unsigned(&mut self, annotation: &Annotation) -> Option<u32> {
        let text = self.value(annotation)?;
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u32>() {
            Ok(number) if is_plain => Some(number).filter(|number| *number > 0),
            _ => {
                let remedy = format!("is no number from 0 to {}; write one", u32::MAX);
                self.fault_in(annotation, text, remedy);
                None
            }
        }
    }

    /// [`Self::unsigned`], where one must be in this range, such as `example`.
    pub fn unsigned_within(
        &mut self,
        annotation: &Annotation,
        range: RangeInclusive<u32>,
        example: u32,
    ) -> Option<u32> {
        let number = self.unsigned(annotation)?;
        if !range.contains(&number) {
            let (least, most) = range.into_inner();
            let remedy = format!("is no number from {least} to {most}; write one, like {example}");
            self.fault_in(annotation, &number.to_string(), remedy);
        }
        Some(number)
    }

    /// The path of an HTTP request without these characters, or nothing. `remedy`: how one is written.
    pub fn path(
        &mut self,
        annotation: &Annotation,
        without: &[char],
        remedy: &str,
    ) -> Option<String> {
        let text = self.value(annotation)?;
        let is_wrong = |c: char| without.contains(&c) || c.is_control();
        if !text.is_empty() && (!text.starts_with('/') || text.contains(is_wrong)) {
            self.fault_in(annotation, text, remedy);
        }
        Some(text.to_owned())
    }

    /// What stands in a list, separated by commas, without the spaces around it.
    pub fn parts(&self, annotation: &Annotation) -> impl Iterator<Item = &'a str> + use<'a> {
        parts(self.value(annotation).unwrap_or_default())
    }

    /// [`Form::Text`].
    pub fn text(&mut self, annotation: &Annotation) -> String {
        let Form::Text { default, .. } = annotation.form else {
            return String::new();
        };
        let default = default.replace("<UID>", &self.service.uid);
        let text = self.value(annotation).unwrap_or(&default);
        if text.trim().is_empty() {
            let remedy = format!("is empty; write one, or remove the annotation for {default:?}");
            self.fault_in(annotation, text, remedy);
        }
        text.to_owned()
    }

    /// [`Form::OneOf`].
    pub fn one_of(&mut self, annotation: &Annotation) -> &'static str {
        let Form::OneOf(legal) = annotation.form else {
            return "";
        };
        let default = legal.first().copied().unwrap_or_default();
        let Some(text) = self.value(annotation) else {
            return default;
        };
        if let Some(found) = legal.iter().find(|word| **word == text) {
            return found;
        }
        self.fault_in(annotation, text, not_among(legal));
        default
    }

    /// [`Form::OneOf`], if it `is_used`. If not, it is the default whatever stands there, as by the Go controllers.
    pub fn one_of_if(&mut self, is_used: bool, annotation: &Annotation) -> &'static str {
        match annotation.form {
            Form::OneOf([default, ..]) if !is_used => default,
            _ => self.one_of(annotation),
        }
    }

    /// [`Form::Number`]. `None`: whatever the cloud has.
    pub fn number(&mut self, annotation: &Annotation) -> Option<u32> {
        let Form::Number { default, max } = annotation.form else {
            return None;
        };
        let Some(text) = self.value(annotation) else {
            return Some(default);
        };
        match text.parse::<u32>() {
            Ok(0) => {
                let what = format!(
                    "says nothing, and the cloud's own value is kept; write a number from 1 to {max}, \
                     like {default}"
                );
                self.question(annotation, text, &what);
                None
            }
            Ok(number) if number <= max => Some(number),
            _ => {
                let remedy = format!("is no number from 1 to {max}; write one, like {default}");
                self.fault_in(annotation, text, remedy);
                Some(default)
            }
        }
    }

    /// [`Form::Words`], as it is written in the table. `None`: it is not there, or none of them.
    pub fn word(&mut self, annotation: &Annotation) -> Option<&'static str> {
        let text = self.value(annotation)?;
        let words = annotation.words();
        let found = words.iter().find(|word| **word == text);
        if found.is_none() {
            self.fault_in(annotation, text, not_among(words));
        }
        found.copied()
    }

    /// [`Form::Within`].
    pub fn within(&mut self, annotation: &Annotation) -> u32 {
        let Form::Within { default, min, max } = annotation.form else {
            return 0;
        };
        let Some(text) = self.value(annotation) else {
            return default;
        };
        let number = text.parse::<u32>().ok();
        let number = number.filter(|number| (min..=max).contains(number));
        number.unwrap_or_else(|| {
            let remedy = format!("is no number from {min} to {max}; write one, like {default}");
            self.fault_in(annotation, text, remedy);
            default
        })
    }

    /// [`Form::Id`].
    pub fn id(&mut self, annotation: &Annotation) -> Option<u64> {
        let Form::Id(what) = annotation.form else {
            return None;
        };
        let text = self.value(annotation)?;
        let number = text.parse::<u64>().ok().filter(|number| *number > 0);
        if number.is_none() {
            self.fault_in(annotation, text, no_number(what));
        }
        number
    }

    /// [`Form::Id`] that is looked for as it stands, so that another spelling of the number is a fault. An empty value
    /// says nothing.
    pub fn check_id(&mut self, annotation: &Annotation) {
        let Form::Id(what) = annotation.form else {
            return;
        };
        let Some(text) = self.optional(annotation) else {
            return;
        };
        let number = text.trim().parse::<u64>().ok();
        if number.is_none_or(|id| id == 0 || id.to_string() != text.trim()) {
            self.fault_in(annotation, text, no_number(what));
        }
    }

    /// [`Form::GoBool`]. What is neither counts as `otherwise`, and is told.
    pub fn go_bool(&mut self, annotation: &Annotation, default: bool, otherwise: bool) -> bool {
        let Some(text) = self.value(annotation) else {
            return default;
        };
        go_bool(text).unwrap_or_else(|| {
            let what = format!(
                "is neither true nor false, and counts as {otherwise}; write true or false"
            );
            self.question(annotation, text, &what);
            otherwise
        })
    }

    /// [`Form::GoBool`], where what is neither is a fault.
    pub fn strict_go_bool(&mut self, annotation: &Annotation, default: bool) -> bool {
        let Some(text) = self.value(annotation) else {
            return default;
        };
        go_bool(text).unwrap_or_else(|| {
            let remedy = "is neither true nor false; write one of them";
            self.fault_in(annotation, text, remedy);
            default
        })
    }

    /// A label selector.
    pub fn selector(&mut self, annotation: &Annotation) -> Selector {
        let text = self.value(annotation).unwrap_or_default();
        text.parse().unwrap_or_else(|error: SelectorError| {
            self.fault_in(annotation, text, error.to_string());
            Selector::default()
        })
    }

    /// [`Form::Json`]. `None`, besides where it cannot be understood: it is `null`.
    pub fn json<T: DeserializeOwned>(&mut self, annotation: &Annotation, text: &str) -> Option<T> {
        let Form::Json { example, .. } = annotation.form else {
            return None;
        };
        let read = serde_json::from_str(text);
        self.read_json(annotation, text, example, read).flatten()
    }

    /// A JSON object that is written like this example.
    pub fn json_object<T: DeserializeOwned>(
        &mut self,
        annotation: &Annotation,
        text: &str,
        example: &str,
    ) -> Option<T> {
        let read = serde_json::from_str(text).map(Value::Object);
        self.read_json(annotation, text, example, read)
    }

    /// JSON as Go reads it, with keys in any case. `T` has them in lower case.
    fn read_json<T: DeserializeOwned>(
        &mut self,
        annotation: &Annotation,
        text: &str,
        example: &str,
        read: serde_json::Result<Value>,
    ) -> Option<T> {
        match read.and_then(|value| serde_json::from_value(in_lower_case(value))) {
            Ok(value) => Some(value),
            Err(error) => {
                let remedy = format!(
                    "is not the JSON that is understood ({error}); write it like {example}"
                );
                self.fault_in(annotation, text, remedy);
                None
            }
        }
    }

    /// A JSON list of texts; nothing, where an empty value or none stands there.
    pub fn list(&mut self, annotation: &Annotation) -> Vec<String> {
        match self.value(annotation) {
            Some(text) if !text.trim().is_empty() => {
                self.json(annotation, text).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// A JSON list of networks, in canonical form, each once.
    pub fn networks(&mut self, annotation: &Annotation) -> Vec<String> {
        let texts = self.list(annotation);
        self.canonical(&format!("annotation {}", annotation.key), &texts)
    }

    /// The same of which the addresses alone count, whatever the length of the prefix.
    pub fn addresses(&mut self, annotation: &Annotation) -> BTreeSet<String> {
        let texts = self.list(annotation);
        self.canonical(&format!("annotation {}", annotation.key), &texts);
        texts.iter().filter_map(|text| address_of(text)).collect()
    }

    /// A block of addresses, such as `example`, as it is written; an empty value means none.
    pub fn block(&mut self, annotation: &Annotation, example: &str) -> Option<String> {
        let text = self.optional(annotation)?;
        if text.parse::<IpNet>().is_err() {
            let remedy = format!("is no block of addresses; write it like {example}");
            self.fault_in(annotation, text, remedy);
        }
        Some(text.to_owned())
    }

    /// These networks, in canonical form, each once.
    pub fn canonical(&mut self, place: &str, texts: &[String]) -> Vec<String> {
        let mut networks = Vec::new();
        for text in texts {
            match canonical_network(text) {
                Some(network) if networks.contains(&network) => {}
                Some(network) => networks.push(network),
                None => {
                    let remedy = "is no network; write it like 192.0.2.0/24 or 2001:db8::/32";
                    self.fault(place.to_owned(), text, remedy);
                }
            }
        }
        networks
    }
}

/// What stands in a list, separated by commas, without the spaces around it.
pub fn parts(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(',').map(str::trim);
    parts.filter(|part| !part.is_empty())
}

/// What is wrong with the number of something that is none.
fn no_number(what: &str) -> String {
    format!("is no number of {what}; write one, or take the annotation off")
}

/// With all keys in lower case.
fn in_lower_case(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter();
            let lower = fields.map(|(key, value)| (key.to_lowercase(), in_lower_case(value)));
            Value::Object(lower.collect())
        }
        Value::Array(values) => values.into_iter().map(in_lower_case).collect(),
        other => other,
    }
}

/// `true` and `false` as Go's `strconv.ParseBool` reads them.
#[must_use]
pub fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// What is wrong with a word that is none of these.
#[must_use]
pub fn not_among(words: &[&str]) -> String {
    format!("is not among the legal values; write {}", either(words))
}

/// `a, b or c`
#[must_use]
pub fn either(words: &[&str]) -> String {
    match words {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}
