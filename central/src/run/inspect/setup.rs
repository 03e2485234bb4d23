//! How central is started, by the arguments of its Deployment.

use k8s_openapi::api::apps::v1::Deployment;
use mooring_common::flags::{Parsed, Reader};
use mooring_common::names::{CLOUDLESS_LEADER_LEASE, LEADER_LEASE, LEADER_LEASE_NAMESPACE};

use crate::cloud_provider::annotations::AnnotatedObject;
use crate::cloud_provider::registration::Registration;
use crate::clouds::named;
use crate::controllers::service::Routing;
use crate::flags::{NO_CLOUD, TABLE};

/// The name of central's container.
pub(super) const CENTRAL_CONTAINER: &str = "mooring-central";
/// The name of the node daemon's container.
pub(super) const NODE_CONTAINER: &str = "mooring-node";

/// How central is started.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// The name of its Deployment; absent: it is not known, and the defaults count.
    pub(super) deployment: Option<String>,
    /// Its arguments.
    pub(super) arguments: Vec<String>,
    /// Its clouds; none: it looks after no Node.
    pub(super) providers: Vec<String>,
    /// Who serves which Service.
    pub(super) routing: Routing,
    /// The Leases that may be the leader's, in this namespace.
    pub(super) leases: Vec<String>,
    pub(super) lease_namespace: String,
}

impl Setup {
    /// By the Deployment, if it could be read.
    pub(super) fn read(deployments: Option<&[Deployment]>) -> Self {
        let found = deployments.into_iter().flatten().find_map(|deployment| {
            let spec = deployment.spec.as_ref()?.template.spec.as_ref()?;
            let mut containers = spec.containers.iter();
            let central = containers.find(|container| container.name == CENTRAL_CONTAINER)?;
            let arguments = central.args.clone().unwrap_or_default();
            Some((deployment.metadata.name.clone()?, arguments))
        });
        let (deployment, arguments) = match found {
            Some((name, arguments)) => (Some(name), arguments),
            None => (None, Vec::new()),
        };
        let parsed = TABLE.parse(arguments.clone(), |_| None);
        let values = match parsed {
            Ok(Parsed::Run(values)) => values,
            Ok(Parsed::Print(_)) | Err(_) => Default::default(),
        };
        let mut reader = Reader::new(&TABLE, &values);
        let mut names = reader.list("cloud-provider");
        names.retain(|name| name != NO_CLOUD);
        let clouds: Vec<&Registration> = names.iter().filter_map(|name| named(name)).collect();
        let (balancing, others): (Vec<&Registration>, Vec<&Registration>) = clouds
            .iter()
            .copied()
            .partition(|cloud| has_load_balancers(cloud));
        let leases = match reader.text("leader-elect-resource-name") {
            Some(name) => vec![name],
            None => vec![LEADER_LEASE.to_owned(), CLOUDLESS_LEADER_LEASE.to_owned()],
        };
        let namespace = reader.text("leader-elect-resource-namespace");
        Self {
            deployment,
            arguments,
            routing: Routing {
                own_classes: reader.list("load-balancer-class"),
                serves_classless: reader.bool("serve-classless-services"),
                l2_networks: clouds.is_empty() || !others.is_empty(),
                clouds: balancing.iter().map(|cloud| cloud.name).collect(),
            },
            providers: names,
            leases,
            lease_namespace: namespace.unwrap_or_else(|| LEADER_LEASE_NAMESPACE.to_owned()),
        }
    }
}

/// A cloud that Services choose something of has load balancers; another leaves Services to L2Networks.
fn has_load_balancers(cloud: &Registration) -> bool {
    let mut rows = cloud.annotations.iter();
    rows.any(|row| row.on == AnnotatedObject::Service)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment(arguments: &[&str]) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": "mooring-central"},
            "spec": {
                "selector": {},
                "template": {"spec": {"containers": [
                    {"name": "mooring-central", "args": arguments},
                ]}},
            },
        }))
        .unwrap()
    }

    #[test]
    fn reads_clouds_classes_and_lease_of_deployment() {
        let all = [deployment(&[
            "--cloud-provider=cloudscale,cloudlycke",
            "--load-balancer-class=example.com/a,example.com/b",
            "--serve-classless-services=false",
            "--leader-elect-resource-name=other",
        ])];
        let setup = Setup::read(Some(&all));
        assert_eq!(setup.deployment.as_deref(), Some("mooring-central"));
        assert_eq!(setup.providers, ["cloudscale", "cloudlycke"]);
        let Routing {
            own_classes,
            serves_classless,
            l2_networks,
            clouds,
        } = setup.routing;
        assert_eq!(own_classes, ["example.com/a", "example.com/b"]);
        assert!(!serves_classless && l2_networks);
        assert_eq!(clouds, ["cloudscale"]);
        assert_eq!(setup.leases, ["other"]);
    }

    #[test]
    fn without_cloud_all_services_are_of_l2_networks() {
        for setup in [
            Setup::read(Some(&[deployment(&["--cloud-provider=none"])])),
            Setup::read(None),
        ] {
            assert!(setup.routing.l2_networks && setup.routing.serves_classless);
            assert!(setup.routing.clouds.is_empty() && setup.providers.is_empty());
            assert_eq!(setup.leases.len(), 2);
            assert_eq!(setup.lease_namespace, "kube-system");
        }
    }
}
