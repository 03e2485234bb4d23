//! The cgroups of the nodes: a folder for this run in each hierarchy, with one for each node in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use mooring_test_support::wait::try_eventually;

/// The variable that tells the program inside of the namespaces the name of the run's cgroup.
const VARIABLE: &str = "MOORING_INSTALL_CGROUP";

const ROOT: &str = "/sys/fs/cgroup";

/// What a kubelet asks for. Others are not missed.
const REQUIRED: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// How long processes that were killed may take to be gone.
const END_LIMIT: Duration = Duration::from_secs(30);

/// Waits until its stdin closes, which happens when the program ends for whatever reason, then removes
/// the cgroups. The processes in them may just be ending, so it repeats.
const JANITOR: &str = r#"trap '' INT TERM HUP
while read -r _; do :; done
for folder; do
    for _ in $(seq 300); do
        [ -d "$folder" ] || break
        find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
    done
done"#;

/// The cgroups of a run. They are removed when this is dropped, or the program ends.
pub(super) struct Cgroups {
    name: String,
    janitor: Child,
}

impl Cgroups {
    /// Makes the run's cgroup in each hierarchy. Outside of the namespaces.
    pub(super) fn create() -> Result<Self> {
        let name = format!("mooring-install-{}", std::process::id());
        let folders: Vec<PathBuf> = hierarchies()?.iter().map(|root| root.join(&name)).collect();
        let janitor = Command::new("sh")
            .args(["-c", JANITOR, "janitor"])
            .args(&folders)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting sh to clean up later")?;
        let cgroups = Self { name, janitor };
        for folder in &folders {
            let parent = folder.parent().unwrap_or(folder);
            delegate(parent)?;
            fs::create_dir(folder).with_context(|| format!("making {}", folder.display()))?;
            delegate(folder)?;
        }
        Ok(cgroups)
    }

    /// The name, to be given to the program inside of the namespaces.
    pub(super) fn variable(&self) -> (&str, &str) {
        (VARIABLE, &self.name)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        drop(self.janitor.stdin.take());
        // It cannot fail in a way that anybody could mend here.
        let _ = self.janitor.wait();
    }
}

/// The path of a node's cgroup, for its kubelet. It is made in each hierarchy; what an earlier start of
/// the node has left there is removed.
pub(super) async fn of_node(node: &str) -> Result<String> {
    let run = std::env::var(VARIABLE).context("the run has no cgroup")?;
    for root in hierarchies()? {
        let folder = root.join(&run).join(node);
        if folder.exists() {
            let cleared = try_eventually(END_LIMIT, async || clear(&folder));
            cleared.await.map_err(|reason| anyhow!("{reason}"))?;
        }
        fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        delegate(&folder)?;
    }
    Ok(format!("/{run}/{node}"))
}

/// Removes a cgroup, with those in it. Processes in them may still be ending: then it fails.
fn clear(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            clear(&entry.path())?;
        }
    }
    fs::remove_dir(folder).with_context(|| format!("removing {}", folder.display()))
}

/// With cgroup v2 the one tree, with v1 one for each controller.
fn hierarchies() -> Result<Vec<PathBuf>> {
    let root = PathBuf::from(ROOT);
    if root.join("cgroup.controllers").exists() {
        return Ok(vec![root]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(&root).with_context(|| format!("reading {ROOT}"))? {
        let entry = entry?;
        // Two controllers may share a tree: links have the names of each.
        if entry.file_type()?.is_dir() && entry.path().join("cgroup.procs").exists() {
            found.push(entry.path());
        }
    }
    if found.is_empty() {
        bail!("no cgroups are mounted at {ROOT}, which kubelets need");
    }
    Ok(found)
}

/// Lets what is below a cgroup of version 2 have its controllers.
fn delegate(folder: &Path) -> Result<()> {
    let Ok(controllers) = fs::read_to_string(folder.join("cgroup.controllers")) else {
        return Ok(()); // version 1
    };
    let file = folder.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&file)?;
    for controller in controllers.split_whitespace() {
        let is_required = REQUIRED.contains(&controller);
        let is_enabled = enabled.split_whitespace().any(|known| known == controller);
        if !is_enabled
            && let Err(error) = fs::write(&file, format!("+{controller}"))
            && is_required
        {
            bail!(
                "the cgroup controller {controller} cannot be enabled in {} ({error}): run it on the \
                 machine itself, or in a container with the machine's cgroup namespace",
                file.display()
            );
        }
    }
    Ok(())
}
