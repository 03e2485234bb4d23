//! Pages of a listing.

use axum::response::Response;
use http::StatusCode;

use super::answers::{error, ok, refusal};
use crate::rows::{Row, array};

const DEFAULT_SIZE: usize = 100;
const SMALLEST: usize = 25;
const LARGEST: usize = 500;

/// The page of these rows that is asked for.
pub(super) fn page(rows: &[&Row], query: &[(String, String)]) -> Response {
    match read(query) {
        Err(refusal) => *refusal,
        Ok((page, size)) => {
            let pages = rows.len().div_ceil(size).max(1);
            if page > pages {
                return error(StatusCode::NOT_FOUND);
            }
            let shown = rows.iter().skip((page - 1) * size).take(size).copied();
            let (data, results) = (array(shown), rows.len());
            ok(format!(
                r#"{{"data":{data},"page":{page},"pages":{pages},"results":{results}}}"#
            ))
        }
    }
}

fn read(query: &[(String, String)]) -> Result<(usize, usize), Box<Response>> {
    let number = |name: &str, default: usize, permitted: std::ops::RangeInclusive<usize>| {
        let Some((_, text)) = query.iter().find(|(key, _)| key == name) else {
            return Ok(default);
        };
        let number = text.parse().ok().filter(|n| permitted.contains(n));
        number.ok_or_else(|| {
            let (from, to) = permitted.into_inner();
            let reason = if to == usize::MAX {
                format!("Must be at least {from}")
            } else {
                format!("Must be {from}-{to}")
            };
            Box::new(refusal(StatusCode::BAD_REQUEST, Some(name), &reason))
        })
    };
    Ok((
        number("page", 1, 1..=usize::MAX)?,
        number("page_size", DEFAULT_SIZE, SMALLEST..=LARGEST)?,
    ))
}
