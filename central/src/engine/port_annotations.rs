//! What each port of a Service is to have: what an annotation of its own says, which is a JSON object of texts, and
//! before the default what an annotation says of all ports.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::annotations::{Reader, not_among};
use crate::cloud_provider::annotations::Annotation;

/// How the annotations of single ports are written.
#[derive(Debug)]
pub struct PortAnnotation {
    /// How their keys begin; the port's number follows.
    pub prefix: &'static str,
    /// The fields that are known.
    pub fields: &'static [&'static str],
    /// An example of their value.
    pub example: &'static str,
}

/// What one port says for itself.
#[derive(Debug)]
pub struct OfPort {
    key: String,
    fields: BTreeMap<String, String>,
}

impl PortAnnotation {
    /// Keys are read whatever their case, an empty text says nothing, and what is not known is not read, as Go
    /// has it.
    pub fn read(&self, reader: &mut Reader<'_>, port: u16) -> OfPort {
        let key = format!("{}{port}", self.prefix);
        let text = reader.service.annotation(&key).unwrap_or("null");
        let place = format!("annotation {key}");
        let read: Result<Option<Map<String, Value>>, _> = serde_json::from_str(text);
        let read = read.unwrap_or_else(|error| {
            let how = format!("write it like {}", self.example);
            let remedy = format!("is not the JSON that is understood ({error}); {how}");
            reader.fault(place.clone(), text, remedy);
            None
        });
        let mut fields = BTreeMap::new();
        for (name, value) in read.into_iter().flatten() {
            match value {
                Value::String(said) if !said.is_empty() => {
                    fields.insert(name.to_lowercase(), said);
                }
                Value::String(_) | Value::Null => {}
                other if self.fields.contains(&name.to_lowercase().as_str()) => {
                    let remedy =
                        format!("has {name} without quotes; write \"{name}\": \"{other}\"");
                    reader.fault(place.clone(), text, remedy);
                }
                _ => {}
            }
        }
        OfPort { key, fields }
    }
}

impl OfPort {
    /// What it says for itself.
    #[must_use]
    pub fn own(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// Where it says that, for people.
    #[must_use]
    pub fn place(&self, name: &str) -> String {
        format!("annotation {}, {name}", self.key)
    }

    /// Where it stands what holds for this port, and what stands there.
    #[must_use]
    pub fn said(
        &self,
        reader: &Reader<'_>,
        name: &str,
        of_all: &Annotation,
    ) -> Option<[String; 2]> {
        if let Some(text) = self.own(name) {
            return Some([self.place(name), text.to_owned()]);
        }
        let text = reader.value(of_all)?;
        Some([format!("annotation {}", of_all.key), text.to_owned()])
    }

    /// One of these words, whatever its case.
    pub fn word(
        &self,
        reader: &mut Reader<'_>,
        (name, of_all): (&str, &Annotation),
        legal: &[&str],
        default: &str,
    ) -> String {
        let Some([place, text]) = self.said(reader, name, of_all) else {
            return default.to_owned();
        };
        let word = text.to_lowercase();
        if legal.contains(&word.as_str()) {
            return word;
        }
        reader.fault(place, &text, not_among(legal));
        default.to_owned()
    }

    /// The number of a port.
    pub fn port(
        &self,
        reader: &mut Reader<'_>,
        (name, of_all): (&str, &Annotation),
        default: u16,
    ) -> u16 {
        let Some([place, text]) = self.said(reader, name, of_all) else {
            return default;
        };
        let port = text.parse::<u16>().ok().filter(|port| *port > 0);
        port.unwrap_or_else(|| {
            let remedy = format!("is no port; write a number from 1 to 65535, like {default}");
            reader.fault(place, &text, remedy);
            default
        })
    }
}
