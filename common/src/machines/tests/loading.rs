use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::file;
use crate::machines::load::{Diff, LoadError, MachinesFile, ReloadStatus};
use crate::machines::parse;

/// A file with these machines, each written as name, or as name=state.
fn text(machines: &[&str]) -> String {
    let mut text = "version: 1\nnodes:\n".to_owned();
    for machine in machines {
        let (name, state) = machine.split_once('=').unwrap_or((machine, "running"));
        text += &format!("  - {{match: {{name: {name}}}, id: {name}, state: {state}}}\n");
    }
    text
}

const TEN: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

struct Rig {
    dir: TempDir,
    path: PathBuf,
}

impl Rig {
    fn new(content: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("machines.yaml");
        let rig = Self { dir, path };
        rig.write(content);
        rig
    }

    /// Replaces the file as editors and tools do: whole.
    fn write(&self, content: &str) {
        let new = self.dir.path().join("new");
        fs::write(&new, content).unwrap();
        fs::rename(new, &self.path).unwrap();
    }

    async fn open(&self) -> Arc<MachinesFile> {
        MachinesFile::open(Some(self.path.clone())).await.unwrap()
    }
}

fn names(file: &MachinesFile) -> Vec<String> {
    file.current()
        .nodes()
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// Watches the file until `done`, and gives how it then stands.
async fn watched_until(
    file: &Arc<MachinesFile>,
    done: impl FnMut(&ReloadStatus) -> bool,
) -> ReloadStatus {
    let stop = CancellationToken::new();
    let task = tokio::spawn({
        let (file, stop) = (Arc::clone(file), stop.clone());
        async move { file.watch(Duration::from_millis(5), stop).await }
    });
    let mut changes = file.changes();
    let wait = tokio::time::timeout(Duration::from_secs(20), changes.wait_for(done));
    let status = wait
        .await
        .expect("the change must be seen")
        .unwrap()
        .clone();
    stop.cancel();
    task.await.unwrap();
    status
}

#[tokio::test]
async fn uses_built_in_data_without_file() {
    let file = MachinesFile::open(None).await.unwrap();
    assert_eq!(names(&file), ["master-c2-1", "node-c2-1"]);
    assert!(file.reload_now().await.is_ok());
    let stop = CancellationToken::new();
    stop.cancel();
    file.watch(Duration::from_secs(1), stop).await;
    assert_eq!(file.status().generation, 1);
}

#[tokio::test]
async fn start_requires_valid_file() {
    let rig = Rig::new("version: 1\n");
    let open = |path: &Path| MachinesFile::open(Some(path.to_owned()));
    let error = open(&rig.path).await.unwrap_err();
    assert!(
        matches!(error, LoadError::Invalid { .. }) && !error.is_retryable(),
        "{error}"
    );
    let missing = open(&rig.dir.path().join("absent")).await.unwrap_err();
    assert!(
        matches!(missing, LoadError::Read { .. }) && missing.is_retryable(),
        "{missing}"
    );
    assert!(missing.to_string().contains("absent"), "{missing}");
    for (content, reason) in [
        (vec![0xff_u8, 0xfe], "not UTF-8"),
        (vec![b'#'; (8 << 20) + 1], "larger than"),
    ] {
        fs::write(&rig.path, content).unwrap();
        let error = open(&rig.path).await.unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let error = open(rig.dir.path()).await.unwrap_err().to_string();
    assert!(error.contains("not a file"), "{error}");
}

#[tokio::test]
async fn reloads_and_counts_change() {
    let rig = Rig::new(&text(&["a"]));
    let file = rig.open().await;
    rig.write(&text(&["a", "b"]));
    let status = watched_until(&file, |s| s.generation == 2).await;
    assert!(status.failure.is_none());
    assert_eq!(names(&file), ["a", "b"]);
}

#[tokio::test]
async fn follows_config_map_symlink() {
    let dir = TempDir::new().unwrap();
    let mount = |name: &str, content: &str| {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("machines.yaml"), content).unwrap();
        symlink(name, dir.path().join("..new")).unwrap();
        fs::rename(dir.path().join("..new"), dir.path().join("..data")).unwrap();
    };
    mount("..1", &text(&["a"]));
    let path = dir.path().join("machines.yaml");
    symlink("..data/machines.yaml", &path).unwrap();
    let file = MachinesFile::open(Some(path)).await.unwrap();
    mount("..2", &text(&["b", "a"]));
    fs::remove_dir_all(dir.path().join("..1")).unwrap();
    watched_until(&file, |s| s.generation == 2).await;
    assert_eq!(names(&file), ["b", "a"]);
}

#[tokio::test]
async fn equal_content_is_no_change() {
    let rig = Rig::new(&text(&["a"]));
    let file = rig.open().await;
    rig.write(&text(&["a"]));
    file.reload_now().await.unwrap();
    assert_eq!(file.status().generation, 1);
}

#[tokio::test]
async fn invalid_file_keeps_last_good_data() {
    let rig = Rig::new(&text(&["a", "b"]));
    let file = rig.open().await;
    let whole = text(&["a", "b", "c"]);
    for bad in [
        "",
        "version: 1\nnodes:",
        &whole[..whole.len() - 4],
        "version: 2\n",
    ] {
        rig.write(bad);
        let error = file.reload_now().await.unwrap_err();
        assert!(matches!(*error, LoadError::Invalid { .. }), "{error}");
        assert_eq!(names(&file), ["a", "b"], "{bad:?}");
    }
    fs::remove_file(&rig.path).unwrap();
    let status = watched_until(&file, |s| {
        s.failure
            .as_ref()
            .is_some_and(|e| e.metric_label() == "read")
    })
    .await;
    assert_eq!(
        (status.generation, names(&file)),
        (1, vec!["a".to_owned(), "b".to_owned()])
    );
    rig.write(&whole);
    let status = watched_until(&file, |s| s.generation == 2).await;
    assert!(status.failure.is_none());
    assert_eq!(names(&file), ["a", "b", "c"]);
}

#[tokio::test]
async fn failure_ends_when_file_is_restored() {
    let rig = Rig::new(&text(&["a"]));
    let file = rig.open().await;
    rig.write("nonsense");
    assert!(file.reload_now().await.is_err());
    assert!(file.status().failure.is_some());
    rig.write(&text(&["a"]));
    let status = watched_until(&file, |s| s.failure.is_none()).await;
    assert_eq!(status.generation, 1);
}

#[tokio::test]
async fn failure_ends_when_file_is_reachable() {
    let rig = Rig::new(&text(&["a"]));
    let link = rig.dir.path().join("link");
    symlink(&rig.path, &link).unwrap();
    let file = MachinesFile::open(Some(link.clone())).await.unwrap();
    fs::remove_file(&link).unwrap();
    watched_until(&file, |s| s.failure.is_some()).await;
    symlink(&rig.path, &link).unwrap();
    watched_until(&file, |s| s.failure.is_none()).await;
}

#[tokio::test]
async fn reports_failure_once() {
    let rig = Rig::new(&text(&["a"]));
    let file = rig.open().await;
    rig.write("nonsense");
    let mut changes = file.changes();
    file.reload_now().await.unwrap_err();
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    file.reload_now().await.unwrap_err();
    assert!(!changes.has_changed().unwrap());
}

#[tokio::test]
async fn waits_for_file_being_written() {
    let rig = Rig::new(&text(&TEN));
    let file = rig.open().await;
    let mut longer = TEN.to_vec();
    longer.push("k");
    let done = CancellationToken::new();
    let writer = tokio::spawn({
        let (path, done) = (rig.path.clone(), done.clone());
        // Valid and within the limit, but only a part of what is being written.
        let (part, whole) = (text(&TEN[..9]), text(&longer));
        fs::write(&path, &part).unwrap();
        async move {
            while !done.is_cancelled() {
                fs::write(&path, &part).unwrap();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            fs::write(&path, &whole).unwrap();
        }
    });
    let error = file.reload_now().await.unwrap_err();
    assert!(matches!(*error, LoadError::Changing { .. }), "{error}");
    done.cancel();
    writer.await.unwrap();
    assert_eq!(names(&file).len(), 10);
    let status = watched_until(&file, |s| s.generation == 2).await;
    assert!(status.failure.is_none());
    assert_eq!(names(&file), longer);
}

#[tokio::test]
async fn refuses_too_many_removals() {
    let rig = Rig::new(&text(&TEN));
    let file = rig.open().await;
    rig.write(&text(&TEN[..7]));
    let error = file.reload_now().await.unwrap_err();
    assert_eq!(error.metric_label(), "too_many_removed");
    let message = error.to_string();
    assert!(message.contains("3 of 10 machines (h, i, j)"), "{message}");
    assert!(
        message.contains("maxRemovedPercent, 20 as loaded, permits 2"),
        "{message}"
    );
    // A file that permits itself more is refused all the same.
    rig.write(&format!(
        "policy: {{maxRemovedPercent: 100}}\n{}",
        text(&TEN[..7])
    ));
    assert!(file.reload_now().await.is_err());
    assert_eq!(names(&file).len(), 10);
    // Terminated counts as removed.
    let mut mixed = TEN[..8].to_vec();
    mixed[0] = "a=terminated";
    rig.write(&text(&mixed));
    assert!(file.reload_now().await.is_err());
    // The share itself is permitted, and so is everything once it was raised on its own.
    rig.write(&text(&TEN[..8]));
    assert_eq!(file.reload_now().await.unwrap().nodes().len(), 8);
    rig.write(&format!(
        "policy: {{maxRemovedPercent: 100}}\n{}",
        text(&TEN[..8])
    ));
    file.reload_now().await.unwrap();
    rig.write(&text(&["z"]));
    file.reload_now().await.unwrap();
    assert_eq!(
        (names(&file), file.status().generation),
        (vec!["z".to_owned()], 4)
    );
}

#[test]
fn diff_names_its_subject() {
    let old = parse(&text(&["a", "b", "c", "d=terminated", "e"])).unwrap();
    let new = parse(&text(&["f", "e", "b=shutdown", "a=terminated"])).unwrap();
    let names = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let expected = Diff {
        added: names(&["f"]),
        removed: names(&["c", "d"]),
        changed: names(&["a", "b"]),
        lost: names(&["a", "c"]),
        known: 4,
    };
    assert_eq!(Diff::between(&old, &new), expected);
}

#[test]
fn adding_id_is_no_removal_changing_it_is() {
    let bare = file("nodes: [{match: {name: a}}]");
    let given = file("nodes: [{match: {name: a}, id: a}]");
    let other = file("nodes: [{match: {name: a}, id: b}]");
    assert!(Diff::between(&bare, &given).lost.is_empty());
    assert_eq!(Diff::between(&given, &other).lost, ["a"]);
    assert_eq!(Diff::between(&given, &bare).lost, ["a"]);
}

#[tokio::test]
async fn start_waits_for_file_being_written() {
    let rig = Rig::new(&text(&["a"]));
    let opening = rig.open();
    let writing = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        rig.write(&text(&["a", "b"]));
    };
    let (file, ()) = tokio::join!(opening, writing);
    assert_eq!(names(&file), ["a", "b"]);
}

#[tokio::test]
async fn message_lists_each_fault_once() {
    let rig = Rig::new("version: 2\n");
    let error = MachinesFile::open(Some(rig.path.clone()))
        .await
        .unwrap_err();
    assert!(std::error::Error::source(&error).is_none());
    assert_eq!(error.to_string().matches("lists no machine").count(), 1);
}
