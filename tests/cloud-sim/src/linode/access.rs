//! What a token may do: its own scopes, the grants of its user, and what its account may use.

use std::collections::BTreeMap;

use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};

use super::answers::{error, refusal};

const OWN: HeaderName = HeaderName::from_static("x-oauth-scopes");
const ACCEPTED: HeaderName = HeaderName::from_static("x-accepted-oauth-scopes");

/// What tokens can be made for.
pub(super) const SCOPES: [&str; 12] = [
    "account:read_only",
    "account:read_write",
    "firewall:read_only",
    "firewall:read_write",
    "ips:read_only",
    "ips:read_write",
    "linodes:read_only",
    "linodes:read_write",
    "nodebalancers:read_only",
    "nodebalancers:read_write",
    "vpc:read_only",
    "vpc:read_write",
];

/// What a token may do. By default everything.
#[derive(Clone, Debug)]
pub struct Access {
    /// The scopes of the token, for example `nodebalancers:read_write`. `None`: all.
    pub scopes: Option<Vec<&'static str>>,
    /// What its user may do. `None`: the user is not restricted.
    pub grants: Option<Grants>,
    /// Whether its account may reserve addresses.
    pub reserves: bool,
}

/// What a restricted user may do. What such a user makes is granted to him.
#[derive(Clone, Debug)]
pub struct Grants {
    /// Whether the user may add Linodes.
    pub adds_linodes: bool,
    /// Whether the user may add NodeBalancers.
    pub adds_node_balancers: bool,
    /// Whether the user may add firewalls.
    pub adds_firewalls: bool,
    /// How requests about what is not granted end: 403 and 404 have been seen.
    pub refusal: StatusCode,
    /// What is granted; the rest is in no listing.
    pub of: BTreeMap<(Entity, u64), Right>,
}

/// What rights are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entity {
    /// A Linode.
    Linode,
    /// A NodeBalancer with its configs and nodes.
    NodeBalancer,
    /// A firewall with its rules and devices.
    Firewall,
}

/// What may be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// To look at it.
    ReadOnly,
    /// To change and delete it as well.
    ReadWrite,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            scopes: None,
            grants: None,
            reserves: true,
        }
    }
}

impl Default for Grants {
    fn default() -> Self {
        Self {
            adds_linodes: true,
            adds_node_balancers: true,
            adds_firewalls: true,
            refusal: StatusCode::FORBIDDEN,
            of: BTreeMap::new(),
        }
    }
}

impl Access {
    /// Whether a request may be answered, by its method and the segments of its path.
    pub(super) fn check(&self, method: &Method, path: &[&str]) -> Result<(), Box<Response>> {
        let reads = method == Method::GET || method == Method::HEAD;
        let may = |scope: &str| {
            let scopes = self.scopes.as_ref();
            scopes.is_none_or(|scopes| scopes.contains(&scope))
        };
        if let Some(area) = area(path)
            && !may(&format!("{area}:read_write"))
            && !(reads && may(&format!("{area}:read_only")))
        {
            let reason = "Your OAuth token is not authorized to use this endpoint.";
            return Err(Box::new(refusal(StatusCode::UNAUTHORIZED, None, reason)));
        }
        if path.starts_with(&["networking", "reserved"]) && !self.reserves {
            let reason = "Account doesn't have permission to reserve IP addresses.";
            return Err(Box::new(refusal(StatusCode::NOT_FOUND, None, reason)));
        }
        let grants = self.grants.as_ref();
        match grants.and_then(|grants| grants.refusal_of(reads, path)) {
            Some(status) => Err(Box::new(error(status))),
            None => Ok(()),
        }
    }

    /// What answers say about scopes.
    pub(super) fn headers(&self, method: &Method, path: &[&str]) -> HeaderMap {
        let scopes = self.scopes.as_ref();
        let scopes = scopes.map_or("*".to_owned(), |scopes| scopes.join(" "));
        let right = if method == Method::GET {
            "read_only"
        } else {
            "read_write"
        };
        let accepted = area(path).map(|area| (ACCEPTED, format!("{area}:{right}")));
        let headers = accepted.into_iter().chain([(OWN, scopes)]);
        let headers = headers.filter_map(|(name, value)| {
            let value = HeaderValue::try_from(value).ok()?;
            Some((name, value))
        });
        headers.collect()
    }

    /// Whether it is in listings.
    pub(super) fn sees(&self, entity: Entity, key: &str) -> bool {
        let grants = self.grants.as_ref();
        grants.is_none_or(|grants| grants.right(entity, key).is_some())
    }

    /// The user has made it.
    pub(super) fn made(&mut self, entity: Entity, id: u64) {
        if let Some(grants) = &mut self.grants {
            grants.of.insert((entity, id), Right::ReadWrite);
        }
    }

    /// `/profile/grants`, of which an unrestricted user has none.
    pub(super) fn shown(&self) -> Option<Value> {
        let grants = self.grants.as_ref()?;
        let of = |wanted: Entity| -> Value {
            let granted = grants
                .of
                .iter()
                .filter(|((entity, _), _)| *entity == wanted);
            let shown = granted.map(|((_, id), right)| {
                let right = match right {
                    Right::ReadOnly => "read_only",
                    Right::ReadWrite => "read_write",
                };
                json!({ "id": id, "permissions": right, "label": "" })
            });
            shown.collect()
        };
        Some(json!({
            "global": {
                "add_linodes": grants.adds_linodes,
                "add_nodebalancers": grants.adds_node_balancers,
                "add_firewalls": grants.adds_firewalls,
                "account_access": null,
            },
            "linode": of(Entity::Linode),
            "nodebalancer": of(Entity::NodeBalancer),
            "firewall": of(Entity::Firewall),
        }))
    }
}

impl Grants {
    fn right(&self, entity: Entity, key: &str) -> Option<Right> {
        let id = key.parse().ok()?;
        self.of.get(&(entity, id)).copied()
    }

    fn refusal_of(&self, reads: bool, path: &[&str]) -> Option<StatusCode> {
        let (entity, key) = match path {
            ["linode", "instances"] if !reads && !self.adds_linodes => {
                return Some(StatusCode::FORBIDDEN);
            }
            ["nodebalancers"] if !reads && !self.adds_node_balancers => {
                return Some(StatusCode::FORBIDDEN);
            }
            ["networking", "firewalls"] if !reads && !self.adds_firewalls => {
                return Some(StatusCode::FORBIDDEN);
            }
            ["linode", "instances", id, ..] => (Entity::Linode, id),
            ["nodebalancers", id, ..] => (Entity::NodeBalancer, id),
            ["networking", "firewalls", id, ..] => (Entity::Firewall, id),
            _ => return None,
        };
        match self.right(entity, key) {
            None => Some(self.refusal),
            Some(Right::ReadOnly) if !reads => Some(StatusCode::FORBIDDEN),
            Some(_) => None,
        }
    }
}

/// What a refused token is told about scopes.
pub(super) fn unknown_scopes() -> HeaderMap {
    HeaderMap::from_iter([(OWN, HeaderValue::from_static("unknown"))])
}

/// What the scopes of a token call the things at a path.
fn area(path: &[&str]) -> Option<&'static str> {
    Some(match path {
        ["profile" | "account", ..] => "account",
        ["linode", ..] => "linodes",
        ["nodebalancers", ..] => "nodebalancers",
        ["networking", "firewalls", ..] => "firewall",
        ["networking", ..] => "ips",
        ["vpcs", ..] => "vpc",
        _ => return None,
    })
}
