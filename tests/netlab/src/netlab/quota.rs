//! Less of the processor than a program wants.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use mooring_test_support::process::Process;

/// In which the quota is counted.
const PERIOD: Duration = Duration::from_millis(100);

/// Where the kernel's older interface for quotas is.
const OLD_GROUPS: &str = "/sys/fs/cgroup/cpu";

/// A program that is kept short. It has its fill again when this is dropped.
#[derive(Debug)]
pub enum Quota {
    /// By a control group.
    Group {
        /// Its folder.
        folder: PathBuf,
    },
    /// By stopping and continuing it, where control groups are not to be had.
    Turns {
        /// Ends it.
        stop: Arc<AtomicBool>,
        /// Who stops and continues.
        thread: Option<JoinHandle<()>>,
    },
}

impl Quota {
    /// Lets the program have so many of a hundred of one processor.
    pub fn of(process: &Process, percent: u32) -> Result<Self> {
        let pid = process.pid();
        let folder = Path::new(OLD_GROUPS).join(format!("mooring-{}-{pid}", std::process::id()));
        if fs::create_dir(&folder).is_ok() {
            let group = Self::Group {
                folder: folder.clone(),
            };
            let quota = PERIOD.as_micros() * u128::from(percent) / 100;
            let written = fs::write(folder.join("cpu.cfs_quota_us"), quota.to_string())
                .and_then(|()| fs::write(folder.join("cgroup.procs"), pid.to_string()));
            if written.is_ok() {
                return Ok(group);
            }
        }
        let pid = Pid::from_raw(i32::try_from(pid)?);
        let stop = Arc::new(AtomicBool::new(false));
        let share = PERIOD * percent / 100;
        let thread = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let _ = kill(pid, Signal::SIGSTOP);
                    std::thread::sleep(PERIOD - share);
                    let _ = kill(pid, Signal::SIGCONT);
                    std::thread::sleep(share);
                }
            }
        });
        Ok(Self::Turns {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        match self {
            Self::Group { folder } => {
                // Out of the group first: one that has members stays.
                let members = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
                for member in members.lines() {
                    let _ = fs::write(Path::new(OLD_GROUPS).join("cgroup.procs"), member);
                }
                let _ = fs::remove_dir(folder);
            }
            Self::Turns { stop, thread } => {
                stop.store(true, Ordering::Relaxed);
                if let Some(thread) = thread.take() {
                    let _ = thread.join();
                }
            }
        }
    }
}
