//! Servers that join public networks and leave them.

use http::StatusCode;
use serde_json::{Value, json};

use super::answers::{Refusal, with};
use super::api::{Answered, existing};
use super::kind::Kind;
use super::networks::ready;
use super::pending::Change;
use super::shown::contains;
use super::state::State;
use super::strict::{self, Field, Is, May, Must};

const JOINED: &[Field] = &[
    Field("id", Is::Text(100), Must),
    Field("ips", Is::Addresses, Must),
    Field("computeSlaacIp", Is::Flag, May),
    Field("statusDescription", Is::Anything, May),
];

/// Where a server shows its public networks.
const NETWORKS: &str = "/networkConfiguration/publicNetworkConfiguration/publicNetworks";

/// `POST …/public-networks`
pub(super) fn join(state: &mut State, server: &str, body: Value, forced: bool) -> Answered {
    let body = strict::object(body, JOINED)?;
    existing(state, Kind::Server, server)?;
    let network = body["id"].as_str().unwrap_or_default();
    ready(state, network)?;
    let here = &state.rows(Kind::Server).value(server)["location"];
    if state.rows(Kind::Network).value(network)["location"] != *here {
        let why = "The server and the public network must be in the same location.";
        return Err(Refusal::field(why));
    }
    if is_member(state, server, network) {
        let why = "The server is a member of the public network already.";
        return Err(Refusal::conflict(why));
    }
    let slaac = body
        .get("computeSlaacIp")
        .is_some_and(|slaac| slaac == true);
    let ips = &body["ips"];
    usable(state, network, ips, forced || slaac, forced)?;
    let membership = json!({ "id": network, "ips": ips, "statusDescription": "in-progress" });
    list_of(state, server, |list| list.push(membership.clone()));
    let member = json!({ "resourceId": server, "resourceType": "server", "ips": ips });
    state.change(Kind::Network, network, |network| {
        if let Some(members) = network["memberships"].as_array_mut() {
            members.push(member);
        }
    });
    let (server, network) = (server.to_owned(), network.to_owned());
    state.begin(
        Change::Joining { server, network },
        state.behaviour.membership,
    );
    state.settle();
    Ok(with(StatusCode::ACCEPTED, &membership))
}

/// `PATCH …/public-networks/{network}`
pub(super) fn readdress(
    state: &mut State,
    server: &str,
    network: &str,
    body: Value,
    forced: bool,
) -> Answered {
    let body = strict::object(body, &[Field("ips", Is::Addresses, Must)])?;
    member(state, server, network)?;
    usable(state, network, &body["ips"], forced, forced)?;
    list_of(state, server, |list| {
        for joined in list.iter_mut().filter(|joined| joined["id"] == network) {
            joined["ips"] = body["ips"].clone();
        }
    });
    state.change(Kind::Network, network, |network| {
        let members = network["memberships"].as_array_mut();
        let mut members = members.into_iter().flatten();
        if let Some(member) = members.find(|member| member["resourceId"] == server) {
            member["ips"] = body["ips"].clone();
        }
    });
    let shown = json!({
        "id": network, "ips": body["ips"], "statusDescription": "assigned",
    });
    Ok(with(StatusCode::OK, &shown))
}

/// `DELETE …/public-networks/{network}`
pub(super) fn leave(state: &mut State, server: &str, network: &str) -> Answered {
    member(state, server, network)?;
    ready(state, network)?;
    let (server, network) = (server.to_owned(), network.to_owned());
    state.begin(
        Change::Leaving { server, network },
        state.behaviour.membership,
    );
    state.settle();
    let text = "The specified public network is being removed from the server.";
    Ok(with(StatusCode::ACCEPTED, &json!(text)))
}

fn member(state: &State, server: &str, network: &str) -> Result<(), Refusal> {
    existing(state, Kind::Server, server)?;
    if is_member(state, server, network) {
        Ok(())
    } else {
        Err(Refusal::missing(state.behaviour.missing))
    }
}

fn is_member(state: &State, server: &str, network: &str) -> bool {
    let members = &state.rows(Kind::Network).value(network)["memberships"];
    let mut members = members.as_array().into_iter().flatten();
    members.any(|member| member["resourceId"] == server)
}

/// Whether a server can have these addresses on a network.
fn usable(
    state: &State,
    network: &str,
    ips: &Value,
    may_be_none: bool,
    may_be_taken: bool,
) -> Result<(), Refusal> {
    let network = state.rows(Kind::Network).value(network);
    let ips: Vec<&str> = ips
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if ips.is_empty() && !may_be_none {
        let why = "ips must hold at least one address unless force is true";
        return Err(Refusal::field(why));
    }
    let blocks: Vec<&Value> = network["ipBlocks"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    let (used, mut errors) = (state.used_addresses(network), Vec::new());
    for ip in ips.iter().flat_map(|ip| ip.split(" - ")) {
        let mut cidrs = blocks.iter().filter_map(|block| block["cidr"].as_str());
        if !cidrs.any(|cidr| contains(cidr, ip)) {
            errors.push(format!("ips: {ip} is in no IP block of the public network"));
        }
        if !may_be_taken && used.iter().any(|used| used == ip) {
            errors.push(format!("ips: {ip} is in use already"));
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Refusal::invalid(errors))
    }
}

fn list_of(state: &mut State, server: &str, change: impl FnOnce(&mut Vec<Value>)) {
    state.change(Kind::Server, server, |server| {
        if let Some(list) = server.pointer_mut(NETWORKS).and_then(Value::as_array_mut) {
            change(list);
        }
    });
}

impl State {
    /// A server has joined a network: its addresses there are among its public ones.
    pub(super) fn joined(&mut self, server: &str, network: &str) {
        list_of(self, server, |list| {
            for joined in list.iter_mut().filter(|joined| joined["id"] == network) {
                joined["statusDescription"] = json!("assigned");
            }
        });
        let ips = self.member_ips(server, network);
        self.change(Kind::Server, server, |server| {
            if let Some(public) = server["publicIpAddresses"].as_array_mut() {
                public.extend(ips);
            }
        });
    }

    /// A server has left a network.
    pub(super) fn left(&mut self, server: &str, network: &str) {
        let ips = self.member_ips(server, network);
        list_of(self, server, |list| {
            list.retain(|joined| joined["id"] != network)
        });
        self.change(Kind::Server, server, |server| {
            if let Some(public) = server["publicIpAddresses"].as_array_mut() {
                public.retain(|ip| !ips.contains(ip));
            }
        });
        self.change(Kind::Network, network, |network| {
            if let Some(members) = network["memberships"].as_array_mut() {
                members.retain(|member| member["resourceId"] != server);
            }
        });
    }

    fn member_ips(&self, server: &str, network: &str) -> Vec<Value> {
        let members = &self.rows(Kind::Network).value(network)["memberships"];
        let mut members = members.as_array().into_iter().flatten();
        let member = members.find(|member| member["resourceId"] == server);
        let ips = member.and_then(|member| member["ips"].as_array());
        ips.cloned().unwrap_or_default()
    }
}
