//! One case's cloud, namespace and central.

mod judge;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::cluster::{CASE_LABEL, Cluster, NODES, SHARED, class};
use super::disturbance::Armed;
use super::reference::Reference;
use super::swept_cloud::{SweptCloud, WEB};
use crate::clouds::uid;
use mooring_test_cluster::objects::{ServiceBuilder, create_namespace, unique};
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::program::Program;
use mooring_test_support::wait::try_eventually;

/// How long central waits for the cloud where it has to give up.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);
/// How long what is not disturbed may take.
const LIMIT: Duration = Duration::from_secs(60);

/// The Service that shows that central still works.
const MARKER: &str = "marker";

/// How central is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitLimit {
    /// As shipped.
    Usual,
    /// It does not wait long for the cloud.
    Short,
    /// Nor for long until it compares anew.
    ShortAndCurious,
}

/// Central, which may be killed and started again.
pub(super) struct Central {
    spec: Spec,
    process: Mutex<Process>,
}

impl Central {
    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn kill(&self) {
        self.process().kill();
    }

    fn is_running(&self) -> bool {
        self.process().is_running()
    }

    fn start_again(&self) -> Result<()> {
        *self.process() = Process::start(&self.spec)?;
        Ok(())
    }
}

/// One case's own.
pub(crate) struct CaseCluster<C> {
    admin: Client,
    name: String,
    pub(super) cloud: C,
    pub(super) central: Arc<Central>,
    /// The Services that are wanted, by name.
    services: Mutex<BTreeMap<String, Service>>,
    /// What stands for what differs from case to case.
    words: Mutex<BTreeMap<String, String>>,
}

impl<C: SweptCloud> CaseCluster<C> {
    pub(super) async fn start(cluster: &Arc<Cluster<C>>, patience: WaitLimit) -> Result<Self> {
        let (admin, name) = (cluster.cp.admin(), unique("sweep"));
        create_namespace(&admin, &name).await?;
        let cloud = C::open().await?;
        (1..=NODES).for_each(|n| cloud.add_machine(n));
        cloud.furnish();
        let spec = central(cluster, &cloud, &name, patience)?;
        let process = Mutex::new(Process::start(&spec)?);
        let words = [(cluster.uid.clone(), "<cluster>".to_owned())].into();
        Ok(Self {
            admin,
            name,
            cloud,
            central: Arc::new(Central { spec, process }),
            services: Mutex::default(),
            words: Mutex::new(words),
        })
    }

    /// Ends central, and takes away what others would have to look at.
    pub(super) async fn tear_down(self) {
        self.central.kill();
        let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        let names: Vec<String> = self.wanted().keys().cloned().collect();
        for name in names.iter().map(String::as_str).chain([MARKER, WEB]) {
            // Whatever is left does no harm but to cost a little.
            let params = PatchParams::default();
            let _ = self.api().patch(name, &params, &release).await;
            let _ = self.api().delete(name, &DeleteParams::default()).await;
        }
        let nodes = Api::<Node>::all(self.admin.clone());
        let _ = nodes.delete(&self.name, &DeleteParams::default()).await;
    }

    fn api(&self) -> Api<Service> {
        Api::namespaced(self.admin.clone(), &self.name)
    }

    fn wanted(&self) -> MutexGuard<'_, BTreeMap<String, Service>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // --- what a user does ---------------------------------------------------------------------

    /// A Service without ports, for this case's central and Nodes.
    pub(super) fn bare(&self, name: &str) -> ServiceBuilder {
        let service = ServiceBuilder::load_balancer(&self.name, name).class(&class(&self.name));
        let selector = format!("{CASE_LABEL} in ({SHARED}, {})", self.name);
        C::choosing_nodes(service, &selector)
    }

    /// The same with two ports.
    pub(super) fn service(&self, name: &str) -> ServiceBuilder {
        self.bare(name).port(80, 8080).port(443, 8443)
    }

    /// Makes what has to be there before, and waits until it is served.
    pub(super) async fn prepare(&self, operation: C::Operation) -> Result<()> {
        C::prepare(self, operation).await?;
        self.are_served().await
    }

    pub(super) async fn create(&self, service: ServiceBuilder) -> Result<()> {
        let service = service.create(&self.admin).await?;
        self.note(service);
        Ok(())
    }

    pub(super) async fn patch(&self, name: &str, operations: Value) -> Result<()> {
        let patch = Patch::<()>::Json(serde_json::from_value(operations)?);
        let params = PatchParams::default();
        let service = self.api().patch(name, &params, &patch).await?;
        self.note(service);
        Ok(())
    }

    /// Changes an annotation, or takes it away.
    pub(super) async fn annotate(&self, name: &str, key: &str, value: Option<&str>) -> Result<()> {
        let path = format!("/metadata/annotations/{}", key.replace('/', "~1"));
        let operation = match value {
            Some(value) => json!([{"op": "add", "path": path, "value": value}]),
            None => json!([{"op": "remove", "path": path}]),
        };
        self.patch(name, operation).await
    }

    pub(super) async fn delete(&self, name: &str) -> Result<()> {
        self.wanted().remove(name);
        self.api().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Another Node joins, for this case alone.
    pub(super) async fn join(&self) -> Result<()> {
        self.cloud.add_machine(NODES + 1);
        let node = C::node(&self.name, NODES + 1).label(CASE_LABEL, &self.name);
        node.create(&self.admin).await?;
        Ok(())
    }

    /// It leaves.
    pub(super) async fn leave(&self) -> Result<()> {
        let nodes = Api::<Node>::all(self.admin.clone());
        nodes.delete(&self.name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Keeps in mind what the API server has chosen for a Service.
    fn note(&self, service: Service) {
        let name = service.metadata.name.clone().unwrap_or_default();
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.insert(uid(&service).to_owned(), format!("<{name}>"));
        let spec = service.spec.clone().unwrap_or_default();
        if let Some(port) = spec.health_check_node_port.filter(|port| *port > 0) {
            words.insert(port.to_string(), format!("<health of {name}>"));
        }
        for port in spec.ports.into_iter().flatten() {
            let (name_of_port, node_port) = (port.name.unwrap_or_default(), port.node_port);
            let node_port = node_port.unwrap_or_default().to_string();
            words.insert(node_port, format!("<{name_of_port} of {name}>"));
        }
        drop(words);
        self.wanted().insert(name, service);
    }

    // --- central ------------------------------------------------------------------------------

    /// Waits until central has been killed, and starts it again; or until all is done, since there
    /// was no such call so far.
    pub(super) async fn killed_or(&self, armed: &Armed, reference: &Reference) -> Result<()> {
        let ended = try_eventually(LIMIT, async || {
            if armed.has_struck() {
                return !self.central.is_running();
            }
            self.wrong(reference)
                .await
                .is_ok_and(|wrong| wrong.is_empty())
        });
        ended
            .await
            .map_err(|reason| anyhow!("{reason}"))
            .context("central was neither killed nor did it finish: the call never came")?;
        // When all is done already, what central still reads must not be met by a kill unseen.
        armed.lift();
        if armed.has_struck() {
            let killed = try_eventually(LIMIT, async || !self.central.is_running());
            killed.await.map_err(|reason| anyhow!("{reason}"))?;
            self.central.start_again()?;
        }
        Ok(())
    }

    /// Whether central has read something since there were so many calls.
    pub(super) fn has_read_since(&self, calls: usize) -> bool {
        let all = self.cloud.calls();
        let mut since = all.iter().skip(calls);
        since.any(|call| !call.is_write() && call.status.is_some_and(|status| status.is_success()))
    }

    /// Another Service is made and served; nothing is written on any other load balancer meanwhile.
    pub(super) async fn marker(&self) -> Result<()> {
        let before = self.writes();
        self.create(self.bare(MARKER).port(80, 8080)).await?;
        self.are_served().await?;
        let after = self.writes();
        for (name, writes) in before {
            let now = after.get(&name).copied().unwrap_or(writes);
            ensure!(
                now == writes,
                "{} writes for {name} after all was settled",
                now - writes
            );
        }
        Ok(())
    }

    /// How many writes there have been for each Service but the marker.
    fn writes(&self) -> BTreeMap<String, u64> {
        let wanted = self.wanted();
        let others = wanted.iter().filter(|(name, _)| *name != MARKER);
        others
            .map(|(name, service)| (name.clone(), self.cloud.writes_for(service)))
            .collect()
    }

    /// What the cloud was asked, and the end of central's log, for whoever looks for a fault.
    pub(super) fn traces(&self) -> String {
        let calls = self.cloud.calls();
        let all = calls.iter().enumerate();
        let calls: Vec<String> = all
            .map(|(index, call)| format!("{:3} {}", index + 1, call.summary()))
            .collect();
        let log = self.central.process().log();
        format!(
            "namespace {}\ncalls:\n{}\nlog of central:\n{log}",
            self.name,
            calls.join("\n")
        )
    }
}

fn central<C: SweptCloud>(
    cluster: &Cluster<C>,
    cloud: &C,
    name: &str,
    patience: WaitLimit,
) -> Result<Spec> {
    let flags = [
        format!("--cloud-provider={}", C::PROVIDER),
        "--controllers=service".to_owned(),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--serve-classless-services=false".to_owned(),
        "--cloud-api-qps=1000".to_owned(),
        "--cloud-api-burst=1000".to_owned(),
        "--creation-settle-time=2s".to_owned(),
        format!("--load-balancer-class={}", class(name)),
        format!("--kubeconfig={}", cluster.kubeconfig.display()),
    ];
    let spec = Program::Central.spec(cluster.cp.folder(), flags);
    let mut spec = spec
        .context("describing central")?
        .args(C::FLAGS.iter().copied());
    for (variable, value) in cloud.environment() {
        spec = spec.env(variable, value);
    }
    let spec = match patience {
        WaitLimit::Usual => return Ok(spec),
        WaitLimit::Short => spec,
        WaitLimit::ShortAndCurious => spec.args(["--load-balancer-resync-period=1s"]),
    };
    Ok(spec.env(C::TIMEOUT, TIMEOUT.as_secs().to_string()))
}
