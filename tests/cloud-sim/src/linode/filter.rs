//! `X-Filter`: which rows of a listing are wanted.

use std::cmp::Ordering;

use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value};

use super::answers::refusal;
use crate::rows::Row;

/// A filter that has been understood.
#[derive(Debug)]
pub(super) struct Filter {
    conditions: Vec<Condition>,
    order: Option<(String, bool)>,
}

#[derive(Debug)]
enum Condition {
    Any(Vec<Vec<Condition>>),
    All(Vec<Vec<Condition>>),
    Field(String, Operator, Value),
}

#[derive(Clone, Copy, Debug)]
enum Operator {
    Eq,
    Neq,
    Gt,
    Gte,
    Lt,
    Lte,
    Contains,
}

impl Operator {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "+eq" => Self::Eq,
            "+neq" => Self::Neq,
            "+gt" => Self::Gt,
            "+gte" => Self::Gte,
            "+lt" => Self::Lt,
            "+lte" => Self::Lte,
            "+contains" => Self::Contains,
            _ => return None,
        })
    }
}

impl Filter {
    /// Understands the header, which may be absent; only these fields can be filtered on.
    pub(super) fn read(header: Option<&str>, fields: &[&str]) -> Result<Self, Box<Response>> {
        let mut order = None;
        let conditions = match header.map(str::trim) {
            None | Some("") => Vec::new(),
            Some(text) => {
                let value = serde_json::from_str(text);
                let Ok(Value::Object(mut object)) = value else {
                    return Err(bad("Invalid JSON"));
                };
                let descending = object.remove("+order").is_some_and(|order| order == "desc");
                if let Some(field) = object.remove("+order_by") {
                    let field = field.as_str().ok_or_else(|| bad("Cannot order by that"))?;
                    order = Some((permitted(field, fields)?.to_owned(), descending));
                }
                conditions(&object, fields)?
            }
        };
        Ok(Self { conditions, order })
    }

    /// The rows that are wanted, in the order that is wanted.
    pub(super) fn choose<'a>(&self, rows: impl Iterator<Item = &'a Row>) -> Vec<&'a Row> {
        let mut chosen: Vec<&Row> = rows
            .filter(|row| hold(&self.conditions, row.value()))
            .collect();
        if let Some((field, descending)) = &self.order {
            chosen.sort_by(|one, other| {
                let order = compare(&one.value()[field], &other.value()[field]);
                let order = order.unwrap_or(Ordering::Equal);
                if *descending { order.reverse() } else { order }
            });
        }
        chosen
    }
}

fn bad(reason: &str) -> Box<Response> {
    let refusal = refusal(StatusCode::BAD_REQUEST, Some("X-Filter"), reason);
    Box::new(refusal)
}

fn permitted<'a>(field: &'a str, fields: &[&str]) -> Result<&'a str, Box<Response>> {
    if fields.contains(&field) {
        Ok(field)
    } else {
        Err(bad(&format!("Cannot filter on {field}")))
    }
}

fn conditions(
    object: &Map<String, Value>,
    fields: &[&str],
) -> Result<Vec<Condition>, Box<Response>> {
    let mut found = Vec::new();
    for (key, value) in object {
        if key == "+or" || key == "+and" {
            let Value::Array(parts) = value else {
                return Err(bad(&format!("{key} needs a list")));
            };
            let parts = parts.iter().map(|part| match part {
                Value::Object(part) => conditions(part, fields),
                _ => Err(bad(&format!("{key} needs a list of objects"))),
            });
            let parts = parts.collect::<Result<Vec<_>, _>>()?;
            found.push(if key == "+or" {
                Condition::Any(parts)
            } else {
                Condition::All(parts)
            });
            continue;
        }
        let field = permitted(key, fields)?;
        let Value::Object(operations) = value else {
            found.push(Condition::Field(
                field.to_owned(),
                Operator::Eq,
                value.clone(),
            ));
            continue;
        };
        for (name, value) in operations {
            let operator =
                Operator::of(name).ok_or_else(|| bad(&format!("Unknown operator {name}")))?;
            found.push(Condition::Field(field.to_owned(), operator, value.clone()));
        }
    }
    Ok(found)
}

fn hold(conditions: &[Condition], row: &Value) -> bool {
    conditions.iter().all(|condition| match condition {
        Condition::Any(parts) => parts.iter().any(|part| hold(part, row)),
        Condition::All(parts) => parts.iter().all(|part| hold(part, row)),
        Condition::Field(field, operator, wanted) => field_holds(&row[field], *operator, wanted),
    })
}

/// Of a list any element may hold; a number is also wanted by a list of numbers in a text.
fn field_holds(found: &Value, operator: Operator, wanted: &Value) -> bool {
    if let Value::Array(elements) = found {
        let any = |operator| elements.iter().any(|e| field_holds(e, operator, wanted));
        return match operator {
            Operator::Neq => !any(Operator::Eq),
            other => any(other),
        };
    }
    let order = compare(found, wanted);
    match operator {
        Operator::Eq => is(found, wanted),
        Operator::Neq => !is(found, wanted),
        Operator::Gt => order == Some(Ordering::Greater),
        Operator::Gte => order.is_some_and(Ordering::is_ge),
        Operator::Lt => order == Some(Ordering::Less),
        Operator::Lte => order.is_some_and(Ordering::is_le),
        Operator::Contains => match (found.as_str(), wanted.as_str()) {
            (Some(found), Some(wanted)) => found.contains(wanted),
            _ => false,
        },
    }
}

fn is(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Number(number), Value::String(text)) => {
            let number = number.to_string();
            text.split(',').any(|one| one.trim() == number)
        }
        _ => found == wanted,
    }
}

fn compare(found: &Value, wanted: &Value) -> Option<Ordering> {
    match (found, wanted) {
        (Value::Number(found), Value::Number(wanted)) => {
            found.as_f64()?.partial_cmp(&wanted.as_f64()?)
        }
        (Value::String(found), Value::String(wanted)) => Some(found.cmp(wanted)),
        _ => None,
    }
}
