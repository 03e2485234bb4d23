//! Metadata services that are late, broken, or not what they seem.

use mooring_test_cluster::cluster::{addresses, logged, provider_id};
use mooring_test_netlab::metadata_sim::{Fault, LINODE_INSTANCE, LINODE_NETWORK, Machine};
use mooring_test_netlab::netlab::in_netlab;
use mooring_test_support::wait::eventually;

use crate::metadata::cluster::{LIMIT, MetadataCluster, asked_again, is_tainted};

const FAULTS: [(&str, Fault); 8] = [
    ("hang", Fault::Hang),
    ("error", Fault::Status(503)),
    ("busy", Fault::Status(429)),
    ("html", Fault::Html),
    ("cut", Fault::CutOff),
    ("slow", Fault::Slow),
    ("elsewhere", Fault::Redirect),
    ("huge", Fault::Huge),
];

/// How many requests a round takes at most, and how many rounds a second a daemon may make of a
/// service that fails.
const ROUND: f64 = 4.0;
const ROUNDS_PER_SECOND: f64 = 4.0;

#[test]
fn sc_07_what_is_no_answer_is_waited_for_and_never_written() {
    in_netlab(async || {
        let names = FAULTS.map(|(name, _)| name);
        let cluster = MetadataCluster::start(&[&names[..], &["refused"]].concat()).await;
        let mut services = Vec::new();
        for (index, (name, fault)) in FAULTS.into_iter().enumerate() {
            let id = 2000 + u32::try_from(index).unwrap();
            let sim = cluster.service(name, Machine::linode(id, name)).await;
            sim.fail("/", fault);
            let daemon = cluster.daemon(name, &[]).await;
            services.push((name, format!("linode://{id}"), sim, daemon));
        }
        let refused = cluster
            .service("refused", Machine::linode(3000, "refused"))
            .await;
        refused.refuse().await;
        let late = cluster.daemon("refused", &["--v=4"]).await;
        logged(&late, "no clear answer").await;
        refused.listen(Some(cluster.host("refused"))).await.unwrap();

        // All are judged before the first is healed: after 15 s without a service a daemon leaves the rest to central.
        for (name, _, sim, daemon) in &services {
            eventually(&format!("{name}: asked twice"), LIMIT, async || {
                let asked = sim.asked();
                asked.iter().filter(|asked| asked.method == "PUT").count() >= 2
            })
            .await;
            assert!(is_tainted(&cluster.node(name).await), "{name}");
            let asked = sim.asked();
            let seconds = (asked.last().unwrap().at - asked[0].at).as_secs_f64();
            let allowed = ROUND * (1.0 + ROUNDS_PER_SECOND * seconds);
            assert!(
                asked.len() as f64 <= allowed,
                "{name}: {} in {seconds} s",
                asked.len()
            );
            assert!(daemon.is_running(), "{name}");
            assert!(cluster.written_on(name).await.is_empty(), "{name}");
        }
        for (_, _, sim, _) in &services {
            sim.heal();
        }
        for (name, id, ..) in &services {
            assert_eq!(
                provider_id(&cluster.initialized(name).await),
                Some(id.as_str())
            );
        }
        let node = cluster.initialized("refused").await;
        assert_eq!(provider_id(&node), Some("linode://3000"));
    });
}

#[test]
fn sc_07_a_service_that_fails_later_takes_nothing_away() {
    in_netlab(async || {
        let cluster = MetadataCluster::start(&["n1"]).await;
        let sim = cluster.service("n1", Machine::linode(4000, "n1")).await;
        let daemon = cluster.daemon("n1", &[]).await;
        let before = addresses(&cluster.initialized("n1").await);
        assert_eq!(before.len(), 4, "{before:?}");
        let faults = [
            (LINODE_NETWORK, Fault::Status(404)),
            (LINODE_INSTANCE, Fault::Html),
            (LINODE_NETWORK, Fault::CutOff),
            ("/", Fault::Status(500)),
        ];
        for (path, fault) in faults {
            sim.fail(path, fault);
            asked_again(&sim, 2).await;
            sim.heal();
            // The marker: the daemon is past the failure.
            asked_again(&sim, 4).await;
        }
        let node = cluster.node("n1").await;
        assert_eq!(addresses(&node), before);
        assert!(daemon.is_running());
        assert!(cluster.refusals("n1").await.is_empty());
        assert_eq!(cluster.written_on("n1").await.len(), 2);
    });
}
