//! What a token may do and how much may be asked, as it is said from outside.

use std::collections::BTreeMap;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::response::Response;
use axum::routing::post;
use http::StatusCode;
use serde::Deserialize;

use super::access::{Access, Entity, Grants, Right, SCOPES};
use super::api::Handle;
use super::limits::Limits;
use super::lock;
use crate::TOKEN;
use crate::control;

pub(super) fn routes(state: Handle) -> Router {
    Router::new()
        .route("/_sim/access", post(access))
        .route("/_sim/limits", post(limit))
        .with_state(state)
}

/// What the token may do; what is absent is as at first.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Asked {
    revoked: bool,
    scopes: Option<Vec<String>>,
    reserves: bool,
    grants: Option<AskedGrants>,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            revoked: false,
            scopes: None,
            reserves: true,
            grants: None,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AskedGrants {
    add_linodes: bool,
    add_nodebalancers: bool,
    add_firewalls: bool,
    refusal: u16,
    linode: Vec<AskedGrant>,
    nodebalancer: Vec<AskedGrant>,
    firewall: Vec<AskedGrant>,
}

impl Default for AskedGrants {
    fn default() -> Self {
        Self {
            add_linodes: true,
            add_nodebalancers: true,
            add_firewalls: true,
            refusal: StatusCode::FORBIDDEN.as_u16(),
            linode: Vec::new(),
            nodebalancer: Vec::new(),
            firewall: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedGrant {
    id: u64,
    permissions: Permissions,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Permissions {
    ReadOnly,
    ReadWrite,
}

impl Asked {
    fn access(&self) -> Result<Access, String> {
        let scopes = self.scopes.as_ref().map(|scopes| {
            let known = |asked: &String| {
                let found = SCOPES.into_iter().find(|scope| scope == asked);
                found.ok_or_else(|| format!("{asked}: one of {}", SCOPES.join(", ")))
            };
            scopes.iter().map(known).collect::<Result<_, _>>()
        });
        let grants = self.grants.as_ref().map(AskedGrants::grants);
        Ok(Access {
            scopes: scopes.transpose()?,
            grants: grants.transpose()?,
            reserves: self.reserves,
        })
    }
}

impl AskedGrants {
    fn grants(&self) -> Result<Grants, String> {
        let refusal = StatusCode::from_u16(self.refusal);
        let mut of = BTreeMap::new();
        for (entity, granted) in [
            (Entity::Linode, &self.linode),
            (Entity::NodeBalancer, &self.nodebalancer),
            (Entity::Firewall, &self.firewall),
        ] {
            for grant in granted {
                let right = match grant.permissions {
                    Permissions::ReadOnly => Right::ReadOnly,
                    Permissions::ReadWrite => Right::ReadWrite,
                };
                of.insert((entity, grant.id), right);
            }
        }
        Ok(Grants {
            adds_linodes: self.add_linodes,
            adds_node_balancers: self.add_nodebalancers,
            adds_firewalls: self.add_firewalls,
            refusal: refusal.map_err(|_| "refusal: give a status of HTTP".to_owned())?,
            of,
        })
    }
}

/// `{"revoked": true}`, `{"scopes": ["nodebalancers:read_only"]}`, `{"reserves": false}`,
/// `{"grants": {"add_nodebalancers": false, "nodebalancer": [{"id": 7, "permissions": "read_only"}]}}`.
async fn access(Shared(state): Shared<Handle>, body: Bytes) -> Response {
    control::wish(&body, |asked: Asked| {
        let access = asked.access()?;
        let mut state = lock(&state);
        state.access = access;
        let token = if asked.revoked { "another" } else { TOKEN };
        token.clone_into(&mut state.token);
        Ok(())
    })
}

/// How much may be asked; without anything, as much as a test can ask.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AskedLimits {
    seconds: f64,
    all: u32,
    listings: u32,
    creations: u32,
}

impl Default for AskedLimits {
    fn default() -> Self {
        Self {
            seconds: 60.0,
            all: u32::MAX,
            listings: u32::MAX,
            creations: u32::MAX,
        }
    }
}

/// `{"seconds": 60, "all": 1600, "listings": 200, "creations": 20}`, all of it optional.
async fn limit(Shared(state): Shared<Handle>, body: Bytes) -> Response {
    control::wish(&body, |asked: AskedLimits| {
        let window = control::length("seconds", &asked.seconds.into())?;
        let limits = Limits::per(window, asked.all, asked.listings);
        lock(&state).limits = limits.creations(window, asked.creations);
        Ok(())
    })
}
