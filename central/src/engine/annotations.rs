//! Annotations of Services: a table for each cloud, and the reader that goes by it.
//!
//! A row says key, form, default, range and effect once: the parser, its errors and the table of the
//! reference page come from it. Everything that is wrong is noted and read on.

use std::fmt::Write as _;

use mooring_common::names::reasons;
use serde::de::DeserializeOwned;

use super::canonical::canonical_network;
use crate::cloud_provider::load_balancers::{InvalidField, Notice, cite};
use crate::views::service_view::ServiceView;

/// An annotation that a person writes on a Service, central, or both.
#[derive(Debug)]
pub struct Annotation {
    /// Its key.
    pub key: &'static str,
    /// What its value is.
    pub form: Form,
    /// What it does, for the reference page.
    pub effect: &'static str,
    /// Whether central writes it, which the admission policy must permit.
    pub by_central: bool,
}

/// What the value of an annotation is.
#[derive(Debug)]
pub enum Form {
    /// One of these words; the first is the default.
    OneOf(&'static [&'static str]),
    /// A whole number from 1 to `max`. 0 is taken, and leaves the cloud's own value.
    Number {
        /// The default.
        default: u32,
        /// The highest.
        max: u32,
    },
    /// A text that is not empty. `<UID>` in the default is the Service's.
    Text {
        /// The default.
        default: &'static str,
        /// What is legal, for the page.
        legal: &'static str,
    },
    /// JSON, read as the cloud's own types.
    Json {
        /// The default and what is legal, for the page.
        page: [&'static str; 2],
        /// How it is written, for errors.
        example: &'static str,
    },
    /// Anything else: the default and what is legal, for the page.
    Other([&'static str; 2]),
}

impl Annotation {
    /// How it is written, where that is JSON.
    #[must_use]
    pub const fn example(&self) -> &'static str {
        match self.form {
            Form::Json { example, .. } => example,
            _ => "",
        }
    }
}

/// The table of a reference page: keys without this prefix.
#[must_use]
pub fn reference(annotations: &[&Annotation], prefix: &str) -> String {
    let mut page =
        "| Key ends with | Default | Legal values | Effect |\n|---|---|---|---|\n".to_owned();
    for Annotation {
        key, form, effect, ..
    } in annotations
    {
        let end = key.strip_prefix(prefix).unwrap_or(key);
        let (default, legal) = form.described();
        let cell = |text: &str| {
            if text.is_empty() {
                " ".to_owned()
            } else {
                format!(" {text} ")
            }
        };
        let _ = writeln!(
            page,
            "| `{end}` |{}|{}| {effect} |",
            cell(&default),
            cell(&legal)
        );
    }
    page
}

impl Form {
    /// The default and what is legal.
    fn described(&self) -> (String, String) {
        let code = |word: &str| format!("`{word}`");
        match self {
            Self::OneOf(words) => {
                let legal: Vec<String> = words.iter().map(|word| code(word)).collect();
                (legal.first().cloned().unwrap_or_default(), legal.join(", "))
            }
            Self::Number { default, max } => (code(&default.to_string()), format!("1 to {max}")),
            Self::Text { default, legal } => (code(default), (*legal).to_owned()),
            Self::Json { page, .. } | Self::Other(page) => {
                let [default, legal] = page.map(ToOwned::to_owned);
                (default, legal)
            }
        }
    }
}

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
        let remedy = format!("is not among the legal values; write {}", either(legal));
        self.fault_in(annotation, text, remedy);
        default
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

    /// [`Form::Json`]. `None`, besides where it cannot be understood: it is `null`.
    pub fn json<T: DeserializeOwned>(&mut self, annotation: &Annotation, text: &str) -> Option<T> {
        let Form::Json { example, .. } = annotation.form else {
            return None;
        };
        match serde_json::from_str::<Option<T>>(text) {
            Ok(value) => value,
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

/// `a, b or c`
#[must_use]
pub fn either(words: &[&str]) -> String {
    match words {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}
