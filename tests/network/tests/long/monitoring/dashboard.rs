//! A dashboard as a picture: its panels where its JSON puts them, with what a Prometheus answers to their queries.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use serde_json::Value;

use super::prometheus::{Prometheus, Series};

/// The width and height of a cell of Grafana's grid.
const CELL: [f64; 2] = [50.0, 30.0];
/// Between a panel and the edge of its cells.
const GAP: f64 = 4.0;
/// Around the plot: left, top, right, bottom. Below it are the times and the legend.
const MARGINS: [f64; 4] = [62.0, 34.0, 14.0, 62.0];
const STEPS: u32 = 150;
const MIB: f64 = 1_048_576.0;
const COLOURS: [&str; 8] = [
    "#3274d9", "#e0752d", "#37872d", "#a352cc", "#c4162a", "#0e8f8f", "#b58900", "#6e7681",
];
const STYLE: &str = "\
text{font:12px sans-serif;fill:#24292f}.title{font-weight:600;font-size:13px}\
.head{font-weight:600;font-size:17px}.faint{fill:#57606a;font-size:11px}\
.value{font-size:30px;font-weight:600;fill:#3274d9;text-anchor:middle}\
.panel{fill:#fff;stroke:#d0d7de}.grid{stroke:#d8dee4}.series{fill:none;stroke-width:1.6}";

/// In seconds since 1970.
pub(super) fn now() -> f64 {
    Timestamp::now().as_millisecond() as f64 / 1e3
}

/// Draws the dashboard of this JSON, with what was between these times, in seconds since 1970.
pub(super) async fn draw(
    dashboard: &Value,
    prometheus: &Prometheus,
    span: [f64; 2],
) -> Result<String> {
    let panels = dashboard["panels"].as_array().context("no panels")?;
    let bottom = |panel: &Value| cell(panel, "y") + cell(panel, "h");
    let height = 40.0 + CELL[1] * panels.iter().map(bottom).fold(0.0, f64::max);
    let width = 24.0 * CELL[0];
    let title = escaped(text(&dashboard["title"]));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"{title}\">\n<style>{STYLE}</style>\n<rect width=\"{width}\" height=\"{height}\" \
         fill=\"#f6f8fa\"/>\n<text class=\"head\" x=\"8\" y=\"26\">{title}</text>\n"
    );
    for panel in panels {
        let plot = Plot::of(panel);
        plot.frame(&mut svg)?;
        let mut all = Vec::new();
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = text(&target["expr"]);
            for series in prometheus.range(query, span, STEPS).await? {
                all.push((legend(text(&target["legendFormat"]), &series), series));
            }
        }
        all.retain(|(_, series)| !series.points.is_empty());
        match text(&panel["type"]) {
            "stat" => plot.values(&mut svg, &all)?,
            _ => plot.lines(&mut svg, &all, span)?,
        }
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn cell(panel: &Value, key: &str) -> f64 {
    panel["gridPos"][key].as_f64().unwrap_or_default()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// `{{label}}` replaced as Grafana does it.
fn legend(format: &str, series: &Series) -> String {
    let mut shown = format.to_owned();
    for (label, value) in &series.labels {
        shown = shown.replace(&format!("{{{{{label}}}}}"), value);
    }
    shown
}

/// A value in the unit of its panel.
fn shown(value: f64, unit: &str) -> String {
    let digits = |value: f64| match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    match unit {
        "s" if value != 0.0 && value.abs() < 1.0 => format!("{} ms", digits(value * 1e3)),
        "s" if value.abs() >= 172_800.0 => format!("{} days", digits(value / 86_400.0)),
        "s" if value.abs() >= 7_200.0 => format!("{} h", digits(value / 3_600.0)),
        "s" => format!("{} s", digits(value)),
        "bytes" => format!("{} MiB", digits(value / MIB)),
        "percentunit" => format!("{} %", digits(value * 100.0)),
        "ops" | "reqps" => format!("{}/s", digits(value)),
        "currencyUSD" => format!("${value:.2}"),
        _ => digits(value),
    }
}

/// The least 1, 2 or 5 times a power of ten of the unit that is not below this.
fn rounded_up(most: f64, unit: &str) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    if unit == "bytes" {
        return MIB * rounded_up(most / MIB, "");
    }
    let power = 10_f64.powf(most.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let found = steps.into_iter().find(|step| step * power >= most * 0.999);
    found.unwrap_or(10.0) * power
}

/// Where a panel is.
struct Plot<'a> {
    title: &'a str,
    unit: &'a str,
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl<'a> Plot<'a> {
    fn of(panel: &'a Value) -> Self {
        Self {
            title: text(&panel["title"]),
            unit: text(&panel["fieldConfig"]["defaults"]["unit"]),
            left: cell(panel, "x") * CELL[0] + GAP,
            top: 40.0 + cell(panel, "y") * CELL[1] + GAP,
            width: cell(panel, "w") * CELL[0] - 2.0 * GAP,
            height: cell(panel, "h") * CELL[1] - 2.0 * GAP,
        }
    }

    fn frame(&self, svg: &mut String) -> std::fmt::Result {
        writeln!(
            svg,
            "<rect class=\"panel\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\"/>\
             <text class=\"title\" x=\"{}\" y=\"{}\">{}</text>",
            self.left,
            self.top,
            self.width,
            self.height,
            self.left + 10.0,
            self.top + 20.0,
            escaped(self.title)
        )
    }

    /// The last value of each series, side by side.
    fn values(&self, svg: &mut String, all: &[(String, Series)]) -> std::fmt::Result {
        let share = self.width / all.len().max(1) as f64;
        for (index, (name, series)) in all.iter().enumerate() {
            let x = self.left + share * (index as f64 + 0.5);
            let value = series.points.last().map_or(0.0, |point| point.1);
            let name = if all.len() > 1 { name.as_str() } else { "" };
            writeln!(
                svg,
                "<text class=\"value\" x=\"{x}\" y=\"{}\">{}</text>\
                 <text class=\"faint\" text-anchor=\"middle\" x=\"{x}\" y=\"{}\">{}</text>",
                self.top + 70.0,
                shown(value, self.unit),
                self.top + 94.0,
                escaped(name)
            )?;
        }
        Ok(())
    }

    fn lines(
        &self,
        svg: &mut String,
        all: &[(String, Series)],
        [from, until]: [f64; 2],
    ) -> std::fmt::Result {
        let [left, top, right, bottom] = MARGINS;
        let (width, height) = (self.width - left - right, self.height - top - bottom);
        let (left, top) = (self.left + left, self.top + top);
        let values = all.iter().flat_map(|(_, series)| &series.points);
        let most = rounded_up(values.map(|point| point.1).fold(0.0, f64::max), self.unit);
        let x = |at: f64| left + (at - from) / (until - from) * width;
        let y = |value: f64| top + height - (value / most).clamp(0.0, 1.0) * height;
        for part in [0.0, 0.5, 1.0] {
            let at = y(most * part);
            writeln!(
                svg,
                "<line class=\"grid\" x1=\"{left}\" y1=\"{at:.1}\" x2=\"{}\" y2=\"{at:.1}\"/>\
                 <text class=\"faint\" text-anchor=\"end\" x=\"{}\" y=\"{:.1}\">{}</text>",
                left + width,
                left - 6.0,
                at + 4.0,
                shown(most * part, self.unit)
            )?;
        }
        for minute in 0.. {
            let at = from + 60.0 * f64::from(minute);
            if at > until {
                break;
            }
            writeln!(
                svg,
                "<text class=\"faint\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{minute} min</text>",
                x(at),
                top + height + 16.0
            )?;
        }
        let gap = 2.5 * (until - from) / f64::from(STEPS);
        for (index, (_, series)) in all.iter().enumerate() {
            let points: Vec<(f64, String)> = series
                .points
                .iter()
                .map(|&(at, value)| (at, format!("{:.1}", y(value))))
                .collect();
            let mut path = String::new();
            for (index, (at, height)) in points.iter().enumerate() {
                let (before, after) = (index.checked_sub(1), points.get(index + 1));
                let before = before.map(|index| &points[index]);
                let before = before.filter(|(earlier, _)| at - earlier <= gap);
                let after = after.filter(|(later, _)| later - at <= gap);
                let is_same =
                    |other: Option<&(f64, String)>| other.is_some_and(|it| it.1 == *height);
                // What lies on a level line adds nothing.
                if !(is_same(before) && is_same(after)) {
                    let command = if before.is_some() { 'L' } else { 'M' };
                    write!(path, "{command}{:.1} {height}", x(*at))?;
                }
            }
            let colour = COLOURS[index % COLOURS.len()];
            writeln!(
                svg,
                "<path class=\"series\" stroke=\"{colour}\" d=\"{path}\"/>"
            )?;
        }
        self.legend(svg, all, top + height + 36.0)
    }

    /// As many names as two rows hold.
    fn legend(&self, svg: &mut String, all: &[(String, Series)], top: f64) -> std::fmt::Result {
        let (mut x, mut y) = (self.left + 14.0, top);
        for (index, (name, _)) in all.iter().enumerate() {
            let width = 30.0 + 6.2 * name.chars().count() as f64;
            if x + width > self.left + self.width {
                (x, y) = (self.left + 14.0, y + 16.0);
            }
            if y > top + 20.0 {
                let more = all.len() - index;
                let x = self.left + self.width - 60.0;
                let y = self.top + 20.0;
                return writeln!(
                    svg,
                    "<text class=\"faint\" x=\"{x}\" y=\"{y}\">+{more} more</text>"
                );
            }
            let colour = COLOURS[index % COLOURS.len()];
            writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"3\" fill=\"{colour}\"/>\
                 <text class=\"faint\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
                y - 5.0,
                x + 14.0,
                escaped(name)
            )?;
            x += width;
        }
        Ok(())
    }
}
