use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use mooring_common::k8s::Slim;
use mooring_common::node_facts::NodeFacts;
use serde_json::{Value, json};

use super::*;
use crate::cloud_provider::Machine;

/// A cloud that counts what it is asked.
#[derive(Default)]
struct Cloud {
    listings: AtomicUsize,
    machines: StdMutex<Vec<Machine>>,
    failure: StdMutex<Option<CloudError>>,
    /// Not listed, but there.
    hidden: StdMutex<Vec<Machine>>,
    /// What is wrong with those that cannot be read.
    unread: StdMutex<Vec<String>>,
    latency: Duration,
    credentials: AtomicU64,
}

impl Cloud {
    fn with(machines: &[(&str, &str)]) -> Arc<Self> {
        let cloud = Arc::new(Self {
            latency: Duration::from_millis(100),
            ..Self::default()
        });
        *cloud.machines.lock().unwrap() = machines
            .iter()
            .map(|(id, name)| machine(id, name))
            .collect();
        cloud
    }

    fn fail(&self, retry_after: Option<u64>) {
        *self.failure.lock().unwrap() = Some(CloudError {
            retry_after: retry_after.map(Duration::from_secs),
            ..CloudError::new("c", ErrorKind::Server, "down")
        });
    }

    fn listings(&self) -> usize {
        self.listings.load(Ordering::SeqCst)
    }
}

fn machine(id: &str, name: &str) -> Machine {
    Machine {
        id: format!("c://{id}").parse().unwrap(),
        names: vec![name.to_owned()],
        found_by: vec!["192.0.2.1".parse().unwrap()],
        attachments: Vec::new(),
        facts: NodeFacts::default(),
        presence: Presence::Running,
    }
}

#[async_trait]
impl MachineSource for Cloud {
    fn provider(&self) -> &'static str {
        "c"
    }

    fn parse_id(&self, provider_id: &str) -> Result<ProviderId, String> {
        provider_id
            .to_lowercase()
            .parse()
            .map_err(|_| "bad".to_owned())
    }

    fn credentials(&self) -> u64 {
        self.credentials.load(Ordering::SeqCst)
    }

    async fn list(&self) -> Result<Vec<Machine>, CloudError> {
        self.listings.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(self.latency).await;
        match self.failure.lock().unwrap().clone() {
            Some(error) => Err(error),
            None => Ok(self.machines.lock().unwrap().clone()),
        }
    }

    async fn readable(&self) -> Result<(Vec<Machine>, Vec<String>), CloudError> {
        Ok((self.list().await?, self.unread.lock().unwrap().clone()))
    }

    async fn get(&self, id: &ProviderId) -> Result<Option<Machine>, CloudError> {
        if let Some(error) = self.failure.lock().unwrap().clone() {
            return Err(error);
        }
        let machines = self.machines.lock().unwrap();
        let hidden = self.hidden.lock().unwrap();
        let mut all = machines.iter().chain(hidden.iter());
        Ok(all.find(|m| m.id == *id).cloned())
    }
}

fn node(extra: &Value) -> NodeView {
    let mut node = json!({"metadata": {"name": "n1", "uid": "u"}});
    json_patch::merge(&mut node, extra);
    NodeView::slim(serde_json::from_value(node).unwrap())
}

fn named(name: &str) -> NodeView {
    node(&json!({"metadata": {"name": name}}))
}

fn found(lookup: &Lookup) -> Option<String> {
    match lookup {
        Lookup::Known { facts, .. } => Some(facts.provider_id.as_ref()?.to_string()),
        _ => None,
    }
}

fn ago(age: Duration) -> Option<Instant> {
    Instant::now().checked_sub(age)
}

#[tokio::test(start_paused = true)]
async fn one_listing_answers_all_callers() {
    let cloud = Cloud::with(&[("1", "n1")]);
    let inventory = Inventory::new(cloud.clone());
    let since = Some(Instant::now());
    let node = named("n1");
    let all = futures::future::join_all((0..50).map(|_| inventory.look_up(&node, since))).await;
    assert!(
        all.iter()
            .all(|lookup| found(lookup).as_deref() == Some("c://1"))
    );
    assert_eq!(cloud.listings(), 1);
    inventory.look_up(&node, None).await;
    inventory.look_up(&node, ago(Duration::from_secs(10))).await;
    assert_eq!(cloud.listings(), 1, "young enough");
    tokio::time::advance(Duration::from_secs(11)).await;
    inventory.look_up(&node, ago(Duration::from_secs(10))).await;
    assert_eq!(cloud.listings(), 2);
}

#[tokio::test(start_paused = true)]
async fn listings_keep_minimum_gap() {
    let cloud = Cloud::with(&[("1", "n1")]);
    let inventory = Inventory::new(cloud.clone());
    let started = Instant::now();
    for _ in 0..4 {
        inventory.look_up(&named("n1"), Some(Instant::now())).await;
    }
    assert_eq!(cloud.listings(), 4);
    assert!(started.elapsed() >= GAP * 3);
}

#[tokio::test(start_paused = true)]
async fn listing_survives_cancelled_caller() {
    let cloud = Cloud::with(&[("1", "n1")]);
    let inventory = Inventory::new(cloud.clone());
    let node = named("n1");
    let impatient = Duration::from_millis(10);
    assert!(
        tokio::time::timeout(impatient, inventory.look_up(&node, None))
            .await
            .is_err()
    );
    assert!(found(&inventory.look_up(&node, None).await).is_some());
    assert_eq!(cloud.listings(), 1);
}

#[tokio::test(start_paused = true)]
async fn caches_failure_until_retry_time() {
    let cloud = Cloud::with(&[("1", "n1")]);
    let inventory = Inventory::new(cloud.clone());
    let node = named("n1");
    assert!(found(&inventory.look_up(&node, None).await).is_some());
    cloud.fail(Some(30));
    tokio::time::advance(Duration::from_secs(5)).await;
    for _ in 0..10 {
        let lookup = inventory.look_up(&node, Some(Instant::now())).await;
        let Lookup::Unavailable {
            retry_after: Some(wait),
            ..
        } = lookup
        else {
            panic!("{lookup:?}")
        };
        assert!(
            wait <= Duration::from_secs(30) && wait > Duration::from_secs(25),
            "{wait:?}"
        );
    }
    assert_eq!(cloud.listings(), 2);
    assert!(
        found(&inventory.look_up(&node, None).await).is_some(),
        "what was known is kept"
    );
    *cloud.failure.lock().unwrap() = None;
    tokio::time::advance(Duration::from_secs(31)).await;
    let lookup = inventory.look_up(&node, Some(Instant::now())).await;
    assert!(found(&lookup).is_some());
    assert_eq!(cloud.listings(), 3);
}

/// Whoever corrects the token does not wait for what the wrong one has met.
#[tokio::test(start_paused = true)]
async fn other_credentials_are_tried_at_once() {
    let cloud = Cloud::with(&[("1", "n1")]);
    let inventory = Inventory::new(cloud.clone());
    cloud.fail(Some(600));
    let since = Some(Instant::now());
    for _ in 0..2 {
        assert_eq!(found(&inventory.look_up(&named("n1"), since).await), None);
    }
    assert_eq!(cloud.listings(), 1);
    *cloud.failure.lock().unwrap() = None;
    cloud.credentials.fetch_add(1, Ordering::SeqCst);
    let lookup = inventory.look_up(&named("n1"), since).await;
    assert_eq!(found(&lookup).as_deref(), Some("c://1"));
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_without_retry_after() {
    let waits = async |kind| {
        let cloud = Cloud::with(&[]);
        *cloud.failure.lock().unwrap() = Some(CloudError::new("c", kind, "down"));
        let inventory = Inventory::new(cloud.clone());
        let mut waits = Vec::new();
        for _ in 0..8 {
            let lookup = inventory.look_up(&named("n1"), None).await;
            let Lookup::Unavailable {
                retry_after: Some(wait),
                ..
            } = lookup
            else {
                panic!("{lookup:?}")
            };
            waits.push(wait.as_secs());
            tokio::time::advance(wait).await;
        }
        waits
    };
    assert_eq!(waits(ErrorKind::Server).await, [1, 2, 4, 8, 8, 8, 8, 8]);
    let refused = waits(ErrorKind::Unauthorized).await;
    assert_eq!(refused, [1, 2, 4, 8, 16, 32, 60, 60]);
}

#[tokio::test(start_paused = true)]
async fn empty_listing_proves_nothing() {
    let inventory = Inventory::new(Cloud::with(&[]));
    let nameless = inventory.look_up(&named("n1"), None).await;
    assert!(
        matches!(&nameless, Lookup::Unlisted(_)),
        "another cloud may have it: {nameless:?}"
    );
    let node = node(&json!({"spec": {"providerID": "c://1"}}));
    let lookup = inventory.look_up(&node, None).await;
    assert!(
        matches!(&lookup, Lookup::Unlisted(why) if why.contains("credentials")),
        "{lookup:?}"
    );
}

/// The last machine of a cloud can be deleted too. Other credentials may be another project's.
#[tokio::test(start_paused = true)]
async fn empty_listing_counts_after_listing_with_same_credentials() {
    let cloud = Cloud::with(&[("1", "n1")]);
    let inventory = Inventory::new(cloud.clone());
    let bearing = |id: &str| node(&json!({"spec": {"providerID": id}}));
    let ask = async |id: &str| {
        let now = Some(Instant::now());
        inventory.look_up(&bearing(id), now).await
    };
    assert!(found(&ask("c://1").await).is_some());
    cloud.machines.lock().unwrap().clear();
    assert_eq!(ask("c://1").await, Lookup::Missing);
    assert_eq!(ask("c://1").await, Lookup::Missing, "and stays so");
    assert_eq!(inventory.confirm(&bearing("c://1")).await, Presence::Gone);
    let never_seen = ask("c://2").await;
    assert!(matches!(never_seen, Lookup::Unlisted(_)), "{never_seen:?}");
    cloud.credentials.fetch_add(1, Ordering::SeqCst);
    let of_others = ask("c://1").await;
    assert!(matches!(of_others, Lookup::Unlisted(_)), "{of_others:?}");
}

#[tokio::test(start_paused = true)]
async fn empty_listing_hiding_a_machine_confirms_nothing() {
    let cloud = Cloud::with(&[("1", "n1"), ("2", "n2")]);
    let inventory = Inventory::new(cloud.clone());
    let gone = node(&json!({"spec": {"providerID": "c://1"}}));
    inventory.look_up(&gone, None).await;
    cloud.machines.lock().unwrap().clear();
    cloud.hidden.lock().unwrap().push(machine("2", "n2"));
    inventory.look_up(&gone, Some(Instant::now())).await;
    assert_eq!(inventory.confirm(&gone).await, Presence::Unsure);
    cloud.hidden.lock().unwrap().clear();
    assert_eq!(inventory.confirm(&gone).await, Presence::Gone);
}

#[tokio::test(start_paused = true)]
async fn empty_listing_after_many_machines_proves_nothing() {
    let names: Vec<_> = (0..11).map(|i| i.to_string()).collect();
    let machines: Vec<_> = names.iter().map(|id| (id.as_str(), "n")).collect();
    let cloud = Cloud::with(&machines);
    let inventory = Inventory::new(cloud.clone());
    let node = node(&json!({"spec": {"providerID": "c://1"}}));
    inventory.look_up(&node, None).await;
    cloud.machines.lock().unwrap().clear();
    let lookup = inventory.look_up(&node, Some(Instant::now())).await;
    assert!(matches!(lookup, Lookup::Unlisted(_)), "{lookup:?}");
}

#[tokio::test(start_paused = true)]
async fn matches_by_id_then_name_then_address() {
    let inventory = Inventory::new(Cloud::with(&[
        ("1", "n1"),
        ("2", "n2"),
        ("3", "twin"),
        ("4", "twin"),
    ]));
    let ask = async |extra: Value| inventory.look_up(&node(&extra), None).await;
    let by_id = ask(json!({"spec": {"providerID": "C://2"}})).await;
    assert!(matches!(by_id, Lookup::Foreign(_)), "another scheme");
    let by_id = ask(json!({"spec": {"providerID": "c://2"}})).await;
    assert_eq!(found(&by_id).as_deref(), Some("c://2"));
    assert_eq!(
        ask(json!({"spec": {"providerID": "c://9"}})).await,
        Lookup::Missing
    );
    let bad = ask(json!({"spec": {"providerID": "c://no id"}})).await;
    assert_eq!(bad, Lookup::Foreign("bad".into()));
    assert_eq!(found(&ask(json!({})).await).as_deref(), Some("c://1"));
    let twins = ask(json!({"metadata": {"name": "twin"}})).await;
    assert!(
        matches!(&twins, Lookup::Ambiguous(which) if which.contains("c://3, c://4")),
        "{twins:?}"
    );
    let nameless = json!({"metadata": {"name": "x"}});
    assert_eq!(ask(nameless).await, Lookup::Missing);
}

#[tokio::test(start_paused = true)]
async fn finds_node_by_address_without_name() {
    let cloud = Cloud::with(&[("1", "n1")]);
    let inventory = Inventory::new(cloud.clone());
    let at = |address: &str| {
        node(&json!({
            "metadata": {"name": "x"},
            "status": {"addresses": [{"type": "InternalIP", "address": address}]},
        }))
    };
    let by_address = inventory.look_up(&at("192.0.2.1"), None).await;
    assert_eq!(found(&by_address).as_deref(), Some("c://1"));
    assert_eq!(
        inventory.look_up(&at("192.0.2.2"), None).await,
        Lookup::Missing
    );
    let provided = node(&json!({"metadata": {
        "name": "x",
        "annotations": {"alpha.kubernetes.io/provided-node-ip": "10.0.0.1,192.0.2.1"},
    }}));
    assert!(found(&inventory.look_up(&provided, None).await).is_some());
}

#[tokio::test(start_paused = true)]
async fn only_clear_answer_confirms_missing_machine() {
    let cloud = Cloud::with(&[("1", "n1")]);
    let inventory = Inventory::new(cloud.clone());
    let confirm = async |id: &str| {
        inventory
            .confirm(&node(&json!({"spec": {"providerID": id}})))
            .await
    };
    assert_eq!(confirm("c://1").await, Presence::Running);
    assert_eq!(confirm("c://2").await, Presence::Gone);
    assert_eq!(confirm("d://2").await, Presence::Unsure);
    assert_eq!(confirm("c://no id").await, Presence::Unsure);
    assert_eq!(inventory.confirm(&named("n9")).await, Presence::Unsure);
    cloud.fail(None);
    assert_eq!(confirm("c://2").await, Presence::Unsure);
}

#[tokio::test(start_paused = true)]
async fn notifies_on_changes_only() {
    let cloud = Cloud::with(&[("1", "n1")]);
    let inventory = Arc::new(Inventory::new(cloud.clone()));
    let mut changes = inventory.changes();
    let kept = inventory.clone();
    let period = Duration::from_secs(300);
    let fresh = tokio::spawn(async move { kept.keep_fresh(period).await });
    changes.changed().await.unwrap();
    tokio::time::sleep(period * 3).await;
    assert_eq!(cloud.listings(), 4, "one per interval");
    assert!(!changes.has_changed().unwrap());
    cloud.machines.lock().unwrap().push(machine("2", "n2"));
    tokio::time::sleep(period).await;
    assert!(changes.has_changed().unwrap());
    fresh.abort();
}

/// A pass over a Node of this cloud holds up a worker, which those of other clouds wait for.
#[tokio::test(start_paused = true)]
async fn hanging_cloud_is_waited_for_once_and_briefly() {
    let cloud = Arc::new(Cloud {
        latency: Duration::from_secs(120),
        ..Cloud::default()
    });
    *cloud.machines.lock().unwrap() = vec![machine("1", "n1")];
    let inventory = Inventory::new(cloud);
    let start = Instant::now();
    for _ in 0..10 {
        let answer = inventory.look_up(&named("n1"), Some(start)).await;
        assert!(matches!(answer, Lookup::Unavailable { .. }), "{answer:?}");
        let latest = LISTING_TIMEOUT + Duration::from_millis(10);
        assert!(start.elapsed() <= latest, "{:?}", start.elapsed());
    }
    // The listing goes on, and answers later.
    tokio::time::sleep(Duration::from_secs(120)).await;
    let answer = inventory.look_up(&named("n1"), Some(start)).await;
    assert!(found(&answer).is_some(), "{answer:?}");
    // From now on it is known to take its time.
    let now = Instant::now();
    assert!(found(&inventory.look_up(&named("n1"), Some(now)).await).is_some());
}

/// What was listed with other credentials may be another project's, and members are made from it.
#[tokio::test(start_paused = true)]
async fn lists_anew_for_members_when_the_credentials_change() {
    let cloud = Cloud::with(&[("1", "n1")]);
    let inventory = Inventory::new(cloud.clone());
    let node = node(&json!({"metadata": {"name": "n1"}, "spec": {"providerID": "c://1"}}));
    for _ in 0..2 {
        inventory.attachments(&node, None).await;
    }
    assert_eq!(
        cloud.listings(),
        1,
        "one listing serves as long as the credentials are the same"
    );
    cloud.credentials.fetch_add(1, Ordering::SeqCst);
    for _ in 0..2 {
        inventory.attachments(&node, None).await;
    }
    assert_eq!(cloud.listings(), 2);
}

/// A machine that cannot be read hides no other, and as long as it is listed none is missing.
#[tokio::test(start_paused = true)]
async fn unread_machine_leaves_others_known_and_none_missing() {
    let cloud = Cloud::with(&[("1", "n1")]);
    *cloud.unread.lock().unwrap() = vec!["the server x has no identifier".to_owned()];
    let inventory = Inventory::new(cloud.clone());
    let with_id = |id: &str| node(&json!({"spec": {"providerID": id}}));
    let known = inventory.look_up(&with_id("c://1"), None).await;
    assert_eq!(found(&known).as_deref(), Some("c://1"));
    for node in [with_id("c://2"), named("n2")] {
        let lookup = inventory.look_up(&node, None).await;
        assert!(
            matches!(&lookup, Lookup::Unlisted(why) if why.contains("the server x")),
            "{lookup:?}"
        );
    }
    let changes = inventory.changes();
    cloud.unread.lock().unwrap().clear();
    let gone = inventory
        .look_up(&with_id("c://2"), Some(Instant::now()))
        .await;
    assert_eq!(gone, Lookup::Missing);
    assert!(changes.has_changed().unwrap());
}

#[tokio::test(start_paused = true)]
async fn unread_machine_is_told_once() {
    let listing = |unread: &[&str], before: Option<&Listing>| {
        let unread = unread.iter().map(ToString::to_string).collect();
        Listing::new(Instant::now(), Vec::new(), unread, None, before)
    };
    let first = listing(&["x"], None);
    assert_eq!(first.newly_unread(None), ["x"]);
    let second = listing(&["x", "y"], Some(&first));
    assert_eq!(second.newly_unread(Some(&first)), ["y"]);
}
