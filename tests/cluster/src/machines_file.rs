//! Machines files, written as a mounted ConfigMap is: all at once.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, io};

use serde_json::{Map, Value, json};

use mooring_test_support::scratch::Scratch;

/// One machine of a machines file.
#[derive(Clone, Debug)]
pub struct Machine(Value);

impl Machine {
    /// A machine that is known by the name of its Node, which is its id as well.
    pub fn named(node: &str) -> Self {
        Self::matching("name", node).id(node)
    }

    /// A machine that is known by a key of `match`, without an id.
    pub fn matching(key: &str, value: &str) -> Self {
        Self(json!({ "match": { key: value } }))
    }

    /// Its provider ID.
    #[must_use]
    pub fn id(self, id: &str) -> Self {
        self.with("id", id)
    }

    /// Without a provider ID of its own.
    #[must_use]
    pub fn without_id(mut self) -> Self {
        self.object().remove("id");
        self
    }

    /// Its type, zone and region.
    #[must_use]
    pub fn placed(self, instance_type: &str, zone: &str, region: &str) -> Self {
        self.with("instanceType", instance_type)
            .with("zone", zone)
            .with("region", region)
    }

    /// `running`, `shutdown` or `terminated`.
    #[must_use]
    pub fn state(self, state: &str) -> Self {
        self.with("state", state)
    }

    /// One more InternalIP.
    #[must_use]
    pub fn internal(self, address: &str) -> Self {
        self.address("InternalIP", address)
    }

    /// One more address.
    #[must_use]
    pub fn address(mut self, kind: &str, address: &str) -> Self {
        let addresses = self.object().entry("addresses").or_insert(json!([]));
        if let Some(addresses) = addresses.as_array_mut() {
            addresses.push(json!({ "type": kind, "address": address }));
        }
        self
    }

    /// One more label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        let labels = self.object().entry("labels").or_insert(json!({}));
        labels[key] = json!(value);
        self
    }

    fn with(mut self, key: &str, value: &str) -> Self {
        self.object().insert(key.to_owned(), json!(value));
        self
    }

    fn object(&mut self) -> &mut Map<String, Value> {
        self.0.as_object_mut().expect("a machine is an object")
    }
}

/// The content of a machines file. (JSON is YAML.)
#[derive(Clone, Debug)]
pub struct Machines(Value);

impl Machines {
    /// These machines, with every policy left at its default.
    pub fn of(machines: impl IntoIterator<Item = Machine>) -> Self {
        let nodes: Vec<Value> = machines.into_iter().map(|machine| machine.0).collect();
        Self(json!({ "version": 1, "nodes": nodes }))
    }

    /// What to think of machines that are not listed.
    #[must_use]
    pub fn unknown(mut self, policy: &str) -> Self {
        self.0["policy"]["unknownNode"] = json!(policy);
        self
    }

    /// How many machines a change may take away.
    #[must_use]
    pub fn max_removed_percent(mut self, percent: u8) -> Self {
        self.0["policy"]["maxRemovedPercent"] = json!(percent);
        self
    }

    /// The scheme of provider IDs.
    #[must_use]
    pub fn scheme(mut self, scheme: &str) -> Self {
        self.0["scheme"] = json!(scheme);
        self
    }

    /// The text.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(&self.0).expect("a value can be written")
    }
}

/// A machines file in a folder of its own, laid out like a mounted ConfigMap: the file is a link
/// into a folder that is itself reached through a link, and a change turns the latter.
pub struct MachinesFile {
    scratch: Scratch,
    version: AtomicUsize,
}

impl MachinesFile {
    /// A file with this content.
    pub fn new(machines: &Machines) -> io::Result<Self> {
        Self::with_text(&machines.text())
    }

    /// A file with this text.
    pub fn with_text(text: &str) -> io::Result<Self> {
        let file = Self {
            scratch: Scratch::new("machines").map_err(io::Error::other)?,
            version: AtomicUsize::new(0),
        };
        std::os::unix::fs::symlink("..data/machines.yaml", file.path())?;
        file.replace_text(text)?;
        Ok(file)
    }

    /// What to give as `--cloud-config`.
    pub fn path(&self) -> PathBuf {
        self.scratch.path().join("machines.yaml")
    }

    /// `--cloud-config=<path>`.
    pub fn flag(&self) -> String {
        format!("--cloud-config={}", self.path().display())
    }

    /// Changes the content, all at once.
    pub fn replace(&self, machines: &Machines) -> io::Result<()> {
        self.replace_text(&machines.text())
    }

    /// Changes the text, all at once.
    pub fn replace_text(&self, text: &str) -> io::Result<()> {
        let version = self.version.fetch_add(1, Ordering::Relaxed);
        let folder = self.scratch.path();
        let name = format!("..version-{version}");
        fs::create_dir(folder.join(&name))?;
        fs::write(folder.join(&name).join("machines.yaml"), text)?;
        let link = folder.join("..data-new");
        std::os::unix::fs::symlink(Path::new(&name), &link)?;
        fs::rename(link, folder.join("..data"))
    }

    /// Writes a text over the file as it lies there, as an editor would.
    pub fn overwrite(&self, text: &str) -> io::Result<()> {
        fs::write(self.path(), text)
    }

    /// Takes the content away: the file cannot be read any more.
    pub fn take_away(&self) -> io::Result<()> {
        fs::remove_file(self.scratch.path().join("..data"))
    }
}
