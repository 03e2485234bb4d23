//! Figures that the docs speak of.

use std::fmt::Display;
use std::io::Write as _;
use std::time::Duration;

/// What a line with a figure begins with.
const MARK: &str = "FIGURE";

/// Prints a figure so that it is seen also when the test passes: the test harness keeps back what
/// `println!` prints.
pub fn figure(what: &str, value: impl Display) {
    show(&format!("{MARK} {what}: {value}"));
}

/// [`figure`] of a time, in milliseconds.
pub fn figure_time(what: &str, took: Duration) {
    figure(what, format_args!("{} ms", took.as_millis()));
}

/// Passes on a line of a test that ran elsewhere, if it is a figure. Says whether it was one.
pub fn pass_on(line: &str) -> bool {
    let is_figure = line.starts_with(MARK);
    if is_figure {
        show(line);
    }
    is_figure
}

// The harness may have begun a line: `test name ... `.
fn show(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // Without a standard output there is nobody to see it.
    let _ = write!(stdout, "\n{line}\n").and_then(|()| stdout.flush());
}
