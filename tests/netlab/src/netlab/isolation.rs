//! Entering namespaces in which a test can do as it likes without root.
//!
//! The program starts itself again under `unshare`. Its stdin there is a pipe that the first
//! instance holds open: when that ends, for whatever reason, the pipe closes and the second one
//! ends too. It is the first process of a process namespace, so the kernel ends all the others.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Once;

use anyhow::{Context, Result, bail};

use super::{ip, packages, run};
use mooring_test_support::figures;
use mooring_test_support::scratch::{self, Scratch};

/// Set inside of a netlab. For a test its value is a file whose existence proves that it ran.
const MARKER: &str = "MOORING_NETLAB";

/// Set inside of a netlab: the process, as the machine numbers it, through which others may enter.
const DOOR: &str = "MOORING_NETLAB_DOOR";

/// Where temporary files of a netlab are; they go with it. (With `KEEP=1` they are elsewhere.)
pub const TEMPORARY: &str = "/run/mooring";

/// Whether this program is in namespaces of its own.
pub fn is_netlab() -> bool {
    std::env::var_os(MARKER).is_some()
}

/// The command line that runs a command in this netlab, from any other shell of the same user.
pub fn way_in(command: &str) -> Result<String> {
    let door = std::env::var(DOOR).context("this is no netlab")?;
    let user = if fs::read_to_string("/proc/self/uid_map")?.contains("4294967295") {
        "" // the machine's own: there is nothing to enter
    } else {
        "--user --preserve-credentials "
    };
    Ok(format!(
        "nsenter --target {door} {user}--mount --net --pid=/proc/{door}/ns/pid_for_children {command}"
    ))
}

/// Goes on in namespaces of its own: for programs with a `main`.
///
/// Outside of them this starts the program again inside of some, waits for it and exits with
/// its code. Inside it sets them up and returns. Call it first thing in `main`. The program
/// cannot read its stdin.
pub fn enter_netlab() -> Result<()> {
    enter_netlab_with(&[])
}

/// [`enter_netlab`] with these variables in the environment inside.
pub fn enter_netlab_with(environment: &[(&str, &str)]) -> Result<()> {
    if is_netlab() {
        return set_up();
    }
    packages::check_packages()?;
    let mut command = unshare()?;
    command
        .args(std::env::args_os().skip(1))
        .env(MARKER, "program")
        .envs(environment.iter().copied());
    let mut child = command.spawn().context("running unshare")?;
    let _lifeline = child.stdin.take(); // otherwise `wait` would close it
    let status = child.wait()?;
    std::process::exit(code_of(status));
}

/// Runs the body of a test in namespaces of its own, on a tokio runtime.
///
/// Call it as the only statement of a `#[test]` function: outside of them it starts the test
/// program again for just this test, and passes on its output and its outcome.
pub fn in_netlab<F>(body: F)
where
    F: AsyncFnOnce(),
{
    if is_netlab() {
        let proof = std::env::var_os(MARKER).expect("just looked at");
        fs::write(proof, "").expect("the first instance waits for this file");
        set_up().unwrap_or_else(|error| panic!("setting up the namespaces: {error:#}"));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        return runtime.block_on(body());
    }
    let name = test_name(std::any::type_name::<F>());
    if let Err(error) = run_again(&name) {
        panic!("{error:#}");
    }
}

/// `crate::module::test::{{closure}}` is the test `module::test`.
pub(crate) fn test_name(closure: &str) -> String {
    closure
        .split("::")
        .skip(1)
        .take_while(|part| !part.starts_with("{{"))
        .collect::<Vec<_>>()
        .join("::")
}

fn run_again(test: &str) -> Result<()> {
    // Printed by this thread, so that the test harness shows it only when it should.
    run_test_in_netlab(test, &[], |line| {
        if !figures::pass_on(line) {
            println!("{line}");
        }
    })
}

/// Runs a test of this program, whose body is in [`in_netlab`], in its namespaces, with these variables in
/// the environment there. Each line that it prints is given to `heard` as it comes.
///
/// # Errors
/// If the test fails, or did not run.
pub fn run_test_in_netlab(
    test: &str,
    environment: &[(&str, &str)],
    mut heard: impl FnMut(&str),
) -> Result<()> {
    packages::check_packages()?;
    let scratch = Scratch::new("netlab")?;
    let proof = scratch.join("it-ran");
    let (output, writer) = io::pipe()?;
    let mut command = unshare()?;
    command
        .args([
            test,
            "--exact",
            "--nocapture",
            "--test-threads=1",
            "--include-ignored",
        ])
        .env(MARKER, &proof)
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut child = command.spawn().context("running unshare")?;
    drop(command); // holds the pipe's other end
    let lifeline = child.stdin.take();
    for line in BufReader::new(output).lines() {
        heard(&line?);
    }
    let status = child.wait()?;
    drop(lifeline);
    if !proof.exists() {
        bail!("the test {test} did not run in its namespaces ({status}); see above");
    }
    if !status.success() {
        bail!("the test failed in its namespaces ({status}); see above");
    }
    Ok(())
}

/// The start of a command that runs this program in new namespaces.
fn unshare() -> Result<Command> {
    let myself = std::env::current_exe().context("finding this program")?;
    // The shell becomes `unshare`, whose number it passes on.
    let mut command = Command::new("sh");
    let script = format!("export {DOOR}=$$; exec unshare \"$@\"");
    command.args(["-c", &script, "unshare"]);
    if !nix::unistd::geteuid().is_root() {
        require_user_namespaces()?;
        command.args(["--user", "--map-root-user"]);
    }
    command
        .args([
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ])
        .args(["--propagation", "private", "--"])
        .arg(myself)
        .env("PATH", packages::search_path())
        .stdin(Stdio::piped());
    if !scratch::keep() {
        command.env("TMPDIR", TEMPORARY);
    }
    Ok(command)
}

fn require_user_namespaces() -> Result<()> {
    let attempt = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "true"])
        .output();
    match attempt {
        Ok(output) if output.status.success() => Ok(()),
        _ => bail!(
            "this machine does not let ordinary users make network namespaces: an administrator may \
             allow it (sysctl kernel.unprivileged_userns_clone=1, and on newer Ubuntu \
             kernel.apparmor_restrict_unprivileged_userns=0), or run this as root"
        ),
    }
}

/// Takes away all hosts and bridges of this netlab, so that there can be a new lab. Programs in them
/// must have ended.
///
/// # Errors
/// If this is no netlab, or something cannot be taken away.
pub fn clear_netlab() -> Result<()> {
    if !is_netlab() {
        bail!("this is no netlab");
    }
    // A namespace that is deleted takes its end of a cable with it, but later.
    for line in ip("-br link show type veth")?.lines() {
        let name = line.split('@').next().unwrap_or_default();
        ip(&format!("link del {name}"))?;
    }
    for line in ip("netns list")?.lines() {
        let name = line.split(' ').next().unwrap_or_default();
        ip(&format!("netns del {name}"))?;
    }
    for line in ip("-br link show type bridge")?.lines() {
        let name = line.split(' ').next().unwrap_or_default();
        ip(&format!("link del {name}"))?;
    }
    Ok(())
}

fn set_up() -> Result<()> {
    static ONCE: Once = Once::new();
    let mut outcome = Ok(());
    ONCE.call_once(|| outcome = prepare());
    outcome
}

fn prepare() -> Result<()> {
    follow_the_first_instance();
    run("mount", &["-t", "tmpfs", "tmpfs", "/run"])?;
    for folder in ["/run/netns", TEMPORARY] {
        fs::create_dir_all(folder).with_context(|| format!("making {folder}"))?;
    }
    ip("link set lo up")?;
    // The API server answers nodes from the bridge's address; forwarding is the nodes' business.
    for family in ["ipv4", "ipv6"] {
        let folder = Path::new("/proc/sys/net").join(family);
        if !folder.is_dir() {
            bail!("this kernel has no {family}, which the lab needs");
        }
    }
    Ok(())
}

/// Ends this program, and with it the netlab, when the first instance is gone.
fn follow_the_first_instance() {
    std::thread::spawn(|| {
        let mut nothing = [0_u8; 64];
        loop {
            match io::stdin().read(&mut nothing) {
                Ok(0) | Err(_) => std::process::exit(130),
                Ok(_) => {}
            }
        }
    });
}

fn code_of(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #[test]
    fn knows_its_own_name() {
        assert_eq!(
            super::test_name("suite::nodes::one_moves::{{closure}}"),
            "nodes::one_moves"
        );
    }
}
