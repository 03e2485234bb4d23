//! What is swept of cloudscale.ch.
//!
//! | operation | what a user does |
//! |---|---|
//! | `create` | makes a Service with two ports, before three Nodes |
//! | `port` | changes one of its ports |
//! | `local` | sets its `externalTrafficPolicy` to `Local` |
//! | `floating-ip` | moves a floating IP from one Service to another |
//! | `join` | a fourth Node joins |
//! | `delete` | deletes the Service |

use std::net::IpAddr;

use anyhow::{Result, ensure};
use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::case_cluster::CaseCluster;
use super::choice::Scale;
use super::disturbance::Disturbance;
use super::reference::Reference;
use super::report::Report;
use super::swept_cloud::{self, SweptCloud, WEB};
use crate::clouds::cloudscale::balancer_name;
use mooring_cloud_sim::CloudState;
use mooring_cloud_sim::cloudscale::{Cloudscale, Kind};
use mooring_test_cluster::objects::ServiceBuilder;

const FLOATING_IPS: &str = "k8s.cloudscale.ch/loadbalancer-floating-ips";
const FLOATING_IP: &str = "203.0.113.9/32";
const NODE_SELECTOR: &str = "k8s.cloudscale.ch/loadbalancer-node-selector";
const UUID: &str = "k8s.cloudscale.ch/loadbalancer-uuid";
const ZONE: &str = "k8s.cloudscale.ch/loadbalancer-zone";
const CONFIG_VERSION: &str = "k8s.cloudscale.ch/loadbalancer-config-version";
const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// The Service that the floating IP moves to.
const OTHER: &str = "other";

/// What a user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Makes a Service with two ports.
    Create,
    /// Changes one of its ports.
    Port,
    /// Sets its `externalTrafficPolicy` to `Local`.
    Local,
    /// Moves a floating IP from one Service to another.
    FloatingIp,
    /// A fourth Node joins.
    Join,
    /// Deletes the Service.
    Delete,
}

impl swept_cloud::Operation for Operation {
    const ALL: &'static [Self] = &[
        Self::Create,
        Self::Port,
        Self::Local,
        Self::FloatingIp,
        Self::Join,
        Self::Delete,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Port => "port",
            Self::Local => "local",
            Self::FloatingIp => "floating-ip",
            Self::Join => "join",
            Self::Delete => "delete",
        }
    }

    fn moves_nodes(self) -> bool {
        self == Self::Join
    }
}

/// Does all cases of this choice.
///
/// # Errors
/// If an operation does not even work undisturbed.
pub async fn run(scale: &Scale<Operation>) -> Result<Report<Operation>> {
    super::run::<Cloudscale>(scale).await
}

impl SweptCloud for Cloudscale {
    type Operation = Operation;

    const DISTURBANCES: &'static [Disturbance] = Disturbance::OF_EVERY_CLOUD;
    const FLAGS: &'static [&'static str] = &[];

    fn furnish(&self) {
        self.put(Kind::FloatingIp, json!({ "network": FLOATING_IP }));
    }

    fn choosing_nodes(service: ServiceBuilder, selector: &str) -> ServiceBuilder {
        service.annotation(NODE_SELECTOR, selector)
    }

    async fn prepare(case: &CaseCluster<Self>, operation: Operation) -> Result<()> {
        let services: &[&str] = match operation {
            Operation::Create => &[],
            Operation::FloatingIp => &[WEB, OTHER],
            _ => &[WEB],
        };
        for name in services {
            let service = case.service(name);
            let service = match (operation, *name) {
                (Operation::FloatingIp, WEB) => {
                    service.annotation(FLOATING_IPS, &json!([FLOATING_IP]).to_string())
                }
                _ => service,
            };
            case.create(service).await?;
        }
        Ok(())
    }

    async fn begin(case: &CaseCluster<Self>, operation: Operation) -> Result<()> {
        match operation {
            Operation::Create => case.create(case.service(WEB)).await,
            Operation::Port => {
                let patch = json!([{"op": "replace", "path": "/spec/ports/0/port", "value": 8081}]);
                case.patch(WEB, patch).await
            }
            Operation::Local => {
                let path = "/spec/externalTrafficPolicy";
                let patch = json!([{"op": "replace", "path": path, "value": "Local"}]);
                case.patch(WEB, patch).await
            }
            Operation::FloatingIp => {
                case.annotate(WEB, FLOATING_IPS, None).await?;
                let wanted = json!([FLOATING_IP]).to_string();
                case.annotate(OTHER, FLOATING_IPS, Some(&wanted)).await
            }
            Operation::Join => case.join().await,
            Operation::Delete => case.delete(WEB).await,
        }
    }

    fn missing(case: &CaseCluster<Self>, operation: Operation) -> Option<String> {
        let nodes = if operation == Operation::Join { 4 } else { 3 };
        let other = || match operation {
            Operation::Local => checked_wrongly(&case.cloud, &case.wanted_of(WEB)?),
            Operation::FloatingIp => floating_ip_elsewhere(&case.cloud, &case.wanted_of(OTHER)?),
            Operation::Delete => {
                let left = case.cloud.balancers();
                (left > 0).then(|| format!("{left} are left"))
            }
            Operation::Create | Operation::Port | Operation::Join => None,
        };
        case.unserved(nodes).or_else(other)
    }

    fn end(&self) -> CloudState {
        self.snapshot()
    }

    fn name_of(&self, service: &Service) -> Option<String> {
        Some(balancer_name(service))
    }

    fn balancers(&self) -> usize {
        self.all(Kind::LoadBalancer).len()
    }

    fn faults_of(&self, service: &Service) -> Vec<String> {
        let mut balancers = self.named(Kind::LoadBalancer, &balancer_name(service));
        let Some(balancer) = balancers.pop().filter(|_| balancers.is_empty()) else {
            return vec![format!("has {} load balancers", balancers.len())];
        };
        let annotations = service.metadata.annotations.clone().unwrap_or_default();
        let uuid = balancer["uuid"].as_str().unwrap_or_default();
        let mut faults = Vec::new();
        for (key, value) in [(UUID, uuid), (ZONE, "rma1"), (CONFIG_VERSION, "1")] {
            let found = annotations.get(key).map(String::as_str);
            if found != Some(value) {
                faults.push(format!("has {key}={found:?} instead of {value:?}"));
            }
        }
        let finalizers = service.metadata.finalizers.clone().unwrap_or_default();
        if finalizers != [FINALIZER] {
            faults.push(format!("has the finalizers {finalizers:?}"));
        }
        let vips = balancer["vip_addresses"].as_array().into_iter().flatten();
        let vips: Value = vips
            .filter_map(|vip| vip["address"].as_str()?.parse::<IpAddr>().ok())
            .map(|address| json!({ "ip": address, "ipMode": "Proxy" }))
            .collect();
        let status = serde_json::to_value(&service.status).unwrap_or_default();
        let ingress = &status["loadBalancer"]["ingress"];
        if *ingress != vips {
            faults.push(format!("has the status {ingress} instead of {vips}"));
        }
        faults
    }

    fn writes_for(&self, service: &Service) -> u64 {
        self.traffic(&balancer_name(service)).writes
    }

    fn was_careful(
        &self,
        operation: Operation,
        disturbance: Disturbance,
        _reference: Option<&Reference>,
    ) -> Result<()> {
        let concurrent = self.concurrent_writes();
        ensure!(concurrent == 0, "{concurrent} writes at once");
        if disturbance.is_late() {
            return Ok(());
        }
        let writes = self.calls().writes();
        swept_cloud::none_refused(&writes)?;
        let deletes = writes.method(&Method::DELETE);
        let deletes = match operation {
            Operation::Create | Operation::FloatingIp | Operation::Join => deletes,
            Operation::Delete => deletes.filter(|call| call.status == Some(StatusCode::NOT_FOUND)),
            Operation::Port | Operation::Local => deletes.to("/v1/load-balancers/*"),
        };
        let deletes = deletes.summary();
        ensure!(deletes.is_empty(), "deleted without need:\n{deletes}");
        Ok(())
    }
}

/// What does not check a Service's members by its health check port.
fn checked_wrongly(cloud: &Cloudscale, service: &Service) -> Option<String> {
    let spec = service.spec.as_ref();
    let port = spec.and_then(|spec| spec.health_check_node_port);
    let members = cloud.all(Kind::Member);
    let mut members = members.iter();
    let mut monitors = cloud.all(Kind::HealthMonitor);
    monitors.retain(|monitor| monitor["type"] == "http");
    let is_right = monitors.len() == 2 && members.all(|m| m["monitor_port"] == json!(port));
    (!is_right).then(|| format!("not all is checked at {port:?}"))
}

/// Where the floating IP leads to, unless to this Service's load balancer.
fn floating_ip_elsewhere(cloud: &Cloudscale, service: &Service) -> Option<String> {
    let ips = cloud.all(Kind::FloatingIp);
    let holder = ips.first().map(|ip| ip["load_balancer"]["name"].clone());
    let wanted = balancer_name(service);
    (json!(holder) != json!(wanted)).then(|| format!("the floating IP leads to {holder:?}"))
}
