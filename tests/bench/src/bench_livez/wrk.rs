//! `wrk`, and what it prints.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use mooring_test_netlab::netlab::Host;

/// How to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// On how many connections at once.
    pub connections: u32,
    /// Whether each request has one of its own.
    pub anew: bool,
}

impl Load {
    pub(super) const fn kept(connections: u32) -> Self {
        Self {
            connections,
            anew: false,
        }
    }

    pub(super) const fn anew(connections: u32) -> Self {
        Self {
            connections,
            anew: true,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Answers.
    pub requests: u64,
    /// How long it took.
    pub took: Duration,
    /// The processor time of who was asked.
    pub processor: Duration,
    /// The 99th percentile of each repetition.
    pub p99: Vec<Duration>,
}

impl Run {
    /// One more repetition.
    pub(super) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.took += other.took;
        self.processor += other.processor;
        self.p99.extend(&other.p99);
    }

    /// Answers per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.requests as f64 / self.took.as_secs_f64()
    }

    /// Answers per second of processor time.
    #[must_use]
    pub fn per_core_second(&self) -> f64 {
        self.requests as f64 / self.processor.as_secs_f64()
    }

    /// The median of the repetitions' 99th percentiles.
    #[must_use]
    pub fn median_p99(&self) -> Duration {
        let mut all = self.p99.clone();
        all.sort();
        all.get(all.len() / 2).copied().unwrap_or_default()
    }
}

/// Asks from the Node itself, by one thread, for as long as that.
pub(super) fn run(node: &Host, load: Load, span: Duration, url: &str) -> Result<Run> {
    let (connections, seconds) = (load.connections.to_string(), span.as_secs().max(1));
    let duration = format!("{seconds}s");
    let mut command = vec![
        "wrk",
        "-t1",
        "--latency",
        "-c",
        &connections,
        "-d",
        &duration,
    ];
    if load.anew {
        command.extend(["-H", "Connection: close"]);
    }
    command.push(url);
    read(&node.run(&command)?).with_context(|| format!("asking {url}"))
}

fn read(text: &str) -> Result<Run> {
    if let Some(errors) = text.lines().find(|line| {
        let line = line.trim_start();
        line.starts_with("Non-2xx") || line.starts_with("Socket errors")
    }) {
        bail!("not all were answered well: {}", errors.trim());
    }
    // "  12345 requests in 5.00s, 1.23MB read"
    let total = text.lines().find(|line| line.contains(" requests in "));
    let (requests, rest) = total
        .and_then(|line| line.trim().split_once(" requests in "))
        .context("wrk has not said how many requests there were")?;
    let took = rest.split(',').next().unwrap_or_default();
    let p99 = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("99%"));
    Ok(Run {
        requests: requests.parse().context("wrk's number of requests")?,
        took: time(took)?,
        processor: Duration::ZERO,
        p99: vec![time(p99.context("wrk has printed no percentiles")?.trim())?],
    })
}

/// `12.34us`, `1.20ms`, `5.00s`, `1.02m`.
fn time(text: &str) -> Result<Duration> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = text
        .trim_end_matches(unit)
        .parse()
        .with_context(|| format!("wrk's time {text:?}"))?;
    let seconds = match unit {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" => number,
        "m" => number * 60.0,
        _ => bail!("wrk's time {text:?} has an unknown unit"),
    };
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "Running 5s test @ http://10.77.0.11:30000/\n\
        \x20 1 threads and 16 connections\n\
        \x20 Thread Stats   Avg      Stdev     Max   +/- Stdev\n\
        \x20   Latency     1.00ms    2.00ms  30.00ms   90.00%\n\
        \x20 Latency Distribution\n\
        \x20    50%  301.00us\n\
        \x20    99%   11.70ms\n\
        \x20 182000 requests in 5.00s, 50.00MB read\n\
        Requests/sec:  36400.00\n";

    #[test]
    fn what_is_printed_is_read() {
        let mut run = read(PRINTED).unwrap();
        run.processor = Duration::from_secs(4);
        assert_eq!(run.requests, 182_000);
        assert_eq!(run.median_p99(), Duration::from_micros(11_700));
        assert!((run.rate() - 36_400.0).abs() < 1.0);
        assert!((run.per_core_second() - 45_500.0).abs() < 1.0);
        let mut twice = run.clone();
        twice.add(&run);
        assert_eq!((twice.requests, twice.p99.len()), (364_000, 2));
        assert!((twice.rate() - run.rate()).abs() < 1.0);
    }

    #[test]
    fn answers_that_are_not_good_do_not_count() {
        let bad = format!("{PRINTED}  Non-2xx or 3xx responses: 7\n");
        assert!(read(&bad).unwrap_err().to_string().contains(": 7"));
        assert!(read("").is_err());
        assert!(time("1h").is_err());
    }
}
