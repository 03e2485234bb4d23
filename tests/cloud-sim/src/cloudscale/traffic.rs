//! What load balancers of cloudscale.ch serve.

use serde_json::Value;

use super::kind::Kind;
use super::state::State;
use crate::traffic::Served;

impl State {
    /// A write was done on a load balancer or on a part of it.
    pub(super) fn record(&mut self, kind: Kind, balancer: Option<&str>) {
        let Some(uuid) = balancer.filter(|_| kind == Kind::LoadBalancer || kind.is_part()) else {
            return;
        };
        let name = self.rows(Kind::LoadBalancer).value(uuid)["name"].as_str();
        let name = name.map(ToOwned::to_owned);
        let served = self.served(uuid);
        self.history.record(uuid, name.as_deref(), served);
    }

    fn served(&self, uuid: &str) -> Served {
        let listeners = self.referring(Kind::Listener, "load_balancer", uuid);
        let served = listeners.map(|listener| {
            let (protocol, port) = (&listener["protocol"], &listener["protocol_port"]);
            let protocol = protocol.as_str().unwrap_or_default();
            let pool = listener["pool"]["uuid"].as_str().unwrap_or_default();
            let members = self.referring(Kind::Member, "pool", pool);
            let enabled = members.filter(|member| member["enabled"] == true);
            (format!("{protocol}/{port}"), enabled.map(address).collect())
        });
        served.collect()
    }
}

pub(super) fn address(member: &Value) -> String {
    let (address, port) = (&member["address"], &member["protocol_port"]);
    let address = address.as_str().unwrap_or_default();
    if address.contains(':') {
        format!("[{address}]:{port}")
    } else {
        format!("{address}:{port}")
    }
}
