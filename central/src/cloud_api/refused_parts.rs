//! Parts of a request that a refusal names.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{CloudError, ErrorKind};

/// Takes those parts of wholes out that a refusal names by their places: `configs[0].nodes[2].address`, where `wholes`
/// is `configs` and `parts` is `nodes`. False, and nothing is changed, if none is named, or if a whole is to have no
/// others.
#[must_use]
pub fn leaves_out_refused(
    all: &mut [Value],
    (wholes, parts): (&str, &str),
    error: &CloudError,
) -> bool {
    let words = error.words.as_deref().unwrap_or_default();
    let (before, between) = (format!("{wholes}["), format!("].{parts}["));
    let named = words.split(&*before).filter_map(|text| {
        let (whole, text) = text.split_once(&*between)?;
        let (part, _) = text.split_once(']')?;
        Some((whole.parse().ok()?, part.parse().ok()?))
    });
    let named: BTreeSet<(usize, usize)> = named.collect();
    if named.is_empty() || error.kind != ErrorKind::Invalid {
        return false;
    }
    let mut left = all.to_vec();
    for (whole, part) in named.iter().rev() {
        let there = left.get_mut(*whole).map(|whole| &mut whole[parts]);
        match there.and_then(Value::as_array_mut) {
            Some(there) if there.len() > 1 && *part < there.len() => drop(there.remove(*part)),
            _ => return false,
        }
    }
    all.clone_from_slice(&left);
    true
}

#[cfg(test)]
mod tests;
