//! Clouds that are away, that answer nonsense, or that want to be left alone (SC-…, T13).

use std::time::{Duration, Instant};

use http::StatusCode;
use mooring_cloud_sim::Fault;
use mooring_cloud_sim::cloud::{CloudSim, Server};
use mooring_test_cluster::cluster::MARKER_LIMIT;
use mooring_test_cluster::objects::unique;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use super::cluster::CloudCluster;

const NO_GUARD: &str = "--max-node-deletions-percent=100";

/// For what waits for a client that has begun to wait longer.
const AT_LAST: Duration = Duration::from_secs(60);

#[tokio::test]
async fn sc_04_an_outage_costs_no_node_and_ends_by_itself() {
    let cluster = CloudCluster::start().await;
    let (gone, stays, new) = (unique("gone"), unique("stays"), unique("new"));
    let id = cluster.member(&gone, "10.1.0.1").await;
    cluster.member(&stays, "10.1.0.2").await;
    let central = cluster.for_cloud().flag(NO_GUARD).try_start().await;
    cluster.listings_since(Instant::now(), 1).await;
    cluster.cloud.set_down(true);
    cluster.cloud.remove(&id);
    cluster.cloud.add(Server::named(&new).private("10.1.0.3"));
    for name in [&gone, &stays] {
        cluster.set_ready(name, "Unknown").await;
    }
    cluster.tainted(&new).await;
    let tried = cluster.cloud.turned_away();
    eventually("it has tried three times", AT_LAST, async || {
        cluster.cloud.turned_away() >= tried + 3
    })
    .await;
    for name in [&gone, &stays] {
        cluster.is_kept(name).await;
    }
    cluster.is_uninitialized(&new).await;

    cluster.cloud.set_down(false);
    eventually("what is gone is gone", AT_LAST, async || {
        cluster.node(&gone).await.is_none()
    })
    .await;
    eventually("what is new is initialised", AT_LAST, async || {
        let node = cluster.node(&new).await?;
        mooring_test_cluster::cluster::provider_id(&node).map(ToOwned::to_owned)
    })
    .await;
    cluster.is_kept(&stays).await;
    assert!(central.is_running());
    cluster.finish().await;
}

/// Listings that are not to be believed: a machine that is truly gone costs its Node nothing until
/// a listing is whole again, although what is asked for it alone says clearly that it is gone. What
/// was known of the others stays known.
async fn not_believed(fault: impl FnOnce(&CloudSim) -> Fault) {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let id = cluster.member(&name, "10.1.0.1").await;
    let central = cluster.for_cloud().flag(NO_GUARD).try_start().await;
    cluster.listings_since(Instant::now(), 1).await;
    let fault = fault(&cluster.cloud);
    let spoilt = cluster
        .cloud
        .faults()
        .inject(cluster.cloud.listing(), fault);
    // No whole listing is under way then: there is one at a time.
    let what = "a listing is spoilt";
    eventually(what, MARKER_LIMIT, async || spoilt.hits() >= 1).await;
    cluster.cloud.remove(&id);
    cluster.set_ready(&name, "Unknown").await;
    let before = spoilt.hits();
    let what = "two more listings are spoilt";
    eventually(what, AT_LAST, async || spoilt.hits() >= before + 2).await;
    cluster.is_kept(&name).await;
    assert!(central.is_running());
    spoilt.lift();
    eventually("a whole listing is believed", AT_LAST, async || {
        cluster.node(&name).await.is_none()
    })
    .await;
    cluster.finish().await;
}

#[tokio::test]
async fn sc_07_a_page_for_people_is_no_listing() {
    not_believed(|_| Fault::html(StatusCode::OK)).await;
}

#[tokio::test]
async fn sc_07_a_listing_that_is_cut_off_is_none() {
    not_believed(|_| Fault::cut_off()).await;
}

#[tokio::test]
async fn sc_07_a_listing_that_is_torn_is_none() {
    not_believed(|_| Fault::torn()).await;
}

#[tokio::test]
async fn sc_07_an_error_that_calls_itself_a_success_is_no_listing() {
    not_believed(|_| Fault::body(StatusCode::OK, r#"{"detail":"Server error."}"#)).await;
}

#[tokio::test]
async fn sc_07_errors_in_the_other_apis_shape_are_no_listing() {
    let body = r#"{"errors":[{"reason":"Please try again"}]}"#;
    not_believed(|_| Fault::body(StatusCode::OK, body)).await;
}

#[tokio::test]
async fn sc_07_an_empty_body_is_no_listing() {
    not_believed(|_| Fault::body(StatusCode::OK, "")).await;
}

/// It may be that of another project.
#[tokio::test]
async fn sc_07_a_listing_without_any_machine_proves_nothing() {
    not_believed(|_| {
        Fault::rewritten(|listing| {
            *listing = if listing.is_array() {
                json!([])
            } else {
                json!({ "data": [], "page": 1, "pages": 1, "results": 0 })
            };
        })
    })
    .await;
}

#[tokio::test]
async fn sc_07_null_is_no_listing() {
    not_believed(|_| Fault::body(StatusCode::OK, "null")).await;
}

#[tokio::test]
async fn sc_07_a_listing_that_does_not_exist_is_none() {
    not_believed(|_| Fault::status(StatusCode::NOT_FOUND)).await;
}

#[tokio::test]
async fn sc_07_a_failing_listing_is_none() {
    not_believed(|_| Fault::status(StatusCode::SERVICE_UNAVAILABLE)).await;
}

/// The machines of a listing, in the shape of any cloud.
fn machines(answer: &mut Value) -> &mut Vec<Value> {
    let list = if answer.is_array() {
        answer
    } else {
        &mut answer["data"]
    };
    list.as_array_mut().expect("a listing")
}

/// Fields that are new, and fields that are not needed and missing.
#[tokio::test]
async fn sc_06_unknown_and_missing_fields_do_not_matter() {
    const NEEDED: [&str; 19] = [
        "id",
        "label",
        "region",
        "type",
        "status",
        "ipv4",
        "ipv6",
        "host_uuid",
        "uuid",
        "name",
        "zone",
        "flavor",
        "interfaces",
        "tags",
        "hostname",
        "location",
        "publicIpAddresses",
        "privateIpAddresses",
        "cloud_ips",
    ];
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    let server = Server::named(&name).private("10.1.0.1").public("192.0.2.1");
    cluster.cloud.add(server.clone());
    let odd = Fault::rewritten(|listing| {
        for machine in machines(listing) {
            let machine = machine.as_object_mut().expect("a machine");
            machine.retain(|field, _| NEEDED.contains(&field.as_str()));
            machine.remove("tags");
            machine.insert("brand_new".to_owned(), json!({ "a": [1, null] }));
        }
        if let Some(page) = listing.as_object_mut() {
            page.insert("next".to_owned(), json!(null));
        }
    });
    cluster.cloud.faults().inject(cluster.cloud.listing(), odd);
    let central = cluster.for_cloud().try_start().await;
    cluster.tainted(&name).await;
    let node = cluster.initialized(&name).await;
    let found = mooring_test_cluster::cluster::addresses(&node);
    assert_eq!(found, server.addresses(super::CLOUD));
    assert!(central.is_running());
    cluster.finish().await;
}

/// Nulls wherever they can be: on one machine, they do not spoil the others.
#[tokio::test]
async fn sc_06_a_machine_full_of_nulls_does_not_spoil_the_others() {
    let cluster = CloudCluster::start().await;
    let (odd, name) = (unique("odd"), unique("n"));
    let id = cluster.cloud.add(Server::named(&odd));
    for field in [
        "ipv4",
        "ipv6",
        "host_uuid",
        "interfaces",
        "image",
        "tags",
        "publicIpAddresses",
        "privateIpAddresses",
        "cloud_ips",
        "networkConfiguration",
    ] {
        cluster.cloud.set(&id, field, Value::Null);
    }
    cluster.cloud.add(Server::named(&name).private("10.1.0.1"));
    let central = cluster.for_cloud().try_start().await;
    cluster.tainted(&odd).await;
    cluster.tainted(&name).await;
    cluster.initialized(&name).await;
    assert!(central.is_running());
    cluster.finish().await;
}

/// Requests while a cloud wants to be left alone: none before it is time.
async fn left_alone_for(fault: Fault, shortest: Duration) {
    let cluster = CloudCluster::start().await;
    let (silent, name) = (unique("silent"), unique("n"));
    cluster.member(&silent, "10.1.0.1").await;
    let _central = cluster.for_cloud().try_start().await;
    cluster.listings_since(Instant::now(), 1).await;
    let storm = cluster.cloud.faults().inject(CloudSim::everything(), fault);
    eventually("the storm has begun", MARKER_LIMIT, async || {
        storm.hits() >= 1
    })
    .await;
    // All that makes central ask.
    cluster.set_ready(&silent, "Unknown").await;
    cluster.cloud.add(Server::named(&name).private("10.1.0.2"));
    cluster.tainted(&name).await;
    eventually("three were refused", AT_LAST, async || storm.hits() >= 3).await;
    storm.lift();
    let node = eventually("it recovers", AT_LAST, async || {
        let node = cluster.node(&name).await?;
        mooring_test_cluster::cluster::provider_id(&node).map(ToOwned::to_owned)
    });
    node.await;
    let calls = cluster.cloud.calls();
    let refused = calls.filter(|call| call.faulty);
    for pair in refused.windows(2) {
        let gap = pair[1].at - pair[0].at;
        assert!(
            gap >= shortest,
            "asked again after {gap:?}:\n{}",
            calls.summary()
        );
    }
    cluster.is_kept(&silent).await;
    cluster.finish().await;
}

#[tokio::test]
async fn t13_retry_after_in_seconds_is_obeyed() {
    let busy = Fault::status(StatusCode::TOO_MANY_REQUESTS);
    let busy = busy.retry_after(Duration::from_secs(3));
    left_alone_for(busy, Duration::from_millis(2_900)).await;
}

#[tokio::test]
async fn t13_retry_after_as_a_date_is_obeyed() {
    let busy = Fault::status(StatusCode::SERVICE_UNAVAILABLE);
    // The date has whole seconds, so that up to one is lost.
    let busy = busy.retry_after_date(Duration::from_secs(4));
    left_alone_for(busy, Duration::from_millis(2_900)).await;
}

#[tokio::test]
async fn t13_a_cloud_that_does_not_say_how_long_is_asked_ever_more_rarely() {
    let cluster = CloudCluster::start().await;
    let name = unique("n");
    cluster.cloud.add(Server::named(&name).private("10.1.0.1"));
    let storm = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    let storm = cluster.cloud.faults().inject(CloudSim::everything(), storm);
    let start = Instant::now();
    let _central = cluster.for_cloud().try_start().await;
    cluster.tainted(&name).await;
    eventually("four were refused", AT_LAST, async || storm.hits() >= 4).await;
    // Asked at every period of 300 ms, it would be three times as many.
    assert!(
        start.elapsed() >= Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
    storm.lift();
    eventually("it recovers", AT_LAST, async || {
        let node = cluster.node(&name).await?;
        mooring_test_cluster::cluster::provider_id(&node).map(ToOwned::to_owned)
    })
    .await;
    cluster.finish().await;
}

/// A listing that hangs holds up neither a shutdown nor what is asked afterwards.
#[tokio::test]
async fn sc_07_a_listing_that_hangs_does_not_hold_up_the_end() {
    let cluster = CloudCluster::start().await;
    let hang = cluster
        .cloud
        .faults()
        .inject(cluster.cloud.listing(), Fault::hang());
    let central = cluster.for_cloud().try_start().await;
    cluster.tainted(&unique("n")).await;
    eventually("it hangs", MARKER_LIMIT, async || hang.hits() >= 1).await;
    central.terminate().unwrap();
    assert_eq!(central.wait_for_code(Duration::from_secs(5)).await, 0);
    cluster.finish().await;
}
