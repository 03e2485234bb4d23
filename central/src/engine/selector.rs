//! Label selectors, as Kubernetes writes them: `env=prod,tier in (web, edge),!spare,cores>3`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use mooring_common::label;
use mooring_common::node_view::NodeView;

/// Which Nodes are meant: those that meet every requirement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    text: String,
    requirements: Vec<Requirement>,
}

/// What a label must be like.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Missing,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Above(i64),
    Below(i64),
}

/// Why a text is no label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to parse selector: {why}; write it like env=prod,tier in (web, edge),!spare")]
pub struct SelectorError {
    why: String,
}

impl Selector {
    /// Whether it selects this Node.
    pub fn matches(&self, node: &NodeView) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.holds(node.label(&requirement.key)))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Missing => value.is_none(),
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Above(bound) => number().is_some_and(|number| number > *bound),
            Test::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parser = Parser {
            tokens: tokens(text),
            at: 0,
        };
        Ok(Self {
            text: text.to_owned(),
            requirements: parser.requirements()?,
        })
    }
}

/// A symbol, or a word between symbols and space.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        let length = match rest.as_bytes() {
            [b'=' | b'!', b'=', ..] => 2,
            [first, ..] if is_symbol(char::from(*first)) => 1,
            _ => rest
                .find(|c| is_symbol(c) || is_space(c))
                .unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start_matches(is_space);
    }
    tokens
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_symbol(c: char) -> bool {
    "=!(),<>".contains(c)
}

struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn requirements(&mut self) -> Result<Vec<Requirement>, SelectorError> {
        let mut requirements = Vec::new();
        if self.peek().is_none() {
            return Ok(requirements);
        }
        loop {
            requirements.push(self.requirement()?);
            match self.next() {
                None => return Ok(requirements),
                Some(",") => {}
                Some(other) => return Err(unexpected(Some(other), "a comma or the end")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let is_missing = self.skip("!");
        let key = self.word("a label's key")?;
        if !label::is_key(key) {
            return Err(SelectorError {
                why: format!("{:?} is no label's key", cited(key)),
            });
        }
        let test = match self.peek() {
            _ if is_missing => Test::Missing,
            None | Some(",") => Test::Exists,
            Some(operator) => {
                self.at += 1;
                self.test(operator)?
            }
        };
        Ok(Requirement {
            key: key.to_owned(),
            test,
        })
    }

    fn test(&mut self, operator: &str) -> Result<Test, SelectorError> {
        Ok(match operator {
            "=" | "==" => Test::In([self.value()?].into()),
            "!=" => Test::NotIn([self.value()?].into()),
            "in" => Test::In(self.values()?),
            "notin" => Test::NotIn(self.values()?),
            ">" => Test::Above(self.number()?),
            "<" => Test::Below(self.number()?),
            other => {
                let wanted = "one of =, ==, !=, in, notin, > and <";
                return Err(unexpected(Some(other), wanted));
            }
        })
    }

    fn number(&mut self) -> Result<i64, SelectorError> {
        let word = self.word("a number")?;
        word.parse().map_err(|_| unexpected(Some(word), "a number"))
    }

    /// In parentheses, with commas between them.
    fn values(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        if !self.skip("(") {
            return Err(unexpected(self.peek(), "an opening parenthesis"));
        }
        if self.peek() == Some(")") {
            return Err(unexpected(self.peek(), "a value"));
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value()?);
            match self.next() {
                Some(",") => {}
                Some(")") => return Ok(values),
                other => return Err(unexpected(other, "a comma or a closing parenthesis")),
            }
        }
    }

    /// A value; where none stands, the empty one.
    fn value(&mut self) -> Result<String, SelectorError> {
        if matches!(self.peek(), None | Some("," | ")")) {
            return Ok(String::new());
        }
        let word = self.word("a value")?;
        if label::is_value(word) {
            Ok(word.to_owned())
        } else {
            Err(SelectorError {
                why: format!("{:?} is no label's value", cited(word)),
            })
        }
    }

    fn word(&mut self, wanted: &str) -> Result<&'a str, SelectorError> {
        match self.next() {
            Some(word) if !word.starts_with(is_symbol) => Ok(word),
            other => Err(unexpected(other, wanted)),
        }
    }

    fn skip(&mut self, token: &str) -> bool {
        let is_there = self.peek() == Some(token);
        self.at += usize::from(is_there);
        is_there
    }

    fn next(&mut self) -> Option<&'a str> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).copied()
    }
}

/// Its begin: a label's key or value is never longer than this, and a text in an annotation may be
/// very long.
fn cited(token: &str) -> String {
    token.chars().take(80).collect()
}

fn unexpected(found: Option<&str>, wanted: &str) -> SelectorError {
    SelectorError {
        why: match found {
            Some(token) => format!("found {:?} instead of {wanted}", cited(token)),
            None => format!("it ends where {wanted} is due"),
        },
    }
}

#[cfg(test)]
mod tests;
