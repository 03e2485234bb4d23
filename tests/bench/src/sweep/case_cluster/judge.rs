//! How a case ended.

use std::net::IpAddr;
use std::sync::PoisonError;

use anyhow::{Result, anyhow, ensure};
use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::Service;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::{CaseCluster, LIMIT, MARKER, balancer_name};
use crate::sweep::disturbance::Disturbance;
use crate::sweep::operation::Operation;
use crate::sweep::reference::Reference;
use mooring_cloud_sim::cloudscale::{CloudState, Kind, Served};
use mooring_test_support::wait::try_eventually;

const UUID: &str = "k8s.cloudscale.ch/loadbalancer-uuid";
const ZONE: &str = "k8s.cloudscale.ch/loadbalancer-zone";
const CONFIG_VERSION: &str = "k8s.cloudscale.ch/loadbalancer-config-version";
const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

impl CaseCluster {
    /// What there is in the cloud, but for the marker's.
    pub(in crate::sweep) fn end(&self) -> CloudState {
        let marker = self.wanted().get(MARKER).map(balancer_name);
        let state = self.sim.snapshot();
        let state = match marker {
            Some(name) => state.without(&name),
            None => state,
        };
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        state.renamed(&words)
    }

    /// What is not as it is undisturbed.
    pub(in crate::sweep) async fn wrong(&self, reference: &Reference) -> Result<Vec<String>> {
        let wrong = reference.end.diff(&self.end());
        if wrong.is_empty() {
            self.wrong_services().await
        } else {
            Ok(wrong)
        }
    }

    /// What a Service's load balancer does not serve as it should, before so many Nodes.
    pub(in crate::sweep) fn unserved(&self, nodes: usize) -> Option<String> {
        let wanted = self.wanted();
        let unserved = wanted.values().filter_map(|service| {
            let ports = service
                .spec
                .iter()
                .flat_map(|spec| spec.ports.iter().flatten());
            let wanted = ports.map(|port| {
                let node_port = port.node_port.unwrap_or_default();
                let members = (1..=nodes).map(|n| format!("10.0.0.{n}:{node_port}"));
                (format!("tcp/{}", port.port), members.collect())
            });
            let wanted: Served = wanted.collect();
            let found = self.sim.traffic(&balancer_name(service)).now();
            (wanted != found).then(|| format!("{found:?} is served instead of {wanted:?}"))
        });
        unserved.last()
    }

    /// What does not check a Service's members by its health check port.
    pub(in crate::sweep) fn checked_wrongly(&self, name: &str) -> Option<String> {
        let wanted = self.wanted();
        let spec = wanted.get(name).and_then(|service| service.spec.as_ref());
        let port = spec.and_then(|spec| spec.health_check_node_port);
        let members = self.sim.all(Kind::Member);
        let mut members = members.iter();
        let mut monitors = self.sim.all(Kind::HealthMonitor);
        monitors.retain(|monitor| monitor["type"] == "http");
        let is_right = monitors.len() == 2 && members.all(|m| m["monitor_port"] == json!(port));
        (!is_right).then(|| format!("not all is checked at {port:?}"))
    }

    /// Where the floating IP leads to, unless to this Service's load balancer.
    pub(in crate::sweep) fn floating_ip_elsewhere(&self, name: &str) -> Option<String> {
        let wanted = self.wanted().get(name).map(balancer_name);
        let ips = self.sim.all(Kind::FloatingIp);
        let holder = ips.first().map(|ip| ip["load_balancer"]["name"].clone());
        (json!(holder) != json!(wanted)).then(|| format!("the floating IP leads to {holder:?}"))
    }

    /// Waits until each Service says what it has.
    pub(in crate::sweep) async fn are_served(&self) -> Result<()> {
        let served = try_eventually(LIMIT, async || -> Result<()> {
            let all = self.wanted().len();
            let found = self.sim.all(Kind::LoadBalancer).len();
            ensure!(found >= all, "{found} load balancers for {all} Services");
            let wrong = self.wrong_services().await?;
            ensure!(wrong.is_empty(), "{}", wrong.join("; "));
            Ok(())
        });
        served.await.map_err(|reason| anyhow!("{reason}"))
    }

    /// What the Services do not say as they should.
    pub(in crate::sweep) async fn wrong_services(&self) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        let found = self.api().list(&ListParams::default()).await?;
        let wanted: Vec<String> = self.wanted().keys().cloned().collect();
        for service in &found {
            let name = service.metadata.name.clone().unwrap_or_default();
            if !wanted.contains(&name) {
                wrong.push(format!("{name} is still there"));
                continue;
            }
            let faults = self.faults_of(service);
            wrong.extend(faults.into_iter().map(|fault| format!("{name} {fault}")));
        }
        if found.items.len() < wanted.len() {
            wrong.push("a Service is gone".to_owned());
        }
        Ok(wrong)
    }

    fn faults_of(&self, service: &Service) -> Vec<String> {
        let mut balancers = self.sim.named(Kind::LoadBalancer, &balancer_name(service));
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

    /// Central must never have written twice at once, what the cloud refuses, or too much.
    pub(in crate::sweep) fn was_careful(
        &self,
        operation: Operation,
        disturbance: Disturbance,
    ) -> Result<()> {
        let concurrent = self.sim.concurrent_writes();
        ensure!(concurrent == 0, "{concurrent} writes at once");
        if disturbance.is_late() {
            return Ok(());
        }
        let writes = self.sim.calls().writes();
        let refused = writes.filter(|call| {
            !call.faulty
                && call
                    .status
                    .is_some_and(|s| s.is_client_error() || s.is_server_error())
        });
        ensure!(
            refused.is_empty(),
            "the cloud refused:\n{}",
            refused.summary()
        );
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
