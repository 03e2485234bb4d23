use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mooring_common::k8s::Slim;
use mooring_common::node_view::NodeView;
use serde_json::{Value, json};

use super::*;
use crate::cluster::service_proxy::ServiceProxy;
use crate::cluster::snapshot::{ServiceView, SliceView, Synced, TrafficPolicy};
use crate::livez::health_file::worth_keeping;

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
pub(in super::super) fn snapshot(local_ready: &[&[&str]]) -> Snapshot {
    let service = |health_check_node_port| {
        Arc::new(ServiceView {
            policy: TrafficPolicy::Local,
            health_check_node_port,
            ..ServiceView::default()
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
                (ObjectKey::new("shop", "web"), service(Some(31000))),
                (ObjectKey::new("shop", "idle"), service(None)),
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
    let mut broken = snapshot(&[&["10.0.0.1"]]);
    broken.service_proxy = ServiceProxy::Broken;
    let nothing = Snapshot::default();
    // path, and the answers when ready, without endpoints, draining, without a Node, with a service
    // proxy that does not work, not synced
    let table = [
        ("/livez/ping", [Healthy; 6]),
        (
            "/livez",
            [Healthy, Healthy, Healthy, Healthy, Unhealthy, Unhealthy],
        ),
        (
            "/readyz",
            [Healthy, Healthy, Healthy, Healthy, Healthy, Unhealthy],
        ),
        (
            "/healthz",
            [Healthy, Healthy, Unhealthy, Unhealthy, Unhealthy, Unhealthy],
        ),
        (
            "/services/shop/web",
            [Healthy, Unhealthy, Unhealthy, Healthy, Unhealthy, Unhealthy],
        ),
        ("/services/shop/idle", [Unhealthy; 6]),
        (
            "/services/shop/none",
            [Unknown, Unknown, Unknown, Unknown, Unknown, Unhealthy],
        ),
        ("/services/shop", [Unknown; 6]),
        ("/services/shop/", [Unknown; 6]),
        ("/services//web", [Unknown; 6]),
        ("/services/shop/web/x", [Unknown; 6]),
        ("/", [Unknown; 6]),
        ("/livez/", [Unknown; 6]),
    ];
    for (path, expected) in table {
        let worlds = [&ready, &empty, &draining, &nodeless, &broken, &nothing];
        let statuses = worlds.map(|world| answer(path, world, now()).status);
        assert_eq!(statuses, expected, "{path}");
    }
}

#[test]
fn without_fence_live_but_not_ready() {
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
fn any_missing_list_is_not_synced() {
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
fn bodies_have_kube_proxy_keys() {
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
fn unhealthy_answer_dates_last_api_contact() {
    let mut snapshot = snapshot(&[]);
    snapshot.node = None;
    let healthz = body(&answer("/healthz", &snapshot, now()));
    assert_eq!(healthz["lastUpdated"], "2026-01-02T03:03:58Z");
}

#[test]
fn counts_endpoint_once() {
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
fn age_changes_no_answer() {
    let mut snapshot = snapshot(&[&["10.0.0.1"]]);
    snapshot.heard = Some(now().monotonic - Duration::from_secs(99));
    for path in ["/livez", "/healthz", "/services/shop/web"] {
        assert_eq!(answer(path, &snapshot, now()).status, Status::Healthy);
    }
}

#[test]
fn answers_from_saved_health_until_synced() {
    let draining = {
        let mut snapshot = snapshot(&[&["10.0.0.1", "10.0.0.2"]]);
        let excluded = json!({"metadata": {"annotations": {"mooring.dev/maintenance": "true"}}});
        snapshot.node = Some(node_view(excluded));
        snapshot
    };
    let well = snapshot(&[&["10.0.0.1", "10.0.0.2"]]);
    for before in [&well, &draining] {
        let mut left = Snapshot {
            saved_health: worth_keeping("n1", before).map(Arc::new),
            ..Snapshot::default()
        };
        let paths = [
            "/livez",
            "/healthz",
            "/services/shop/web",
            "/services/shop/idle",
            "/services/shop/none",
        ];
        for path in paths {
            let (then, now_) = (answer(path, before, now()), answer(path, &left, now()));
            assert_eq!(
                (now_.status, now_.weight),
                (then.status, then.weight),
                "{path}"
            );
            assert_eq!(body(&now_)["draining"], body(&then)["draining"], "{path}");
        }
        // What is known now is better than what was.
        left.synced = well.synced;
        assert_eq!(
            answer("/services/shop/web", &left, now()).status,
            Status::Unknown
        );
    }
}

#[test]
fn service_refused_by_proxy_is_unhealthy() {
    let mut snapshot = snapshot(&[&["10.0.0.1"]]);
    for (refused, status) in [("web", Status::Unhealthy), ("idle", Status::Healthy)] {
        let refused = [ObjectKey::new("shop", refused)].into();
        snapshot.refused = Some(Arc::new(refused));
        assert_eq!(
            answer("/services/shop/web", &snapshot, now()).status,
            status
        );
    }
}

#[test]
fn deleted_service_is_unhealthy_at_its_port() {
    let snapshot = snapshot(&[&["10.0.0.1"]]);
    let at = |name| answer_service(&ObjectKey::new("shop", name), &snapshot, now()).status;
    assert_eq!(at("web"), Status::Healthy);
    assert_eq!(at("none"), Status::Unhealthy);
}
