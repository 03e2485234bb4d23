//! Plays the scheduler and the kubelets: Pods get a Node, those of `mooring-central` run, the others only stand
//! there. So DaemonSets, Deployments and Jobs are what commands make of them.

mod container;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Container, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use mooring_test_cluster::control_plane::ControlPlane;
use mooring_test_support::process::Process;
use mooring_test_support::program::Program;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use container::Started;

/// How often it looks at the Pods.
const TURN: Duration = Duration::from_millis(200);

/// Dropping it ends all programs.
pub(crate) struct Kubelet(JoinHandle<()>);

impl Kubelet {
    /// For the Pods of this cluster, with these variables for what their containers leave open.
    pub(crate) fn start(
        cp: &Arc<ControlPlane>,
        logs: &Path,
        environment: Vec<(&'static str, String)>,
    ) -> Self {
        let mut host = Host {
            cp: Arc::clone(cp),
            logs: logs.to_owned(),
            environment,
            programs: HashMap::new(),
        };
        Self(tokio::spawn(async move {
            let mut turns = tokio::time::interval(TURN);
            loop {
                turns.tick().await;
                if let Err(error) = host.turn().await {
                    eprintln!("the kubelet tries again: {error:#}");
                }
            }
        }))
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Host {
    cp: Arc<ControlPlane>,
    logs: PathBuf,
    environment: Vec<(&'static str, String)>,
    /// By the UIDs of their Pods.
    programs: HashMap<String, Option<Process>>,
}

impl Host {
    async fn turn(&mut self) -> Result<()> {
        let all = Api::<Pod>::all(self.cp.admin());
        for pod in all.list(&ListParams::default()).await? {
            let metadata = &pod.metadata;
            let namespace = metadata.namespace.as_deref().unwrap_or_default();
            let pods = Api::<Pod>::namespaced(self.cp.admin(), namespace);
            let uid = metadata.uid.clone().unwrap_or_default();
            let name = metadata.name.clone().unwrap_or_default();
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
            if metadata.deletion_timestamp.is_some() {
                self.end(&uid, &pods, &name).await?;
            } else if node.is_none() {
                self.bind(&pods, &pod, &name).await?;
            } else if let Some(program) = self.programs.get(&uid) {
                report_end(program.as_ref(), &pods, &pod, &name).await?;
            } else {
                let program = self.launch(&pod, namespace, &name).await?;
                self.programs.insert(uid, program);
                let now = jiff::Timestamp::now().to_string();
                let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": now });
                let status = json!({ "phase": "Running", "conditions": [ready] });
                patch(&pods, &name, &status).await?;
            }
        }
        Ok(())
    }

    /// A Pod of a DaemonSet says which Node it is for; all others come to that of this machine, where there is one, or
    /// to the first.
    async fn bind(&self, pods: &Api<Pod>, pod: &Pod, name: &str) -> Result<()> {
        let wanted = serde_json::to_value(pod)?;
        let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        let wanted = wanted
            .pointer(&format!("{terms}/0/matchFields/0/values/0"))
            .cloned();
        let nodes = Api::<Node>::all(self.cp.admin());
        let own = match nodes.get_opt(&machine()?).await? {
            Some(node) => node.metadata.name,
            None => Some("n1".to_owned()),
        };
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
            "target": { "apiVersion": "v1", "kind": "Node", "name": wanted.unwrap_or_else(|| json!(own)) },
        });
        let params = PostParams::default();
        let bound = pods.create_subresource::<Value, Value>("binding", name, &params, &binding);
        bound.await.map(drop).context("binding a Pod")
    }

    /// The end of a Pod is reported when its program has ended.
    async fn end(&mut self, uid: &str, pods: &Api<Pod>, name: &str) -> Result<()> {
        if let Some(Some(program)) = self.programs.get(uid)
            && program.is_running()
        {
            // It may have ended in between.
            let _ = program.terminate();
            return Ok(());
        }
        self.programs.insert(uid.to_owned(), None);
        let at_once = DeleteParams::default().grace_period(0);
        let gone = pods.delete(name, &at_once).await;
        gone.map(drop).context("a Pod that has ended")
    }

    /// What does not run has an empty log.
    async fn launch(&self, pod: &Pod, namespace: &str, name: &str) -> Result<Option<Process>> {
        let spec = pod.spec.as_ref().context("a Pod without specification")?;
        let log = self.logs.join(format!("{name}.log"));
        let runs = |container: &&Container| {
            let image = container.image.as_deref();
            image.is_some_and(|image| image.contains(Program::Central.file_name()))
        };
        let Some(container) = spec.containers.iter().find(runs) else {
            std::fs::write(log, "")?;
            return Ok(None);
        };
        let here = self.logs.join(name);
        std::fs::create_dir(&here)?;
        let program = Started {
            cp: &self.cp,
            namespace,
            spec,
            container,
            here,
        };
        let program = program.spec(name, log, &self.environment).await?;
        Process::start(&program).map(Some)
    }
}

/// The name by which central knows the machine that it runs on.
pub(crate) fn machine() -> Result<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
    Ok(name.trim().to_lowercase())
}

async fn patch(pods: &Api<Pod>, name: &str, status: &Value) -> Result<()> {
    let patch = Patch::Merge(json!({ "status": status }));
    pods.patch_status(name, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

async fn report_end(
    program: Option<&Process>,
    pods: &Api<Pod>,
    pod: &Pod,
    name: &str,
) -> Result<()> {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let Some(status) = program.and_then(Process::try_wait) else {
        return Ok(());
    };
    let ended = if status.success() {
        "Succeeded"
    } else {
        "Failed"
    };
    if phase == Some(ended) {
        return Ok(());
    }
    patch(pods, name, &json!({ "phase": ended })).await
}
