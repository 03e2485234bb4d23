//! Annotations of a cloud: a table for each, which its registration names.
//!
//! A row says key, form, default, range and effect once: the parser, its errors, the table of the reference
//! page and what the admission policies permit come from it.

use std::fmt::Write as _;

/// An annotation that a person writes, central, or both.
#[derive(Debug)]
pub struct Annotation {
    /// Its key.
    pub key: &'static str,
    /// What its value is.
    pub form: Form,
    /// What it does, for the reference page.
    pub effect: &'static str,
    /// What bears it.
    pub on: AnnotatedObject,
    /// Whether central writes it, which the admission policy must permit.
    pub by_central: bool,
}

/// What bears an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnotatedObject {
    /// A Service.
    Service,
    /// A Node.
    Node,
}

/// `true` and `false` as Go reads them.
const GO_BOOL: &str =
    "`true` or `false`, also as `1`, `t`, `T`, `TRUE`, `True` and `0`, `f`, `F`, `FALSE`, `False`";

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
    /// One of these words, where no word is a default that the row cannot say.
    Words {
        /// The default, for the page.
        default: &'static str,
        /// The words.
        words: &'static [&'static str],
    },
    /// A whole number between these two.
    Within {
        /// The default.
        default: u32,
        /// The lowest.
        min: u32,
        /// The highest.
        max: u32,
    },
    /// The number that the cloud has given something: what that is, for the page.
    Id(&'static str),
    /// `true` or `false` as Go reads them: the default, for the page.
    GoBool(&'static str),
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

/// Defines a cloud's table: a constant for each row, whose keys begin like this, and `ALL` of them in the order of
/// the reference page, these at the end.
#[macro_export]
macro_rules! annotations {
    ($prefix:literal, [$($more:ident),*]: $($name:ident = $suffix:literal, $form:expr, $effect:expr;)*) => {
        /// How the keys of most of them begin.
        pub const PREFIX: &str = $prefix;

        $(pub(super) const $name: $crate::cloud_provider::annotations::Annotation =
            $crate::cloud_provider::annotations::Annotation::new(
                concat!($prefix, $suffix),
                $form,
                $effect,
            );)*

        /// All of them, in the order of the reference page.
        pub const ALL: &[&$crate::cloud_provider::annotations::Annotation] =
            &[$(&$name,)* $(&$more),*];
    };
}

impl Annotation {
    /// One that a person writes on a Service.
    #[must_use]
    pub const fn new(key: &'static str, form: Form, effect: &'static str) -> Self {
        Self {
            key,
            form,
            effect,
            on: AnnotatedObject::Service,
            by_central: false,
        }
    }

    /// The same, which central writes.
    #[must_use]
    pub const fn written(self) -> Self {
        Self {
            by_central: true,
            ..self
        }
    }

    /// The same on Nodes.
    #[must_use]
    pub const fn on_nodes(self) -> Self {
        Self {
            on: AnnotatedObject::Node,
            ..self
        }
    }

    /// Its words, where it has some.
    #[must_use]
    pub const fn words(&self) -> &'static [&'static str] {
        match self.form {
            Form::OneOf(words) | Form::Words { words, .. } => words,
            _ => &[],
        }
    }

    /// How it is written, where that is JSON.
    #[must_use]
    pub const fn example(&self) -> &'static str {
        match self.form {
            Form::Json { example, .. } => example,
            _ => "",
        }
    }
}

/// The table of a reference page: keys without this prefix, if there is one.
#[must_use]
pub fn reference(annotations: &[&Annotation], prefix: &str) -> String {
    let key = if prefix.is_empty() {
        "Key"
    } else {
        "Key ends with"
    };
    let mut page = format!("| {key} | Default | Legal values | Effect |\n|---|---|---|---|\n");
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
        let codes = |words: &[&str]| {
            let all: Vec<String> = words.iter().map(|word| code(word)).collect();
            all.join(", ")
        };
        match self {
            Self::OneOf(words) => (
                words.first().map(|word| code(word)).unwrap_or_default(),
                codes(words),
            ),
            Self::Words { default, words } => ((*default).to_owned(), codes(words)),
            Self::Within { default, min, max } => {
                (code(&default.to_string()), format!("{min} to {max}"))
            }
            Self::Id(what) => (String::new(), format!("the number of {what}")),
            Self::GoBool(default) => ((*default).to_owned(), GO_BOOL.to_owned()),
            Self::Number { default, max } => (code(&default.to_string()), format!("1 to {max}")),
            Self::Text { default, legal } => (code(default), (*legal).to_owned()),
            Self::Json { page, .. } | Self::Other(page) => {
                let [default, legal] = page.map(ToOwned::to_owned);
                (default, legal)
            }
        }
    }
}
