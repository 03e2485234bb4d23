//! `doctor` and `drain-check`, with what is broken on purpose. All causes are in the unit tests.

use std::net::Ipv4Addr;

use mooring_common::names::{annotations, reasons};
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::objects::{NodeBuilder, ServiceBuilder};
use mooring_test_cluster::shipped::CentralFlags;
use serde_json::json;

use super::run::{mooring, nodes_say, viewer};

#[tokio::test]
async fn km_05_without_central_the_doctor_says_so_of_node_and_service() {
    let cluster = Cluster::exclusive().await;
    NodeBuilder::new("n1")
        .tainted()
        .ready()
        .create(&cluster.admin)
        .await
        .unwrap();
    let namespace = cluster.namespace_with_network(2).await;
    namespace.create("web").await;
    let viewer = viewer(&cluster).await;
    let said = mooring(&viewer, &["doctor", "node", "n1", "-o", "json"]).await;
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.finding("NoLeader")["remedy"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
    );
    said.finding("CentralNotRunning");
    // It is younger than a minute.
    assert_eq!(said.finding("Waiting")["subject"], "node n1");
    let service = format!("{}/web", namespace.name);
    let said = mooring(&viewer, &["doctor", "service", &service, "-o", "json"]).await;
    assert_eq!(said.code, Some(1), "{said:?}");
    let seen = said.finding("NotServed")["evidence"][0].to_string();
    assert!(seen.contains(&namespace.address(0)), "{seen}");
    let said = mooring(&viewer, &["doctor", "node", "n9"]).await;
    assert!(
        said.code == Some(1) && said.complaint.contains("no Node \"n9\""),
        "{said:?}"
    );
    cluster.finish().await;
}

#[tokio::test]
async fn km_06_the_doctor_says_of_a_service_what_central_says() {
    let cluster = Cluster::exclusive().await;
    let _central = cluster.start_central(CentralFlags::replica()).await;
    let namespace = cluster.namespace_with_network(2).await;
    namespace.network_is(&namespace.network, true).await;
    namespace
        .service("web")
        .annotation(annotations::ADDRESS_POOL_REQUEST, "gold")
        .create(&cluster.admin)
        .await
        .unwrap();
    let event = namespace
        .told("web", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    let viewer = viewer(&cluster).await;
    let service = format!("service/{}/web", namespace.name);
    let said = mooring(&viewer, &["doctor", &service, "-o", "json"]).await;
    assert_eq!(said.code, Some(1), "{said:?}");
    let remedy = said.finding("NoAddress")["remedy"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(event.note.ends_with(&remedy), "{remedy:?}: {event:?}");

    namespace
        .annotate("web", annotations::ADDRESS_POOL_REQUEST, None)
        .await;
    let address = namespace.served("web").await.remove(0);
    let said = mooring(&viewer, &["doctor", "address", &address, "-o", "json"]).await;
    assert_eq!(said.code, Some(1), "{said:?}");
    // It has no Pod.
    assert_eq!(
        said.finding("NoEndpoint")["subject"],
        json!(format!("address {address}"))
    );
    let text = mooring(&viewer, &["doctor", "address", &address])
        .await
        .text;
    assert!(
        text.contains("    do:   ") && text.contains("    see:  docs/how-to/"),
        "{text}"
    );
    cluster.finish().await;
}

#[tokio::test]
async fn km_07_the_doctor_tries_the_ports_from_here() {
    let cluster = Cluster::exclusive().await;
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap();
    let port = listener.local_addr().unwrap().port();
    let namespace = cluster.namespace().await;
    let service = ServiceBuilder::load_balancer(&namespace.name, "web").port(port, 8080);
    service
        .class("example.com/other")
        .create(&cluster.admin)
        .await
        .unwrap();
    let status = json!({"loadBalancer": {"ingress": [{"ip": "127.0.0.1"}]}});
    namespace.patch_status("web", &status).await;
    let viewer = viewer(&cluster).await;
    let arguments = ["doctor", "address", "127.0.0.1", "-o", "json"];
    let said = mooring(&viewer, &arguments).await;
    let to = format!("127.0.0.1:{port}");
    assert_eq!(
        said.finding("Answers")["message"],
        json!(format!("{to} answers"))
    );
    drop(listener);
    let said = mooring(&viewer, &arguments).await;
    assert_eq!(
        said.finding("Refused")["message"],
        json!(format!("{to} refuses connections"))
    );
    cluster.finish().await;
}

#[tokio::test]
async fn km_08_drain_check_names_who_takes_over() {
    let cluster = Cluster::exclusive().await;
    for name in ["n1", "n2", "n3"] {
        NodeBuilder::new(name)
            .ready()
            .create(&cluster.admin)
            .await
            .unwrap();
    }
    let _central = cluster.start_central(CentralFlags::replica()).await;
    let namespace = cluster.namespace_with_network(2).await;
    namespace.network_is(&namespace.network, true).await;
    namespace.create("web").await;
    let address = namespace.served("web").await.remove(0);
    nodes_say(&namespace, &address, &["n1", "n2", "n3"]).await;
    let viewer = viewer(&cluster).await;
    let said = mooring(&viewer, &["drain-check", "n1", "-o", "json"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    let told = said.finding("HandedOver")["message"].to_string();
    assert!(
        told.contains(&address) && told.contains("one of n2, n3"),
        "{told}"
    );
    said.finding("Quorum");
    nodes_say(&namespace, &address, &["n1"]).await;
    let said = mooring(&viewer, &["drain-check", "n1", "-o", "json"]).await;
    assert_eq!(said.code, Some(1), "{said:?}");
    said.finding("FallsSilent");
    said.finding("OnlyVoter");
    cluster.finish().await;
}
