//! `/linode/instances/{id}/ips` and `/networking/ips/share`: the addresses of instances.

use std::net::Ipv4Addr;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State as Shared};
use axum::routing::{get, post};
use serde_json::{Value, json};

use super::answers::{Answer, Errors, Refusal, done, ok};
use super::api::Handle;
use super::backends::is_private;
use super::lock;
use super::state::State;
use super::strict::{self, Field, Is, Must};

const NEW: &[Field] = &[
    Field("type", Is::OneOf(&["ipv4"]), Must),
    Field("public", Is::Flag, Must),
];
const SHARED: &[Field] = &[
    Field("linode_id", Is::Id, Must),
    Field("ips", Is::Texts, Must),
];
/// The first private address that is given out.
const FIRST_PRIVATE: Ipv4Addr = Ipv4Addr::new(192, 168, 128, 1);

pub(super) fn routes() -> Router<Handle> {
    Router::new()
        .route("/linode/instances/{id}/ips", get(list).post(create))
        .route(
            "/linode/instances/{id}/ips/{address}",
            get(one).delete(delete),
        )
        .route("/networking/ips/share", post(share))
}

fn existing<'a>(state: &'a State, instance: &str) -> Result<&'a Value, Refusal> {
    let row = state.instances.get(instance);
    row.map(|row| row.value()).ok_or_else(Refusal::not_found)
}

/// The IPv4 addresses of an instance that are its own.
fn addresses(instance: &Value) -> impl Iterator<Item = Ipv4Addr> {
    let all = instance["ipv4"].as_array().into_iter().flatten();
    all.filter_map(|address| address.as_str()?.parse().ok())
}

fn shared_by(state: &State, instance: &Value) -> Vec<Ipv4Addr> {
    let id = instance["id"].as_u64().unwrap_or_default();
    let shared = state.shared.get(&id).into_iter().flatten();
    shared.filter_map(|address| address.parse().ok()).collect()
}

fn shown(instance: &Value, address: Ipv4Addr) -> Value {
    let is_private = is_private(address.octets());
    let [a, b, c, _] = address.octets();
    let name = format!(
        "{}.ip.linodeusercontent.com",
        address.to_string().replace('.', "-")
    );
    json!({
        "address": address, "gateway": (!is_private).then(|| Ipv4Addr::new(a, b, c, 1)),
        "subnet_mask": if is_private { "255.255.128.0" } else { "255.255.255.0" },
        "prefix": if is_private { 17 } else { 24 }, "type": "ipv4", "public": !is_private,
        "rdns": (!is_private).then_some(name), "linode_id": instance["id"],
        "interface_id": null, "region": instance["region"], "vpc_nat_1_1": null, "reserved": false,
    })
}

async fn list(Shared(state): Shared<Handle>, Path(id): Path<String>) -> Answer {
    let state = lock(&state);
    let instance = existing(&state, &id)?;
    let all = |private: bool| -> Value {
        let own = addresses(instance).filter(|a| is_private(a.octets()) == private);
        own.map(|address| shown(instance, address)).collect()
    };
    let shared = shared_by(&state, instance).into_iter();
    let shared: Value = shared.map(|address| shown(instance, address)).collect();
    let ipv6 = instance["ipv6"]
        .as_str()
        .and_then(|text| text.split('/').next());
    let slaac = ipv6.map(|address| {
        json!({
            "address": address, "gateway": "fe80::1", "prefix": 64, "type": "ipv6",
            "subnet_mask": "ffff:ffff:ffff:ffff::", "public": true, "rdns": null,
            "linode_id": instance["id"], "interface_id": null, "region": instance["region"],
        })
    });
    let ips = json!({
        "ipv4": { "public": all(false), "private": all(true), "shared": shared, "reserved": [],
                  "vpc": [] },
        "ipv6": { "slaac": slaac, "link_local": null, "global": [], "vpc": [] },
    });
    Ok(ok(ips.to_string()))
}

async fn create(Shared(state): Shared<Handle>, Path(id): Path<String>, body: Bytes) -> Answer {
    let mut state = lock(&state);
    let instance = existing(&state, &id)?.clone();
    let given = strict::object(&body)?;
    let mut errors = Errors::default();
    strict::check("", &given, NEW, &mut errors);
    let wants_private = given.get("public") == Some(&json!(false));
    if wants_private && instance["interface_generation"] == "linode" {
        errors.add(
            "public",
            "Linodes with Linode Interfaces have no private IPv4 addresses",
        );
    } else if wants_private && addresses(&instance).any(|a| is_private(a.octets())) {
        errors.add("public", "The Linode has a private IPv4 address");
    }
    errors.into_result()?;
    let address = if wants_private {
        free_private(&state)
    } else {
        let (address, _) = state.new_addresses();
        address.parse().unwrap_or(FIRST_PRIVATE)
    };
    state.instances.change(&id, |instance| {
        if let Some(all) = instance["ipv4"].as_array_mut() {
            all.push(json!(address));
        }
    });
    Ok(ok(shown(&instance, address).to_string()))
}

pub(super) fn free_private(state: &State) -> Ipv4Addr {
    let instances = state.instances.iter();
    let taken: Vec<Ipv4Addr> = instances.flat_map(|row| addresses(row.value())).collect();
    let mut all = (u32::from(FIRST_PRIVATE)..).map(Ipv4Addr::from);
    all.find(|address| !taken.contains(address))
        .unwrap_or(FIRST_PRIVATE)
}

type AddressPath = Path<(String, String)>;

async fn one(Shared(state): Shared<Handle>, Path((id, address)): AddressPath) -> Answer {
    let state = lock(&state);
    let instance = existing(&state, &id)?;
    let mut all = addresses(instance).chain(shared_by(&state, instance));
    let found = all.find(|own| own.to_string() == address);
    let found = found.ok_or_else(Refusal::not_found)?;
    Ok(ok(shown(instance, found).to_string()))
}

async fn delete(Shared(state): Shared<Handle>, Path((id, address)): AddressPath) -> Answer {
    let mut state = lock(&state);
    let instance = existing(&state, &id)?.clone();
    let number = instance["id"].as_u64().unwrap_or_default();
    if let Some(shared) = state.shared.get_mut(&number)
        && shared.contains(&address)
    {
        shared.retain(|one| *one != address);
        return Ok(done());
    }
    let public = |address: &Ipv4Addr| !is_private(address.octets());
    let own = addresses(&instance).find(|own| own.to_string() == address);
    let own = own.ok_or_else(Refusal::not_found)?;
    if public(&own) && addresses(&instance).filter(public).count() == 1 {
        return Err(Refusal::reason("The last public IPv4 address stays"));
    }
    state.instances.change(&id, |instance| {
        if let Some(all) = instance["ipv4"].as_array_mut() {
            all.retain(|one| *one != address);
        }
    });
    Ok(done())
}

/// Replaces the addresses of others that an instance shares.
async fn share(Shared(state): Shared<Handle>, body: Bytes) -> Answer {
    let mut state = lock(&state);
    let given = strict::object(&body)?;
    let mut errors = Errors::default();
    strict::check("", &given, SHARED, &mut errors);
    let id = given
        .get("linode_id")
        .and_then(Value::as_u64)
        .unwrap_or_default();
    let instance = state.instances.value(&id.to_string());
    let ips = given
        .get("ips")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let ips: Vec<&str> = ips.filter_map(Value::as_str).collect();
    if instance.is_null() {
        errors.add("linode_id", "There is no such Linode");
    } else {
        for (index, ip) in ips.iter().enumerate() {
            let mut others = state.instances.iter().map(|row| row.value());
            let is_shareable = others.any(|other| {
                other["id"] != instance["id"]
                    && other["region"] == instance["region"]
                    && addresses(other).any(|address| address.to_string() == *ip)
            });
            if !is_shareable {
                let reason = "Must be an IPv4 address of another Linode of the region";
                errors.add(format!("ips[{index}]"), reason);
            }
        }
    }
    errors.into_result()?;
    let ips = ips.into_iter().map(ToOwned::to_owned).collect();
    state.shared.insert(id, ips);
    Ok(done())
}
