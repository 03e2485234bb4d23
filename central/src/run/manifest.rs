//! Objects as kubectl prints and takes them.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize as _;
use serde_json::Value;

/// The objects of a file, or of standard input (`-`): every document, and the items of lists.
///
/// # Errors
/// If it cannot be read, or is no YAML.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Value>> {
    let shown = path.display();
    let text = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.with_context(|| format!("{shown} cannot be read"))?;
    parse(&text).with_context(|| format!("{shown} is no YAML"))
}

/// The objects of a text.
///
/// # Errors
/// If it is no YAML.
pub(super) fn parse(text: &str) -> Result<Vec<Value>, serde_norway::Error> {
    let mut objects = Vec::new();
    for document in serde_norway::Deserializer::from_str(text) {
        let document = Value::deserialize(document)?;
        match document.get("items").and_then(Value::as_array) {
            Some(items) => objects.extend(items.iter().cloned()),
            None => objects.push(document),
        }
    }
    Ok(objects)
}
