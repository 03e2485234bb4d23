//! The guides of what is done in a cluster that has Mooring, with their own commands, one page after the other: each
//! command succeeds, and prints what the page shows.
//!
//! Real are the API server, kube-controller-manager, kubectl with its plugin, helm, `mooring-central` and what else the
//! pages call. Played are the clouds and the kubelets.

mod kube_vip;
mod load_balancers;
mod several_clouds;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mooring_cloud_sim::cloud::{Cloud, CloudSim};
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_support::program::Program;

use crate::change_over::CONTROLLERS;
use crate::change_over::guide::Reader;
use crate::change_over::kubelet::Kubelet;

/// What waits for rollouts, and for central to lead.
const AT_LAST: Duration = Duration::from_secs(60);

/// A cluster, its clouds, and whoever administers it.
struct Desk {
    cp: Arc<ControlPlane>,
    clouds: Vec<CloudSim>,
    reader: Reader,
    _kubelet: Kubelet,
}

impl Desk {
    async fn start(clouds: &[Cloud]) -> Self {
        let options = Options::default().with_controller_manager();
        let options = CONTROLLERS.into_iter().fold(options, Options::controller);
        let cp = Arc::new(ControlPlane::start(options).await.unwrap());
        let logs = cp.folder().join("pods");
        std::fs::create_dir(&logs).unwrap();
        let mut desk = Vec::new();
        for cloud in clouds {
            desk.push(CloudSim::start(*cloud).await);
        }
        let environment: Vec<_> = desk.iter().flat_map(CloudSim::environment).collect();
        let plugin = Program::Kubectl.path().unwrap();
        let reader = Reader::of(&cp, &logs, "").knowing(environment.clone());
        std::os::unix::fs::symlink(plugin, reader.folder.join(Program::Kubectl.file_name()))
            .unwrap();
        Self {
            reader,
            _kubelet: Kubelet::start(&cp, &logs, environment),
            cp,
            clouds: desk,
        }
    }

    /// Opens a page, with names for what it leaves open: `NAME` and the like.
    fn open(&self, page: &'static str, names: &[(&'static str, &str)]) -> Page {
        let mut reader = self.reader.clone();
        reader.page = page;
        let names = names.iter().map(|(open, name)| (*open, (*name).to_owned()));
        Page {
            reader,
            names: names.collect(),
        }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.reader.folder.join(name), text).unwrap();
    }
}

/// A page that is followed.
struct Page {
    reader: Reader,
    names: Vec<(&'static str, String)>,
}

impl Page {
    fn named(&self, text: &str) -> String {
        let names = self.names.iter();
        names.fold(text.to_owned(), |text, (open, name)| {
            text.replace(open, name)
        })
    }

    /// Saves the files of a section, and runs its commands, but for blocks with these words. Gives what they print.
    async fn follow(&self, section: &str, but: &[&str]) -> String {
        let printed = self.follow_silently(section, but).await;
        assert!(!printed.is_empty(), "{section:?} has printed nothing");
        printed
    }

    /// The same, where all that is printed may go into files.
    async fn follow_silently(&self, section: &str, but: &[&str]) -> String {
        let mut printed = String::new();
        for block in self.reader.blocks(section) {
            match block.language.as_str() {
                _ if but.iter().any(|words| block.text.contains(words)) => (),
                "sh" => printed.push_str(&self.reader.run(&self.named(&block.text)).await),
                "yaml" if block.text.starts_with("# ") => self.reader.save(&block.text),
                _ => (),
            }
        }
        printed
    }

    /// Runs the commands of a section, one a line, which may find faults: their exit code is 1 then.
    async fn ask(&self, section: &str) -> String {
        let mut printed = String::new();
        for block in self.reader.blocks(section) {
            if block.language == "sh" {
                for line in block.text.lines() {
                    printed.push_str(&self.find(&self.named(line)).await);
                }
            }
        }
        assert!(!printed.is_empty(), "{section:?} has printed nothing");
        printed
    }

    async fn find(&self, command: &str) -> String {
        let command = command.split("  #").next().unwrap_or_default();
        self.reader.run(&format!("{command} || [ $? -eq 1 ]")).await
    }

    /// Runs the commands that a section shows with what they print, which must be so. Gives what they print.
    async fn see(&self, section: &str) -> HashMap<String, String> {
        let mut all = HashMap::new();
        for block in self.reader.blocks(section) {
            let shown = block.text.split_once('\n');
            let Some((command, shown)) = shown.filter(|_| block.language == "console") else {
                continue;
            };
            let Some(command) = command.strip_prefix("$ ") else {
                continue;
            };
            let printed = self.find(&self.named(command)).await;
            if !shown.is_empty() {
                assert_eq!(printed.trim(), shown.trim(), "{command}");
            }
            all.insert(command.to_owned(), printed);
        }
        assert!(!all.is_empty(), "{section:?} shows no command");
        all
    }
}
