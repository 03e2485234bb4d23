//! Plays the scheduler and the kubelets: Pods get a Node, those of `mooring-central` run, the others only stand
//! there. So DaemonSets, Deployments and Jobs are what commands make of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Container, EnvVar, Pod, Secret};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use mooring_test_cluster::control_plane::{ControlPlane, free_port};
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::program::Program;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

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
                bind(&pods, &pod, &name).await?;
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

    async fn launch(&self, pod: &Pod, namespace: &str, name: &str) -> Result<Option<Process>> {
        let spec = pod.spec.as_ref().context("a Pod without specification")?;
        let [container] = spec.containers.as_slice() else {
            anyhow::bail!("{name} has several containers");
        };
        let image = container.image.as_deref().unwrap_or_default();
        if !image.contains(Program::Central.file_name()) {
            return Ok(None);
        }
        let account = spec.service_account_name.as_deref().unwrap_or_default();
        let kubeconfig = self
            .cp
            .kubeconfig_for_service_account(namespace, account, None);
        let kubeconfig = kubeconfig.await?;
        let mut arguments = container.args.clone().unwrap_or_default();
        arguments.push(format!("--kubeconfig={}", kubeconfig.display()));
        if arguments[0] != "plan" {
            let port = free_port(std::net::Ipv4Addr::LOCALHOST.into())?;
            arguments.push("--bind-address=127.0.0.1".to_owned());
            arguments.push(format!("--secure-port={port}"));
        }
        let log = self.logs.join(format!("{name}.log"));
        let program = Spec::new(name, Program::Central.path()?, log).args(arguments);
        let variables = self.variables(container, namespace).await?;
        let program = variables
            .into_iter()
            .fold(program, |program, (name, value)| program.env(name, value));
        Process::start(&program).map(Some)
    }

    /// What the container has in its environment. Where the simulated cloud is comes first.
    async fn variables(
        &self,
        container: &Container,
        namespace: &str,
    ) -> Result<Vec<(String, String)>> {
        let own = self.environment.iter();
        let mut all: Vec<_> = own.map(|(n, v)| ((*n).to_owned(), v.clone())).collect();
        for source in container.env_from.iter().flatten() {
            let secret = source.secret_ref.as_ref().context("no Secret")?;
            all.extend(self.secret(namespace, &secret.name).await?);
        }
        for variable in container.env.iter().flatten() {
            all.push((
                variable.name.clone(),
                self.value(variable, namespace).await?,
            ));
        }
        Ok(all)
    }

    async fn value(&self, variable: &EnvVar, namespace: &str) -> Result<String> {
        let from = variable.value_from.as_ref();
        let Some(key) = from.and_then(|from| from.secret_key_ref.as_ref()) else {
            let value = variable.value.clone();
            return Ok(value.unwrap_or_else(|| namespace.to_owned()));
        };
        let mut all = self.secret(namespace, &key.name).await?;
        all.remove(&key.key).context("the Secret has no such key")
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<HashMap<String, String>> {
        let secrets = Api::<Secret>::namespaced(self.cp.admin(), namespace);
        let data = secrets.get(name).await?.data.unwrap_or_default();
        let texts = data
            .into_iter()
            .map(|(key, value)| Ok((key, String::from_utf8(value.0)?)));
        texts.collect()
    }
}

async fn patch(pods: &Api<Pod>, name: &str, status: &Value) -> Result<()> {
    let patch = Patch::Merge(json!({ "status": status }));
    pods.patch_status(name, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// A Pod of a DaemonSet says which Node it is for; all others come to the first.
async fn bind(pods: &Api<Pod>, pod: &Pod, name: &str) -> Result<()> {
    let wanted = serde_json::to_value(pod)?;
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let wanted = wanted
        .pointer(&format!("{terms}/0/matchFields/0/values/0"))
        .cloned();
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
        "target": { "apiVersion": "v1", "kind": "Node", "name": wanted.unwrap_or_else(|| json!("n1")) },
    });
    let params = PostParams::default();
    let bound = pods.create_subresource::<Value, Value>("binding", name, &params, &binding);
    bound.await.map(drop).context("binding a Pod")
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
