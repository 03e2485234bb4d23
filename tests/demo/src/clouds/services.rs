//! Services choose a cloud by their class.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::api::Api;
use mooring_cloud_sim::cloud::Cloud;
use mooring_test_cluster::objects::{ServiceBuilder, create_namespace};
use mooring_test_cluster::test_namespace::ingress;

use super::super::console::{Console, Step};
use super::super::scenario::MOORING;
use super::balancers::Balancer;
use super::cluster::{CLOUDS, Clouds};

pub(super) const NAMESPACE: &str = "shop";

/// Each class, and a Service without one, which the first cloud serves.
pub(super) async fn serve(console: &Console, clouds: &Clouds) -> Result<()> {
    console.chapter("Services choose their cloud by spec.loadBalancerClass");
    create_namespace(&clouds.cluster.admin, NAMESPACE).await?;
    for (name, class, cloud) in [
        ("web", Some(Cloud::Linode), Cloud::Linode),
        ("api", Some(Cloud::Cloudscale), Cloud::Cloudscale),
        ("any", None, CLOUDS[0]),
    ] {
        clouds.provide(console, name, class, cloud).await?;
    }
    Ok(())
}

/// The class by which a cloud is chosen.
pub(super) fn class_of(cloud: Cloud) -> String {
    format!("mooring.dev/{}", cloud.name())
}

impl Clouds {
    pub(super) fn services(&self) -> Api<Service> {
        Api::namespaced(self.cluster.admin.clone(), NAMESPACE)
    }

    /// Makes a Service of a class, and waits until this cloud serves it.
    pub(super) async fn provide(
        &self,
        console: &Console,
        name: &str,
        class: Option<Cloud>,
        cloud: Cloud,
    ) -> Result<()> {
        let service = ServiceBuilder::load_balancer(NAMESPACE, name).port(80, 8080);
        let service = match class {
            Some(cloud) => service.class(&class_of(cloud)),
            None => service,
        };
        service.create(&self.cluster.admin).await?;
        let step = Step::new("Service has a load balancer", 30, MOORING);
        let class = class.map_or("no class".to_owned(), class_of);
        console
            .run(step, async {
                let found = step
                    .until(async || self.served_by(name, cloud).await)
                    .await?;
                let seen = format!("{name} ({class}): {} at {}", cloud.name(), found.told());
                Ok(((), seen))
            })
            .await
    }

    /// The load balancer of a Service, if it is this cloud's, sends to all Nodes of the cloud and to no
    /// others, and if the other cloud has none of these addresses.
    pub(super) async fn served_by(&self, name: &str, cloud: Cloud) -> Result<Balancer> {
        let status = ingress(&self.services().get(name).await?);
        let status = status.iter().map(|address| address.parse());
        let status = status.collect::<Result<BTreeSet<IpAddr>, _>>()?;
        ensure!(!status.is_empty(), "{name} has no address");
        for other in CLOUDS.into_iter().filter(|other| *other != cloud) {
            let mut there = self.balancers(other).into_iter();
            let twin = there.find(|found| !found.addresses.is_disjoint(&status));
            ensure!(twin.is_none(), "{} has it: {twin:?}", other.name());
        }
        let all = self.balancers(cloud);
        let found = all
            .iter()
            .find(|found| found.addresses.is_superset(&status));
        let found = found
            .with_context(|| format!("none has {status:?}: {all:?}"))?
            .clone();
        let wanted: BTreeSet<_> = self.of(cloud).map(|machine| machine.name.clone()).collect();
        ensure!(
            found.nodes == wanted,
            "it sends to {:?}, not to {wanted:?}",
            found.nodes
        );
        Ok(found)
    }
}
