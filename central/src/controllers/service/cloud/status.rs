//! What a Service says that it has.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use mooring_common::names::annotations;
use serde_json::{Map, Value, json};

use crate::cloud_provider::load_balancers::LoadBalancerStatus;
use crate::controllers::service::patch::{annotation_path, guard, remove_finalizer};
use crate::views::service_view::{Ingress, ServiceView};

/// Status and annotations, as far as this API server keeps them.
#[derive(Debug, Default)]
pub(super) struct Status {
    /// It is older than the field.
    drops_ip_mode: AtomicBool,
}

impl Status {
    /// What is to be patched so that the Service says what it has of this cloud; nothing if it does.
    pub(super) fn operations(
        &self,
        service: &ServiceView,
        provider: &str,
        provided: &LoadBalancerStatus,
    ) -> Vec<Value> {
        let missing = provided.annotations.iter().filter(|(key, value)| {
            let there = service.annotation(key);
            there != Some(value.as_str())
        });
        let missing: Vec<_> = missing.collect();
        let mut operations = Vec::new();
        if !missing.is_empty() && !service.has_annotations {
            operations.push(json!({"op": "add", "path": "/metadata/annotations", "value": {}}));
        }
        for (key, value) in missing {
            operations.push(json!({"op": "add", "path": annotation_path(key), "value": value}));
        }
        operations.extend(take_off(service, provider));
        if self.kept(&service.ingress) != self.kept(&provided.ingress) {
            let ingress: Vec<Value> = provided.ingress.iter().map(entry).collect();
            let value = json!({"ingress": ingress});
            operations.push(json!({"op": "add", "path": "/status/loadBalancer", "value": value}));
        }
        if !operations.is_empty() {
            operations.insert(0, guard(service));
        }
        operations
    }

    /// The Service came back like this after that was written.
    pub(super) fn learn(&self, written: &ServiceView, provided: &LoadBalancerStatus) {
        let has_mode = |all: &[Ingress]| all.iter().any(|entry| entry.ip_mode.is_some());
        if has_mode(&provided.ingress)
            && !has_mode(&written.ingress)
            && !written.ingress.is_empty()
            && !self.drops_ip_mode.swap(true, Ordering::Relaxed)
        {
            tracing::info!("this API server does not keep ipMode, so it is not compared");
        }
    }

    /// As it is compared: addresses by value, however they are written, and with the mode that the API server
    /// fills in.
    fn kept(&self, ingress: &[Ingress]) -> Vec<Ingress> {
        let mut kept = ingress.to_vec();
        for entry in kept.iter_mut().filter(|entry| entry.ip.is_some()) {
            entry.ip_mode.get_or_insert_with(|| "VIP".to_owned());
        }
        for text in kept.iter_mut().filter_map(|entry| entry.ip.as_mut()) {
            if let Ok(address) = text.parse::<IpAddr>() {
                *text = address.to_string();
            }
        }
        if self.drops_ip_mode.load(Ordering::Relaxed) {
            kept.iter_mut().for_each(|entry| entry.ip_mode = None);
        }
        kept
    }
}

/// What is to be patched so that the Service itself asks for the address that it has.
pub(super) fn address(service: &ServiceView, address: Option<&str>) -> Vec<Value> {
    let path = "/spec/loadBalancerIP";
    let operation = match address {
        Some(address) => json!({"op": "add", "path": path, "value": address}),
        None => json!({"op": "remove", "path": path}),
    };
    vec![guard(service), operation]
}

/// Takes our finalizer off, and what we have written of this cloud that is no more: the status and these
/// annotations.
pub(super) fn release(service: &ServiceView, provider: &str, annotations: &[&str]) -> Vec<Value> {
    let mut operations = vec![guard(service)];
    if !service.ingress.is_empty() && service.is_load_balancer {
        operations.push(json!({"op": "add", "path": "/status/loadBalancer", "value": {}}));
    }
    operations.extend(take_off(service, provider));
    operations.extend(annotations.iter().map(|key| removal(key)));
    operations.extend(remove_finalizer(service));
    operations
}

/// Takes off these annotations, which tell of what is no more.
pub(super) fn strip(service: &ServiceView, annotations: &[&str]) -> Vec<Value> {
    let removals = annotations.iter().map(|key| removal(key));
    std::iter::once(guard(service)).chain(removals).collect()
}

/// What is to be patched so that these annotations stand on the Service.
pub(super) fn note(service: &ServiceView, annotations: &[(&'static str, String)]) -> Vec<Value> {
    let mut operations = vec![guard(service)];
    if !service.has_annotations {
        operations.push(json!({"op": "add", "path": "/metadata/annotations", "value": {}}));
    }
    operations.extend(
        annotations
            .iter()
            .map(|(key, value)| json!({"op": "add", "path": annotation_path(key), "value": value})),
    );
    operations
}

/// Takes off that a load balancer was asked for in this cloud: the Service says what it has, or has none any more.
/// What was asked for in another may still turn up there.
fn take_off(service: &ServiceView, provider: &str) -> Option<Value> {
    let asked = service.creation_asked_of(provider);
    asked.map(|_| removal(annotations::CREATION_ASKED))
}

fn removal(key: &str) -> Value {
    json!({"op": "remove", "path": annotation_path(key)})
}

fn entry(entry: &Ingress) -> Value {
    let fields = [
        ("ip", &entry.ip),
        ("hostname", &entry.hostname),
        ("ipMode", &entry.ip_mode),
    ];
    let given = fields.into_iter().filter_map(|(name, value)| {
        let value = value.clone()?;
        Some((name.to_owned(), Value::String(value)))
    });
    Value::Object(given.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_mode_is_what_the_api_server_makes_of_it() {
        let address = |ip_mode: Option<&str>| Ingress {
            ip: Some("192.0.2.1".to_owned()),
            hostname: Some("a.example".to_owned()),
            ip_mode: ip_mode.map(ToOwned::to_owned),
        };
        let name = Ingress {
            hostname: Some("a.example".to_owned()),
            ..Ingress::default()
        };
        let status = Status::default();
        let is_same = |one: Ingress, other: Ingress| status.kept(&[one]) == status.kept(&[other]);
        assert!(is_same(address(None), address(Some("VIP"))));
        assert!(!is_same(address(None), address(Some("Proxy"))));
        assert!(is_same(name.clone(), name.clone()));
        assert!(!is_same(name, address(None)));
    }
}
