//! A load balancer as it is, put together from listings.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::super::api;
use super::super::api::Reference;
use super::floating_ips::canonical_text;
use super::listed_parts::Parts;
use super::model::{HttpSpec, ListenerSpec, MemberSpec, MonitorSpec, PoolSpec};
use super::observed::{Balancer, Listener, Member, Monitor, Observed, Pool};
use crate::engine::canonical::{canonical_address, canonical_uuid};

/// What something lacks that it cannot be understood without.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {what} {uuid} of a load balancer of this cluster is listed without {lacks}")]
pub(super) struct MissingField {
    what: &'static str,
    uuid: String,
    lacks: &'static str,
}

/// The UUIDs of its pools.
pub(super) fn pools_of(balancer: &str, parts: &Parts) -> Vec<String> {
    let pools = parts.pools.all.iter();
    pools
        .filter(|pool| is(pool.load_balancer.as_ref(), balancer))
        .map(|pool| pool.uuid.clone())
        .collect()
}

/// The load balancer with its parts; `members`: of each of its pools, by UUID.
///
/// # Errors
/// [`MissingField`].
pub(super) fn observed(
    listed: &api::balancers::Balancer,
    parts: &Parts,
    mut members: HashMap<String, Vec<api::parts::Member>>,
) -> Result<Observed, MissingField> {
    let mut observed = Observed {
        balancer: Balancer::of(listed),
        pools: Vec::new(),
        loose_listeners: Vec::new(),
        floating_ips: BTreeSet::new(),
    };
    let own = pools_of(&listed.uuid, parts);
    let own: HashSet<&str> = own.iter().map(String::as_str).collect();
    for pool in &parts.pools.all {
        if !own.contains(pool.uuid.as_str()) {
            continue;
        }
        let of_pool = members.remove(&pool.uuid).unwrap_or_default();
        let monitors = parts.monitors.all.iter();
        let listeners = parts.listeners.all.iter();
        observed.pools.push(Pool {
            uuid: pool.uuid.clone(),
            spec: pool_spec(pool)?,
            members: of_pool.iter().map(member).collect::<Result<_, _>>()?,
            monitors: monitors
                .filter(|monitor| is(monitor.pool.as_ref(), &pool.uuid))
                .map(monitor)
                .collect::<Result<_, _>>()?,
            listeners: listeners
                .filter(|listener| is(listener.pool.as_ref(), &pool.uuid))
                .map(listener)
                .collect::<Result<_, _>>()?,
        });
    }
    let loose = parts.listeners.all.iter().filter(|listener| {
        let pool = listener.pool.as_ref();
        is(listener.load_balancer.as_ref(), &listed.uuid)
            && !pool.is_some_and(|pool| own.contains(pool.uuid.as_str()))
    });
    observed.loose_listeners = loose.map(listener).collect::<Result<_, _>>()?;
    let floating = parts.floating_ips.all.iter();
    observed.floating_ips = floating
        .filter(|ip| is(ip.load_balancer.as_ref(), &listed.uuid))
        .map(canonical_text)
        .collect();
    Ok(observed)
}

fn is(reference: Option<&Reference>, uuid: &str) -> bool {
    reference.is_some_and(|reference| reference.uuid == uuid)
}

/// Insists on a field.
fn need<T: Clone>(
    field: Option<&T>,
    what: &'static str,
    uuid: &str,
    lacks: &'static str,
) -> Result<T, MissingField> {
    field.cloned().ok_or_else(|| MissingField {
        what,
        uuid: uuid.to_owned(),
        lacks,
    })
}

fn pool_spec(pool: &api::parts::Pool) -> Result<PoolSpec, MissingField> {
    let need = |field, lacks| need(field, "pool", &pool.uuid, lacks);
    Ok(PoolSpec {
        name: need(pool.name.as_ref(), "a name")?,
        algorithm: need(pool.algorithm.as_ref(), "an algorithm")?,
        protocol: need(pool.protocol.as_ref(), "a protocol")?,
    })
}

fn member(member: &api::parts::Member) -> Result<Member, MissingField> {
    let what = "member";
    let address = need(member.address.as_ref(), what, &member.uuid, "an address")?;
    let port = member.protocol_port.as_ref();
    Ok(Member {
        uuid: member.uuid.clone(),
        spec: MemberSpec {
            name: need(member.name.as_ref(), what, &member.uuid, "a name")?,
            enabled: member.enabled.unwrap_or(true),
            address: canonical_address(&address),
            // The Go controller compares a missing one like this too.
            subnet: member
                .subnet
                .as_ref()
                .map(|subnet| canonical_uuid(&subnet.uuid))
                .unwrap_or_default(),
            protocol_port: need(port, what, &member.uuid, "a port")?,
            monitor_port: member.monitor_port,
        },
    })
}

fn listener(listener: &api::parts::Listener) -> Result<Listener, MissingField> {
    let what = "listener";
    let uuid = &listener.uuid;
    Ok(Listener {
        uuid: uuid.clone(),
        spec: ListenerSpec {
            name: need(listener.name.as_ref(), what, uuid, "a name")?,
            protocol: need(listener.protocol.as_ref(), what, uuid, "a protocol")?,
            port: need(listener.protocol_port.as_ref(), what, uuid, "a port")?,
            allowed_cidrs: listener.allowed_cidrs.clone().unwrap_or_default(),
            timeout_client_data_ms: listener.timeout_client_data_ms,
            timeout_member_connect_ms: listener.timeout_member_connect_ms,
            timeout_member_data_ms: listener.timeout_member_data_ms,
        },
    })
}

fn monitor(monitor: &api::parts::Monitor) -> Result<Monitor, MissingField> {
    Ok(Monitor {
        uuid: monitor.uuid.clone(),
        spec: MonitorSpec {
            kind: need(
                monitor.kind.as_ref(),
                "health monitor",
                &monitor.uuid,
                "a type",
            )?,
            delay_s: monitor.delay_s,
            timeout_s: monitor.timeout_s,
            up_threshold: monitor.up_threshold,
            down_threshold: monitor.down_threshold,
            http: monitor.http.as_ref().and_then(http),
        },
    })
}

/// What the cloud leaves out is its own default; all left out: it does not speak HTTP.
fn http(http: &api::parts::Http) -> Option<HttpSpec> {
    let says_something = http.method.is_some()
        || http.url_path.is_some()
        || http.version.is_some()
        || http.host.is_some()
        || http.expected_codes.is_some();
    let or = |field: &Option<String>, default| field.clone().unwrap_or(default);
    let default = HttpSpec::default();
    says_something.then(|| HttpSpec {
        method: or(&http.method, default.method),
        url_path: or(&http.url_path, default.url_path),
        version: or(&http.version, default.version),
        host: http.host.clone(),
        expected_codes: http
            .expected_codes
            .clone()
            .unwrap_or(default.expected_codes),
    })
}
