mod in_vpcs;
mod token_check;

use std::time::Duration;

use reqwest::Url;
use serde_json::{Value, json};

use super::*;
use crate::cloud_api::Connection;
use crate::cloud_api::testing::{Cloud, Reply, Seen, connection, metrics};

pub(super) fn linode(base: &Url, flags: Flags) -> Arc<Linode> {
    linode_with(connection(&base.join("v4/").unwrap()), flags)
}

pub(super) fn linode_with(connection: Connection, flags: Flags) -> Arc<Linode> {
    let config = Config {
        connection,
        settings: Settings {
            region: "us-east".to_owned(),
            hostname_only: false,
            external_subnet: None,
            routes_max_age: Duration::from_secs(60),
            flags,
        },
        notices: Vec::new(),
    };
    let limits = Limits {
        qps: 1000.0,
        burst: 1000,
    };
    Linode::new(config, limits, metrics()).unwrap()
}

fn entry(id: u64) -> Value {
    let ipv4 = format!("198.51.100.{}", id % 256);
    json!({"id": id, "label": format!("n{id}"), "ipv4": [ipv4], "ipv6": null})
}

fn page(ids: &[u64], page: u32, pages: u32, results: usize) -> Reply {
    let data: Vec<Value> = ids.iter().map(|id| entry(*id)).collect();
    Reply::json(json!({"data": data, "page": page, "pages": pages, "results": results}))
}

fn whole(rows: &[Value]) -> Reply {
    Reply::json(json!({"data": rows, "page": 1, "pages": 1, "results": rows.len()}))
}

fn ids(machines: &[Machine]) -> Vec<&str> {
    machines
        .iter()
        .map(|machine| machine.id.instance())
        .collect()
}

fn not_found() -> Reply {
    Reply::json(json!({"errors": [{"reason": "Not found"}]})).status(404)
}

#[tokio::test]
async fn reads_all_pages() {
    let cloud = Cloud::start(|seen, _| match seen.query("page") {
        Some("1") => page(&[1, 2], 1, 3, 5),
        Some("2") => page(&[3, 4], 2, 3, 5),
        _ => page(&[5], 3, 3, 5),
    })
    .await;
    let flags = Flags {
        tag_filter: Some("k\"8s".to_owned()),
        ..Flags::default()
    };
    let machines = linode(&cloud.base, flags).list().await.unwrap();
    assert_eq!(ids(&machines), ["1", "2", "3", "4", "5"]);
    let seen = cloud.seen();
    assert_eq!(seen.len(), 3);
    assert_eq!(
        seen[0].line,
        "GET /v4/linode/instances?page_size=500&page=1"
    );
    assert_eq!(
        seen[0].header("x-filter"),
        Some(r#"{"tags":{"+contains":"k\"8s"}}"#)
    );
}

#[tokio::test]
async fn empty_account_lists_no_linodes() {
    let cloud = Cloud::start(|_, _| page(&[], 1, 1, 0)).await;
    assert_eq!(
        linode(&cloud.base, Flags::default()).list().await,
        Ok(vec![])
    );
}

/// Entries move between pages while they are read; what shows is read once more.
#[tokio::test]
async fn rereads_inconsistent_pages_once() {
    let cloud = Cloud::start(|_, before| match before {
        0 => page(&[1, 2], 1, 2, 4),
        1 => page(&[2, 3], 2, 2, 4),
        2 => page(&[1, 2], 1, 2, 3),
        _ => page(&[3], 2, 2, 3),
    })
    .await;
    let machines = linode(&cloud.base, Flags::default()).list().await.unwrap();
    assert_eq!(
        (ids(&machines), cloud.lines().len()),
        (vec!["1", "2", "3"], 4)
    );
}

#[tokio::test]
async fn inconsistent_pages_are_an_error() {
    type Answer = fn(&Seen, usize) -> Reply;
    let torn: [(&str, Answer); 7] = [
        ("an entry on two pages", |seen, _| {
            match seen.query("page") {
                Some("1") => page(&[1, 2], 1, 2, 4),
                _ => page(&[2, 3], 2, 2, 4),
            }
        }),
        ("the number of entries changes", |seen, _| {
            match seen.query("page") {
                Some("1") => page(&[1, 2], 1, 2, 4),
                _ => page(&[3], 2, 2, 3),
            }
        }),
        ("the number of pages changes", |seen, _| {
            match seen.query("page") {
                Some("1") => page(&[1, 2], 1, 2, 4),
                _ => page(&[3, 4], 2, 3, 4),
            }
        }),
        ("an entry too few", |_, _| page(&[1, 2], 1, 1, 3)),
        ("nothing, although something is promised", |_, _| {
            page(&[], 1, 1, 3)
        }),
        ("the last page is gone", |seen, _| {
            match seen.query("page") {
                Some("1") => page(&[1, 2], 1, 2, 3),
                _ => not_found(),
            }
        }),
        ("another page than asked for", |_, _| page(&[1], 1, 2, 2)),
    ];
    for (what, answer) in torn {
        let cloud = Cloud::start(answer).await;
        let error = linode(&cloud.base, Flags::default())
            .list()
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Malformed, "{what}: {error}");
        assert!(cloud.lines().len() <= 4, "{what}");
    }
}

#[tokio::test]
async fn failed_page_fails_listing() {
    for bad in [
        Reply::html(),
        page(&[3], 2, 2, 3).cut(4),
        Reply::json(json!({"errors": [{"reason": "Internal"}]})),
        Reply::json(json!({"data": [{"label": "no number"}], "page": 2, "pages": 2, "results": 3})),
        Reply::json(json!({"data": [], "page": 2})),
        Reply::json("{}").status(500),
    ] {
        let shown = format!("{bad:?}");
        let cloud = Cloud::start(move |seen, _| match seen.query("page") {
            Some("1") => page(&[1, 2], 1, 2, 3),
            _ => bad.clone(),
        })
        .await;
        let listed = linode(&cloud.base, Flags::default()).list().await;
        assert!(listed.is_err(), "{shown}: {listed:?}");
    }
}

#[tokio::test]
async fn only_linodes_404_means_no_machine() {
    let id = facts::parse_id("linode://7").unwrap();
    for (reply, expected) in [
        (Reply::json(entry(7)), Some(true)),
        (not_found(), Some(false)),
        (Reply::html().status(404), None),
        (Reply::json("").status(404), None),
        (Reply::json("{}").status(404), None),
        (Reply::json(json!({"errors": []})).status(404), None),
        (Reply::html(), None),
        (
            Reply::json(json!({"errors": [{"reason": "Not found"}]})),
            None,
        ),
        (Reply::json("{}").status(401), None),
        (Reply::json("{}").status(500), None),
    ] {
        let shown = format!("{reply:?}");
        let cloud = Cloud::start(move |_, _| reply.clone()).await;
        let got = linode(&cloud.base, Flags::default()).get(&id).await;
        assert_eq!(got.map(|m| m.is_some()).ok(), expected, "{shown}");
        assert_eq!(cloud.lines(), ["GET /v4/linode/instances/7"]);
    }
}

#[tokio::test]
async fn answer_about_another_machine_proves_nothing() {
    let cloud = Cloud::start(|_, _| Reply::json(entry(8))).await;
    let id = facts::parse_id("linode://7").unwrap();
    let error = linode(&cloud.base, Flags::default())
        .get(&id)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Malformed);
}

#[tokio::test]
async fn errors_have_form_of_go_controller() {
    let refused = json!({"errors": [
        {"field": "X-Filter", "reason": "Cannot filter on x"}, {"reason": "And more"}
    ]});
    let cloud = Cloud::start(move |_, _| Reply::json(&refused).status(400)).await;
    let error = linode(&cloud.base, Flags::default())
        .list()
        .await
        .unwrap_err();
    let words = "[400] [X-Filter] Cannot filter on x; And more";
    assert_eq!(
        (error.kind, error.words.as_deref()),
        (ErrorKind::Invalid, Some(words))
    );
}

/// The Go client takes some of these for another error, and the second for success.
#[tokio::test]
async fn errors_are_read_whoever_sends_them() {
    let json = "application/json; charset=utf-8";
    let reserved = r#"{"errors": [{"reason": "IPv4 address is not reserved"}]}"#;
    for (reply, kind, told) in [
        (
            Reply::typed(json, reserved).status(400),
            ErrorKind::Invalid,
            "[400] IPv4 address is not reserved",
        ),
        (
            Reply::json(json!({"errors": []})).status(422),
            ErrorKind::Invalid,
            "422",
        ),
        (Reply::html().status(502), ErrorKind::Server, "502"),
        (Reply::html().status(408), ErrorKind::Timeout, "408"),
    ] {
        let cloud = Cloud::start(move |_, _| reply.clone()).await;
        let linode = linode(&cloud.base, Flags::default());
        let error = linode.client.call(&api::profile()).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[tokio::test]
async fn retries_busy_api_later() {
    let busy = Reply::json(json!({"errors": [{"reason": "Linode busy."}]})).status(400);
    let front_end = Reply::html().status(400).header("server", "nginx");
    for reply in [busy, front_end] {
        let cloud = Cloud::start(move |_, _| reply.clone()).await;
        let error = linode(&cloud.base, Flags::default())
            .list()
            .await
            .unwrap_err();
        let expected = (ErrorKind::Busy, Some(Duration::from_secs(3)));
        assert_eq!((error.kind, error.retry_after), expected, "{error}");
    }
}
