//! Walks a YAML document without stopping at the first fault: whatever is wrong is noted with its
//! place, and the walk goes on.

use std::fmt;

use serde_norway::{Mapping, Value};

/// One thing wrong with the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where: `nodes[3].addresses[0].address`, or `line 4 column 7` where the text is no YAML.
    pub place: String,
    /// What stands there and what is wrong with it.
    pub problem: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.problem, self.remedy)
    }
}

/// The faults found so far.
#[derive(Debug, Default)]
pub(crate) struct Faults(pub(crate) Vec<Fault>);

impl Faults {
    pub(crate) fn add(
        &mut self,
        place: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.0.push(Fault {
            place: place.into(),
            problem: problem.into(),
            remedy: remedy.into(),
        });
    }
}

/// Reads a file: YAML, of which JSON is a part.
///
/// # Errors
/// Every fault of the file. Only where the text is no YAML at all is there a single one, since nothing can be said
/// of what follows.
pub(crate) fn read<T>(
    text: &str,
    document_of: impl FnOnce(&Value, &mut Faults) -> Option<T>,
) -> Result<T, Vec<Fault>> {
    let mut faults = Faults::default();
    let file = match serde_norway::from_str::<Value>(text) {
        Ok(document) => document_of(&document, &mut faults),
        Err(error) => {
            not_yaml(&error, &mut faults);
            None
        }
    };
    file.filter(|_| faults.0.is_empty()).ok_or(faults.0)
}

/// Notes that a text is no YAML.
fn not_yaml(error: &serde_norway::Error, faults: &mut Faults) {
    let place = error.location().map_or_else(
        || "the file".to_owned(),
        |at| format!("line {} column {}", at.line(), at.column()),
    );
    faults.add(
        place,
        format!("this is no YAML: {error}"),
        "correct it; whatever follows was not looked at",
    );
}

/// Tells the faults of a file: a first line that counts, then one line for each.
pub(crate) fn tell(f: &mut fmt::Formatter<'_>, file: &str, faults: &[Fault]) -> fmt::Result {
    let count = faults.len();
    let noun = if count == 1 { "fault" } else { "faults" };
    write!(f, "the {file} has {count} {noun}:")?;
    for fault in faults {
        write!(f, "\n  {fault}")?;
    }
    Ok(())
}

/// What a text should have been, and how to make it so.
pub(crate) struct Refusal {
    /// Follows the value: "is no IP address".
    pub(crate) problem: String,
    /// Follows that: "write one such as 192.0.2.10".
    pub(crate) remedy: String,
}

/// A refusal with this problem and this remedy.
pub(crate) fn refuse<T>(
    problem: impl Into<String>,
    remedy: impl Into<String>,
) -> Result<T, Refusal> {
    Err(Refusal {
        problem: problem.into(),
        remedy: remedy.into(),
    })
}

/// A value and the place where it stands.
#[derive(Clone)]
pub(crate) struct Item<'a> {
    pub(crate) place: String,
    value: &'a Value,
}

impl<'a> Item<'a> {
    /// The whole document.
    pub(crate) const fn root(value: &'a Value) -> Self {
        Self {
            place: String::new(),
            value,
        }
    }

    fn below(&self, key: &str) -> String {
        if self.place.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.place)
        }
    }

    /// Notes that this is not what was expected.
    pub(crate) fn wrong(&self, expected: &str, remedy: &str, faults: &mut Faults) {
        let place = if self.place.is_empty() {
            "the file"
        } else {
            &self.place
        };
        let problem = if self.value.is_null() {
            format!("has no value, but needs {expected}")
        } else {
            format!("{} is not {expected}", describe(self.value))
        };
        faults.add(place, problem, remedy);
    }

    /// An object that may have these keys and no others.
    pub(crate) fn object(
        &self,
        keys: &'static [&'static str],
        faults: &mut Faults,
    ) -> Option<Object<'a>> {
        let known = keys.join(", ");
        let Value::Mapping(mapping) = self.value else {
            self.wrong("an object", &format!("its keys are {known}"), faults);
            return None;
        };
        for (key, place) in mapping.keys().map(|key| (key, self.key_place(key))) {
            if !key.as_str().is_some_and(|key| keys.contains(&key)) {
                let problem = format!("{} is no key here", describe(key));
                faults.add(place, problem, format!("the keys here are {known}"));
            }
        }
        Some(Object {
            item: self.clone(),
            mapping,
        })
    }

    fn key_place(&self, key: &Value) -> String {
        key.as_str().map_or_else(
            || {
                if self.place.is_empty() {
                    "the file".to_owned()
                } else {
                    self.place.clone()
                }
            },
            |key| self.below(key),
        )
    }

    /// The elements of a list.
    pub(crate) fn list(&self, faults: &mut Faults) -> Vec<Self> {
        let Value::Sequence(elements) = self.value else {
            self.wrong("a list", "begin each of its elements with a dash", faults);
            return Vec::new();
        };
        let place = |i| format!("{}[{i}]", self.place);
        elements
            .iter()
            .enumerate()
            .map(|(i, value)| Self {
                place: place(i),
                value,
            })
            .collect()
    }

    /// The keys, as text, and values of an object that may have any keys.
    pub(crate) fn entries(&self, faults: &mut Faults) -> Vec<(&'a str, Self)> {
        let Value::Mapping(mapping) = self.value else {
            self.wrong("an object", "write a key and a value", faults);
            return Vec::new();
        };
        let mut entries = Vec::new();
        for (key, value) in mapping {
            match key.as_str() {
                Some(text) => {
                    let place = format!("{}[{text:?}]", self.place);
                    entries.push((text, Self { place, value }));
                }
                None => faults.add(
                    &self.place,
                    format!("the key {} is not text", describe(key)),
                    "put it in quotes",
                ),
            }
        }
        entries
    }

    /// A text, if it is one.
    pub(crate) fn text(&self, faults: &mut Faults) -> Option<&'a str> {
        if let Value::String(text) = self.value {
            return Some(text);
        }
        let remedy = match self.value {
            Value::Number(_) | Value::Bool(_) => "put it in quotes",
            Value::Null => "write one, or leave out the key",
            _ => "write a single text",
        };
        self.wrong("text", remedy, faults);
        None
    }

    /// A text that has a form.
    pub(crate) fn parse<T>(
        &self,
        faults: &mut Faults,
        read: impl FnOnce(&str) -> Result<T, Refusal>,
    ) -> Option<T> {
        let text = self.text(faults)?;
        match read(text) {
            Ok(value) => Some(value),
            Err(refusal) => {
                let problem = format!("{} {}", quoted(text), refusal.problem);
                faults.add(&self.place, problem, refusal.remedy);
                None
            }
        }
    }

    /// A whole number in a range.
    pub(crate) fn number(
        &self,
        range: &std::ops::RangeInclusive<u64>,
        faults: &mut Faults,
    ) -> Option<u64> {
        let number = self.value.as_u64().filter(|n| range.contains(n));
        if number.is_none() {
            let expected = format!("a whole number from {} to {}", range.start(), range.end());
            self.wrong(&expected, "write one without quotes", faults);
        }
        number
    }

    /// The bare value.
    pub(crate) const fn value(&self) -> &'a Value {
        self.value
    }
}

/// An object, whose keys have been checked already.
pub(crate) struct Object<'a> {
    item: Item<'a>,
    mapping: &'a Mapping,
}

impl<'a> Object<'a> {
    /// What stands under this key.
    pub(crate) fn get(&self, key: &str) -> Option<Item<'a>> {
        self.mapping.get(key).map(|value| Item {
            place: self.item.below(key),
            value,
        })
    }

    /// What stands under this key, which must be there.
    pub(crate) fn require(&self, key: &str, remedy: &str, faults: &mut Faults) -> Option<Item<'a>> {
        let found = self.get(key);
        if found.is_none() {
            faults.add(self.item.below(key), "is missing", remedy);
        }
        found
    }

    /// A text of some form under this key.
    pub(crate) fn parse<T>(
        &self,
        key: &str,
        faults: &mut Faults,
        read: impl FnOnce(&str) -> Result<T, Refusal>,
    ) -> Option<T> {
        self.get(key).and_then(|item| item.parse(faults, read))
    }

    /// The elements of the list under this key.
    pub(crate) fn list(&self, key: &str, faults: &mut Faults) -> Vec<Item<'a>> {
        self.get(key)
            .map_or_else(Vec::new, |item| item.list(faults))
    }

    /// Whether it has no key at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.mapping.is_empty()
    }

    /// Where it stands.
    pub(crate) fn place(&self) -> &str {
        &self.item.place
    }
}

/// A value as a message should show it: short, and with its kind.
fn describe(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(b) => format!("the truth value {b}"),
        Value::Number(n) => format!("the number {n}"),
        Value::String(s) => quoted(s),
        Value::Sequence(_) => "a list".to_owned(),
        Value::Mapping(_) => "an object".to_owned(),
        Value::Tagged(_) => "a value with a YAML tag".to_owned(),
    }
}

/// A text in quotes, cut where it is long.
fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    if text.chars().count() <= LONGEST {
        return format!("{text:?}");
    }
    let start: String = text.chars().take(LONGEST).collect();
    format!("{start:?} (cut)")
}
