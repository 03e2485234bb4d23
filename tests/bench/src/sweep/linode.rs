//! What is swept of Linode. Beside the Service's NodeBalancer stand those of others, with firewalls.
//!
//! | operation | what a user does |
//! |---|---|
//! | `create` | makes a Service with two ports and a firewall of its own, before three Nodes |
//! | `ports` | makes one with three ports, of TCP and UDP |
//! | `port` | changes a port of a Service with a firewall |
//! | `join` | a fourth Node joins |
//! | `leave` | it leaves, and keeps its connections for a second |
//! | `acl` | changes whom the firewall lets in |
//! | `acl-away` | wants no firewall any more |
//! | `switch` | wants another NodeBalancer, by `nodebalancer-id` |
//! | `delete` | deletes the Service |

mod judge;
mod operation;

use anyhow::Result;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::case_cluster::CaseCluster;
use super::choice::Scale;
use super::disturbance::Disturbance;
use super::reference::Reference;
use super::report::Report;
use super::swept_cloud::SweptCloud;
use crate::clouds::linode::{REGION, is_marked};
use mooring_cloud_sim::CloudState;
use mooring_cloud_sim::linode::{Kind, Linode};
use mooring_common::names::linode_tags;

pub use operation::Operation;

/// NodeBalancers and firewalls of others, and a NodeBalancer that nobody uses yet.
const STRANGERS: [u64; 4] = [910_001, 910_002, 910_003, 910_004];
const SPARE: u64 = 920_001;

/// Does all cases of this choice.
///
/// # Errors
/// If an operation does not even work undisturbed.
pub async fn run(scale: &Scale<Operation>) -> Result<Report<Operation>> {
    super::run::<Linode>(scale).await
}

impl SweptCloud for Linode {
    type Operation = Operation;

    const DISTURBANCES: &'static [Disturbance] = &Disturbance::ALL;
    const FLAGS: &'static [&'static str] = &["--nodebalancer-drain-period=1s"];

    fn furnish(&self) {
        let [by_hand, of_cluster, firewall, loose] = STRANGERS;
        let port = json!({"port": 80, "protocol": "tcp", "nodes": [
            {"label": "theirs", "address": "192.168.200.1:80"},
        ]});
        let marks = json!([
            format!("{}{}", linode_tags::SERVICE, uuid::Uuid::new_v4()),
            format!("{}{}", linode_tags::CLUSTER, uuid::Uuid::new_v4()),
        ]);
        self.put_node_balancer(&json!({"id": by_hand, "label": "by-hand", "region": REGION,
            "configs": [port]}));
        self.put_node_balancer(&json!({"id": of_cluster, "label": "of-another-cluster",
            "region": REGION, "tags": marks, "configs": [port]}));
        self.put_node_balancer(&json!({"id": SPARE, "label": "spare", "region": REGION}));
        self.put_firewall(&json!({"id": firewall, "label": "theirs", "tags": marks,
            "entities": [{"type": "nodebalancer", "id": of_cluster}]}));
        self.put_firewall(&json!({"id": loose, "label": "idle", "tags": marks}));
    }

    async fn prepare(case: &CaseCluster<Self>, operation: Operation) -> Result<()> {
        operation.prepare(case).await
    }

    async fn begin(case: &CaseCluster<Self>, operation: Operation) -> Result<()> {
        operation.begin(case).await
    }

    fn missing(case: &CaseCluster<Self>, operation: Operation) -> Option<String> {
        operation.missing(case)
    }

    /// The strangers' marks are others each time, and are looked at apart.
    fn end(&self) -> CloudState {
        let strangers = ["by-hand", "of-another-cluster"];
        let end = strangers
            .iter()
            .fold(self.snapshot(), |state, name| state.without(name));
        end.without_idle_firewall("idle")
    }

    fn name_of(&self, service: &Service) -> Option<String> {
        let balancer = self.of_service(Kind::NodeBalancer, service).pop()?;
        balancer["label"].as_str().map(ToOwned::to_owned)
    }

    /// Names are made from the UID.
    fn words(&self, service: &Service) -> Vec<(String, String)> {
        let kinds = [Kind::NodeBalancer, Kind::Firewall];
        let own = kinds
            .iter()
            .flat_map(|kind| self.of_service(*kind, service));
        let labels = own.filter_map(|object| object["label"].as_str().map(ToOwned::to_owned));
        let made = labels.filter(|label| label.starts_with("ccm-"));
        made.map(|label| (label, "<label>".to_owned())).collect()
    }

    /// Those that were there before have no tags, or are a stranger's.
    fn balancers(&self) -> usize {
        let mut all = self.all(Kind::NodeBalancer);
        all.retain(|one| {
            one["id"]
                .as_u64()
                .is_some_and(|id| !STRANGERS.contains(&id))
        });
        let is_spare = |one: &&Value| one["id"] == SPARE && one["tags"] == json!([]);
        all.iter().filter(|one| !is_spare(one)).count()
    }

    fn faults_of(&self, service: &Service) -> Vec<String> {
        judge::faults_of(self, service)
    }

    fn writes_for(&self, service: &Service) -> u64 {
        judge::writes_for(self, service)
    }

    fn was_careful(
        &self,
        _operation: Operation,
        disturbance: Disturbance,
        reference: Option<&Reference>,
    ) -> Result<()> {
        judge::was_careful(self, disturbance, reference)
    }
}

/// What a Service has of a kind.
trait OfService {
    /// By its tags.
    fn of_service(&self, kind: Kind, service: &Service) -> Vec<Value>;
}

impl OfService for Linode {
    fn of_service(&self, kind: Kind, service: &Service) -> Vec<Value> {
        let mut all = self.all(kind);
        all.retain(|object| is_marked(object, service));
        all
    }
}
