//! What a user does.

use anyhow::Result;
use serde_json::{Value, json};

use super::{OfService as _, SPARE};
use crate::sweep::case_cluster::CaseCluster;
use crate::sweep::swept_cloud::{self, SweptCloud as _, WEB};
use mooring_cloud_sim::linode::{Kind, Linode};
use mooring_test_cluster::objects::ServiceBuilder;

const ACL: &str = "service.beta.kubernetes.io/linode-loadbalancer-firewall-acl";
const ID: &str = "service.beta.kubernetes.io/linode-loadbalancer-nodebalancer-id";
/// Who is let in at first, and later.
const LET_IN: [&str; 2] = ["192.0.2.0/24", "198.51.100.0/24"];

/// What a user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Makes a Service with two ports and a firewall of its own.
    Create,
    /// Makes one with ports of TCP and UDP.
    Ports,
    /// Changes a port of a Service with a firewall.
    Port,
    /// A fourth Node joins.
    Join,
    /// It leaves.
    Leave,
    /// Changes whom the firewall lets in.
    Acl,
    /// Wants no firewall any more.
    AclAway,
    /// Wants another NodeBalancer.
    Switch,
    /// Deletes the Service.
    Delete,
}

impl swept_cloud::Operation for Operation {
    const ALL: &'static [Self] = &[
        Self::Create,
        Self::Ports,
        Self::Port,
        Self::Join,
        Self::Leave,
        Self::Acl,
        Self::AclAway,
        Self::Switch,
        Self::Delete,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Ports => "ports",
            Self::Port => "port",
            Self::Join => "join",
            Self::Leave => "leave",
            Self::Acl => "acl",
            Self::AclAway => "acl-away",
            Self::Switch => "switch",
            Self::Delete => "delete",
        }
    }

    fn moves_nodes(self) -> bool {
        matches!(self, Self::Join | Self::Leave)
    }
}

impl Operation {
    pub(super) async fn prepare(self, case: &CaseCluster<Linode>) -> Result<()> {
        match self {
            Self::Create | Self::Ports => Ok(()),
            Self::Join => case.create(case.service(WEB)).await,
            Self::Leave => {
                case.create(case.service(WEB)).await?;
                // Made after the Node, it would sometimes have three all the same: central watches the two apart.
                case.are_served().await?;
                case.join().await?;
                case.serve(4).await
            }
            _ => case.create(protected(case)).await,
        }
    }

    pub(super) async fn begin(self, case: &CaseCluster<Linode>) -> Result<()> {
        match self {
            Self::Create => case.create(protected(case)).await,
            Self::Ports => {
                let service = case.bare(WEB).port_of("TCP", 53, 5353);
                let service = service.port_of("UDP", 53, 5353).port(443, 8443);
                case.create(service).await
            }
            Self::Port => {
                let patch = json!([{"op": "replace", "path": "/spec/ports/0/port", "value": 8081}]);
                case.patch(WEB, patch).await
            }
            Self::Join => case.join().await,
            Self::Leave => case.leave().await,
            Self::Acl => case.annotate(WEB, ACL, Some(&acl(LET_IN[1]))).await,
            Self::AclAway => case.annotate(WEB, ACL, None).await,
            Self::Switch => case.annotate(WEB, ID, Some(&SPARE.to_string())).await,
            Self::Delete => case.delete(WEB).await,
        }
    }

    pub(super) fn missing(self, case: &CaseCluster<Linode>) -> Option<String> {
        let nodes = if self == Self::Join { 4 } else { 3 };
        case.unserved(nodes)
            .or_else(|| leaving(case))
            .or_else(|| self.wrong_firewalls(case))
            .or_else(|| self.wrong_balancers(case))
    }

    /// What of the Service's firewalls is not as it is to be.
    fn wrong_firewalls(self, case: &CaseCluster<Linode>) -> Option<String> {
        let let_in = match self {
            Self::Create | Self::Port | Self::Switch => Some(LET_IN[0]),
            Self::Acl => Some(LET_IN[1]),
            _ => None,
        };
        let firewalls = match case.wanted_of(WEB) {
            Some(service) => case.cloud.of_service(Kind::Firewall, &service),
            None => Vec::new(),
        };
        let sources = firewalls.iter().map(sources);
        let found: Vec<Vec<String>> = sources.collect();
        let wanted: Vec<Vec<String>> = let_in.iter().map(|net| vec![(*net).to_owned()]).collect();
        // The strangers have two.
        let others = case.cloud.all(Kind::Firewall).len() - firewalls.len();
        (found != wanted || others != 2)
            .then(|| format!("firewalls let in {found:?}, and there are {others} others"))
    }

    fn wrong_balancers(self, case: &CaseCluster<Linode>) -> Option<String> {
        let service = case.wanted_of(WEB);
        let own = service.map(|service| case.cloud.of_service(Kind::NodeBalancer, &service));
        let is_spare = |balancer: &Value| balancer["id"] == SPARE;
        let is_right = match (self, own) {
            (Self::Switch, own) => own.is_some_and(|own| own.iter().all(is_spare)),
            _ => true,
        };
        let wanted = if self == Self::Delete { 0 } else { 1 };
        let found = case.cloud.balancers();
        (found != wanted || !is_right).then(|| format!("{found} NodeBalancers are there"))
    }
}

/// The nodes that are still there for their connections.
fn leaving(case: &CaseCluster<Linode>) -> Option<String> {
    let mut nodes = case.cloud.all(Kind::Node);
    nodes.retain(|node| node["mode"] == "drain");
    (!nodes.is_empty()).then(|| format!("{} nodes drain", nodes.len()))
}

/// A Service with two ports and a firewall.
fn protected(case: &CaseCluster<Linode>) -> ServiceBuilder {
    case.service(WEB).annotation(ACL, &acl(LET_IN[0]))
}

fn acl(network: &str) -> String {
    json!({ "allowList": { "ipv4": [network] } }).to_string()
}

/// Whom a firewall lets in.
fn sources(firewall: &Value) -> Vec<String> {
    let rules = firewall["rules"]["inbound"].as_array();
    let networks = rules.into_iter().flatten().flat_map(|rule| {
        let networks = rule["addresses"]["ipv4"].as_array().into_iter().flatten();
        networks.map(|network| network.as_str().unwrap_or_default().to_owned())
    });
    networks.collect()
}
