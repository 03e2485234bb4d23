//! VMs, and tests in them.
//!
//! A VM takes long to start, so one that is like any other is kept for the next test. Each test has a
//! network, mounts and processes of its own there, which are gone after it. What was asked and
//! answered goes over the VM's serial line.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{BEGAN, Files, MARKER, Machine, image};
use mooring_test_support::figures;
use mooring_test_support::process::{spawn_tied, tail};
use mooring_test_support::scratch::Scratch;

/// How many VMs work at once: each keeps more than one processor busy.
const AT_ONCE: usize = 2;
/// How often a VM is started that ends before its test began: on a busy machine the kernel may find
/// that its emulated clocks do not keep up, and give up.
const STARTS: u32 = 3;
/// The kernel's log, in the shared folder.
const LOG: &str = "kernel.log";
/// How much of it is shown when a VM fails.
const LOG_LINES: usize = 30;
/// The VM says this when it is ready for a test.
const READY: &str = "::mooring-vm ready";
/// The VM says this when a test has ended, and its exit code.
const ENDED: &str = "::mooring-vm ended ";

/// Runs one test of this program in a VM; its output is printed as it comes.
pub(super) fn run(machine: Machine, test: &str, files: &Files) -> Result<()> {
    let _turn = Turn::take();
    for start in 1.. {
        let mut vm = match Vm::kept(machine) {
            Some(vm) => vm,
            None => Vm::start(machine)?,
        };
        for (name, content) in files {
            fs::write(vm.shared.join(name), content)?;
        }
        match vm.test(test, machine.limit)? {
            Outcome::Passed => {
                if machine == Machine::default() {
                    lock(&KEPT).push(vm);
                }
                break;
            }
            Outcome::Failed(code) => bail!("the test failed in its VM (code {code}); see above"),
            Outcome::DidNotRun => bail!("the test {test} did not run in its VM; see above"),
            Outcome::Crashed { began } => {
                let log = vm.log();
                if began || start == STARTS {
                    bail!("the VM ended before the test did; its log ends:\n{log}");
                }
                println!("the VM ended before the test began; once more. Its log ends:\n{log}");
            }
        }
    }
    Ok(())
}

enum Outcome {
    Passed,
    /// With this exit code.
    Failed(String),
    /// There is no such test.
    DidNotRun,
    Crashed {
        began: bool,
    },
}

/// VMs that wait for their next test.
static KEPT: Mutex<Vec<Vm>> = Mutex::new(Vec::new());

/// A VM that runs. It ends with its last owner, at the latest with this program.
struct Vm {
    child: Arc<Mutex<Child>>,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    shared: Scratch,
}

impl Vm {
    fn kept(machine: Machine) -> Option<Self> {
        let mut kept = lock(&KEPT);
        (machine == Machine::default()).then(|| kept.pop())?
    }

    /// Starts one, and waits until it is ready.
    fn start(machine: Machine) -> Result<Self> {
        let image = image::image()?;
        for start in 1.. {
            let shared = Scratch::new("vm")?;
            fs::write(shared.join("start"), script(machine, image)?)?;
            let mut child = spawn_tied(qemu(machine, image, &shared)).context(
                "starting qemu-system-x86_64; run tests/install-packages.sh as an administrator once",
            )?;
            let mut vm = Self {
                input: child.stdin.take().context("the VM's input")?,
                output: BufReader::new(child.stdout.take().context("the VM's output")?),
                child: Arc::new(Mutex::new(child)),
                shared,
            };
            let mut ready = false;
            vm.read_until(machine.limit, |line| {
                ready = line == READY;
                ready
            })?;
            if ready {
                return Ok(vm);
            }
            let log = vm.log();
            if start == STARTS {
                bail!("the VM does not start; its log ends:\n{log}");
            }
            println!("the VM did not start; once more. Its log ends:\n{log}");
        }
        unreachable!("it has returned before");
    }

    fn test(&mut self, name: &str, limit: Duration) -> Result<Outcome> {
        let mut began = false;
        let mut code = None;
        // If it has ended meanwhile, that is found out by what it says.
        let _ = writeln!(self.input, "{name}").and_then(|()| self.input.flush());
        self.read_until(limit, |line| {
            began |= line == BEGAN;
            code = line.strip_prefix(ENDED).map(str::to_owned);
            code.is_some()
        })?;
        Ok(match code.as_deref() {
            None => Outcome::Crashed { began },
            Some("0") if began => Outcome::Passed,
            Some("0") => Outcome::DidNotRun,
            Some(code) => Outcome::Failed(code.to_owned()),
        })
    }

    /// Prints what the VM says until `last` says so of a line, or the VM has ended.
    fn read_until(&mut self, limit: Duration, mut last: impl FnMut(&str) -> bool) -> Result<()> {
        let timer = Timer::start(Arc::clone(&self.child), limit);
        let mut line = Vec::new();
        while self.output.read_until(b'\n', &mut line)? > 0 {
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches(['\r', '\n']);
            if last(text) {
                break;
            }
            // Printed by this thread, so that the test harness shows it only when it should.
            if !figures::pass_on(text) && text != BEGAN {
                println!("{text}");
            }
            line.clear();
        }
        if timer.stop() {
            let log = self.log();
            bail!("the VM took longer than {limit:?}; its log ends:\n{log}");
        }
        Ok(())
    }

    /// The end of the kernel's log.
    fn log(&self) -> String {
        let text = fs::read(self.shared.join(LOG)).unwrap_or_default();
        tail(&String::from_utf8_lossy(&text), LOG_LINES)
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        let mut child = lock(&self.child);
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// The command under `setpriv`, so that it ends with this program.
fn qemu(machine: Machine, image: &Path, shared: &Scratch) -> Command {
    let mut qemu = Command::new("setpriv");
    qemu.args(["--pdeathsig", "KILL", "--", "qemu-system-x86_64"]);
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
    .arg(format!("file:{}", shared.join(LOG).display()))
    .args(["-virtfs", &share(Path::new("/"), "root", ",readonly=on")])
    .args(["-virtfs", &share(shared.path(), "shared", "")])
    .stdin(Stdio::piped())
    .stdout(Stdio::piped())
    .stderr(Stdio::inherit());
    if machine.reaches_out {
        let card = "virtio-net-pci,netdev=out,mac=52:54:00:00:00:01";
        qemu.args(["-netdev", "user,id=out", "-device", card]);
    }
    qemu
}

fn share(folder: &Path, tag: &str, more: &str) -> String {
    let folder = folder.display();
    format!("local,path={folder},mount_tag={tag},security_model=none,multidevs=remap{more}")
}

/// What the VM runs as its first program.
fn script(machine: Machine, image: &Path) -> Result<String> {
    let folder = std::env::current_dir()?;
    let myself = std::env::current_exe().context("finding this program")?;
    let modules = image.join("lib/modules");
    let mut script = format!(
        "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root\n\
         export {MARKER}=1 RUST_BACKTRACE=1 TMPDIR=/run/tmp\n\
         exec </dev/null >/dev/ttyS0 2>&1\n\
         stty raw -echo -F /dev/ttyS0\n\
         mkdir -p /lib/modules\n\
         ln -sfn {modules}/$(uname -r) /lib/modules/$(uname -r)\n",
        modules = quote(&modules),
    );
    for module in machine.modules {
        script += &format!("modprobe {module} || echo 'no module {module}'\n");
    }
    for module in machine.without {
        script += &format!(
            "mkdir -p /etc/modprobe.d\n\
             echo 'install {module} /bin/false' >>/etc/modprobe.d/without.conf\n"
        );
    }
    let (space, see_own_links) = if machine.whole {
        ("", "")
    } else {
        ("--net", "mount -t sysfs sys /sys")
    };
    script += &format!(
        "cat >/run/in-a-space <<'END'\n\
         {see_own_links}\n\
         for folder in netns tmp; do\n\
             mkdir -p /run/$folder\n\
             mount -t tmpfs run /run/$folder\n\
         done\n\
         ip link set lo up\n\
         exec {myself} \"$1\" --exact --nocapture --test-threads=1 --include-ignored\n\
         END\n\
         cd {folder}\n\
         exec 3</dev/ttyS0\n\
         echo '{READY}'\n\
         while read -r test <&3; do\n\
             unshare {space} --mount --pid --fork --kill-child --mount-proc \\\n\
                 sh -e /run/in-a-space \"$test\" 3<&-\n\
             printf '\\n{ENDED}%s\\n' $?\n\
         done\n",
        folder = quote(&folder),
        myself = quote(&myself),
    );
    Ok(script)
}

/// A path as a word that a shell takes as it is.
pub fn quote(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
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
        assert_eq!(
            super::quote(std::path::Path::new("it's $HOME")),
            r"'it'\''s $HOME'"
        );
    }
}
