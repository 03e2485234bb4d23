//! From texts to values, collecting faults.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use super::{Action, FlagFaults, FlagTable, Values};
use crate::{go_bool, go_duration};

/// Reads values one after the other, and remembers every fault until [`Reader::finish`].
#[derive(Debug)]
pub struct Reader<'a> {
    table: &'a FlagTable,
    values: &'a Values,
    faults: Vec<String>,
}

impl<'a> Reader<'a> {
    /// Reads these values of this table.
    #[must_use]
    pub const fn new(table: &'a FlagTable, values: &'a Values) -> Self {
        Self {
            table,
            values,
            faults: Vec::new(),
        }
    }

    /// The text given, else the default, else nothing.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        let default = self
            .table
            .find(name)
            .map(|flag| flag.default)
            .unwrap_or_default();
        let text = self.values.given.get(name).map_or(default, String::as_str);
        Some(text.to_owned()).filter(|text| !text.is_empty())
    }

    /// What stands there without hyphens.
    #[must_use]
    pub fn operands(&self) -> &[String] {
        &self.values.operands
    }

    /// The parts of a list.
    #[must_use]
    pub fn list(&self, name: &str) -> Vec<String> {
        let text = self.text(name).unwrap_or_default();
        text.split(',')
            .map(str::trim)
            .filter(|p| !p.is_empty())
            .map(ToOwned::to_owned)
            .collect()
    }

    /// A boolean, in any of the forms that Go takes.
    pub fn bool(&mut self, name: &str) -> bool {
        let text = self.text(name).unwrap_or_else(|| "false".to_owned());
        go_bool::parse(&text).unwrap_or_else(|| {
            self.fault(name, &text, "write true or false");
            false
        })
    }

    /// A duration.
    pub fn duration(&mut self, name: &str) -> Duration {
        let text = self.text(name).unwrap_or_else(|| "0".to_owned());
        go_duration::parse(&text).unwrap_or_else(|_| {
            self.fault(name, &text, "write a duration like 30s, 5m or 1h30m");
            Duration::ZERO
        })
    }

    /// A duration that must not be shorter than this.
    pub fn duration_of_at_least(&mut self, name: &str, least: Duration) -> Duration {
        let duration = self.duration(name);
        let is_read = self
            .text(name)
            .is_some_and(|text| go_duration::parse(&text).is_ok());
        if is_read && duration < least {
            let text = self.text(name).unwrap_or_default();
            self.fault(name, text, &format!("must be at least {least:?}"));
        }
        duration
    }

    /// A value of a type that can be read from text; `remedy` says what to write.
    pub fn parsed<T: FromStr + Default>(&mut self, name: &str, remedy: &str) -> T {
        self.optional(name, remedy).unwrap_or_default()
    }

    /// Like [`Self::parsed`], but the flag may be absent.
    pub fn optional<T: FromStr>(&mut self, name: &str, remedy: &str) -> Option<T> {
        let text = self.text(name)?;
        if let Ok(value) = text.parse() {
            return Some(value);
        }
        self.fault(name, &text, remedy);
        None
    }

    /// The parts of a list, of a type that can be read from text. What cannot is left out.
    pub fn parsed_list<T: FromStr>(&mut self, name: &str, remedy: &str) -> Vec<T> {
        let mut parsed = Vec::new();
        for text in self.list(name) {
            match text.parse() {
                Ok(value) => parsed.push(value),
                Err(_) => self.fault(name, text, remedy),
            }
        }
        parsed
    }

    /// The length of a network's prefix, up to `longest`; 0 stands for the default.
    pub fn prefix_length(&mut self, name: &str, longest: u8, default: u8) -> u8 {
        let remedy = format!("write a number from 1 to {longest}, or 0 for {default}");
        match self.parsed(name, &remedy) {
            0 => default,
            length if length > longest => {
                self.fault(name, length, &remedy);
                default
            }
            length => length,
        }
    }

    /// Remembers that a value is wrong.
    pub fn fault(&mut self, name: &str, value: impl Display, remedy: &str) {
        self.faults.push(format!("--{name}={value}: {remedy}"));
    }

    /// Remembers a fault that is not about one value.
    pub fn other_fault(&mut self, fault: impl Into<String>) {
        self.faults.push(fault.into());
    }

    /// The flags that were set although they have no effect here, for the log.
    #[must_use]
    pub fn without_effect(&self) -> Vec<&'static str> {
        let accepted = self
            .table
            .flags
            .iter()
            .filter(|flag| flag.action == Action::Accept);
        accepted
            .filter(|flag| {
                self.values
                    .given
                    .get(flag.name)
                    .is_some_and(|v| v != flag.default)
            })
            .map(|flag| flag.name)
            .collect()
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// [`FlagFaults`] with everything that was wrong.
    pub fn finish(self) -> Result<(), FlagFaults> {
        if self.faults.is_empty() {
            Ok(())
        } else {
            Err(FlagFaults {
                faults: self.faults,
            })
        }
    }
}
