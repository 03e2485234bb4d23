//! Doing something inside a named network namespace.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use nix::sched::{CloneFlags, setns};

/// Runs `action` on a thread inside the network namespace `name`, or outside if there is none.
///
/// Sockets that it makes stay in that namespace for good; the thread goes away.
pub(super) fn inside<T, F>(name: Option<&str>, action: F) -> Result<T>
where
    T: Send,
    F: FnOnce() -> Result<T> + Send,
{
    let Some(name) = name else { return action() };
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            enter(name)?;
            action()
        });
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn enter(name: &str) -> Result<()> {
    let path = Path::new("/run/netns").join(name);
    let file = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
    setns(file, CloneFlags::CLONE_NEWNET).with_context(|| format!("entering the namespace {name}"))
}
