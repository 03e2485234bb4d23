//! The request that each step is.

use reqwest::Method;
use serde_json::{Value, json};

use super::super::api::{balancers, floating_ips, parts};
use super::step::{PoolRef, Step};
use crate::cloud_api::Request;

/// The request for a step about the load balancer with this UUID (nobody has one yet when it is
/// created). `planned`: the pools that were made in this plan. None: the step needs a pool that was
/// not made.
pub(super) fn request(step: &Step, balancer: &str, planned: &[String]) -> Option<Request> {
    let pool = |pool: &PoolRef| pool.uuid(planned).map(ToOwned::to_owned);
    let of_pool = |path: &PoolRef| Some(format!("{}/{}", parts::POOLS, pool(path)?));
    let listener = |uuid: &String| format!("{}/{uuid}", parts::LISTENERS);
    let monitor = |uuid: &String| format!("{}/{uuid}", parts::MONITORS);
    Some(match step {
        Step::CreateBalancer {
            name,
            flavor,
            zone,
            vips,
            tags,
        } => {
            let mut body =
                json!({"name": name, "flavor": flavor, "vip_addresses": vips, "tags": tags});
            put(&mut body, "zone", zone.as_ref());
            post("create_load_balancer", "load-balancers".to_owned(), body)
        }
        Step::RenameBalancer { name, .. } => {
            let path = balancers::path(balancer);
            patch("rename_load_balancer", path, json!({"name": name}))
        }
        Step::TagBalancer { tags } => {
            let path = balancers::path(balancer);
            patch("tag_load_balancer", path, json!({"tags": tags}))
        }
        Step::DeleteBalancer { uuid, .. } => delete("delete_load_balancer", balancers::path(uuid)),
        Step::CreatePool(spec) => post(
            "create_pool",
            parts::POOLS.to_owned(),
            part(spec, "load_balancer", balancer),
        ),
        Step::RenamePool { pool, name, .. } => {
            patch("rename_pool", of_pool(pool)?, json!({"name": name}))
        }
        Step::DeletePool { uuid, .. } => delete("delete_pool", format!("{}/{uuid}", parts::POOLS)),
        Step::CreateMember { pool: to, member } => post(
            "create_member",
            parts::members_path(&pool(to)?),
            json!(member),
        ),
        Step::SwitchMember {
            pool: of,
            uuid,
            enabled,
            ..
        } => {
            let members = parts::members_path(&pool(of)?);
            let path = format!("{members}/{uuid}");
            patch("switch_member", path, json!({"enabled": enabled}))
        }
        Step::DeleteMember {
            pool: from, uuid, ..
        } => {
            let members = parts::members_path(&pool(from)?);
            delete("delete_member", format!("{members}/{uuid}"))
        }
        Step::CreateMonitor { pool: to, monitor } => post(
            "create_health_monitor",
            parts::MONITORS.to_owned(),
            part(monitor, "pool", &pool(to)?),
        ),
        Step::DeleteMonitor { uuid, .. } => delete("delete_health_monitor", monitor(uuid)),
        Step::PatchMonitor { uuid, change, .. } => {
            patch("change_health_monitor", monitor(uuid), change.body())
        }
        Step::CreateListener { pool: of, listener } => post(
            "create_listener",
            parts::LISTENERS.to_owned(),
            part(listener, "pool", &pool(of)?),
        ),
        Step::DeleteListener { uuid, .. } => delete("delete_listener", listener(uuid)),
        Step::PatchListener { uuid, change } => {
            patch("change_listener", listener(uuid), change.body())
        }
        Step::AssignFloatingIp { network } => {
            let path = floating_ips::path(network);
            patch(
                "assign_floating_ip",
                path,
                json!({"load_balancer": balancer}),
            )
        }
    })
}

fn post(operation: &'static str, path: String, body: Value) -> Request {
    Request::new(operation, Method::POST, path).json(body)
}

fn patch(operation: &'static str, path: String, body: Value) -> Request {
    Request::new(operation, Method::PATCH, path).json(body)
}

fn delete(operation: &'static str, path: String) -> Request {
    Request::new(operation, Method::DELETE, path)
}

/// A part, and what it belongs to.
fn part<T: serde::Serialize>(spec: &T, of: &'static str, uuid: &str) -> Value {
    let mut body = json!(spec);
    put(&mut body, of, Some(uuid));
    body
}

/// Leaves out what is not said.
fn put<T: serde::Serialize>(body: &mut Value, key: &str, value: Option<T>) {
    if let (Some(fields), Some(value)) = (body.as_object_mut(), value) {
        fields.insert(key.to_owned(), json!(value));
    }
}
