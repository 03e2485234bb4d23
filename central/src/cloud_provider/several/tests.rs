use mooring_common::k8s::Slim;
use mooring_common::node_facts::NodeFacts;
use serde_json::json;

use super::*;

/// A cloud that always says the same.
struct Fixed {
    name: &'static str,
    now: Lookup,
    last: Lookup,
}

impl Fixed {
    fn cloud(name: &'static str, answer: Lookup) -> Arc<dyn Instances> {
        Arc::new(Self {
            name,
            now: answer.clone(),
            last: answer,
        })
    }
}

#[async_trait]
impl Instances for Fixed {
    fn provider(&self) -> &'static str {
        self.name
    }

    fn read_id(&self, provider_id: &str) -> Option<Result<ProviderId, String>> {
        provider_id
            .starts_with(&format!("{}://", self.name))
            .then(|| provider_id.parse().map_err(|_| "unreadable".to_owned()))
    }

    async fn look_up(&self, _: &NodeView, since: Option<Instant>) -> Lookup {
        match since {
            Some(_) => self.now.clone(),
            None => self.last.clone(),
        }
    }

    async fn confirm(&self, _: &NodeView) -> Presence {
        self.now.presence()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        watch::Sender::new(0).subscribe()
    }

    async fn keep_fresh(&self, _: Duration) {}
}

fn known(instance: &str, presence: Presence) -> Lookup {
    Lookup::Known {
        facts: NodeFacts {
            provider_id: Some(instance.parse().unwrap()),
            ..NodeFacts::default()
        },
        presence,
    }
}

fn unavailable() -> Lookup {
    Lookup::Unavailable {
        why: "away".into(),
        retry_after: None,
    }
}

fn node(provider_id: Option<&str>) -> NodeView {
    let node = json!({"metadata": {"name": "n"}, "spec": {"providerID": provider_id}});
    NodeView::slim(serde_json::from_value(node).unwrap())
}

async fn ask(clouds: Vec<Arc<dyn Instances>>, provider_id: Option<&str>) -> Lookup {
    let now = Some(Instant::now());
    Clouds::new(clouds).look_up(&node(provider_id), now).await
}

#[tokio::test]
async fn asks_only_cloud_of_provider_id() {
    let clouds = || {
        vec![
            Fixed::cloud("a", Lookup::Missing),
            Fixed::cloud("b", known("b://1", Presence::Stopped)),
        ]
    };
    assert_eq!(ask(clouds(), Some("a://1")).await, Lookup::Missing);
    assert_eq!(
        ask(clouds(), Some("b://1")).await,
        known("b://1", Presence::Stopped)
    );
    let foreign = ask(clouds(), Some("c://1")).await;
    assert!(
        matches!(&foreign, Lookup::Foreign(how) if how.contains("(a, b)")),
        "{foreign:?}"
    );

    let both = Clouds::new(clouds());
    assert_eq!(both.confirm(&node(Some("a://1"))).await, Presence::Gone);
    for nobodys in [Some("c://1"), None] {
        assert_eq!(both.confirm(&node(nobodys)).await, Presence::Unsure);
    }
}

#[tokio::test]
async fn node_without_id_belongs_to_cloud_that_knows_its_name() {
    let one = known("b://1", Presence::Running);
    for other in [Lookup::Missing, known("a://1", Presence::Unsure)] {
        let clouds = vec![Fixed::cloud("a", other), Fixed::cloud("b", one.clone())];
        assert_eq!(ask(clouds, None).await, one);
    }
    let clouds = vec![
        Fixed::cloud("a", known("a://1", Presence::Running)),
        Fixed::cloud("b", one),
    ];
    assert!(
        matches!(ask(clouds, None).await, Lookup::Ambiguous(which) if which.contains("a://1, b://1"))
    );
}

#[tokio::test]
async fn unavailable_cloud_may_know_name_unless_last_listing_excludes_it() {
    let one = known("b://1", Presence::Running);
    let with = |last: Lookup| -> Vec<Arc<dyn Instances>> {
        let now = unavailable();
        let name = "a";
        vec![
            Arc::new(Fixed { name, now, last }),
            Fixed::cloud("b", one.clone()),
        ]
    };
    assert_eq!(ask(with(Lookup::Missing), None).await, one);
    for unknown in [unavailable(), known("a://1", Presence::Running)] {
        assert_eq!(ask(with(unknown), None).await, unavailable());
    }
}

/// A file that does not list a Node leaves it to the cloud that does, and has the last word if none
/// does.
#[tokio::test]
async fn incomplete_cloud_leaves_node_to_others() {
    let unlisted = Lookup::Unlisted("add an entry".into());
    let found = known("a://1", Presence::Running);
    for (one, expected) in [
        (found.clone(), found),
        (Lookup::Missing, unlisted.clone()),
        (unavailable(), unavailable()),
    ] {
        let clouds = vec![Fixed::cloud("a", one), Fixed::cloud("b", unlisted.clone())];
        assert_eq!(ask(clouds, None).await, expected);
    }
}
