//! A picture of all repetitions: a dot for each, on a scale that grows tenfold at each step, beside
//! what was measured of others.

use std::fmt::Write as _;

use super::rows::{Peer, Row};
use super::table::Table;
use mooring_test_netlab::failover::{Seen, millis};

/// Sizes, in the units of the picture.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 300.0;
const RIGHT: f64 = 930.0;
const TOP: f64 = 92.0;
const ROW: f64 = 50.0;
const DOT: f64 = 2.6;

/// The scale: nothing at all has a place of its own, left of the first step.
const ZERO: f64 = LEFT + 24.0;
const FIRST: f64 = LEFT + 60.0;
const LEAST: f64 = 10.0;
const MOST: f64 = 100_000.0;

/// Readable on light and on dark pages.
const STYLE: &str = "text{font:13px sans-serif;fill:#24292f}.small{font-size:11px}.faint{fill:#57606a}\
.line{stroke:#d0d7de}.own{fill:#0969da;fill-opacity:.75}.bound{stroke:#1a7f37;stroke-width:2}\
.peer0{stroke:#bc4c00;fill:#bc4c00}.peer1{stroke:#8250df;fill:#8250df}.peer2{stroke:#bf3989;fill:#bf3989}\
.span{stroke-width:2}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.faint{fill:#9198a1}.line{stroke:#3d444d}\
.own{fill:#58a6ff}.bound{stroke:#3fb950}.peer0{stroke:#f0883e;fill:#f0883e}\
.peer1{stroke:#bc8cff;fill:#bc8cff}.peer2{stroke:#f778ba;fill:#f778ba}}";

const PEERS: [&str; 3] = ["MetalLB", "kube-vip 15/10/2", "kube-vip 5/3/1"];

fn x(ms: u64) -> f64 {
    if ms == 0 {
        return ZERO;
    }
    let ms = f64::from(u32::try_from(ms).unwrap_or(u32::MAX)).clamp(LEAST, MOST);
    FIRST + (ms / LEAST).log10() / (MOST / LEAST).log10() * (RIGHT - FIRST)
}

/// Draws it.
pub(super) fn draw(table: &Table) -> String {
    let rows = table.rows();
    let height = TOP + ROW * rows.len() as f64 + 40.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"Outages by kind of failure\">\n<style>{STYLE}</style>\n"
    );
    // Writing to a string does not fail, here and below.
    let _ = legend(&mut svg);
    let _ = axis(&mut svg, height);
    for (index, row) in rows.iter().enumerate() {
        let y = TOP + ROW * (index as f64 + 0.5);
        let _ = strip(&mut svg, row, &table.of(row), y);
    }
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String) -> std::fmt::Result {
    writeln!(
        svg,
        "<text x=\"12\" y=\"24\">What users notice, in milliseconds: each dot is one failure</text>"
    )?;
    writeln!(
        svg,
        "<circle class=\"own\" cx=\"18\" cy=\"44\" r=\"{DOT}\"/><text class=\"small\" x=\"28\" y=\"48\">\
         Mooring</text><line class=\"bound\" x1=\"96\" y1=\"37\" x2=\"96\" y2=\"51\"/>\
         <text class=\"small\" x=\"104\" y=\"48\">wanted at most</text>"
    )?;
    for (index, name) in PEERS.iter().enumerate() {
        let at = 210.0 + 150.0 * index as f64;
        let peer = Peer {
            name,
            p50: 0,
            max: None,
            two: "",
        };
        mark(svg, index, &peer, at, at, 44.0)?;
        writeln!(
            svg,
            "<text class=\"small\" x=\"{}\" y=\"48\">{name}: half, worst</text>",
            at + 10.0
        )?;
    }
    Ok(())
}

fn axis(svg: &mut String, height: f64) -> std::fmt::Result {
    let bottom = height - 34.0;
    let ticks = [
        (0, "0"),
        (10, "10"),
        (100, "100"),
        (1_000, "1 s"),
        (10_000, "10 s"),
        (100_000, "100 s"),
    ];
    for (ms, text) in ticks {
        let x = x(ms);
        writeln!(
            svg,
            "<line class=\"line\" x1=\"{x:.1}\" y1=\"{}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\
             <text class=\"small faint\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{}\">{text}</text>",
            TOP - 8.0,
            bottom + 18.0
        )?;
    }
    Ok(())
}

fn strip(svg: &mut String, row: &Row, all: &[&Seen], y: f64) -> std::fmt::Result {
    let what = match row.shown {
        super::Metric::Outage => "packets lost by a client",
        super::Metric::Dark => "no answer to a new neighbour",
    };
    writeln!(
        svg,
        "<text x=\"12\" y=\"{:.1}\">{}</text><text class=\"small faint\" x=\"12\" y=\"{:.1}\">{what}, n = {}</text>",
        y - 3.0,
        row.name,
        y + 12.0,
        all.len()
    )?;
    if let Some(bound) = row.bounds.iter().find(|bound| bound.metric == row.shown) {
        let x = x(bound.max);
        writeln!(
            svg,
            "<line class=\"bound\" x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\"/>",
            y - 14.0,
            y + 4.0
        )?;
    }
    let mut sorted: Vec<u64> = all.iter().map(|seen| millis(row.shown.of(seen))).collect();
    sorted.sort_unstable();
    for (index, ms) in sorted.iter().enumerate() {
        // Side by side, so that many equal ones are seen as many.
        let shift = (index % 7) as f64 * 2.6 - 12.0;
        let aside = if *ms == 0 {
            (index / 7) as f64 * 3.0 - 8.0
        } else {
            0.0
        };
        writeln!(
            svg,
            "<circle class=\"own\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{DOT}\"/>",
            x(*ms) + aside,
            y + shift
        )?;
    }
    for (index, name) in PEERS.iter().enumerate() {
        if let Some(peer) = row.peers.iter().find(|peer| peer.name == *name) {
            let worst = x(peer.max.unwrap_or(peer.p50));
            mark(
                svg,
                index,
                peer,
                x(peer.p50),
                worst,
                y + 9.0 + 5.0 * index as f64,
            )?;
        }
    }
    Ok(())
}

/// A diamond at the median, and a line to the worst.
fn mark(
    svg: &mut String,
    index: usize,
    peer: &Peer,
    p50: f64,
    worst: f64,
    y: f64,
) -> std::fmt::Result {
    writeln!(
        svg,
        "<g class=\"peer{index}\"><title>{}: {} / {}</title><path d=\"M{:.1} {y:.1}l4 -4l4 4l-4 4z\"/>\
         <line class=\"span\" x1=\"{p50:.1}\" y1=\"{y:.1}\" x2=\"{worst:.1}\" y2=\"{y:.1}\"/></g>",
        peer.name,
        peer.p50,
        peer.max
            .map_or_else(|| "not known".to_owned(), |max| max.to_string()),
        p50 - 4.0,
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::rows::ROWS;
    use super::*;

    #[test]
    fn each_repetition_is_a_dot_and_each_peer_a_mark() {
        let mut table = Table::default();
        for ms in [0, 350, 360, 2_000_000] {
            let outage = Duration::from_millis(ms);
            table.add(
                &ROWS[0],
                Seen {
                    outage,
                    ..Seen::default()
                },
            );
        }
        let svg = draw(&table);
        // One more of each in the legend.
        assert_eq!(svg.matches("<circle").count(), 4 + 1);
        assert_eq!(svg.matches("<path").count(), 3 + 3);
        assert_eq!(svg.matches("class=\"bound\"").count(), 1 + 1);
        assert!(x(2_000_000) <= RIGHT && x(1) >= FIRST && x(0) < x(1));
        assert!(x(500) < x(5_743));
    }
}
