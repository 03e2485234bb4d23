//! The objects of one kind, as the API shows them.

use std::time::{Duration, Instant};

use axum::body::Bytes;
use serde_json::Value;

/// One object, and its text, which is made anew only when the object changes.
pub(super) struct Row {
    key: String,
    value: Value,
    text: String,
    added: Instant,
}

impl Row {
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) const fn value(&self) -> &Value {
        &self.value
    }

    /// How long it has been there, by the clock of its cloud.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.added)
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// The objects of one kind, in the order in which the API lists them.
#[derive(Default)]
pub(super) struct Rows(Vec<Row>);

impl Rows {
    pub(super) fn add(&mut self, key: impl Into<String>, value: Value) {
        self.add_at(Instant::now(), key, value);
    }

    /// The same where the clock of the cloud can be moved.
    pub(super) fn add_at(&mut self, now: Instant, key: impl Into<String>, value: Value) {
        self.0.push(Row {
            key: key.into(),
            text: value.to_string(),
            value,
            added: now,
        });
    }

    pub(super) fn get(&self, key: &str) -> Option<&Row> {
        self.0.iter().find(|row| row.key == key)
    }

    /// An object, or `null`.
    pub(super) fn value(&self, key: &str) -> &Value {
        self.get(key).map_or(&Value::Null, Row::value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Row> {
        self.0.iter()
    }

    /// Changes an object; whether it is there.
    pub(super) fn change(&mut self, key: &str, change: impl FnOnce(&mut Value)) -> bool {
        let Some(row) = self.0.iter_mut().find(|row| row.key == key) else {
            return false;
        };
        change(&mut row.value);
        row.text = row.value.to_string();
        true
    }

    /// Changes every object of which this holds.
    pub(super) fn change_where(
        &mut self,
        concerned: impl Fn(&Value) -> bool,
        change: impl Fn(&mut Value),
    ) {
        for row in &mut self.0 {
            if concerned(&row.value) {
                change(&mut row.value);
                row.text = row.value.to_string();
            }
        }
    }

    /// Takes an object away; whether it was there.
    pub(super) fn remove(&mut self, key: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|row| row.key != key);
        self.0.len() < before
    }

    /// Takes every object away of which this holds.
    pub(super) fn remove_where(&mut self, gone: impl Fn(&Value) -> bool) {
        self.0.retain(|row| !gone(&row.value));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A JSON array of objects.
pub(super) fn array<'a>(rows: impl IntoIterator<Item = &'a Row>) -> String {
    let mut text = String::from("[");
    for (index, row) in rows.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(row.text());
    }
    text.push(']');
    text
}

/// An object's text as a body.
pub(super) fn body(row: &Row) -> Bytes {
    Bytes::copy_from_slice(row.text().as_bytes())
}
