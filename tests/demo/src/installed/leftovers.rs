//! What is there in the cluster and on the machines, to be compared with what was there before.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use super::cluster::Installation;

/// Lists the objects of all kinds but Events and Leases of kubelets, one a line.
const LIST: &str = r"kinds=$(kubectl api-resources --verbs=list,delete --output=name | grep -v '^events' | paste -sd,)
kubectl get $kinds --all-namespaces --ignore-not-found --no-headers \
    --output=custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name |
    grep -v 'kube-node-lease'";

/// What a machine has in /run, but for what its other programs make at any time.
const RUN: &str = r"ls /run | grep -vxE 'cni|netns|containerd|mount|nri|lock|xtables.lock' || true";

/// What there is at one time.
pub(super) struct Inventory {
    objects: BTreeSet<String>,
    interfaces: BTreeSet<String>,
    run: BTreeSet<String>,
}

/// What there is beyond an earlier [`Inventory`].
pub(super) struct Leftovers {
    /// Kind, namespace and name of each object.
    pub(super) objects: Vec<String>,
    /// Node and name.
    pub(super) interfaces: Vec<String>,
    /// Names in `/run` of any machine.
    pub(super) run: Vec<String>,
}

impl Inventory {
    /// Looks at everything.
    pub(super) async fn take(installation: &Installation) -> Result<Self> {
        let objects = installation.shell.run(LIST).await?;
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut inventory = Self {
            objects: objects.lines().map(words).collect(),
            interfaces: BTreeSet::new(),
            run: BTreeSet::new(),
        };
        for machine in &installation.machines {
            let interfaces = machine.interfaces()?;
            let interfaces = interfaces.iter().filter(|name| *name != "cni0");
            let named = interfaces.map(|name| format!("{} {name}", machine.name()));
            inventory.interfaces.extend(named);
            let run = machine.run(RUN).await?;
            inventory.run.extend(run.lines().map(str::to_owned));
        }
        Ok(inventory)
    }

    /// What there is now, and was not then.
    pub(super) async fn leftovers(&self, installation: &Installation) -> Result<Leftovers> {
        let now = Self::take(installation).await?;
        let beyond = |now: &BTreeSet<String>, then| now.difference(then).cloned().collect();
        Ok(Leftovers {
            objects: beyond(&now.objects, &self.objects),
            interfaces: beyond(&now.interfaces, &self.interfaces),
            run: beyond(&now.run, &self.run),
        })
    }
}

impl Leftovers {
    /// Whether each of the objects begins with one of these words, and there is nothing on machines but
    /// these names in `/run`.
    pub(super) fn check(&self, objects: &[&str], run: &[&str]) -> Result<()> {
        let is_named = |object: &&String| objects.iter().any(|words| object.starts_with(words));
        let unnamed: Vec<_> = self
            .objects
            .iter()
            .filter(|object| !is_named(object))
            .collect();
        ensure!(unnamed.is_empty(), "the page does not name: {unnamed:?}");
        ensure!(
            self.interfaces.is_empty(),
            "interfaces are left: {:?}",
            self.interfaces
        );
        ensure!(
            self.run == run,
            "in /run of the machines are left: {:?}",
            self.run
        );
        Ok(())
    }
}
