//! Metadata that change, contradict themselves, or need another token.

use std::time::Duration;

use mooring_test_cluster::cluster::{addresses, event_writes, provider_id};
use mooring_test_netlab::metadata_sim::Machine;
use mooring_test_netlab::netlab::in_netlab;
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::metadata::cluster::{LIMIT, MetadataCluster, asked_again, is_tainted};

#[test]
fn md_02_a_token_that_has_expired_is_replaced_once() {
    in_netlab(async || {
        let cluster = MetadataCluster::start(&["n1"]).await;
        let sim = cluster.service("n1", Machine::linode(5000, "n1")).await;
        let daemon = cluster.daemon("n1", &[]).await;
        cluster.initialized("n1").await;
        asked_again(&sim, 6).await;
        let puts = || {
            sim.asked()
                .iter()
                .filter(|asked| asked.method == "PUT")
                .count()
        };
        assert_eq!(puts(), 1, "{:?}", sim.lines());
        sim.forget_tokens();
        let slaac = json!("2001:db8::77/128");
        sim.change("", |machine| machine.put("/network/ipv6/slaac", slaac))
            .unwrap();
        let wanted = "ExternalIP 2001:db8::77".to_owned();
        cluster
            .is("n1", "described anew", |node| {
                addresses(node).contains(&wanted)
            })
            .await;
        asked_again(&sim, 6).await;
        assert_eq!(puts(), 2, "{:?}", sim.lines());
        let refused = sim
            .asked()
            .iter()
            .filter(|asked| asked.status == 401)
            .count();
        assert_eq!(refused, 1, "{:?}", sim.lines());
        let log = daemon.log();
        assert!(
            sim.tokens().iter().all(|token| !log.contains(token)),
            "{log}"
        );
    });
}

#[test]
fn md_03_what_contradicts_itself_is_told_once_and_waited_for() {
    in_netlab(async || {
        let cluster = MetadataCluster::start(&["both", "zero", "strange"]).await;
        let twice = json!(["203.0.113.9/32"]);
        let both = Machine::linode(6000, "both")
            .with("/network/ipv4/public", twice.clone())
            .with("/network/ipv4/private", twice);
        let zero = Machine::linode(6001, "zero").with("/instance/id", json!(0));
        let strange =
            Machine::linode(6002, "strange").with("/network/ipv4/public", json!(["example.com"]));
        let cases = [
            (
                "both",
                both,
                "ipv4.private of http://169.254.169.254/v1/network is \"203.0.113.9\"",
            ),
            (
                "zero",
                zero,
                "id of http://169.254.169.254/v1/instance is \"0\"",
            ),
            (
                "strange",
                strange,
                "ipv4.public of http://169.254.169.254/v1/network is \"example.com\"",
            ),
        ];
        let mut running = Vec::new();
        for (name, machine, words) in cases {
            let sim = cluster.service(name, machine).await;
            running.push((name, words, sim, cluster.daemon(name, &[]).await));
        }
        for (name, words, sim, daemon) in &running {
            let note = eventually(&format!("{name}: an Event"), LIMIT, async || {
                cluster
                    .refusals(name)
                    .await
                    .first()
                    .map(|event| event.note.clone())
            })
            .await;
            assert!(note.contains(words), "{note}");
            assert!(note.contains("--metadata-source"), "no remedy: {note}");
            // Six more passes, of three requests each: one per 300 ms, but for those that the
            // Node itself has asked for.
            asked_again(sim, 18).await;
            let asked = sim.asked();
            let took = asked.last().unwrap().at - asked[asked.len() - 18].at;
            assert!(
                took > Duration::from_millis(800),
                "{name}: six passes in {took:?}"
            );
            let log = cluster.netlab.audit_settled().await;
            let told = event_writes(&log, name);
            assert_eq!(told.len(), 1, "told again:\n{}", told.summary());
            assert!(cluster.written_on(name).await.is_empty());
            assert!(is_tainted(&cluster.node(name).await) && daemon.is_running());
        }
        let (_, _, sim, _) = &running[1];
        sim.change("", |machine| machine.put("/instance/id", json!(6001)))
            .unwrap();
        let node = cluster.initialized("zero").await;
        assert_eq!(provider_id(&node), Some("linode://6001"));
    });
}
