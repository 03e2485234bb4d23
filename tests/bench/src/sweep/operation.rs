//! What a user does, which takes central several calls.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};
use serde_json::json;

use super::case_cluster::{CaseCluster, FLOATING_IP, FLOATING_IPS};
use mooring_cloud_sim::cloudscale::Kind;

/// What a user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Makes a Service with two ports.
    Create,
    /// Changes one of its ports.
    Port,
    /// Sets its `externalTrafficPolicy` to `Local`.
    Local,
    /// Moves a floating IP from one Service to another.
    FloatingIp,
    /// A fourth Node joins.
    Join,
    /// Deletes the Service.
    Delete,
}

/// The Service that all is about.
pub(super) const WEB: &str = "web";
/// The one that the floating IP moves to.
const OTHER: &str = "other";

impl Operation {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Create,
        Self::Port,
        Self::Local,
        Self::FloatingIp,
        Self::Join,
        Self::Delete,
    ];

    /// As in `CASE=`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Port => "port",
            Self::Local => "local",
            Self::FloatingIp => "floating-ip",
            Self::Join => "join",
            Self::Delete => "delete",
        }
    }

    /// Makes what has to be there before, and waits until it is served.
    pub(super) async fn prepare(self, case: &CaseCluster) -> Result<()> {
        let services: &[&str] = match self {
            Self::Create => &[],
            Self::FloatingIp => &[WEB, OTHER],
            _ => &[WEB],
        };
        for name in services {
            let service = case.service(name);
            let service = match (self, *name) {
                (Self::FloatingIp, WEB) => {
                    service.annotation(FLOATING_IPS, &json!([FLOATING_IP]).to_string())
                }
                _ => service,
            };
            case.create(service).await?;
        }
        case.are_served().await
    }

    /// Does it.
    pub(super) async fn begin(self, case: &CaseCluster) -> Result<()> {
        match self {
            Self::Create => case.create(case.service(WEB)).await,
            Self::Port => {
                let patch = json!([{"op": "replace", "path": "/spec/ports/0/port", "value": 8081}]);
                case.patch(WEB, patch).await
            }
            Self::Local => {
                let path = "/spec/externalTrafficPolicy";
                let patch = json!([{"op": "replace", "path": path, "value": "Local"}]);
                case.patch(WEB, patch).await
            }
            Self::FloatingIp => {
                let path = format!("/metadata/annotations/{}", FLOATING_IPS.replace('/', "~1"));
                let removed = json!([{"op": "remove", "path": path}]);
                case.patch(WEB, removed).await?;
                let wanted = json!([FLOATING_IP]).to_string();
                let added = json!([{"op": "add", "path": path, "value": wanted}]);
                case.patch(OTHER, added).await
            }
            Self::Join => case.join().await,
            Self::Delete => case.delete(WEB).await,
        }
    }

    /// What is missing in the cloud until it is over.
    pub(super) fn missing(self, case: &CaseCluster) -> Option<String> {
        let nodes = if self == Self::Join { 4 } else { 3 };
        let unserved = case.unserved(nodes);
        let other = || match self {
            Self::Local => case.checked_wrongly(WEB),
            Self::FloatingIp => case.floating_ip_elsewhere(OTHER),
            Self::Delete => {
                let left = case.sim.all(Kind::LoadBalancer);
                (!left.is_empty()).then(|| format!("{} are left", left.len()))
            }
            Self::Create | Self::Port | Self::Join => None,
        };
        unserved.or_else(other)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Operation {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match Self::ALL.into_iter().find(|known| known.name() == text) {
            Some(operation) => Ok(operation),
            None => bail!("there is no operation {text:?}"),
        }
    }
}
