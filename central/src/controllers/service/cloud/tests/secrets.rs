//! TLS Secrets that Services name, and that are renewed, deleted, or not readable.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use mooring_common::names::reasons;

use super::rounds::work;
use super::*;
use crate::cloud_provider::secrets::ReadSecret;
use crate::controllers::service::Freshness;

/// Half a minute, and the moment in which a pass is made.
const ONE_POLL: Duration = Duration::from_millis(30_100);

/// The Secrets of an API server.
#[derive(Default)]
pub(super) struct FakeSecrets {
    there: Mutex<BTreeMap<ObjectKey, Result<ReadSecret, String>>>,
    /// What its cache says of some of them.
    cached: Mutex<BTreeMap<ObjectKey, ReadSecret>>,
    asked: Mutex<Vec<(ObjectKey, Freshness)>>,
}

impl FakeSecrets {
    pub(super) fn get(&self, key: &ObjectKey, freshness: Freshness) -> Result<ReadSecret, String> {
        self.asked.lock().unwrap().push((key.clone(), freshness));
        let cached = self.cached.lock().unwrap().get(key).cloned();
        match cached.filter(|_| freshness == Freshness::Cached) {
            Some(cached) => Ok(cached),
            None => self.there.lock().unwrap()[key].clone(),
        }
    }

    fn put(&self, key: ObjectKey, secret: impl Into<Answer>) {
        self.there.lock().unwrap().insert(key, secret.into().0);
    }

    /// The questions since the last call.
    fn asked(&self) -> Vec<Freshness> {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.into_iter().map(|(_, freshness)| freshness).collect()
    }
}

struct Answer(Result<ReadSecret, String>);

impl From<&str> for Answer {
    fn from(certificate: &str) -> Self {
        Self(Ok(tls(certificate)))
    }
}

impl From<ReadSecret> for Answer {
    fn from(secret: ReadSecret) -> Self {
        Self(Ok(secret))
    }
}

/// A failure that may be over the next time.
fn failure() -> Answer {
    Answer(Err("etcdserver: leader changed".to_owned()))
}

fn tls(certificate: &str) -> ReadSecret {
    ReadSecret::of(Some(certificate.as_bytes()), Some(b"KEY"))
}

/// Services that name the Secret `default/tls`, and have their load balancers, if they can.
async fn world(names: &[&str], secret: impl Into<Answer>) -> Arc<World> {
    let world = World::new();
    world.cluster.secrets.put(key("tls"), secret);
    for name in names {
        name_secret(&world, name, &["tls"]);
        world.add(name);
        world.pass(name).await;
    }
    Arc::new(world)
}

fn name_secret(world: &World, service: &str, secrets: &[&str]) {
    let named = secrets.iter().map(|name| (*name).to_owned()).collect();
    let mut state = world.cloud.state.lock().unwrap();
    state.secrets.insert(service.to_owned(), named);
}

fn presents(world: &World, service: &str) -> Vec<String> {
    let mut members = world.cloud.members(service).unwrap_or_default();
    members.retain(|member| member.starts_with("tls"));
    members
}

/// The notes of the Events since the last call.
fn notes(world: &World) -> String {
    let events = std::mem::take(&mut *world.cluster.events.lock().unwrap());
    let notes: Vec<_> = events.into_iter().map(|(_, _, note)| note).collect();
    notes.join("\n")
}

#[tokio::test(start_paused = true)]
async fn service_that_names_none_costs_no_question() {
    let world = Arc::new(World::served().await);
    work(&world, 3 * ONE_POLL).await;
    assert!(world.cluster.secrets.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn secret_of_two_services_is_asked_for_once() {
    let world = world(&["web", "shop"], "OLD").await;
    assert_eq!(presents(&world, "web"), ["tls: OLD"]);
    assert_eq!(presents(&world, "shop"), ["tls: OLD"]);
    assert_eq!(world.cluster.secrets.asked(), [Freshness::Latest]);
    work(&world, ONE_POLL).await;
    assert_eq!(world.cluster.secrets.asked(), [Freshness::Cached]);
    assert!(notes(&world).contains("Ensured"));
    work(&world, ONE_POLL).await;
    assert!(world.cluster.reasons().is_empty(), "nothing has changed");
}

/// The two passes begin side by side.
#[tokio::test(start_paused = true)]
async fn two_first_passes_ask_once() {
    let world = world(&[], "OLD").await;
    for name in ["web", "shop"] {
        name_secret(&world, name, &["tls"]);
        world.add(name);
    }
    tokio::join!(world.pass("web"), world.pass("shop"));
    assert_eq!(presents(&world, "shop"), ["tls: OLD"]);
    assert_eq!(world.cluster.secrets.asked(), [Freshness::Latest]);
}

#[tokio::test(start_paused = true)]
async fn renewed_secret_reaches_all_its_services_within_one_poll() {
    let world = world(&["web", "shop"], "OLD").await;
    world.cluster.secrets.put(key("tls"), "NEW");
    let plans = world.cloud.plans.load(Ordering::SeqCst);
    work(&world, ONE_POLL).await;
    assert_eq!(presents(&world, "web"), ["tls: NEW"]);
    assert_eq!(presents(&world, "shop"), ["tls: NEW"]);
    assert_eq!(world.cloud.plans.load(Ordering::SeqCst), plans + 2);
}

#[tokio::test(start_paused = true)]
async fn many_secrets_are_asked_for_evenly_and_each_once_within_half_a_minute() {
    let world = world(&[], "OLD").await;
    let names: Vec<String> = (0..10).map(|number| format!("tls-{number}")).collect();
    for name in &names {
        world.cluster.secrets.put(key(name), "OLD");
    }
    let named: Vec<&str> = names.iter().map(String::as_str).collect();
    name_secret(&world, "web", &named);
    world.add("web");
    world.pass("web").await;
    world.cluster.secrets.asked();
    work(&world, Duration::from_millis(15_100)).await;
    assert_eq!(world.cluster.secrets.asked.lock().unwrap().len(), 5);
    work(&world, Duration::from_millis(15_100)).await;
    let asked = world.cluster.secrets.asked.lock().unwrap();
    let different: std::collections::BTreeSet<_> = asked.iter().map(|(key, _)| key).collect();
    assert_eq!((asked.len(), different.len()), (10, 10));
}

/// Two API servers, of which one is behind.
#[tokio::test(start_paused = true)]
async fn stale_cache_brings_no_old_certificate_back() {
    let world = world(&["web"], "NEW").await;
    let cached = &world.cluster.secrets.cached;
    cached.lock().unwrap().insert(key("tls"), tls("OLD"));
    world.cluster.secrets.asked();
    let plans = world.cloud.plans.load(Ordering::SeqCst);
    work(&world, ONE_POLL).await;
    assert_eq!(
        world.cluster.secrets.asked(),
        [Freshness::Cached, Freshness::Latest]
    );
    assert_eq!(world.cloud.plans.load(Ordering::SeqCst), plans);
    assert_eq!(presents(&world, "web"), ["tls: NEW"]);
}

#[tokio::test(start_paused = true)]
async fn secret_that_comes_later_is_presented() {
    let lacking = ReadSecret::of(Some(b"CERT"), None);
    let cases = [
        (
            Answer::from(ReadSecret::Missing),
            "kubectl create secret tls",
        ),
        (lacking.into(), "tls.key is missing"),
        (ReadSecret::forbidden().into(), "`get` on secrets"),
        (
            failure(),
            "leader changed; it is asked for again every 30 s",
        ),
    ];
    for (answer, words) in cases {
        let world = world(&["web"], answer).await;
        let told = notes(&world);
        assert!(told.contains(words), "{told}");
        assert!(told.contains("annotation tls: \"tls\""), "{told}");
        assert!(world.cloud.members("web").is_none());
        world.cluster.secrets.put(key("tls"), "NEW");
        work(&world, ONE_POLL).await;
        assert_eq!(presents(&world, "web"), ["tls: NEW"], "{words}");
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_secret_leaves_load_balancer_as_it_is() {
    let world = world(&["web"], "OLD").await;
    notes(&world);
    world.cluster.secrets.put(key("tls"), ReadSecret::Missing);
    work(&world, ONE_POLL).await;
    assert_eq!(presents(&world, "web"), ["tls: OLD"]);
    let events = std::mem::take(&mut *world.cluster.events.lock().unwrap());
    let [(_, reason, note)] = &*events else {
        panic!("{events:?}");
    };
    assert_eq!(*reason, reasons::SYNC_LOAD_BALANCER_FAILED);
    assert!(
        note.contains("is no Secret of the Service's namespace"),
        "{note}"
    );
    assert!(note.contains("the load balancer stays as it is"), "{note}");
    work(&world, 3 * ONE_POLL).await;
    assert!(world.cluster.reasons().is_empty(), "it is told once");
}

#[tokio::test(start_paused = true)]
async fn failed_question_leaves_everything_as_it_is() {
    let world = world(&["web"], "OLD").await;
    world.cluster.reasons();
    world.cluster.secrets.put(key("tls"), failure());
    let plans = world.cloud.plans.load(Ordering::SeqCst);
    work(&world, 3 * ONE_POLL).await;
    assert_eq!(world.cloud.plans.load(Ordering::SeqCst), plans);
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert_eq!(presents(&world, "web"), ["tls: OLD"]);
    assert!(world.cluster.reasons().is_empty());
}

/// How it comes that a Service names the Secret no more.
async fn stops(world: &World, how: &str) {
    match how {
        "gone" => {
            world.cluster.remove(&key("web"));
            world.services.gone(&key("web"));
        }
        "deleted" => {
            world.cluster.edit(&key("web"), |service| {
                service["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            });
            world.pass("web").await;
        }
        "another type" => {
            world.cluster.edit(&key("web"), |service| {
                service["spec"]["type"] = json!("ClusterIP");
            });
            world.pass("web").await;
        }
        "another cloud" => {
            let service = world.cluster.service(&key("web")).unwrap();
            world.services.hand_over(&service).await;
        }
        _ => {
            name_secret(world, "web", &[]);
            world.pass("web").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_or_asked_once_no_service_names_it() {
    for how in [
        "gone",
        "deleted",
        "another type",
        "another cloud",
        "unnamed",
    ] {
        let world = world(&["web"], "OLD").await;
        stops(&world, how).await;
        world.cluster.secrets.asked();
        work(&world, 3 * ONE_POLL).await;
        assert!(world.cluster.secrets.asked().is_empty(), "{how}");
        let kept = format!("{:?}", world.services.secrets);
        assert!(!kept.contains("\"tls\""), "{how}: {kept}");
    }
}

#[tokio::test(start_paused = true)]
async fn secret_is_followed_as_long_as_one_service_names_it() {
    let world = world(&["web", "shop"], "OLD").await;
    stops(&world, "gone").await;
    world.cluster.secrets.put(key("tls"), "NEW");
    work(&world, ONE_POLL).await;
    assert_eq!(presents(&world, "shop"), ["tls: NEW"]);
}

/// Another namespace's Secret of the same name is not the same.
#[tokio::test(start_paused = true)]
async fn only_secrets_of_the_own_namespace_are_asked_for() {
    let world = world(&["web"], "OLD").await;
    let other = ObjectKey::new("other", "tls");
    world.cluster.secrets.put(other.clone(), "THEIRS");
    world
        .cluster
        .put(service("other", "theirs", "theirs", "LoadBalancer"));
    name_secret(&world, "theirs", &["tls"]);
    let theirs = world.cluster.service(&ObjectKey::new("other", "theirs"));
    assert_eq!(
        told(world.services.pass(theirs.unwrap()).await),
        Outcome::Done
    );
    assert_eq!(presents(&world, "theirs"), ["tls: THEIRS"]);
    assert_eq!(presents(&world, "web"), ["tls: OLD"]);
    let asked = world.cluster.secrets.asked.lock().unwrap();
    assert_eq!(asked.last().unwrap().0, other);
}
