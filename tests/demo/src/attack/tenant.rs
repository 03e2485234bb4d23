//! A tenant wants addresses that are not for him.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::api::Api;
use mooring_common::names::{annotations, reasons};

use super::super::console::Step;
use super::{Attack, Demo, refused_by};
use mooring_test_cluster::attacks::{refused, tenant};
use mooring_test_cluster::objects::{ServiceBuilder, create_namespace, events_for};
use mooring_test_cluster::test_namespace::ingress;
use mooring_test_netlab::failover::FailoverCluster;
use mooring_test_netlab::netlab::Netlab;
use mooring_test_netlab::netlab_cluster::Network;

const WHO: &str = "a tenant";

/// Where he may write Services.
const NAMESPACE: &str = "blue";

/// An L2Network for everybody, whose range holds the addresses of the nodes too: who made it was not
/// careful. No node is on it.
const SHARED: &str = "shared";

/// An L2Network of another team.
const DATABASES: &str = "databases";

/// How many addresses of the shared one a namespace may have.
const MOST: u32 = 2;

/// Who answers all questions for so long is the only one.
const STEADY: Duration = Duration::from_millis(300);

struct Tenant<'a> {
    cluster: &'a FailoverCluster,
    client: kube::Client,
}

/// All that he tries.
pub(super) async fn attack(demo: &mut Demo<'_>, cluster: &FailoverCluster) -> Result<()> {
    demo.console
        .chapter("A tenant: he may write Services in the namespace blue, and nothing else");
    let tenant = Tenant::prepare(cluster).await?;
    tenant.write_records(demo).await?;
    tenant.ask_for_reserved(demo).await?;
    tenant.use_network_of_others(demo).await?;
    tenant.take_all(demo).await?;
    nobody_is_the_router(demo, cluster).await
}

impl<'a> Tenant<'a> {
    async fn prepare(cluster: &'a FailoverCluster) -> Result<Self> {
        let netlab = &cluster.netlab;
        create_namespace(&netlab.admin, NAMESPACE).await?;
        let nobody = ("segment", "none");
        Network::new(SHARED, &["10.77.0.2-10.77.0.30"])
            .of_nodes_with(nobody.0, nobody.1)
            .at_most_per_namespace(MOST)
            .create(netlab)
            .await?;
        Network::new(DATABASES, &["10.77.0.40-10.77.0.49"])
            .of_nodes_with(nobody.0, nobody.1)
            .for_namespaces_with("team", "databases")
            .create(netlab)
            .await?;
        let client = tenant(netlab, NAMESPACE).await?;
        Ok(Self { cluster, client })
    }

    /// A Service of his, of which he asks that it be on this L2Network.
    fn service(name: &str, network: &str) -> ServiceBuilder {
        ServiceBuilder::load_balancer(NAMESPACE, name)
            .port(80, 8080)
            .annotation(annotations::L2_NETWORK_REQUEST, network)
    }

    async fn write_records(&self, demo: &mut Demo<'_>) -> Result<()> {
        let attack = Attack {
            who: WHO,
            tried: "writes the router's address into mooring.dev/allocated-addresses",
            before: "believed: the router's address stood in the status of his Service",
            limit: 10,
        };
        demo.withstand(attack, async |_| {
            let router = Netlab::GATEWAY_V4.to_string();
            let mut said = String::new();
            for (key, value) in [
                (annotations::ALLOCATED_NETWORK, SHARED),
                (annotations::ALLOCATED_ADDRESSES, router.as_str()),
            ] {
                let forged = Self::service("router", SHARED).annotation(key, value);
                let message = refused(forged.create(&self.client).await)?;
                said = refused_by("mooring-service-records", &message)?;
            }
            Ok(said)
        })
        .await
    }

    async fn ask_for_reserved(&self, demo: &mut Demo<'_>) -> Result<()> {
        let attack = Attack {
            who: WHO,
            tried: "asks for the addresses of the router, and of a node that a range holds",
            before: "the node's was given to his Service",
            limit: 20,
        };
        demo.withstand(attack, async |step| {
            let node = self.cluster.netlab.node("n1").ipv4().to_string();
            let router = Netlab::GATEWAY_V4.to_string();
            let mut told = Vec::new();
            for (name, address, whose) in [
                ("as-router", &router, "is the router in L2Network"),
                ("as-node", &node, "is an address of Node n1"),
            ] {
                let asking = Self::service(name, SHARED).requested_address(address);
                asking.create(&self.client).await?;
                told.push(self.told(step, name, whose).await?);
            }
            told.pop().context("there are two")
        })
        .await
    }

    async fn use_network_of_others(&self, demo: &mut Demo<'_>) -> Result<()> {
        let attack = Attack {
            who: WHO,
            tried: "uses the L2Network of another team",
            before: "got an address of it: nobody could say whom a network is for",
            limit: 20,
        };
        demo.withstand(attack, async |step| {
            let asking = Self::service("on-databases", DATABASES);
            asking.create(&self.client).await?;
            self.told(step, "on-databases", "allowedNamespaces of L2Network")
                .await
        })
        .await
    }

    async fn take_all(&self, demo: &mut Demo<'_>) -> Result<()> {
        let attack = Attack {
            who: WHO,
            tried: "makes more Services than his namespace may have addresses (2)",
            before: "got all addresses that there are",
            limit: 20,
        };
        demo.withstand(attack, async |step| {
            for number in 1..=MOST {
                let name = format!("web-{number}");
                let service = Self::service(&name, SHARED);
                service.create(&self.client).await?;
                step.until(async || {
                    let given = self.given(&name).await?;
                    ensure!(given.len() == 1, "{name} has {given:?}");
                    Ok(())
                })
                .await?;
            }
            let one_more = Self::service("one-more", SHARED);
            one_more.create(&self.client).await?;
            let words = format!("spec.maxAddressesPerNamespace permits ({MOST})");
            self.told(step, "one-more", &words).await
        })
        .await
    }

    /// Waits for the Event that refuses a Service its address, and gives it in short.
    async fn told(&self, step: Step, service: &str, words: &str) -> Result<String> {
        let admin = self.cluster.netlab.admin.clone();
        let reason = reasons::SYNC_LOAD_BALANCER_FAILED;
        let note = step
            .until(async || {
                let given = self.given(service).await?;
                ensure!(given.is_empty(), "the Service {service} got {given:?}");
                let events = events_for(&admin, "Service", Some(NAMESPACE), service).await?;
                let told = events.iter().find(|event| event.reason == reason);
                let note = told.map(|event| event.note.clone());
                note.with_context(|| format!("no Event {reason} about {service}: {events:?}"))
            })
            .await?;
        ensure!(
            note.contains(words),
            "the Event says {note:?}, not {words:?}"
        );
        // What failed comes before it, what to do instead after it.
        let what = note
            .split_once(": ")
            .map_or(note.as_str(), |(_, what)| what);
        let what = what.split(';').next().unwrap_or(what);
        Ok(format!("no address, and the Event {reason}: {what}"))
    }

    async fn given(&self, service: &str) -> Result<Vec<String>> {
        let services = Api::<Service>::namespaced(self.cluster.netlab.admin.clone(), NAMESPACE);
        Ok(ingress(&services.get(service).await?))
    }
}

/// What counts in the end: who answers for the router's address.
async fn nobody_is_the_router(demo: &Demo<'_>, cluster: &FailoverCluster) -> Result<()> {
    let address = Netlab::GATEWAY_V4;
    let step = Step::new("nobody else answers for the router", 10, super::MOORING);
    demo.console
        .run(step, async {
            let prober = cluster.asker.prober(address.into())?;
            let speaker =
                step.until(async || prober.only_speaker(STEADY).context("nobody, or two"));
            let speaker = speaker.await?;
            let nodes = &cluster.netlab.nodes;
            ensure!(
                nodes.iter().all(|node| node.mac() != speaker),
                "{} answers for {address}",
                cluster.name_of(speaker)
            );
            Ok((
                (),
                format!("new neighbours ask for {address}, and hear {speaker} alone"),
            ))
        })
        .await
}
