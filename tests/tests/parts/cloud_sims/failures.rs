//! Failures, as a test chooses them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use jiff::Timestamp;
use mooring_cloud_sim::cloudscale::{Cloudscale, Machine};
use mooring_cloud_sim::linode::{Instance, Linode};
use mooring_cloud_sim::{Fault, When};
use serde_json::json;

use crate::cloud_sims::client::{Ended, get, try_get};

const SERVERS: &str = "/v1/servers";

async fn cloud() -> Cloudscale {
    let cloud = Cloudscale::start().await.unwrap();
    cloud.add(Machine::named("n1"));
    cloud
}

#[tokio::test]
async fn errors_have_the_apis_own_shape_and_come_as_often_as_asked() {
    let cloud = cloud().await;
    let fault = Fault::status(StatusCode::SERVICE_UNAVAILABLE);
    let injected = cloud
        .faults()
        .inject(When::get(SERVERS).after(1).times(2), fault);
    let statuses = async || {
        let mut statuses = Vec::new();
        for _ in 0..4 {
            statuses.push(get(&cloud.url(), SERVERS).await.status);
        }
        statuses
    };
    assert_eq!(statuses().await, [200, 503, 503, 200]);
    assert_eq!(injected.hits(), 2);
    assert_eq!(cloud.calls().filter(|call| call.faulty).len(), 2);

    let linode = Linode::start().await.unwrap();
    let busy = Fault::status(StatusCode::TOO_MANY_REQUESTS).retry_after(Duration::from_secs(7));
    let busy = linode.faults().inject(When::any("**/profile"), busy);
    let refused = get(&linode.url(), "/v4/profile").await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, "7"));
    assert_eq!(refused.json()["errors"][0]["reason"], "Too many requests");
    busy.lift();
    assert_eq!(get(&linode.url(), "/v4/profile").await.status, 200);

    let later = Fault::status(StatusCode::SERVICE_UNAVAILABLE);
    let later = later.retry_after_date(Duration::from_secs(60));
    linode.faults().inject(When::get("**/profile"), later);
    let refused = get(&linode.url(), "/v4/profile").await;
    let date = jiff::fmt::rfc2822::parse(refused.header("retry-after")).unwrap();
    let wait = date.timestamp().duration_since(Timestamp::now()).as_secs();
    assert!((50..=60).contains(&wait), "{wait}");
    linode.faults().clear();
    assert_eq!(get(&linode.url(), "/v4/profile").await.status, 200);
}

#[tokio::test]
async fn answers_can_be_of_another_kind() {
    let cloud = cloud().await;
    let page = cloud
        .faults()
        .inject(When::get(SERVERS), Fault::html(StatusCode::OK));
    let html = get(&cloud.url(), SERVERS).await;
    assert_eq!(
        (html.status, html.header("content-type")),
        (200, "text/html; charset=utf-8")
    );
    assert!(html.body.starts_with("<!DOCTYPE html>"));
    page.lift();

    let body = r#"{"detail":"Server error."}"#;
    let error = Fault::body(StatusCode::OK, body);
    let error = cloud.faults().inject(When::get(SERVERS), error);
    let odd = get(&cloud.url(), SERVERS).await;
    assert_eq!((odd.status, odd.body.as_str()), (200, body));
    error.lift();

    let changed = Fault::rewritten(|list| {
        list[0]["brand_new"] = json!([1, 2]);
        list[0].as_object_mut().unwrap().remove("tags");
    });
    cloud.faults().inject(When::get(SERVERS), changed);
    let list = get(&cloud.url(), SERVERS).await;
    assert_eq!(list.ended, Ended::Whole);
    let one = &list.json()[0];
    assert_eq!((&one["brand_new"], one.get("tags")), (&json!([1, 2]), None));
}

#[tokio::test]
async fn answers_can_be_cut_off_torn_or_missing() {
    let cloud = cloud().await;
    let whole = get(&cloud.url(), SERVERS).await;
    assert_eq!(whole.ended, Ended::Whole);
    for (fault, ended) in [
        (Fault::cut_off(), Ended::Short),
        (Fault::torn(), Ended::Reset),
    ] {
        let injected = cloud.faults().inject(When::get(SERVERS), fault);
        let part = get(&cloud.url(), SERVERS).await;
        assert_eq!((part.status, part.ended), (200, ended));
        assert_eq!(
            part.header("content-length"),
            whole.header("content-length")
        );
        assert_eq!(part.body, whole.body[..whole.body.len() / 2]);
        injected.lift();
    }
    let reset = cloud.faults().inject(When::get(SERVERS), Fault::reset());
    assert!(try_get(&cloud.url(), SERVERS).await.is_none());
    reset.lift();

    let hang = cloud.faults().inject(When::get(SERVERS), Fault::hang());
    let url = cloud.url();
    let asking = tokio::spawn(async move { try_get(&url, SERVERS).await.is_none() });
    hang.struck(1).await;
    assert!(!asking.is_finished());
    assert_eq!(cloud.calls().last().unwrap().status, None);
    assert_eq!(
        get(&cloud.url(), "/v1/servers/x").await.status,
        404,
        "others are answered"
    );
    hang.lift();
    assert!(asking.await.unwrap(), "it is let go by a reset");

    let delay = Duration::from_millis(300);
    cloud
        .faults()
        .inject(When::get(SERVERS), Fault::slow(delay));
    let start = Instant::now();
    assert_eq!(get(&cloud.url(), SERVERS).await.body, whole.body);
    assert!(start.elapsed() >= delay);
}

/// That a read takes effect is seen by the limit that it uses up.
#[tokio::test]
async fn a_request_can_take_effect_although_its_answer_is_lost() {
    let linode = Linode::start().await.unwrap();
    let count = Arc::new(AtomicU32::new(0));
    let counting = count.clone();
    let lost = Fault::status(StatusCode::GATEWAY_TIMEOUT).first(move || {
        counting.fetch_add(1, Ordering::Relaxed);
    });
    let nth = |n| When::any("**/profile").method(Method::GET).nth(n);
    linode.faults().inject(nth(2), lost.clone().executed());
    linode.faults().inject(nth(2), lost);
    let (mut statuses, mut left) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let answer = get(&linode.url(), "/v4/profile").await;
        statuses.push(answer.status);
        if answer.status == 200 {
            left.push(answer.header("x-ratelimit-remaining").to_owned());
        }
    }
    assert_eq!(statuses, [200, 504, 504, 200]);
    assert_eq!(left, ["1599", "1597"], "only one of the two took effect");
    assert_eq!(count.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_listing_can_be_torn_between_its_pages() {
    let linode = Arc::new(Linode::start().await.unwrap());
    let ids: Vec<u64> = (0..60)
        .map(|index| linode.add(Instance::labelled(&format!("n{index}"))))
        .collect();
    let path = |page: u32| format!("/v4/linode/instances?page={page}&page_size=25");
    let listing = When::get("**/linode/instances");
    let failing = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    let failing = linode.faults().inject(listing.clone().page(2), failing);
    let mut statuses = Vec::new();
    for page in 1..=3 {
        statuses.push(get(&linode.url(), &path(page)).await.status);
    }
    assert_eq!(statuses, [200, 500, 200]);
    failing.lift();

    // A row of the first page goes while the second is asked for, and another comes at the end: as
    // many as before, and yet one is in none of the pages.
    let (cloud, first) = (linode.clone(), ids[0]);
    let shift = Fault::meanwhile(move || {
        cloud.remove(first);
        cloud.add(Instance::labelled("new"));
    });
    let shift = linode.faults().inject(listing.page(2).times(1), shift);
    let mut labels = Vec::new();
    for page in 1..=3 {
        let page = get(&linode.url(), &path(page)).await.json();
        assert_eq!((&page["results"], &page["pages"]), (&json!(60), &json!(3)));
        let rows = page["data"].as_array().unwrap();
        labels.extend(
            rows.iter()
                .map(|row| row["label"].as_str().unwrap().to_owned()),
        );
    }
    assert_eq!(labels.len(), 60);
    assert!(!labels.contains(&"n25".to_owned()), "{labels:?}");
    shift.lift();
    linode.faults().clear();
}

#[tokio::test]
async fn a_cloud_can_be_away_and_come_back() {
    let cloud = cloud().await;
    cloud.set_down(true);
    assert!(try_get(&cloud.url(), SERVERS).await.is_none());
    assert_eq!((cloud.turned_away(), cloud.calls().len()), (1, 0));
    cloud.set_down(false);
    assert_eq!(get(&cloud.url(), SERVERS).await.status, 200);
}
