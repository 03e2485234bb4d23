//! The figures of this process, under the names that Prometheus' own clients use.

use std::fmt;
use std::path::{Path, PathBuf};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// `USER_HZ` is part of Linux's interface to programs, and the same on every machine that these are built
/// for.
const TICKS: f64 = 100.0;
/// The fields of `/proc/self/stat` after the name of the program, counted from 0 (proc_pid_stat(5)).
const USER_TIME: usize = 11;
const SYSTEM_TIME: usize = 12;
const THREADS: usize = 17;
const START_TIME: usize = 19;
const VIRTUAL_BYTES: usize = 20;

/// Reads the figures at each scrape.
#[derive(Debug)]
pub(super) struct Process {
    proc: PathBuf,
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Figures {
    cpu: f64,
    resident: u64,
    virtual_bytes: u64,
    threads: u64,
    start: f64,
}

impl Process {
    pub(super) fn own() -> Self {
        Self {
            proc: PathBuf::from("/proc"),
        }
    }

    fn read(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(self.proc.join(file)).ok()
    }

    fn figures(&self) -> Option<Figures> {
        figures(
            &self.read("self/stat")?,
            &self.read("self/status")?,
            &self.read("stat")?,
        )
    }
}

/// Pure: what three files say.
fn figures(stat: &str, status: &str, machine: &str) -> Option<Figures> {
    // The name may have spaces and parentheses in it.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let seconds = |at: usize| number(at).map(|ticks| ticks as f64 / TICKS);
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident: u64 = resident?.split_whitespace().next()?.parse().ok()?;
    let boot = machine.lines().find_map(|line| line.strip_prefix("btime "));
    let boot: f64 = boot?.trim().parse().ok()?;
    Some(Figures {
        cpu: seconds(USER_TIME)? + seconds(SYSTEM_TIME)?,
        resident: resident * 1024,
        virtual_bytes: number(VIRTUAL_BYTES)?,
        threads: number(THREADS)?,
        start: boot + seconds(START_TIME)?,
    })
}

fn descriptors(folder: &Path) -> Option<u64> {
    let open = std::fs::read_dir(folder).ok()?.count();
    // One is that of the folder itself.
    u64::try_from(open).ok().map(|open| open.saturating_sub(1))
}

fn most_descriptors(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|l| l.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut put = |name: &str, help: &str, value: &dyn EncodeMetric| {
            let metric = encoder.encode_descriptor(name, help, None, value.metric_type())?;
            value.encode(metric)
        };
        if let Some(figures) = self.figures() {
            put(
                "process_cpu_seconds",
                "Processor time that the process has used",
                &ConstCounter::new(figures.cpu),
            )?;
            put(
                "process_resident_memory_bytes",
                "Resident memory of the process",
                &ConstGauge::new(figures.resident),
            )?;
            put(
                "process_virtual_memory_bytes",
                "Virtual memory of the process",
                &ConstGauge::new(figures.virtual_bytes),
            )?;
            put(
                "process_threads",
                "Threads of the process",
                &ConstGauge::new(figures.threads),
            )?;
            put(
                "process_start_time_seconds",
                "When the process started, in seconds since 1970",
                &ConstGauge::new(figures.start),
            )?;
        }
        if let Some(open) = descriptors(&self.proc.join("self/fd")) {
            put(
                "process_open_fds",
                "File descriptors that are open",
                &ConstGauge::new(open),
            )?;
        }
        if let Some(most) = self
            .read("self/limits")
            .as_deref()
            .and_then(most_descriptors)
        {
            put(
                "process_max_fds",
                "How many file descriptors may be open",
                &ConstGauge::new(most),
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::registry::Registry;

    #[test]
    fn reads_past_a_name_with_parentheses() {
        let stat = "7 (a) b) S 1 7 7 0 -1 0 10 0 0 0 150 50 0 0 20 0 3 0 1000 4096 9";
        let read = figures(
            stat,
            "Name:\ta\nVmRSS:\t    12 kB\n",
            "cpu 1\nbtime 1700000000\n",
        );
        let expected = Figures {
            cpu: 2.0,
            resident: 12 * 1024,
            virtual_bytes: 4096,
            threads: 3,
            start: 1_700_000_010.0,
        };
        assert_eq!(read, Some(expected));
        assert_eq!(figures("7 (a) S 1", "", ""), None);
        let limits = "Limit  Soft  Hard\nMax open files            1024        4096   files\n";
        assert_eq!(most_descriptors(limits), Some(1024));
    }

    #[test]
    fn tells_of_this_process() {
        let mut registry = Registry::default();
        super::super::register_program(&mut registry, "test");
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("{name}: {text}"))
                .trim()
                .parse::<f64>()
                .unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_open_fds") >= 3.0);
        assert!(value("process_max_fds") > value("process_open_fds"));
        assert!(value("process_cpu_seconds_total") >= 0.0);
        let now = jiff::Timestamp::now().as_second() as f64;
        let start = value("process_start_time_seconds");
        assert!(start > 1.6e9 && start <= now + 1.0, "{start}");
        assert!(
            text.contains("mooring_build_info{program=\"test\",version=\""),
            "{text}"
        );
    }
}
