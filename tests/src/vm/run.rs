//! One run of a program in a VM.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{MARKER, Machine, SHARED, image};
use crate::figures;
use crate::process::{spawn_tied, tail};
use crate::scratch::Scratch;

/// How many VMs run at once: each keeps more than one processor busy.
const AT_ONCE: usize = 2;
/// How often a VM is started that ends before its program began: on a busy machine the kernel may find
/// that its emulated clocks do not keep up, and give up.
const STARTS: u32 = 3;
/// How much of the kernel's log is shown when a VM fails.
const LOG_LINES: usize = 30;

/// How a run has ended.
pub(super) struct Ended {
    /// The program's exit code.
    pub(super) code: i32,
    /// The folder that the VM shared.
    pub(super) shared: Scratch,
}

/// Runs a command in a VM; its output is printed as it comes. `began` says by the shared folder whether
/// the command has begun.
pub(super) fn run(
    machine: Machine,
    command: &[&str],
    began: impl Fn(&Path) -> bool,
) -> Result<Ended> {
    let mut starts = 1;
    loop {
        match run_once(machine, command)? {
            Outcome::Ended(ended) => return Ok(ended),
            Outcome::Crashed { shared, log } => {
                if began(shared.path()) || starts == STARTS {
                    bail!("the VM ended before the test did; its log ends:\n{log}");
                }
                println!("the VM did not start; once more. Its log ends:\n{log}");
            }
        }
        starts += 1;
    }
}

enum Outcome {
    Ended(Ended),
    Crashed { shared: Scratch, log: String },
}

fn run_once(machine: Machine, command: &[&str]) -> Result<Outcome> {
    let image = image::image()?;
    let shared = Scratch::new("vm")?;
    fs::write(shared.join("start"), script(machine, image, command)?)?;
    let _turn = Turn::take();
    let log = shared.join("kernel.log");
    let mut qemu = qemu(machine, image, shared.path(), &log);
    let mut child = spawn_tied(qemu_tied(&mut qemu)).context(
        "starting qemu-system-x86_64; run tests/install-packages.sh as an administrator once",
    )?;
    let output = child.stdout.take().context("the VM's output")?;
    let child = Arc::new(Mutex::new(child));
    let timer = Timer::start(Arc::clone(&child), machine.limit);
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches('\r');
        // Printed by this thread, so that the test harness shows it only when it should.
        if !figures::pass_on(line) {
            println!("{line}");
        }
    }
    lock(&child).wait()?;
    let too_long = timer.stop();
    let show_log = || {
        let text = fs::read(&log).unwrap_or_default();
        tail(&String::from_utf8_lossy(&text), LOG_LINES)
    };
    if too_long {
        bail!(
            "the VM took longer than {:?}; its log ends:\n{}",
            machine.limit,
            show_log()
        );
    }
    let code = fs::read_to_string(shared.join("code"));
    let Ok(code) = code else {
        let log = show_log();
        return Ok(Outcome::Crashed { shared, log });
    };
    let code = code.trim().parse().context("the exit code")?;
    Ok(Outcome::Ended(Ended { code, shared }))
}

fn qemu(machine: Machine, image: &Path, shared: &Path, log: &Path) -> Command {
    let mut qemu = Command::new("qemu-system-x86_64");
    // Never with KVM: where it is offered it may not work, and figures would differ by machine.
    qemu.args([
        "-accel",
        "tcg,thread=multi",
        "-machine",
        "q35",
        "-cpu",
        "max",
    ])
    .args(["-smp", "2", "-m", &machine.memory.to_string()])
    .args([
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
    ])
    .arg("-kernel")
    .arg(image.join("vmlinux"))
    .arg("-initrd")
    .arg(image.join("initrd"))
    .args([
        "-append",
        "console=ttyS1 reboot=t panic=-1 mitigations=off no_timer_check",
    ])
    .args(["-serial", "stdio", "-serial"])
    .arg(format!("file:{}", log.display()))
    .args(["-virtfs", &share(Path::new("/"), "root", ",readonly=on")])
    .args(["-virtfs", &share(shared, "shared", "")]);
    qemu
}

fn share(folder: &Path, tag: &str, more: &str) -> String {
    let folder = folder.display();
    format!("local,path={folder},mount_tag={tag},security_model=none,multidevs=remap{more}")
}

/// The command under `setpriv`, so that it ends with this program, with its output as a pipe.
fn qemu_tied(qemu: &mut Command) -> Command {
    let mut tied = Command::new("setpriv");
    tied.args(["--pdeathsig", "KILL", "--"])
        .arg(qemu.get_program())
        .args(qemu.get_args())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    tied
}

/// What the VM runs as its first program.
fn script(machine: Machine, image: &Path, command: &[&str]) -> Result<String> {
    let folder = std::env::current_dir()?;
    let mut script = Vec::new();
    let modules = image.join("lib/modules");
    writeln!(
        script,
        "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root\n\
         export {MARKER}=1 RUST_BACKTRACE=1 TMPDIR=/run/tmp\n\
         exec </dev/null >/dev/ttyS0 2>&1\n\
         stty raw -F /dev/ttyS0\n\
         mkdir -p /run/netns /run/tmp /lib/modules\n\
         ln -sfn {modules}/$(uname -r) /lib/modules/$(uname -r)\n\
         ip link set lo up",
        modules = quote(&modules.display().to_string()),
    )?;
    for module in machine.modules {
        writeln!(script, "modprobe {module} || echo 'no module {module}'")?;
    }
    for module in machine.without {
        writeln!(script, "mkdir -p /etc/modprobe.d")?;
        writeln!(
            script,
            "echo 'install {module} /bin/false' >>/etc/modprobe.d/without.conf"
        )?;
    }
    let command: Vec<_> = command.iter().map(|argument| quote(argument)).collect();
    writeln!(
        script,
        "cd {}\n{}\necho $? >{SHARED}/code\nsync\nexec /run/busybox reboot -f",
        quote(&folder.display().to_string()),
        command.join(" ")
    )?;
    Ok(String::from_utf8(script)?)
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Ends a VM that takes too long.
struct Timer {
    ended: Arc<(Mutex<bool>, Condvar)>,
    thread: std::thread::JoinHandle<bool>,
}

impl Timer {
    fn start(child: Arc<Mutex<Child>>, limit: Duration) -> Self {
        let ended = Arc::new((Mutex::new(false), Condvar::new()));
        let until = Instant::now() + limit;
        let thread = std::thread::spawn({
            let ended = Arc::clone(&ended);
            move || {
                let (flag, condition) = &*ended;
                let flag = lock(flag);
                let left = until.saturating_duration_since(Instant::now());
                let waited = condition.wait_timeout_while(flag, left, |ended| !*ended);
                let (flag, _) = waited.unwrap_or_else(PoisonError::into_inner);
                if *flag {
                    return false;
                }
                // It may have ended by itself at this moment.
                let _ = lock(&child).kill();
                true
            }
        });
        Self { ended, thread }
    }

    /// Whether it was too long.
    fn stop(self) -> bool {
        *lock(&self.ended.0) = true;
        self.ended.1.notify_all();
        self.thread.join().unwrap_or(false)
    }
}

/// The right to run a VM.
struct Turn;

static RUNNING: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

impl Turn {
    fn take() -> Self {
        let running = lock(&RUNNING);
        let waited = FREED.wait_while(running, |running| *running >= AT_ONCE);
        *waited.unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *lock(&RUNNING) -= 1;
        FREED.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_a_shell_would_read_is_quoted() {
        assert_eq!(super::quote("it's $HOME"), r"'it'\''s $HOME'");
    }
}
