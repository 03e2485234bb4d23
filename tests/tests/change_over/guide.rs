//! The commands of the guide, read from its page and run as a reader runs them: one after the other in one
//! folder, in a shell that knows the functions of the commands before.

use std::path::{Path, PathBuf};
use std::process::Command;

use mooring_test_cluster::control_plane::ControlPlane;
use mooring_test_support::program::Program;

/// What a command may take, in seconds: several rollouts.
const LIMIT: &str = "180";

/// A block of code of the page.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    section: String,
    pub(crate) language: String,
    pub(crate) text: String,
}

/// All blocks of code of a page, in order.
fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut section, mut open) = (Vec::new(), String::new(), None::<Block>);
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text.push_str(&format!("{line}\n")),
            (None, Some(language)) => {
                open = Some(Block {
                    section: section.clone(),
                    language: language.to_owned(),
                    text: String::new(),
                });
            }
            (None, None) => {
                if let Some(title) = line.strip_prefix("## ").or(line.strip_prefix("### ")) {
                    title.clone_into(&mut section);
                }
            }
        }
    }
    blocks
}

/// The folder of the Helm that renders the shipped manifests, which is built where nobody has built it yet.
fn helm() -> String {
    let render = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/render.sh");
    let provided = Command::new(render).arg("--helm").output().unwrap();
    assert!(provided.status.success(), "{provided:?}");
    let helm = PathBuf::from(String::from_utf8(provided.stdout).unwrap().trim());
    helm.parent().unwrap().display().to_string()
}

/// The shell of whoever follows the guide.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub(crate) page: &'static str,
    pub(crate) folder: PathBuf,
    variables: Vec<(&'static str, String)>,
}

impl Reader {
    /// Someone with this page, and with all rights in this cluster, whose Pods log into this folder.
    pub(crate) fn of(cp: &ControlPlane, pod_logs: &Path, page: &'static str) -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = cp.folder().join("reader");
        std::fs::create_dir(&folder).unwrap();
        let own = here.join("tests/change_over/bin");
        let local = folder.join(".local/bin");
        for made in [&local, &folder.join(".kube")] {
            std::fs::create_dir_all(made).unwrap();
        }
        let central = Program::Central.path().unwrap();
        for (there, link) in [
            (&*here.join("../deploy"), folder.join("deploy")),
            (cp.admin_kubeconfig(), folder.join(".kube/config")),
            (&central, local.join(Program::Central.file_name())),
        ] {
            std::os::unix::fs::symlink(there, link).unwrap();
        }
        let path = std::env::var("PATH").unwrap();
        let text = |path: &Path| path.display().to_string();
        let path = [text(&own), text(&local), helm(), path].join(":");
        Self {
            page,
            variables: vec![
                ("PATH", path),
                ("HOME", text(&folder)),
                ("KUBECONFIG", text(cp.admin_kubeconfig())),
                ("KUBECTL", text(&cp.kubectl())),
                ("POD_LOGS", text(pod_logs)),
            ],
            folder,
        }
    }

    /// The same, who knows the values of these variables: where a page has `export NAME=…`.
    pub(crate) fn knowing(mut self, variables: Vec<(&'static str, String)>) -> Self {
        self.variables.extend(variables);
        self
    }

    /// Saves the files of a section, and runs its commands. Gives what they print.
    pub(crate) async fn follow(&self, section: &str) -> String {
        self.follow_with(section, &[]).await
    }

    /// The same, with these texts of the page replaced, each of which must be there.
    pub(crate) async fn follow_with(
        &self,
        section: &str,
        placeholders: &[(&str, String)],
    ) -> String {
        let mut printed = String::new();
        for mut block in self.blocks(section) {
            for (before, after) in placeholders {
                assert!(block.text.contains(before), "{section} has no {before:?}");
                block.text = block.text.replace(before, after);
            }
            match block.language.as_str() {
                "sh" => printed.push_str(&self.run(&block.text).await),
                "yaml" => self.save(&block.text),
                // What is printed, or might be.
                "" | "text" | "json" => (),
                other => panic!("a block of {other} in {section}"),
            }
        }
        printed
    }

    /// The blocks of a section, which has some.
    pub(crate) fn blocks(&self, section: &str) -> Vec<Block> {
        let mut blocks = blocks(self.page);
        blocks.retain(|block| block.section == section);
        assert!(!blocks.is_empty(), "the guide has no section {section:?}");
        blocks
    }

    /// What the commands of a section show, for whoever looks at it: that one finds nothing is no failure.
    pub(crate) async fn look(&self, section: &str) -> String {
        let mut blocks = self.blocks(section);
        blocks.retain(|block| block.language == "sh");
        let [block] = blocks.as_slice() else {
            panic!("{section:?} has {} blocks of commands", blocks.len());
        };
        self.run(&format!("set +e\n{}\ntrue", block.text)).await
    }

    /// The file that a block begins with the name of.
    pub(crate) fn save(&self, text: &str) {
        let name = text.lines().next().and_then(|line| line.strip_prefix("# "));
        let name = name.expect("the first line is the name of the file");
        std::fs::write(self.folder.join(name), text).unwrap();
    }

    /// Runs these commands, and gives what they print.
    pub(crate) async fn run(&self, commands: &str) -> String {
        let lines = commands.lines();
        let told: Vec<_> = lines.filter(|line| !self.knows(line)).collect();
        let commands = told.join("\n");
        let script = format!(
            "set -euo pipefail\nif [ -f .functions ]; then . ./.functions; fi\n\
             {commands}\ndeclare -f >.functions\n"
        );
        let mut command = Command::new("timeout");
        command
            .args([LIMIT, "bash", "-c", &script])
            .current_dir(&self.folder)
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = output.await.unwrap().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{commands}\nended with {}:\n{printed}{complaint}",
            output.status
        );
        printed
    }

    /// Whether this line leaves a value to the reader, who has it already.
    fn knows(&self, line: &str) -> bool {
        let name = line
            .strip_prefix("export ")
            .and_then(|line| line.strip_suffix("=…"));
        name.is_some_and(|name| self.variables.iter().any(|(known, _)| *known == name))
    }
}
