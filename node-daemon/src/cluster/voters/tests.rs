use std::convert::Infallible;

use http::{Method, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;

use super::*;

/// One L2Network and some Leases.
#[derive(Clone, Default)]
struct ApiServer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    status: Value,
    version: u64,
    leases: BTreeMap<String, u64>,
    /// How many of the next writes find that somebody else was faster.
    conflicts: usize,
    written: Vec<Value>,
    asked: Vec<String>,
    hangs: bool,
}

impl ApiServer {
    fn with(status: Value) -> Self {
        let server = Self::default();
        server.0.lock().unwrap().status = status;
        server
    }

    fn registry(&self) -> VoterStore {
        let server = self.clone();
        let answer = move |request| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        };
        VoterStore::new(
            Client::new(tower::service_fn(answer), "default"),
            "ns",
            "n1",
        )
    }

    async fn answer(&self, request: http::Request<Body>) -> Response<Body> {
        if self.0.lock().unwrap().hangs {
            std::future::pending::<()>().await;
        }
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let mut state = self.0.lock().unwrap();
        state.asked.push(head.uri.to_string());
        let path = head.uri.path();
        if let Some(name) = path.strip_prefix("/apis/coordination.k8s.io/v1/namespaces/ns/leases/")
        {
            let Some(version) = state.leases.get(name) else {
                return refusal(404);
            };
            return found(&json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": name, "resourceVersion": version.to_string()},
            }));
        }
        if head.method == Method::PATCH {
            assert!(path.ends_with("/l2networks/lan/status"), "{path}");
            let patch: Value = serde_json::from_slice(&body).unwrap();
            // Nobody else writes what a node approves.
            let alone = patch["status"].get("voters").is_none();
            let named = patch["metadata"]["resourceVersion"].as_str();
            let version = state.version.to_string();
            if !alone && (state.conflicts > 0 || named != Some(version.as_str())) {
                state.conflicts = state.conflicts.saturating_sub(1);
                state.version += 1;
                return refusal(409);
            }
            state.version += 1;
            state.written.push(patch["status"].clone());
        }
        found(&json!({
            "apiVersion": "mooring.dev/v1alpha1", "kind": "L2Network",
            "metadata": {"name": "lan", "uid": "u-1", "resourceVersion": state.version.to_string()},
            "spec": {"subnets": [{"cidr": "192.0.2.0/24"}], "ranges": ["192.0.2.16/28"]},
            "status": state.status,
        }))
    }
}

fn found(object: &Value) -> Response<Body> {
    Response::new(Body::from(object.to_string().into_bytes()))
}

fn refusal(code: u16) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "no", "reason": "Test", "code": code,
    });
    let mut response = found(&status);
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

fn ids(names: &[&str]) -> BTreeSet<NodeId> {
    names.iter().map(|name| NodeId::of(name)).collect()
}

fn set(generation: u64, names: &[&str], primary: Option<&str>) -> VoterSet {
    VoterSet {
        generation,
        voters: ids(names),
        primary: primary.map(NodeId::of),
    }
}

fn nodes(names: &[&str]) -> Value {
    let nodes = names.iter();
    nodes
        .map(|name| json!({"name": name, "ready": true, "reason": "Ready"}))
        .collect()
}

const LAN: About<'static> = About {
    name: "lan",
    uid: "u-1",
};

fn most(names: &[&str]) -> Consent {
    Consent::Most(ids(names))
}

async fn ask(registry: &VoterStore, request: Request) -> ApiAnswer {
    registry.answer(LAN, request, &BTreeMap::new()).await
}

#[tokio::test]
async fn reads_voters_by_quorum_read() {
    let voters = json!({"generation": 3, "nodes": ["n1", "n2"], "primary": "n2"});
    let server = ApiServer::with(json!({ "voters": voters }));
    let answer = ask(&server.registry(), Request::ReadVoters).await;
    assert_eq!(answer, ApiAnswer::Voters(set(3, &["n1", "n2"], Some("n2"))));
    let asked = server.0.lock().unwrap().asked.clone();
    assert!(!asked[0].contains("resourceVersion"), "{asked:?}");
    let nobody = ApiServer::with(json!({}));
    let answer = ask(&nobody.registry(), Request::ReadVoters).await;
    assert_eq!(answer, ApiAnswer::Voters(VoterSet::default()));
}

#[tokio::test]
async fn writes_first_voters_by_name() {
    let server = ApiServer::with(json!({ "nodes": nodes(&["n2", "n1"]) }));
    let voters = set(1, &["n1", "n2"], Some("n1"));
    let propose = Request::Propose {
        replacing: 0,
        voters: voters.clone(),
        consent: Consent::Own,
    };
    assert_eq!(
        ask(&server.registry(), propose).await,
        ApiAnswer::Written(voters)
    );
    assert_eq!(
        server.0.lock().unwrap().written,
        [
            json!({"voters": {"generation": 1, "nodes": ["n1", "n2"], "primary": "n1"},
                   "approvals": null})
        ]
    );
}

#[tokio::test]
async fn faster_writer_wins() {
    let there = json!({"generation": 4, "nodes": ["n2"]});
    let server = ApiServer::with(json!({ "nodes": nodes(&["n1", "n2"]), "voters": there }));
    let propose = Request::Propose {
        replacing: 3,
        voters: set(4, &["n1"], None),
        consent: most(&["n1"]),
    };
    let answer = ask(&server.registry(), propose).await;
    assert_eq!(answer, ApiAnswer::Conflict(set(4, &["n2"], None)));
    assert!(server.0.lock().unwrap().written.is_empty());
}

#[tokio::test]
async fn unrelated_status_writes_are_no_conflict() {
    let there = json!({"generation": 1, "nodes": ["n1", "n2"], "primary": "n1"});
    let next = json!({"generation": 2, "nodes": ["n1", "n2", "n3"]});
    let server = ApiServer::with(json!({
        "nodes": nodes(&["n1", "n2", "n3"]), "voters": there, "approvals": {"n2": next},
    }));
    server.0.lock().unwrap().conflicts = 2;
    let voters = set(2, &["n1", "n2", "n3"], None);
    let propose = Request::Propose {
        replacing: 1,
        voters: voters.clone(),
        consent: most(&["n1", "n2"]),
    };
    assert_eq!(
        ask(&server.registry(), propose).await,
        ApiAnswer::Written(voters)
    );
    let written = server.0.lock().unwrap().written[0]["voters"].clone();
    assert_eq!(
        written["primary"],
        Value::Null,
        "there is no primary of three"
    );
    assert!(
        written.as_object().unwrap().contains_key("primary"),
        "{written}"
    );
}

#[tokio::test]
async fn writes_no_unnamed_voter() {
    let server = ApiServer::with(json!({ "nodes": nodes(&["n1"]) }));
    let propose = Request::Propose {
        replacing: 0,
        voters: set(1, &["n1", "n2"], None),
        consent: Consent::Own,
    };
    assert_eq!(
        ask(&server.registry(), propose).await,
        ApiAnswer::Unreachable
    );
    assert!(server.0.lock().unwrap().written.is_empty());
}

#[tokio::test]
async fn proposal_waits_for_majority_of_approvals() {
    let there = json!({"generation": 4, "nodes": ["n1", "n2", "n3"]});
    let earlier = json!({"generation": 4, "nodes": ["n1", "n2"]});
    let server = ApiServer::with(json!({
        "nodes": nodes(&["n1", "n2", "n3"]), "voters": there, "approvals": {"n2": earlier},
    }));
    let voters = set(5, &["n1", "n2"], None);
    let propose = || Request::Propose {
        replacing: 4,
        voters: voters.clone(),
        consent: most(&["n1", "n2", "n3"]),
    };
    let waits = ApiAnswer::Awaiting(voters.clone());
    let registry = server.registry();
    assert_eq!(ask(&registry, propose()).await, waits);
    let next = json!({"generation": 5, "nodes": ["n1", "n2"], "primary": null});
    let told = json!({"approvals": {"n1": next}});
    assert_eq!(
        server.0.lock().unwrap().written,
        std::slice::from_ref(&told)
    );
    let approve = Request::Approve(voters.clone());
    assert_eq!(ask(&registry, approve).await, ApiAnswer::Approved);
    assert_eq!(server.0.lock().unwrap().written, [told.clone(), told]);
    server.0.lock().unwrap().status["approvals"]["n2"] = next;
    let written = ApiAnswer::Written(voters.clone());
    assert_eq!(ask(&registry, propose()).await, written);
}

/// A backup has been restored: most of those that are served approve, and of those that are stored.
#[test]
fn restored_api_server_needs_majorities_of_both_sets() {
    let wanted = set(9, &["n3", "n4", "n5"], None);
    let stored = set(3, &["n1", "n2", "n3"], None);
    let enough = |approving: &[&str]| {
        let consent = most(&["n3", "n4", "n5"]);
        suffices(&consent, &ids(approving), &wanted, &stored)
    };
    assert!(!enough(&["n3", "n4"]), "of those that are stored, one");
    assert!(
        !enough(&["n1", "n2", "n3"]),
        "of those that are served, one"
    );
    assert!(enough(&["n2", "n3", "n4"]));
    assert!(enough(&["n3", "n4", "n5"]), "the admission policy decides");
    let nobody = VoterSet::default();
    let consent = most(&["n3", "n4", "n5"]);
    assert!(suffices(&consent, &ids(&["n3", "n4"]), &wanted, &nobody));
}

#[tokio::test]
async fn recreated_l2network_is_another_one() {
    let there = json!({"generation": 3, "nodes": ["n1"]});
    let server = ApiServer::with(json!({ "nodes": nodes(&["n1", "n2"]), "voters": there }));
    let registry = server.registry();
    let earlier = About { uid: "u-0", ..LAN };
    let propose = Request::Propose {
        replacing: 3,
        voters: set(4, &["n1", "n2"], None),
        consent: most(&["n1"]),
    };
    for request in [Request::ReadVoters, propose] {
        let answer = registry.answer(earlier, request, &BTreeMap::new()).await;
        assert_eq!(answer, ApiAnswer::Unreachable);
    }
    assert!(server.0.lock().unwrap().written.is_empty());
}

#[tokio::test(start_paused = true)]
async fn hanging_api_server_is_unreachable() {
    let server = ApiServer::with(json!({}));
    server.0.lock().unwrap().hangs = true;
    let start = tokio::time::Instant::now();
    let answer = ask(&server.registry(), Request::ReadVoters).await;
    assert_eq!(answer, ApiAnswer::Unreachable);
    assert!(start.elapsed() <= LIMIT * 2);
}

#[test]
fn lease_is_stale_after_30_seconds_of_own_clock() {
    let registry = ApiServer::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let _guard = runtime.enter();
    let registry = registry.registry();
    let start = Instant::now();
    let version = |text: &str| Some(text.to_owned());
    let at = |seconds| start + Duration::from_secs(seconds);
    assert!(
        !registry.stands_still("n2", version("7"), start),
        "seen once"
    );
    assert!(!registry.stands_still("n2", version("7"), at(29)));
    assert!(registry.stands_still("n2", version("7"), at(31)));
    assert!(
        !registry.stands_still("n2", version("8"), at(40)),
        "it was renewed"
    );
    assert!(!registry.stands_still("n3", None, start));
    assert!(registry.stands_still("n3", None, at(31)), "there is none");
}

#[tokio::test]
async fn reads_leases_by_node_name() {
    let server = ApiServer::default();
    let leases = [("node-n2".to_owned(), 7), ("node-n3".to_owned(), 9)];
    server.0.lock().unwrap().leases = leases.into();
    let registry = server.registry();
    let names = ["n2", "n3"]
        .map(|name| (NodeId::of(name), name.to_owned()))
        .into();
    let asked = vec![NodeId::of("n2"), NodeId::of("n3"), NodeId::of("unheard-of")];
    let answer = registry
        .answer(LAN, Request::ReadLeases(asked), &names)
        .await;
    assert_eq!(answer, ApiAnswer::LeasesUnchanged(BTreeSet::new()));
    assert_eq!(server.0.lock().unwrap().asked.len(), 2);
}
