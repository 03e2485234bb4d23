//! Child processes that never outlive the test, however the test ends.
//!
//! Every child runs under `setpriv --pdeathsig KILL`, so the kernel ends it when this program is
//! gone, even by SIGKILL. That signal is tied to the *thread* that started the child, not to the
//! program: children are therefore started by one thread that lives as long as the program.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::wait::eventually;

/// How many lines of a log are shown when a test fails.
const TAIL_LINES: usize = 40;

/// How long a program may take to stand still.
const FREEZES: Duration = Duration::from_secs(10);

type SpawnRequest = (Command, mpsc::Sender<io::Result<Child>>);

static SPAWNER: LazyLock<Mutex<mpsc::Sender<SpawnRequest>>> = LazyLock::new(|| {
    let (sender, requests) = mpsc::channel::<SpawnRequest>();
    std::thread::Builder::new()
        .name("spawner".to_owned())
        .spawn(move || {
            for (mut command, answer) in requests {
                // The asker waits for the answer, so it cannot be gone.
                let _ = answer.send(command.spawn());
            }
        })
        .expect("the machine must have room for one more thread");
    Mutex::new(sender)
});

/// Starts a command from the thread that lives as long as this program.
pub fn spawn_tied(command: Command) -> io::Result<Child> {
    let (answer, child) = mpsc::channel();
    SPAWNER
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .send((command, answer))
        .map_err(io::Error::other)?;
    child.recv().map_err(io::Error::other)?
}

/// What to start, and where its output goes.
#[derive(Clone, Debug)]
pub struct Spec {
    /// A short name for messages, such as `kube-apiserver`.
    pub name: String,
    /// The program's path, or a name to look up in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables added to the environment.
    pub env: Vec<(String, String)>,
    /// Named network namespace to run in, if not the one of the test.
    pub netns: Option<String>,
    /// File that receives stdout and stderr. It is appended to.
    pub log: PathBuf,
}

impl Spec {
    /// A program without arguments that logs to `log`.
    pub fn new(
        name: impl Into<String>,
        program: impl Into<PathBuf>,
        log: impl Into<PathBuf>,
    ) -> Self {
        Self {
            name: name.into(),
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            netns: None,
            log: log.into(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds a variable to the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Runs inside the named network namespace.
    #[must_use]
    pub fn netns(mut self, name: impl Into<String>) -> Self {
        self.netns = Some(name.into());
        self
    }

    fn command(&self) -> Result<Command> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .with_context(|| format!("opening the log {}", self.log.display()))?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]);
        if let Some(netns) = &self.netns {
            command.args(["ip", "netns", "exec", netns]);
        }
        command
            .arg(&self.program)
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(command)
    }
}

/// A running program. Dropping it kills it; when a test is failing, the end of its log is shown.
pub struct Process {
    name: String,
    pid: u32,
    child: Mutex<Child>,
    log: PathBuf,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

impl Process {
    /// Starts the program.
    pub fn start(spec: &Spec) -> Result<Self> {
        let child = spawn_tied(spec.command()?).with_context(|| {
            format!(
                "starting {} through setpriv (Debian: util-linux)",
                spec.name
            )
        })?;
        Ok(Self {
            name: spec.name.clone(),
            pid: child.id(),
            child: Mutex::new(child),
            log: spec.log.clone(),
        })
    }

    /// The short name given at the start.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How the program ended, or `None` while it runs.
    pub fn try_wait(&self) -> Option<ExitStatus> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.try_wait().ok().flatten()
    }

    /// Whether the program still runs.
    pub fn is_running(&self) -> bool {
        self.try_wait().is_none()
    }

    /// Waits until the program has ended; panics after `limit`.
    pub async fn wait_for_exit(&self, limit: Duration) -> ExitStatus {
        eventually(&format!("{} has ended", self.name), limit, async || {
            self.try_wait()
        })
        .await
    }

    /// Like [`Self::wait_for_exit`], but gives the exit code; a program that a signal has ended
    /// counts as 128 + signal, as in a shell.
    pub async fn wait_for_code(&self, limit: Duration) -> i32 {
        let status = self.wait_for_exit(limit).await;
        status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
    }

    /// Sends a signal. A program that has already ended is an error.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        if let Some(status) = self.try_wait() {
            bail!("{} cannot get {signal}: it ended with {status}", self.name);
        }
        let pid = i32::try_from(self.pid)?;
        signal::kill(Pid::from_raw(pid), signal)
            .with_context(|| format!("sending {signal} to {}", self.name))
    }

    /// Asks the program to end (SIGTERM).
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::SIGTERM)
    }

    /// Freezes the program (SIGSTOP), as a host under heavy load or a paused VM would. None of its
    /// threads runs any more when this returns.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)?;
        let start = Instant::now();
        while !self.is_frozen()? {
            ensure!(start.elapsed() < FREEZES, "{} does not freeze", self.name);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn is_frozen(&self) -> Result<bool> {
        let threads = format!("/proc/{}/task", self.pid);
        for thread in fs::read_dir(&threads).with_context(|| format!("reading {threads}"))? {
            // A thread that has just ended has none.
            let stat = fs::read_to_string(thread?.path().join("stat")).unwrap_or_default();
            // The state follows the name, which is in brackets.
            let state = stat.rsplit(") ").next().unwrap_or_default();
            if !state.starts_with('T') {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Lets a frozen program go on (SIGCONT).
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    /// Ends the program without a warning (SIGKILL) and waits until it is gone.
    pub fn kill(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(child.try_wait(), Ok(None)) {
            // Both fail only for a program that is gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Resident memory in KiB (`VmRSS`).
    pub fn resident_kib(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.pid);
        let status = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
            .ok_or_else(|| anyhow!("{path} has no VmRSS: {} has ended", self.name))
    }

    /// Path of the log.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// All that the program has written so far.
    pub fn log(&self) -> String {
        fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The last lines of the log.
    pub fn log_tail(&self) -> String {
        tail(&self.log(), TAIL_LINES)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let ended = self.try_wait();
        self.kill();
        if std::thread::panicking() {
            let fate = ended.map_or_else(
                || "was running".to_owned(),
                |status| format!("had ended: {status}"),
            );
            eprintln!(
                "--- {} ({fate}), end of its log:\n{}",
                self.name,
                self.log_tail()
            );
        }
    }
}

/// The last `lines` lines of `text`.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
