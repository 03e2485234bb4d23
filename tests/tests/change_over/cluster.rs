//! The guides of the change-over, with their own commands, there and back again, in a cluster and a cloud as a Go
//! controller leaves them: no write in the cloud.
//!
//! Real are the API server, kube-controller-manager, kubectl, helm and `mooring-central`. Played are the cloud and the
//! kubelets.

pub(crate) mod guide;
pub(crate) mod kubelet;
pub(crate) mod nodes;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, NodeAddress, Service};
use kube::api::{Api, ListParams};
use mooring_cloud_sim::Calls;
use mooring_cloud_sim::cloud::{Cloud, CloudSim};
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::objects::{ServiceBuilder, apply_manifests};
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use guide::Reader;
use kubelet::Kubelet;

/// Where the Services are.
pub(crate) const NAMESPACE: &str = "default";

/// What waits for rollouts and for a Lease that expires.
const AT_LAST: Duration = Duration::from_secs(90);

/// What is between the commands: kube-controller-manager makes Pods of them.
pub(crate) const CONTROLLERS: [&str; 4] = [
    "daemonset-controller",
    "deployment-controller",
    "replicaset-controller",
    "job-controller",
];

/// A Go controller, and the guide that replaces it.
pub(crate) struct OldController {
    pub(crate) cloud: Cloud,
    /// The text of the guide.
    pub(crate) page: &'static str,
    /// Its manifest, of those in `upstream_manifest`, with the image `mooring-central`.
    pub(crate) manifest: &'static str,
    /// Its DaemonSet or Deployment, as `daemonset/name`.
    pub(crate) name: &'static str,
    /// The function of the guide that prints what Services have.
    pub(crate) shown: &'static str,
    pub(crate) image: &'static str,
    /// The section of the guide that makes the Secret.
    pub(crate) credentials: &'static str,
    /// What stands for the credentials in the guide and in the manifest, and what they are.
    pub(crate) placeholders: fn(&CloudSim) -> Vec<(&'static str, String)>,
    /// The same of what the manifest alone says.
    pub(crate) in_manifest: fn(&CloudSim) -> Vec<(&'static str, String)>,
    /// Everything in the cloud, of each kind a list.
    pub(crate) everything: fn(&CloudSim) -> Value,
    /// The load balancer that it finds for a Service.
    pub(crate) found: fn(&CloudSim, &Service) -> Option<String>,
    /// Asserts that a load balancer has served without a gap.
    pub(crate) assert_served: fn(&CloudSim, &str),
    /// Whether Mooring has looked at a Service and what it has: by what was asked since it came.
    pub(crate) is_adopted: fn(&CloudSim, &Calls, &Service) -> bool,
    /// An address of a Node, as the comparison sees it.
    pub(crate) address: fn(&NodeAddress) -> String,
}

/// One test's cluster and cloud, and whoever follows the guide there.
pub(crate) struct GuideCluster {
    pub(crate) cp: Arc<ControlPlane>,
    pub(crate) cloud: CloudSim,
    pub(crate) reader: Reader,
    old: OldController,
    /// The names of the Services, and the ids of their load balancers.
    left: BTreeMap<String, String>,
    before: Value,
    _kubelet: Kubelet,
}

impl GuideCluster {
    /// An empty cluster, and an empty cloud.
    pub(crate) async fn start(old: OldController) -> Self {
        let options = Options::default().with_controller_manager();
        let options = CONTROLLERS.into_iter().fold(options, Options::controller);
        let cp = Arc::new(ControlPlane::start(options).await.unwrap());
        let cloud = CloudSim::start(old.cloud).await;
        let logs = cp.folder().join("pods");
        std::fs::create_dir(&logs).unwrap();
        Self {
            reader: Reader::of(&cp, &logs, old.page).knowing(cloud.environment()),
            _kubelet: Kubelet::start(&cp, &logs, cloud.environment()),
            cp,
            cloud,
            old,
            left: BTreeMap::new(),
            before: Value::Null,
        }
    }

    /// The old controller runs and has left these load balancers, by the names of their Services: nothing of that
    /// may change.
    pub(crate) async fn is_left(&mut self, left: BTreeMap<String, String>) {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let manifest = here
            .join("tests/services/upstream_manifest")
            .join(self.old.manifest);
        let text = std::fs::read_to_string(manifest).unwrap();
        let image = "image: mooring-central";
        assert!(text.contains(image), "the manifest has another form");
        let text = text.replace(image, &format!("image: {}", self.old.image));
        let own = self.cp.folder().join("old.yaml");
        std::fs::write(&own, self.filled_in(&text)).unwrap();
        apply_manifests(&self.cp, &own).await.unwrap();
        let name = self.old.name;
        let rolled_out = format!("kubectl --namespace kube-system rollout status {name}");
        self.reader.run(&rolled_out).await;
        self.left = left;
        self.before = self.state().await;
    }

    fn filled_in(&self, text: &str) -> String {
        let placeholders = (self.old.placeholders)(&self.cloud);
        let all = placeholders
            .into_iter()
            .chain((self.old.in_manifest)(&self.cloud));
        all.fold(text.to_owned(), |text, (before, after)| {
            text.replace(before, &after)
        })
    }

    pub(crate) fn services(&self) -> Api<Service> {
        Api::namespaced(self.cp.admin(), NAMESPACE)
    }

    async fn service(&self, name: &str) -> Service {
        self.services().get(name).await.unwrap()
    }

    /// Everything in the cloud, and what the Go controller has written in the cluster.
    async fn state(&self) -> Value {
        let mut objects = Vec::new();
        for name in self.left.keys() {
            let service = self.service(name).await;
            let metadata = service.metadata;
            let notes = metadata.annotations.unwrap_or_default().into_iter();
            let notes: BTreeMap<_, _> = notes.filter(|(key, _)| !is_record(key)).collect();
            objects.push(json!([name, metadata.finalizers, notes, service.status]));
        }
        let nodes = Api::<Node>::all(self.cp.admin());
        for node in nodes.list(&ListParams::default()).await.unwrap() {
            let metadata = node.metadata;
            let notes = metadata.annotations.unwrap_or_default().into_iter();
            let notes: BTreeMap<_, _> = notes.filter(|(key, _)| !is_record(key)).collect();
            let addresses = node.status.and_then(|status| status.addresses);
            let addresses = addresses.unwrap_or_default();
            let addresses: Vec<String> = addresses.iter().map(self.old.address).collect();
            objects.push(json!([
                metadata.name,
                metadata.labels,
                notes,
                node.spec,
                addresses
            ]));
        }
        json!({ "cloud": (self.old.everything)(&self.cloud), "objects": objects })
    }

    /// What `nodes` and its other function print must be as it was before, in the shell of the guide.
    async fn compare(&self, but: &str) {
        let shown = self.old.shown;
        let compare =
            format!("nodes | diff nodes.before -\n{shown} {but} | diff {shown}.before -\n");
        self.reader.run(&compare).await;
    }

    /// Asserts that nothing was written in the cloud, and that all is as the Go controller has left it.
    async fn assert_untouched(&self) {
        let writes = self.cloud.calls().writes();
        assert!(writes.is_empty(), "{}", writes.summary());
        assert_eq!(self.state().await, self.before);
        self.assert_kept().await;
    }

    /// Waits until central has looked at all that was left, since then.
    async fn adopted(&self, since: Instant) {
        for name in self.left.keys() {
            eventually(&format!("{name} is adopted"), AT_LAST, async || {
                let service = self.service(name).await;
                (self.old.is_adopted)(&self.cloud, &self.cloud.calls().since(since), &service)
            })
            .await;
        }
    }

    /// Steps 1 and 2.
    async fn noted_and_planned(&self) {
        self.reader.follow("1. Note what there is").await;
        let plan = self
            .reader
            .follow("2. See that nothing would be done")
            .await;
        for name in self.left.keys() {
            let line = plan
                .lines()
                .find(|line| line.contains(&format!("default/{name}")));
            assert!(line.is_some(), "{name} is missing: {plan}");
        }
        let idle = plan.matches("nothing to do").count();
        assert_eq!(idle, self.left.len(), "{plan}");
        for told in ["refused", "note:"] {
            assert!(!plan.contains(told), "{plan}");
        }
        self.assert_untouched().await;
    }

    /// Follows way A, and gives what its commands print.
    pub(crate) async fn goes_way_a(&self) -> String {
        self.noted_and_planned().await;
        let since = Instant::now();
        let told = self.reader.follow("Way A: swap the image").await;
        self.adopted(since).await;
        self.compare("").await;
        self.assert_untouched().await;
        told
    }

    /// Follows way A back.
    pub(crate) async fn goes_back_from_a(&self) {
        self.goes_back("From A").await;
        let name = self.old.name;
        let image = format!(
            "kubectl --namespace kube-system get {name} --output \
             'jsonpath={{.spec.template.spec.containers[*].image}}'"
        );
        let image = self.reader.run(&image).await;
        assert_eq!(image, self.old.image);
    }

    /// Follows way B, and gives what looking whether all is well shows.
    pub(crate) async fn goes_way_b(&self) -> String {
        self.noted_and_planned().await;
        let section = self.old.credentials;
        let placeholders = (self.old.placeholders)(&self.cloud);
        self.reader.follow_with(section, &placeholders).await;
        self.reader.follow("The values").await;
        let since = Instant::now();
        self.reader.follow("Change over").await;
        self.adopted(since).await;
        let told = self.reader.look("Look whether all is well").await;
        // What the API server says of its own Service when it is new.
        let lines = told
            .lines()
            .filter(|line| !line.contains("ClusterIPNotAllocated"));
        for line in lines {
            let is_difference = line.starts_with("< ") || line.starts_with("> ");
            assert!(!is_difference && !line.contains("to do"), "{told}");
            for fault in ["WARN", "ERROR", "Warning"] {
                assert!(!line.contains(fault), "{told}");
            }
        }
        self.assert_untouched().await;
        told
    }

    /// Follows way B back, after which there is no trace of Mooring in the cluster.
    pub(crate) async fn goes_back_from_b(&self) {
        self.goes_back("From B").await;
        self.assert_no_trace().await;
    }

    /// Follows this section, with a Service that Mooring has served meanwhile: the old controller finds what it has
    /// as well, and of all else nothing has changed.
    async fn goes_back(&self, section: &str) {
        let service = ServiceBuilder::load_balancer(NAMESPACE, "meanwhile").port(80, 8080);
        service.create(&self.cp.admin()).await.unwrap();
        let made = eventually("it has an address", AT_LAST, async || {
            let service = self.service("meanwhile").await;
            let status = service.status.as_ref()?.load_balancer.as_ref()?;
            let is_provided = status.ingress.is_some();
            is_provided.then_some(service)
        })
        .await;
        let id = (self.old.found)(&self.cloud, &made);
        assert!(id.is_some(), "{made:?}");
        let writes = self.cloud.calls().writes().len();

        self.reader.follow(section).await;
        let all = self.cloud.calls().writes();
        assert_eq!(all.len(), writes, "{}", all.summary());
        let kept = self.service("meanwhile").await;
        assert_eq!((self.old.found)(&self.cloud, &kept), id);
        assert_eq!(kept.metadata.finalizers, made.metadata.finalizers);
        self.compare("| grep -v meanwhile").await;
        self.assert_kept().await;
    }

    /// Asserts that all is still there that the Go controller has left, as it was.
    async fn assert_kept(&self) {
        let now = self.state().await;
        assert_eq!(now["objects"], self.before["objects"]);
        let all = |state: &Value| state["cloud"].as_array().cloned().unwrap_or_default();
        for (before, now) in all(&self.before).iter().zip(all(&now)) {
            let now = now.as_array().unwrap();
            let lost = before
                .as_array()
                .unwrap()
                .iter()
                .find(|one| !now.contains(one));
            assert_eq!(lost, None, "it has changed: {now:#?}");
        }
        for (name, id) in &self.left {
            (self.old.assert_served)(&self.cloud, id);
            let found = (self.old.found)(&self.cloud, &self.service(name).await);
            assert_eq!(found.as_ref(), Some(id), "{name}");
        }
    }

    /// Of Mooring there is nothing in the cluster any more: no object, no annotation.
    async fn assert_no_trace(&self) {
        let everything = "for kind in $(kubectl api-resources --verbs=list --output=name | grep -v events); do\n\
                          kubectl get \"$kind\" --all-namespaces --output=name\ndone";
        let all = self.reader.run(everything).await;
        let old = self.old.name.replace('/', ".apps/");
        assert!(all.lines().any(|line| line == old), "{all}");
        let mut named = all.lines().filter(|line| line.contains("mooring"));
        assert_eq!(named.next(), None, "{all}");
        for name in self.left.keys() {
            let notes = self.service(name).await.metadata.annotations;
            let mut records = notes.unwrap_or_default().into_keys();
            assert_eq!(records.find(|key| is_record(key)), None, "{name}");
        }
    }
}

/// What Mooring writes for itself.
fn is_record(key: &str) -> bool {
    key.starts_with("mooring.dev/")
}
