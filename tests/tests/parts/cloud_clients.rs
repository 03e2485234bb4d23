//! The clients of the clouds against their simulations, without a cluster.

mod tls;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use http::StatusCode;
use mooring_central::cloud_api::{ErrorKind, Limits, Metrics};
use mooring_central::cloud_provider::{Machine, MachineSource};
use mooring_central::clouds::linode::{Flags, VpcChoice};
use mooring_central::clouds::{brightbox, cloudscale, linode, phoenixnap};
use mooring_central::flags::TABLE;
use mooring_cloud_sim::Fault;
use mooring_cloud_sim::cloud::{Cloud, CloudSim, Server};
use mooring_common::flags::{Parsed, Reader};
use mooring_test_support::wait::eventually;
use prometheus_client::registry::Registry;

const CLOUDS: [Cloud; 4] = [
    Cloud::Linode,
    Cloud::Cloudscale,
    Cloud::Phoenixnap,
    Cloud::Brightbox,
];
/// Tests do not wait for their turn.
const LIMITS: Limits = Limits {
    qps: 1000.0,
    burst: 1000,
};

/// Linode's flags, all absent.
fn flags() -> Flags {
    let Ok(Parsed::Run(values)) = TABLE.parse([], |_| None) else {
        unreachable!("nothing is asked for");
    };
    Flags::read(&mut Reader::new(&TABLE, &values))
}

/// A client of a cloud, as this environment says.
fn configured(
    cloud: Cloud,
    env: &dyn Fn(&str) -> Option<String>,
    flags: Flags,
) -> Arc<dyn MachineSource> {
    let metrics = Metrics::register(&mut Registry::default());
    match cloud {
        Cloud::Linode => {
            let config = linode::Config::read(&env, flags).unwrap();
            linode::Linode::new(config, LIMITS, metrics).unwrap()
        }
        Cloud::Cloudscale => {
            let config = cloudscale::Config::read(&env).unwrap();
            cloudscale::Cloudscale::new(config, LIMITS, metrics).unwrap()
        }
        Cloud::Phoenixnap => {
            let flags = phoenixnap::Flags {
                block_size: 28,
                shares_blocks: true,
                max_blocks: 10,
                attaches_nodes: false,
                settle_time: Duration::from_secs(90),
            };
            let config = phoenixnap::Config::read(&env, None, flags).unwrap();
            phoenixnap::PhoenixNap::new(config, LIMITS, metrics).unwrap()
        }
        Cloud::Brightbox => {
            let config = brightbox::Config::read(&env).unwrap();
            brightbox::Brightbox::new(config, LIMITS, metrics).unwrap()
        }
    }
}

fn source_with(sim: &CloudSim, flags: Flags) -> Arc<dyn MachineSource> {
    let environment = sim.environment();
    let env = |variable: &str| {
        let found = environment.iter().find(|(name, _)| *name == variable);
        found.map(|(_, value)| value.clone())
    };
    configured(sim.kind(), &env, flags)
}

fn source(sim: &CloudSim) -> Arc<dyn MachineSource> {
    source_with(sim, flags())
}

/// What is listed, as soon as it can be: who was refused may leave the cloud alone for a moment.
async fn listed(source: &dyn MachineSource) -> Vec<Machine> {
    eventually("a listing", Duration::from_secs(20), async || {
        source.list().await.map_err(|error| error.to_string())
    })
    .await
}

fn ids(machines: &[Machine]) -> BTreeSet<String> {
    machines
        .iter()
        .map(|machine| machine.id.to_string())
        .collect()
}

/// Its names, without the identifier that some clouds let Nodes be called by.
fn names(machine: &Machine) -> Vec<&str> {
    let all = machine.names.iter().map(String::as_str);
    all.filter(|name| *name != machine.id.instance()).collect()
}

fn addresses(machine: &Machine) -> Vec<String> {
    let addresses = machine.facts.addresses.iter();
    addresses.map(ToString::to_string).collect()
}

fn fill(sim: &CloudSim, count: u32) -> Vec<String> {
    let server = |n: u32| {
        Server::named(&format!("n{n}"))
            .public(&format!("203.0.{}.{}", n / 250, n % 250 + 1))
            .private(&format!("192.168.{}.{}", 130 + n / 250, n % 250 + 1))
    };
    (0..count).map(|n| sim.add(server(n))).collect()
}

/// One listing of a large cluster costs a request for each 500 Linodes, and one elsewhere; at
/// PhoenixNAP and Brightbox the first one is for a token.
#[tokio::test]
async fn a_large_cluster_is_listed_whole() {
    for cloud in CLOUDS {
        let sim = CloudSim::start(cloud).await;
        let added = fill(&sim, 1201);
        let machines = source(&sim).list().await.unwrap();
        assert_eq!(ids(&machines), added.into_iter().collect());
        let requests = match cloud {
            Cloud::Linode => 3,
            Cloud::Cloudscale => 1,
            Cloud::Phoenixnap | Cloud::Brightbox => 2,
        };
        assert_eq!(sim.calls().len(), requests, "{cloud:?}");
    }
}

#[tokio::test]
async fn a_machine_is_described_alike_in_a_listing_and_alone() {
    for cloud in CLOUDS {
        let sim = CloudSim::start(cloud).await;
        let server = Server::named("n1")
            .public("203.0.113.7")
            .private("192.168.130.4");
        let expected = server.addresses(cloud);
        let id = sim.add(server);
        let other = sim.add(Server::named("n2").private("192.168.130.5"));
        let source = source(&sim);
        let listed = source.list().await.unwrap().remove(0);
        assert_eq!((listed.id.to_string(), names(&listed)), (id, vec!["n1"]));
        assert_eq!(addresses(&listed), expected, "{cloud:?}");
        assert_eq!(source.get(&listed.id).await.unwrap(), Some(listed.clone()));
        sim.remove(&listed.id.to_string());
        assert_eq!(source.get(&listed.id).await, Ok(None));
        assert_eq!(ids(&source.list().await.unwrap()), [other].into());
    }
}

/// SC-07, and everything else that an answer can be.
#[tokio::test]
async fn a_broken_answer_never_passes_for_a_listing_nor_for_an_absence() {
    type MakeFault = fn() -> Fault;
    let faults: [(&str, MakeFault); 9] = [
        ("html", || Fault::html(StatusCode::OK)),
        ("html 404", || Fault::html(StatusCode::NOT_FOUND)),
        ("html 502", || Fault::html(StatusCode::BAD_GATEWAY)),
        ("cut off", Fault::cut_off),
        ("torn", Fault::torn),
        ("reset", Fault::reset),
        ("500", || Fault::status(StatusCode::INTERNAL_SERVER_ERROR)),
        ("401", || Fault::status(StatusCode::UNAUTHORIZED)),
        ("error with 200", || {
            let body = r#"{"errors": [{"reason": "Not found"}], "detail": "Not found."}"#;
            Fault::body(StatusCode::OK, body)
        }),
    ];
    for cloud in CLOUDS {
        for (what, fault) in &faults {
            let sim = CloudSim::start(cloud).await;
            let id = fill(&sim, 3).remove(0);
            let source = source(&sim);
            let id = source.parse_id(&id).unwrap();
            // A token is at hand, where one is needed.
            source.list().await.unwrap();
            let injected = sim.faults().inject(CloudSim::everything(), fault());
            let all = source.list().await;
            assert!(all.is_err(), "{cloud:?}, {what}: {all:?}");
            let found = source.get(&id).await;
            assert!(found.is_err(), "{cloud:?}, {what}: {found:?}");
            injected.lift();
            assert_eq!(listed(&*source).await.len(), 3, "{cloud:?}, {what}");
            assert!(
                source.get(&id).await.unwrap().is_some(),
                "{cloud:?}, {what}"
            );
        }
    }
}

/// T13: told to wait, nobody asks, by seconds or by date, and it ends by itself.
#[tokio::test]
async fn a_cloud_that_wants_to_be_left_alone_is_and_is_asked_again_afterwards() {
    let (seconds, longer) = (Duration::from_secs(6), Duration::from_secs(7));
    let faults = [
        Fault::status(StatusCode::TOO_MANY_REQUESTS).retry_after(seconds),
        Fault::status(StatusCode::SERVICE_UNAVAILABLE).retry_after_date(longer),
    ];
    let runs = CLOUDS.map(|cloud| faults.clone().map(|fault| left_alone(cloud, fault)));
    join_all(runs.into_iter().flatten()).await;
}

/// Whether the first request is for a token.
fn has_tokens(cloud: Cloud) -> bool {
    matches!(cloud, Cloud::Phoenixnap | Cloud::Brightbox)
}

async fn left_alone(cloud: Cloud, fault: Fault) {
    let sim = CloudSim::start(cloud).await;
    fill(&sim, 1);
    let source = source(&sim);
    sim.faults().inject(CloudSim::everything().times(1), fault);
    let told = Instant::now();
    let wait = source.list().await.unwrap_err().retry_after.unwrap();
    assert!(
        wait > Duration::from_secs(5) && wait <= Duration::from_secs(7),
        "{wait:?}"
    );
    let mut found = None;
    for _ in 0..20 {
        let error = match source.list().await {
            Err(error) => error,
            // This machine was slow, and the wait is over.
            Ok(machines) => {
                found = Some(machines);
                break;
            }
        };
        assert!(error.retry_after.is_some(), "{error}");
        if !has_tokens(cloud) {
            assert_eq!(error.kind, ErrorKind::RateLimited, "{error}");
        }
        assert_eq!(
            sim.calls().len(),
            1,
            "{cloud:?}: asked although told to wait"
        );
    }
    let found = match found {
        Some(found) => found,
        None => listed(&*source).await,
    };
    assert_eq!(found.len(), 1);
    assert!(told.elapsed() >= wait, "{:?}", told.elapsed());
    // What was refused, and what was not: a token where there are some, and then a listing.
    let permitted = if has_tokens(cloud) { 3 } else { 2 };
    assert_eq!(sim.calls().len(), permitted, "{cloud:?}: asked too early");
}

/// PR-18.
#[tokio::test]
async fn a_token_that_is_not_valid_any_more_is_told_and_no_absence() {
    for cloud in CLOUDS {
        let sim = CloudSim::start(cloud).await;
        let id = fill(&sim, 1).remove(0);
        let source = source(&sim);
        sim.revoke_token(true);
        let error = source.list().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unauthorized, "{error}");
        let id = source.parse_id(&id).unwrap();
        assert_eq!(
            source.get(&id).await.unwrap_err().kind,
            ErrorKind::Unauthorized
        );
        sim.revoke_token(false);
        assert_eq!(listed(&*source).await.len(), 1);
    }
}

#[tokio::test]
async fn linodes_that_come_and_go_while_pages_are_read_do_not_make_others_vanish() {
    let sim = Arc::new(CloudSim::start(Cloud::Linode).await);
    let mut added = fill(&sim, 1001);
    let (first, meanwhile) = (added.remove(0), sim.clone());
    let gone = first.clone();
    sim.faults().inject(
        sim.listing().page(2).times(1),
        Fault::meanwhile(move || meanwhile.remove(&first)),
    );
    let machines = source(&sim).list().await.unwrap();
    let expected: BTreeSet<String> = added.into_iter().collect();
    assert!(!expected.contains(&gone));
    assert_eq!(ids(&machines), expected);
    let pages = sim.calls().len();
    assert_eq!(pages, 4, "two pages that did not fit, and two that do");
}

#[tokio::test]
async fn a_limit_of_linode_itself_is_kept() {
    let sim = CloudSim::start(Cloud::Linode).await;
    fill(&sim, 1);
    let linode = sim.linode().unwrap();
    let minute = Duration::from_secs(60);
    linode.limit(mooring_cloud_sim::linode::Limits::per(minute, 100, 2));
    let source = source(&sim);
    for _ in 0..2 {
        source.list().await.unwrap();
    }
    for _ in 0..10 {
        let error = source.list().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::RateLimited, "{error}");
        assert!(
            error.retry_after.is_some_and(|wait| wait <= minute),
            "{error:?}"
        );
    }
    assert_eq!(
        sim.calls().len(),
        2,
        "the headers said that the budget is spent"
    );
}

#[tokio::test]
async fn the_vpc_comes_first_and_who_is_outside_stays_a_machine() {
    let sim = CloudSim::start(Cloud::Linode).await;
    let ids = fill(&sim, 2);
    let linode = sim.linode().unwrap();
    let vpc = linode.add_vpc("prod");
    let subnet = linode.add_subnet(vpc, "default", "10.0.0.0/8");
    let other = linode.add_subnet(vpc, "other", "172.16.0.0/12");
    let inside: u64 = ids[0].trim_start_matches("linode://").parse().unwrap();
    linode.add_vpc_address(vpc, subnet, inside, "10.0.0.2");
    linode.add_vpc_address(vpc, other, inside, "172.16.0.2");
    linode.add_vpc_ipv6(vpc, subnet, inside, "2600:3c00:1::2", false);
    let names = VpcChoice::Names {
        vpcs: vec!["prod".to_owned()],
        subnets: vec!["default".to_owned()],
    };
    let numbers = VpcChoice::Numbers {
        vpcs: vec![vpc],
        subnets: vec![subnet],
    };
    for vpcs in [names, numbers] {
        let flags = Flags { vpcs, ..flags() };
        let source = source_with(&sim, flags);
        let machines = source.list().await.unwrap();
        let shown = addresses(&machines[0]);
        assert_eq!(shown[1], "InternalIP 10.0.0.2", "{shown:?}");
        assert!(
            shown.contains(&"InternalIP 2600:3c00:1::2".to_owned()),
            "{shown:?}"
        );
        assert!(
            !shown.iter().any(|address| address.contains("172.16")),
            "{shown:?}"
        );
        assert_eq!(machines.len(), 2);
        assert_eq!(
            source.get(&machines[0].id).await.unwrap().as_ref(),
            Some(&machines[0])
        );
    }
}

#[tokio::test]
async fn the_tag_chooses_linodes() {
    let sim = CloudSim::start(Cloud::Linode).await;
    fill(&sim, 2);
    let linode = sim.linode().unwrap();
    let tagged = mooring_cloud_sim::linode::Instance::labelled("mine").tag("k8s-prod");
    let id = linode.add(tagged.ipv4("203.0.113.9"));
    let flags = Flags {
        tag_filter: Some("k8s-prod".to_owned()),
        ..flags()
    };
    let machines = source_with(&sim, flags).list().await.unwrap();
    assert_eq!(ids(&machines), BTreeSet::from([format!("linode://{id}")]));
}

/// SC-06.
#[tokio::test]
async fn fields_that_are_new_or_missing_do_no_harm() {
    for cloud in CLOUDS {
        let sim = CloudSim::start(cloud).await;
        let id = fill(&sim, 2).remove(0);
        for field in [
            "region",
            "location",
            "type",
            "label",
            "name",
            "hostname",
            "flavor",
            "zone",
            "ipv6",
            "host_uuid",
        ] {
            sim.set(&id, field, serde_json::Value::Null);
        }
        sim.set(&id, "invented", serde_json::json!({"a": [1]}));
        let machines = source(&sim).list().await.unwrap();
        assert_eq!(machines.len(), 2, "{cloud:?}");
        let found = machines
            .iter()
            .find(|machine| machine.id.to_string() == id)
            .unwrap();
        assert_eq!(
            (names(found).len(), found.facts.region.as_deref()),
            (0, None),
            "{cloud:?}"
        );
    }
}
