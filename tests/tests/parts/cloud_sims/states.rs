//! Load balancers that are being made, that are changing, and that are written on twice at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use http::StatusCode;
use mooring_cloud_sim::cloudscale::{Behaviour, Cloudscale, Kind, Lack};
use mooring_cloud_sim::{Fault, When};
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::cloud_sims::client::{get, send, try_send};
use crate::cloud_sims::load_balancers::{
    balanced, delete, listener_of, made, member, patch, path_of, pool_of, post, quick,
};

const SOON: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(3_600);
const CHANGE: Duration = Duration::from_millis(150);

fn new(name: &str) -> Value {
    json!({ "name": name, "flavor": "lb-standard", "vip_addresses": [] })
}

async fn status(cloud: &Cloudscale, balancer: &Value) -> String {
    let shown = get(&cloud.url(), &path_of(cloud, balancer)).await.json();
    shown["status"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn nothing_is_written_on_a_load_balancer_that_is_still_being_made() {
    let cloud = Cloudscale::start().await.unwrap();
    let making = Behaviour {
        provisioning: LONG,
        ..Behaviour::default()
    };
    cloud.behave(making);
    let balancer = made(&cloud, "", new("lb")).await;
    for answer in [
        post(&cloud, "/pools", pool_of(&balancer)).await,
        patch(&cloud, &balancer, json!({ "name": "new" })).await,
        delete(&cloud, &balancer).await,
    ] {
        assert_eq!(answer.status, 400);
        assert!(answer.body.contains("still being created"), "{answer:?}");
    }
    assert_eq!(status(&cloud, &balancer).await, "changing");
    cloud.behave(Behaviour {
        strict_deletes: false,
        ..making
    });
    assert_eq!(delete(&cloud, &balancer).await.status, 204);
    assert!(cloud.all(Kind::LoadBalancer).is_empty());
}

#[tokio::test]
async fn writes_wait_their_turn_or_are_refused_while_it_changes() {
    let cloud = quick().await;
    let (balancer, pool) = balanced(&cloud, "lb").await;
    let changing = Behaviour {
        change_time: CHANGE,
        ..Behaviour::default()
    };
    cloud.behave(changing);
    let start = Instant::now();
    for port in [81, 82] {
        made(&cloud, "/listeners", listener_of(&pool, port)).await;
    }
    assert!(start.elapsed() >= CHANGE, "the second had to wait");
    assert_eq!(status(&cloud, &balancer).await, "changing");
    eventually("it is done", SOON, async || {
        status(&cloud, &balancer).await == "running"
    })
    .await;

    cloud.behave(Behaviour {
        change_time: LONG,
        refuse_while_changing: true,
        ..Behaviour::default()
    });
    made(&cloud, "/listeners", listener_of(&pool, 83)).await;
    let refused = post(&cloud, "/listeners", listener_of(&pool, 84)).await;
    let detail = json!({ "detail": "Load balancer is currently changing." });
    assert_eq!((refused.status, refused.json()), (400, detail));
    assert_eq!(
        cloud.concurrent_writes(),
        0,
        "one after the other is as it should be"
    );
}

#[tokio::test]
async fn two_writes_at_once_are_counted_and_the_second_is_refused() {
    let cloud = Arc::new(quick().await);
    let (_, pool) = balanced(&cloud, "lb").await;
    let (_, elsewhere) = balanced(&cloud, "other").await;
    // Long enough for all three to be there before the first is answered.
    cloud.set_latency(Duration::from_secs(2));
    let at = |pool: &Value, port| {
        let (cloud, body) = (cloud.clone(), listener_of(pool, port));
        tokio::spawn(async move { post(&cloud, "/listeners", body).await.status })
    };
    let writes = [at(&pool, 81), at(&pool, 82), at(&elsewhere, 81)];
    let mut statuses = Vec::new();
    for write in writes {
        statuses.push(write.await.unwrap());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 201, 503]);
    assert_eq!(cloud.concurrent_writes(), 1);
    let refused = cloud.calls().answered(StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.len(), 1);

    // A write that hangs is under way until its client gives up.
    cloud.set_latency(Duration::ZERO);
    let hang = When::write("**/listeners").times(1);
    let hang = cloud.faults().inject(hang, Fault::hang());
    let hanging = at(&pool, 83);
    hang.struck(1).await;
    assert_eq!(
        post(&cloud, "/listeners", listener_of(&pool, 84))
            .await
            .status,
        503
    );
    hanging.abort();
    eventually("the next is let in", SOON, async || {
        post(&cloud, "/listeners", listener_of(&pool, 84))
            .await
            .status
            == 201
    })
    .await;
}

#[tokio::test]
async fn two_writes_at_once_can_be_done_one_after_the_other_instead() {
    let cloud = Arc::new(quick().await);
    let (_, pool) = balanced(&cloud, "lb").await;
    let url = cloud.url();
    let queued = json!({ "refuse_concurrent_writes": false });
    let told = send(&url, "POST", "/_sim/behaviour", &queued).await;
    assert_eq!(told.status, 204, "{told:?}");
    let hang = When::write("**/listeners").times(1);
    let hang = cloud.faults().inject(hang, Fault::hang());
    let at = |port| {
        let (cloud, body) = (cloud.clone(), listener_of(&pool, port));
        tokio::spawn(async move { post(&cloud, "/listeners", body).await.status })
    };
    let hanging = {
        let (url, body) = (url.clone(), listener_of(&pool, 81));
        let path = "/v1/load-balancers/listeners";
        tokio::spawn(async move { try_send(&url, "POST", path, &body).await.is_none() })
    };
    hang.struck(1).await;
    let waiting = [at(82), at(83)];
    eventually("both wait", SOON, async || cloud.concurrent_writes() == 2).await;
    assert_eq!(
        cloud.all(Kind::Listener).len(),
        1,
        "none is done before its turn"
    );
    hang.lift();
    assert!(hanging.await.unwrap(), "the first comes to nothing");
    for write in waiting {
        assert_eq!(write.await.unwrap(), 201);
    }
    assert_eq!(cloud.all(Kind::Listener).len(), 3);
    let odd = json!({ "refuse_concurrent_writes": 1 });
    let refused = send(&url, "POST", "/_sim/behaviour", &odd).await;
    assert_eq!(refused.status, 400);
    let odd = send(
        &url,
        "POST",
        "/_sim/behaviour",
        &json!({ "patience": true }),
    )
    .await;
    assert_eq!(odd.status, 400);
}

#[tokio::test]
async fn a_status_can_be_forced_and_outlives_changes() {
    let cloud = quick().await;
    let (balancer, pool) = balanced(&cloud, "lb").await;
    let uuid = balancer["uuid"].as_str().unwrap();
    cloud.set_status(uuid, "error");
    assert_eq!(status(&cloud, &balancer).await, "error");
    cloud.behave(Behaviour {
        change_time: CHANGE,
        ..Behaviour::default()
    });
    made(&cloud, "/listeners", listener_of(&pool, 81)).await;
    assert_eq!(status(&cloud, &balancer).await, "changing");
    eventually("it is as before", SOON, async || {
        status(&cloud, &balancer).await == "error"
    })
    .await;
    cloud.set_status(uuid, "running");
    assert_eq!(status(&cloud, &balancer).await, "running");
}

#[tokio::test]
async fn the_port_of_a_deleted_listener_can_stay_taken() {
    let cloud = quick().await;
    let (_, pool) = balanced(&cloud, "lb").await;
    cloud.behave(Behaviour {
        late_deletes: CHANGE,
        ..Behaviour::default()
    });
    let listener = cloud.all(Kind::Listener).remove(0);
    assert_eq!(delete(&cloud, &listener).await.status, 204);
    let again = async || {
        post(&cloud, "/listeners", listener_of(&pool, 80))
            .await
            .status
    };
    assert_eq!(again().await, 400);
    eventually("the port is free", SOON, async || again().await == 201).await;
}

#[tokio::test]
async fn outages_are_told_by_listener_by_time_and_by_writes() {
    let cloud = quick().await;
    let (_, pool) = balanced(&cloud, "lb").await;
    assert!(
        cloud.outages("lb").is_empty(),
        "what never served is not out"
    );
    let listener = cloud.all(Kind::Listener).remove(0);
    delete(&cloud, &listener).await;
    let [open] = &cloud.outages("lb")[..] else {
        panic!("{:?}", cloud.outages("lb"));
    };
    assert_eq!(
        (open.listener.as_str(), open.lack, open.over),
        ("tcp/80", Lack::Listener, false)
    );
    made(&cloud, "/listeners", listener_of(&pool, 80)).await;

    let members = cloud.all(Kind::Member);
    patch(&cloud, &members[0], json!({ "enabled": false })).await;
    delete(&cloud, &members[1]).await;
    let path = format!("/pools/{}/members", pool["uuid"].as_str().unwrap());
    patch(&cloud, &pool, json!({ "name": "new" })).await;
    made(&cloud, &path, member("10.0.0.3")).await;
    let outages = cloud.outages("lb");
    let told: Vec<_> = outages.iter().map(|o| (o.lack, o.writes, o.over)).collect();
    assert_eq!(told, [(Lack::Listener, 1, true), (Lack::Member, 2, true)]);
    assert!(outages[0].since + outages[0].lasted <= outages[1].since);
    assert_eq!(
        (cloud.gaps_in_calls("lb"), cloud.traffic("lb").dark().len()),
        (2, 2)
    );

    // A new port before the old one goes: one listener is out for good, and it was never dark.
    let old = cloud.all(Kind::Listener).remove(0);
    made(&cloud, "/listeners", listener_of(&pool, 81)).await;
    delete(&cloud, &old).await;
    assert!(
        cloud
            .outages("lb")
            .iter()
            .any(|o| o.listener == "tcp/80" && !o.over)
    );
    assert_eq!(cloud.traffic("lb").dark().len(), 2);
    let served = cloud.traffic("lb").now();
    assert_eq!(
        served["tcp/81"].iter().collect::<Vec<_>>(),
        ["10.0.0.3:30080"]
    );
}

#[tokio::test]
async fn a_switch_kills_at_the_nth_call_before_or_after_its_effect() {
    for executed in [true, false] {
        let cloud = Arc::new(quick().await);
        let kills = Arc::new(AtomicU32::new(0));
        let (switch, there) = (kills.clone(), cloud.clone());
        cloud.kill_switch(When::write("**/*"), 2, executed, move || {
            let pools = u32::try_from(there.all(Kind::Pool).len()).unwrap();
            switch.store(10 + pools, Ordering::Relaxed);
        });
        // What else goes wrong does not keep calls from being counted.
        let other = Fault::slow(Duration::from_millis(1));
        cloud.faults().inject(When::everything(), other);
        let balancer = made(&cloud, "", new("lb")).await;
        get(&cloud.url(), "/v1/load-balancers").await;
        let path = "/v1/load-balancers/pools";
        let lost = try_send(&cloud.url(), "POST", path, &pool_of(&balancer)).await;
        assert!(lost.is_none());
        assert_eq!(cloud.all(Kind::Pool).len(), usize::from(executed));
        assert_eq!(kills.load(Ordering::Relaxed), 10 + u32::from(executed));
        let next = send(&cloud.url(), "POST", path, &pool_of(&balancer)).await;
        assert_eq!(next.status, 201);
    }
}
