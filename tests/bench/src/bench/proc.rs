//! What the kernel says of programs: memory, processor time, connections.

use std::fs;
use std::net::SocketAddrV4;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// In which the kernel counts a process's time: `USER_HZ`, the same on every machine.
const TICK: Duration = Duration::from_millis(10);

/// A connection that is open, in `/proc/net/tcp`.
const ESTABLISHED: &str = "01";

/// Memory in KiB: what is resident now (`VmRSS`), or was at most (`VmHWM`).
pub(crate) fn memory_kib(pid: u32, what: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(what));
    let number = line.and_then(|rest| rest.trim_matches([':', ' ', '\t', 'k', 'B']).parse().ok());
    number.with_context(|| format!("{path} has no {what}"))
}

/// The processor time that a program has used since it started.
pub(crate) fn processor_time(pid: u32) -> Result<Duration> {
    let (own, of_kernel) = processor_times(pid)?;
    Ok(own + of_kernel)
}

/// The processor time that a program's own code has used since it started, and that of the kernel on
/// its behalf.
pub(crate) fn processor_times(pid: u32) -> Result<(Duration, Duration)> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    // The name, in parentheses, may hold anything; behind it, user and system time are 12th and 13th.
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let mut times = behind.split_whitespace().skip(11).map(|text| {
        let ticks: Option<u32> = text.parse().ok();
        ticks.map(|ticks| TICK * ticks)
    });
    let both = times.next().flatten().zip(times.next().flatten());
    both.with_context(|| format!("{path} has no times"))
}

/// Of the time of all processors since the machine started: what its hypervisor gave to others, and
/// all of it.
pub(crate) fn stolen_time() -> Result<(Duration, Duration)> {
    let stat = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
    let all = stat.lines().next().unwrap_or_default();
    // user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in these.
    let columns = all.split_whitespace().skip(1).take(8);
    let ticks: Vec<u64> = columns.map_while(|text| text.parse().ok()).collect();
    let [_, _, _, _, _, _, _, steal] = ticks.as_slice() else {
        bail!("the first line of /proc/stat is {all:?}");
    };
    let time = |ticks: u64| Duration::from_secs_f64(ticks as f64 * TICK.as_secs_f64());
    Ok((time(*steal), time(ticks.iter().sum())))
}

/// How many connections from here to this address are open.
pub(crate) fn connections_to(address: SocketAddrV4) -> Result<usize> {
    let table = fs::read_to_string("/proc/net/tcp").context("reading /proc/net/tcp")?;
    let ip = u32::from_ne_bytes(address.ip().octets());
    let wanted = format!("{ip:08X}:{:04X}", address.port());
    let is_open = |line: &&str| {
        let mut columns = line.split_whitespace().skip(2);
        columns.next() == Some(&wanted) && columns.next() == Some(ESTABLISHED)
    };
    Ok(table.lines().filter(is_open).count())
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn this_program_is_read() {
        let pid = std::process::id();
        let resident = memory_kib(pid, "VmRSS").unwrap();
        assert!(resident > 100 && memory_kib(pid, "VmHWM").unwrap() >= resident / 2);
        assert!(memory_kib(pid, "VmNothing").is_err());
        let began = processor_time(pid).unwrap();
        while processor_time(pid).unwrap() < began + TICK * 2 {}
        let (stolen, all) = stolen_time().unwrap();
        assert!(stolen < all && all > processor_time(pid).unwrap());
    }

    #[test]
    fn connections_are_counted_at_the_side_that_made_them() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let SocketAddr::V4(address) = listener.local_addr().unwrap() else {
            panic!("an IPv4 address was asked for")
        };
        assert_eq!(connections_to(address).unwrap(), 0);
        let _connections = [(); 3].map(|()| TcpStream::connect(address).unwrap());
        assert_eq!(connections_to(address).unwrap(), 3);
    }
}
