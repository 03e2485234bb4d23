//! A label selector as people write it, as an L2Network has it.

use serde_json::{Value, json};

/// `a=b,c!=d,e in (f,g),h notin (i),j,!k` as `matchExpressions`. `None`: it cannot be read.
pub(super) fn expressions(text: &str) -> Option<Vec<Value>> {
    let parts = split(text)?.into_iter();
    let parts = parts.map(str::trim).filter(|part| !part.is_empty());
    parts.map(expression).collect()
}

/// At the commas that are in no parentheses.
fn split(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0_u32, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parts.push(text.get(begin..at)?);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(begin..)?);
    (depth == 0).then_some(parts)
}

fn expression(part: &str) -> Option<Value> {
    if let Some(key) = part.strip_prefix('!') {
        return Some(json!({"key": key_of(key)?, "operator": "DoesNotExist"}));
    }
    for (sign, operator) in [("!=", "NotIn"), ("==", "In"), ("=", "In")] {
        if let Some((key, value)) = part.split_once(sign) {
            let values = [value_of(value)?];
            return Some(json!({"key": key_of(key)?, "operator": operator, "values": values}));
        }
    }
    for (word, operator) in [(" notin ", "NotIn"), (" in ", "In")] {
        if let Some((key, list)) = part.replace('(', " (").split_once(word) {
            let list = list.trim().strip_prefix('(')?.strip_suffix(')')?;
            let values: Vec<&str> = list.split(',').map(value_of).collect::<Option<_>>()?;
            return Some(json!({"key": key_of(key)?, "operator": operator, "values": values}));
        }
    }
    Some(json!({"key": key_of(part)?, "operator": "Exists"}))
}

fn key_of(text: &str) -> Option<&str> {
    let text = text.trim();
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    (!text.is_empty() && text.chars().all(is_part)).then_some(text)
}

fn value_of(text: &str) -> Option<&str> {
    let text = text.trim();
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.chars().all(is_part).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_what_is_none_is_told() {
        let read = expressions("a=b, c!=d,e in (f, g),h notin(i),j,!k.io/l").unwrap();
        let expected = [
            json!({"key": "a", "operator": "In", "values": ["b"]}),
            json!({"key": "c", "operator": "NotIn", "values": ["d"]}),
            json!({"key": "e", "operator": "In", "values": ["f", "g"]}),
            json!({"key": "h", "operator": "NotIn", "values": ["i"]}),
            json!({"key": "j", "operator": "Exists"}),
            json!({"key": "k.io/l", "operator": "DoesNotExist"}),
        ];
        assert_eq!(read, expected);
        assert_eq!(expressions(""), Some(vec![]));
        for wrong in ["a b", "a in b", "a in (b", "a)(", "=b", "a=b c"] {
            assert_eq!(expressions(wrong), None, "{wrong}");
        }
    }
}
