//! The table at the end: its columns are as wide as a terminal has room for, and words wrap.

use super::super::console::{Console, Ink};
use super::Attack;

const HEADS: [&str; 4] = ["who", "what was tried", "before", "now"];
const WIDTHS: [usize; 4] = [16, 32, 36, 50];

/// One attack, and how it was withstood.
pub(super) struct Row {
    pub(super) attack: Attack,
    pub(super) now: String,
}

pub(super) fn draw(console: &Console, rows: &[Row]) -> String {
    let mut lines = vec![console.paint(Ink::Bold, &line(HEADS.map(ToOwned::to_owned)))];
    let mut last = "";
    for Row { attack, now } in rows {
        // Of several in a row, the first says who.
        let who = if attack.who == last { "" } else { attack.who };
        last = attack.who;
        lines.extend(wrapped([who, attack.tried, attack.before, now]));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// A row, in as many lines as its longest cell needs.
fn wrapped(cells: [&str; 4]) -> Vec<String> {
    let mut widths = WIDTHS.into_iter();
    let columns = cells.map(|cell| wrap(cell, widths.next().unwrap_or_default()));
    let lines = columns.iter().map(Vec::len).max().unwrap_or_default();
    let cell = |column: &Vec<String>, at: usize| column.get(at).cloned().unwrap_or_default();
    let rows = (0..lines).map(|at| line(columns.each_ref().map(|column| cell(column, at))));
    std::iter::once(String::new()).chain(rows).collect()
}

fn line(cells: [String; 4]) -> String {
    let cells: Vec<String> = cells
        .iter()
        .zip(WIDTHS)
        .map(|(cell, width)| format!("{cell:<width$}"))
        .collect();
    cells.join("  ").trim_end().to_owned()
}

/// The text in lines of at most so many letters, where its words permit.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(last) if last.chars().count() + 1 + word.chars().count() <= width => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_wrap_and_a_long_one_stands_alone() {
        let lines = wrap("writes mooring.dev/allocated-addresses on it", 12);
        assert_eq!(
            lines,
            ["writes", "mooring.dev/allocated-addresses", "on it"]
        );
    }

    #[test]
    fn a_row_has_the_lines_of_its_longest_cell() {
        let rows = wrapped(["a tenant", "asks", "got it", &"refused ".repeat(12)]);
        assert_eq!(rows.len(), 1 + 2, "{rows:?}");
        assert!(rows[2].trim_start().starts_with("refused"), "{rows:?}");
    }
}
