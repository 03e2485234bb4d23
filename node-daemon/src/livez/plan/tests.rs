use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mooring_common::k8s::Slim;
use mooring_common::node_view::NodeView;
use serde_json::{Value, json};

use super::*;
use crate::announce::observe::{ServiceView, SliceView, Synced, TrafficPolicy};

/// Always the same moment.
fn now() -> Now {
    static MOMENT: OnceLock<Instant> = OnceLock::new();
    let moment = *MOMENT.get_or_init(Instant::now);
    Now {
        monotonic: moment + Duration::from_secs(100),
        wall: "2026-01-02T03:04:05Z".parse().unwrap(),
    }
}

fn node_view(value: Value) -> Arc<NodeView> {
    Arc::new(NodeView::slim(serde_json::from_value(value).unwrap()))
}

/// Everything is known; `shop/web` has these ready endpoints on this Node, `shop/idle` has none.
fn snapshot(local_ready: &[&[&str]]) -> Snapshot {
    let service = |uid: &str| {
        Arc::new(ServiceView {
            uid: uid.to_owned(),
            network: None,
            addresses: Vec::new(),
            policy: TrafficPolicy::Local,
        })
    };
    let slices = local_ready
        .iter()
        .map(|addresses| {
            Arc::new(SliceView {
                service: "web".into(),
                local_ready: addresses.iter().map(|a| a.parse().unwrap()).collect(),
                ..SliceView::default()
            })
        })
        .collect();
    Snapshot {
        services: Arc::new(
            [
                (ObjectKey::new("shop", "web"), service("1")),
                (ObjectKey::new("shop", "idle"), service("2")),
            ]
            .into(),
        ),
        slices: Arc::new([(ObjectKey::new("shop", "web"), slices)].into()),
        node: Some(node_view(json!({"metadata": {"name": "n1"}}))),
        synced: Synced {
            services: true,
            slices: true,
            node: true,
            ..Synced::default()
        },
        may_write: true,
        heard: Some(now().monotonic - Duration::from_secs(7)),
        ..Snapshot::default()
    }
}

fn body(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap()
}

#[test]
fn each_path_has_its_answer() {
    use Status::{Healthy, Unhealthy, Unknown};
    let ready = snapshot(&[&["10.0.0.1"]]);
    let empty = snapshot(&[]);
    let mut draining = snapshot(&[&["10.0.0.1"]]);
    draining.node = Some(node_view(
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    ));
    let mut nodeless = snapshot(&[&["10.0.0.1"]]);
    nodeless.node = None;
    let nothing = Snapshot::default();
    // path, and the answers when ready, without endpoints, draining, without a Node, not synced
    let table = [
        ("/livez", [Healthy, Healthy, Healthy, Healthy, Unhealthy]),
        ("/readyz", [Healthy, Healthy, Healthy, Healthy, Unhealthy]),
        (
            "/healthz",
            [Healthy, Healthy, Unhealthy, Unhealthy, Unhealthy],
        ),
        (
            "/services/shop/web",
            [Healthy, Unhealthy, Unhealthy, Healthy, Unhealthy],
        ),
        (
            "/services/shop/idle",
            [Unhealthy, Unhealthy, Unhealthy, Unhealthy, Unhealthy],
        ),
        (
            "/services/shop/none",
            [Unknown, Unknown, Unknown, Unknown, Unhealthy],
        ),
        ("/services/shop", [Unknown; 5]),
        ("/services/shop/", [Unknown; 5]),
        ("/services//web", [Unknown; 5]),
        ("/services/shop/web/x", [Unknown; 5]),
        ("/", [Unknown; 5]),
        ("/livez/", [Unknown; 5]),
    ];
    for (path, expected) in table {
        let worlds = [&ready, &empty, &draining, &nodeless, &nothing];
        let statuses = worlds.map(|world| answer(path, world, now()).status);
        assert_eq!(statuses, expected, "{path}");
    }
}

#[test]
fn without_a_fence_it_lives_and_is_not_ready() {
    let mut snapshot = snapshot(&[&["10.0.0.1"]]);
    snapshot.may_write = false;
    let readyz = answer("/readyz", &snapshot, now());
    assert_eq!(readyz.status, Status::Unhealthy);
    assert!(
        body(&readyz)["reason"]
            .as_str()
            .unwrap()
            .contains("admission policy")
    );
    for path in ["/livez", "/healthz", "/services/shop/web"] {
        assert_eq!(
            answer(path, &snapshot, now()).status,
            Status::Healthy,
            "{path}"
        );
    }
}

#[test]
fn a_lack_of_any_kind_of_object_is_not_synced() {
    for missing in 0..3 {
        let mut snapshot = snapshot(&[&["10.0.0.1"]]);
        match missing {
            0 => snapshot.synced.services = false,
            1 => snapshot.synced.slices = false,
            _ => snapshot.synced.node = false,
        }
        for path in [
            "/livez",
            "/readyz",
            "/healthz",
            "/services/shop/web",
            "/services/shop/none",
        ] {
            assert_eq!(
                answer(path, &snapshot, now()).status,
                Status::Unhealthy,
                "{path}"
            );
        }
    }
}

#[test]
fn bodies_have_the_keys_of_kube_proxy() {
    let snapshot = snapshot(&[&["10.0.0.1", "10.0.0.2"]]);
    let service = body(&answer("/services/shop/web", &snapshot, now()));
    assert_eq!(
        service,
        json!({
            "service": {"namespace": "shop", "name": "web"},
            "localEndpoints": 2,
            "serviceProxyHealthy": true,
            "draining": false,
            "viewAgeSeconds": 7,
            "reason": "",
        })
    );
    let healthz = body(&answer("/healthz", &snapshot, now()));
    assert_eq!(
        healthz,
        json!({
            "lastUpdated": "2026-01-02T03:04:05Z",
            "currentTime": "2026-01-02T03:04:05Z",
            "healthy": true,
            "nodeEligible": true,
            "draining": false,
            "viewAgeSeconds": 7,
            "reason": "",
        })
    );
    let livez = body(&answer("/livez", &snapshot, now()));
    assert_eq!(livez.get("nodeEligible"), None);
}

#[test]
fn while_unhealthy_the_last_update_is_when_the_api_server_was_heard_of() {
    let mut snapshot = snapshot(&[]);
    snapshot.node = None;
    let healthz = body(&answer("/healthz", &snapshot, now()));
    assert_eq!(healthz["lastUpdated"], "2026-01-02T03:03:58Z");
}

#[test]
fn an_endpoint_with_two_ports_or_two_families_is_one() {
    // (addresses of each slice, count)
    let table: [(&[&[&str]], usize); 5] = [
        (&[], 0),
        (&[&["10.0.0.1"], &["10.0.0.1"]], 1),
        (&[&["10.0.0.1", "10.0.0.2"], &["fd00::1", "fd00::2"]], 2),
        (&[&["10.0.0.1"], &["fd00::1", "fd00::2"]], 2),
        (&[&["10.0.0.1"], &["10.0.0.2"]], 2),
    ];
    for (slices, count) in table {
        let answer = answer("/services/shop/web", &snapshot(slices), now());
        assert_eq!(answer.weight, Some(count), "{slices:?}");
        assert_eq!(body(&answer)["localEndpoints"], count);
    }
}

#[test]
fn age_alone_changes_no_answer() {
    let mut snapshot = snapshot(&[&["10.0.0.1"]]);
    snapshot.heard = Some(now().monotonic - Duration::from_secs(99));
    for path in ["/livez", "/healthz", "/services/shop/web"] {
        assert_eq!(answer(path, &snapshot, now()).status, Status::Healthy);
    }
}
