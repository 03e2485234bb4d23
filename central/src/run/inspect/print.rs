//! Texts for people and for machines.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::IsTerminal as _;

use anstyle::{AnsiColor, Color, Style as Ansi};
use jiff::Timestamp;
use serde::Serialize;

use super::flags::Output;

/// How text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    /// With colours.
    pub(super) colours: bool,
    /// With more columns.
    pub(super) wide: bool,
}

/// What a text means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tone {
    #[default]
    Plain,
    Title,
    Good,
    Warning,
    Bad,
}

impl Style {
    /// With colours on a terminal, unless `NO_COLOR` says otherwise.
    pub(super) fn of_standard_output(output: Output) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        Self::new(output, is_terminal, |name| std::env::var_os(name))
    }

    fn new(output: Output, is_terminal: bool, env: impl Fn(&str) -> Option<OsString>) -> Self {
        let refused = env("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = env("TERM").is_some_and(|term| term == "dumb");
        Self {
            colours: is_terminal && !refused && !is_dumb,
            wide: output == Output::Wide,
        }
    }

    pub(super) fn paint(self, tone: Tone, text: &str) -> String {
        let colour = |colour| Ansi::new().fg_color(Some(Color::Ansi(colour)));
        let style = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Title => Ansi::new().bold(),
            Tone::Good => colour(AnsiColor::Green),
            Tone::Warning => colour(AnsiColor::Yellow),
            Tone::Bad => colour(AnsiColor::Red),
        };
        match self.colours {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        }
    }
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self {
            text: text.into(),
            tone,
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// Columns as wide as their longest cell; the last is as long as it is.
pub(super) fn table(style: Style, header: &[&str], rows: &[Vec<Cell>]) -> String {
    let length = |text: &str| text.chars().count();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let longest = cells.map(|cell| length(&cell.text)).max();
        let title = header.get(column).map_or(0, |title| length(title));
        longest.unwrap_or_default().max(title)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let titles: Vec<Cell> = header
        .iter()
        .map(|title| Cell::new(*title, Tone::Title))
        .collect();
    let mut text = String::new();
    for row in std::iter::once(&titles).chain(rows) {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let shown = if cell.text.is_empty() {
                "-"
            } else {
                &cell.text
            };
            text.push_str(&style.paint(cell.tone, shown));
            if column + 1 < row.len() {
                let gap = width.saturating_sub(length(shown)) + 2;
                text.extend(std::iter::repeat_n(' ', gap));
            }
        }
        text.push('\n');
    }
    text
}

/// The value as the flag `--output` asks for it.
///
/// # Errors
/// If it cannot be written as JSON or YAML.
pub(super) fn text_of(
    value: &impl Serialize,
    output: Output,
    text: impl FnOnce() -> String,
) -> anyhow::Result<String> {
    Ok(match output {
        Output::Text | Output::Wide => text(),
        Output::Json => serde_json::to_string_pretty(value)?,
        Output::Yaml => serde_norway::to_string(value)?,
    })
}

/// How long ago that was, in one unit: `3d`, `5h`, `12m`, `40s`.
pub(super) fn age(now: Timestamp, then: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A heading above a part of a text.
pub(super) fn heading(text: &mut String, style: Style, title: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(text, "{}", style.paint(Tone::Title, title));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let rows = [
            vec!["a".into(), Cell::new("True", Tone::Good), "".into()],
            vec!["longer".into(), "no".into(), "rest".into()],
        ];
        let plain = table(Style::default(), &["NAME", "OK", "LAST"], &rows);
        assert_eq!(
            plain,
            "NAME    OK    LAST\na       True  -\nlonger  no    rest\n"
        );
        let colours = Style {
            colours: true,
            wide: false,
        };
        let painted = table(colours, &["NAME", "OK", "LAST"], &rows);
        assert!(painted.contains("\u{1b}[32mTrue\u{1b}[0m  "), "{painted:?}");
    }

    #[test]
    fn colours_are_for_terminals_that_want_them() {
        for (is_terminal, variable, value, colours) in [
            (true, "TERM", "xterm", true),
            (false, "TERM", "xterm", false),
            (true, "TERM", "dumb", false),
            (true, "NO_COLOR", "1", false),
            (true, "NO_COLOR", "", true),
        ] {
            let env = |name: &str| (name == variable).then(|| value.into());
            let style = Style::new(Output::Text, is_terminal, env);
            assert_eq!(style.colours, colours, "{is_terminal} {variable}={value}");
            assert!(!style.wide);
        }
        assert!(Style::new(Output::Wide, false, |_| None).wide);
    }

    #[test]
    fn age_has_one_unit() {
        let then: Timestamp = "2026-11-25T22:00:00Z".parse().unwrap();
        for (later, expected) in [
            ("2026-11-25T21:00:00Z", "0s"),
            ("2026-11-25T22:01:59Z", "119s"),
            ("2026-11-25T22:30:00Z", "30m"),
            ("2026-11-26T22:00:00Z", "24h"),
            ("2026-11-30T22:00:00Z", "5d"),
        ] {
            assert_eq!(age(later.parse().unwrap(), then), expected);
        }
    }
}
