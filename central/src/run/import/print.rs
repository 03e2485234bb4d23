//! What is printed: L2Networks as YAML, and for people the findings and a table of Services.

use std::fmt::Write as _;

use mooring_common::l2_network::L2Network;
use serde_json::Value;

use super::finding::Findings;
use super::services::{After, Row};

const COLUMNS: [&str; 4] = ["SERVICE", "ADDRESS NOW", "AFTER", "FROM"];

/// All L2Networks, each a YAML document, below the findings as comments.
///
/// # Errors
/// If one cannot be written as YAML.
pub(super) fn yaml(networks: &[L2Network], findings: &Findings) -> anyhow::Result<String> {
    let mut text = String::new();
    for finding in findings.sorted() {
        let _ = writeln!(text, "# {finding}");
    }
    for network in networks {
        let mut value = serde_json::to_value(network)?;
        if let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) {
            spec.retain(|_, field| field.as_array().is_none_or(|list| !list.is_empty()));
        }
        let _ = write!(text, "---\n{}", serde_norway::to_string(&value)?);
    }
    Ok(text)
}

/// The findings, one in a line, and the table.
pub(super) fn report(rows: &[Row], findings: &Findings) -> String {
    let mut text = String::new();
    for finding in findings.sorted() {
        let _ = writeln!(text, "{finding}");
    }
    if !findings.sorted().is_empty() {
        text.push('\n');
    }
    let mut lines = vec![COLUMNS.map(ToOwned::to_owned)];
    lines.extend(rows.iter().map(cells));
    let mut widths = [0; COLUMNS.len()];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for line in &lines {
        let cells = line.iter().zip(widths);
        let padded: String = cells
            .map(|(cell, width)| format!("{cell:width$}  "))
            .collect();
        let _ = writeln!(text, "{}", padded.trim_end());
    }
    text
}

fn cells(row: &Row) -> [String; 4] {
    let all: Vec<_> = row.now.iter().map(ToString::to_string).collect();
    let now = if all.is_empty() {
        "none".to_owned()
    } else {
        all.join(",")
    };
    let (after, from) = match &row.after {
        After::Kept { network, pools } => {
            (now.clone(), format!("{network}, pool {}", pools.join(" ")))
        }
        After::Allocated => ("one is allocated".to_owned(), String::new()),
        After::Left(reason) => ("NOT KEPT".to_owned(), reason.clone()),
    };
    [row.service.clone(), now, after, from]
}
