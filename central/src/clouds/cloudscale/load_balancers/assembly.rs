//! A load balancer as it is, put together from listings.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::de::DeserializeOwned;

use super::super::api;
use super::super::api::parts::Part;
use super::floating_ips::canonical_text;
use super::listed_parts::Parts;
use super::observed::{Balancer, Listener, Member, Monitor, Observed, Pool};

/// A part that cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("the {kind} {uuid} of a load balancer of this cluster cannot be read: {why}")]
pub(super) struct UnreadablePart {
    kind: &'static str,
    uuid: String,
    why: serde_json::Error,
}

/// The UUIDs of its pools.
pub(super) fn pools_of(balancer: &str, parts: &Parts) -> Vec<String> {
    let pools = parts.pools.all.iter();
    pools
        .filter(|pool| pool.is_of(balancer))
        .map(|pool| pool.uuid.clone())
        .collect()
}

/// The load balancer with its parts; `members`: of each of its pools, by UUID.
///
/// # Errors
/// [`UnreadablePart`].
pub(super) fn observed(
    listed: &api::balancers::Balancer,
    parts: &Parts,
    mut members: HashMap<String, Vec<Part>>,
) -> Result<Observed, UnreadablePart> {
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
            spec: read(pool, "pool")?,
            members: of_pool
                .iter()
                .map(|part| {
                    let (uuid, spec) = (part.uuid.clone(), read(part, "member")?);
                    Ok(Member { uuid, spec })
                })
                .collect::<Result<_, _>>()?,
            monitors: monitors
                .filter(|monitor| monitor.is_of_pool(&pool.uuid))
                .map(|part| {
                    let (uuid, spec) = (part.uuid.clone(), read(part, "health monitor")?);
                    Ok(Monitor { uuid, spec })
                })
                .collect::<Result<_, _>>()?,
            listeners: listeners
                .filter(|listener| listener.is_of_pool(&pool.uuid))
                .map(listener)
                .collect::<Result<_, _>>()?,
        });
    }
    let loose = parts.listeners.all.iter().filter(|listener| {
        let pool = listener.pool.as_ref();
        listener.is_of(&listed.uuid) && !pool.is_some_and(|pool| own.contains(pool.uuid.as_str()))
    });
    observed.loose_listeners = loose.map(listener).collect::<Result<_, _>>()?;
    let floating = parts.floating_ips.all.iter();
    observed.floating_ips = floating
        .filter(|ip| {
            let holder = ip.load_balancer.as_ref();
            holder.is_some_and(|holder| holder.uuid == listed.uuid)
        })
        .map(canonical_text)
        .collect();
    Ok(observed)
}

fn read<T: DeserializeOwned>(part: &Part, kind: &'static str) -> Result<T, UnreadablePart> {
    part.read().map_err(|why| UnreadablePart {
        kind,
        uuid: part.uuid.clone(),
        why,
    })
}

fn listener(part: &Part) -> Result<Listener, UnreadablePart> {
    let (uuid, spec) = (part.uuid.clone(), read(part, "listener")?);
    Ok(Listener { uuid, spec })
}
