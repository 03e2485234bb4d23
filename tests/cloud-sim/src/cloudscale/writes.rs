//! Making, changing and deleting, each in its turn.

use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::response::Response;
use serde_json::{Map, Value};

use super::answers::{Refusal, created, done};
use super::behaviour::Turn;
use super::kind::Kind;
use super::objects::{referred, vips};
use super::state::State;
use super::{floating_ips, lock, parts, strict};
use crate::rows::body;

/// Something new; a member also has a pool from its path.
pub(super) async fn create(
    state: &Mutex<State>,
    kind: Kind,
    pool: Option<String>,
    given: &Bytes,
) -> Result<Response, Refusal> {
    let mut given = object(given)?;
    strict::new(kind, &given)?;
    if kind == Kind::LoadBalancer {
        return create_load_balancer(&mut lock(state), given);
    }
    if let Some(pool) = pool {
        existing(&lock(state), Kind::Pool, &pool)?;
        given.insert("pool".to_owned(), pool.into());
    }
    let balancer = parts::parent(&lock(state), kind, &given)?;
    await_turn(state, &balancer, false).await?;
    let mut state = lock(state);
    parts::admit(&state, kind, &given)?;
    let key = add(&mut state, kind, given)?;
    changed(&mut state, &balancer);
    shown(&state, kind, &key)
}

fn create_load_balancer(
    state: &mut State,
    mut given: Map<String, Value>,
) -> Result<Response, Refusal> {
    let wanted = given.get("vip_addresses").unwrap_or(&Value::Null);
    let addresses = vips(state, wanted, state.serial);
    given.insert("vip_addresses".to_owned(), addresses);
    let uuid = add(state, Kind::LoadBalancer, given)?;
    state.occupy(&uuid, state.behaviour.provisioning, true);
    shown(state, Kind::LoadBalancer, &uuid)
}

/// One attribute of an object.
pub(super) async fn change(
    state: &Mutex<State>,
    kind: Kind,
    key: &str,
    given: &Bytes,
) -> Result<Response, Refusal> {
    let given = object(given)?;
    strict::change(kind, &given)?;
    existing(&lock(state), kind, key)?;
    let balancer = match kind {
        Kind::FloatingIp => given.get("load_balancer").and_then(referred),
        _ => lock(state).load_balancer_of(kind, key),
    };
    if let Some(balancer) = &balancer {
        await_turn(state, balancer, false).await?;
    }
    let mut state = lock(state);
    existing(&state, kind, key)?;
    if kind == Kind::FloatingIp {
        floating_ips::patch(&mut state, key, &given)?;
    } else {
        parts::admit_change(&state, kind, key, &given)?;
        state.change(kind, key, |object| parts::apply(object, &given));
    }
    if let Some(balancer) = &balancer {
        changed(&mut state, balancer);
    }
    Ok(done())
}

/// An object goes, with all that is part of it.
pub(super) async fn delete(
    state: &Mutex<State>,
    kind: Kind,
    key: &str,
) -> Result<Response, Refusal> {
    existing(&lock(state), kind, key)?;
    let balancer = lock(state).load_balancer_of(kind, key);
    if let Some(balancer) = &balancer {
        await_turn(state, balancer, kind == Kind::LoadBalancer).await?;
    }
    let mut state = lock(state);
    existing(&state, kind, key)?;
    state.remove(kind, key);
    if let Some(balancer) = &balancer {
        changed(&mut state, balancer);
    }
    Ok(done())
}

/// Waits until a load balancer can be changed.
async fn await_turn(
    state: &Mutex<State>,
    balancer: &str,
    is_deletion: bool,
) -> Result<(), Refusal> {
    loop {
        let turn = lock(state).turn(balancer, is_deletion)?;
        match turn {
            Turn::Now => return Ok(()),
            Turn::After(wait) => tokio::time::sleep(wait).await,
        }
    }
}

fn changed(state: &mut State, balancer: &str) {
    let length = state.behaviour.change_time;
    state.occupy(balancer, length, false);
}

fn existing(state: &State, kind: Kind, key: &str) -> Result<(), Refusal> {
    let row = state.rows(kind).get(key);
    row.map(|_| ()).ok_or_else(Refusal::not_found)
}

fn add(state: &mut State, kind: Kind, given: Map<String, Value>) -> Result<String, Refusal> {
    let added = state.add(kind, &Value::Object(given));
    added.map_err(|error| Refusal::detail(&format!("{error:#}")))
}

fn shown(state: &State, kind: Kind, key: &str) -> Result<Response, Refusal> {
    let row = state.rows(kind).get(key).ok_or_else(Refusal::not_found)?;
    Ok(created(body(row)))
}

fn object(given: &Bytes) -> Result<Map<String, Value>, Refusal> {
    let parsed = serde_json::from_slice(given);
    parsed.map_err(|error| Refusal::detail(&format!("JSON parse error - {error}")))
}

/// A shared state.
pub(super) type Handle = Arc<Mutex<State>>;
