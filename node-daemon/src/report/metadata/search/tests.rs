use std::collections::VecDeque;
use std::sync::Mutex;

use tokio::task::JoinHandle;

use super::*;
use crate::report::metadata::{Completeness, Problem};
use mooring_common::node_facts::NodeFacts;

/// What a source answers when it is asked whether it knows the machine.
#[derive(Clone, Copy, Debug)]
enum Says {
    Yes,
    No,
    Hangs,
    Unreachable,
}

/// A source that gives these answers, the last of them for ever, and writes down that it was asked.
#[derive(Debug)]
struct Fake {
    name: &'static str,
    answers: Mutex<VecDeque<Says>>,
    log: Arc<Mutex<Vec<(&'static str, Duration)>>>,
    start: Instant,
}

#[async_trait]
impl MetadataSource for Fake {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn facts(&self, _: &Identity) -> Result<SourceAnswer, MetadataError> {
        Ok(SourceAnswer {
            facts: NodeFacts::default(),
            completeness: Completeness::Partial {
                missing: vec![self.name],
            },
        })
    }
}

#[async_trait]
impl Probe for Fake {
    async fn recognises(&self) -> Result<bool, MetadataError> {
        let now = self.start.elapsed();
        self.log.lock().unwrap().push((self.name, now));
        let says = {
            let mut answers = self.answers.lock().unwrap();
            let first = *answers.front().unwrap();
            if answers.len() > 1 {
                answers.pop_front();
            }
            first
        };
        let unanswered = |problem| {
            let url = "http://m".to_owned();
            Err(MetadataError::Unanswered { url, problem })
        };
        match says {
            Says::Yes => Ok(true),
            Says::No => Ok(false),
            Says::Hangs => {
                sleep(Duration::from_secs(1)).await;
                unanswered(Problem::TooSlow)
            }
            Says::Unreachable => unanswered(Problem::ConnectTimeout),
        }
    }
}

struct SearchSetup {
    source: FoundSource,
    changed: watch::Receiver<u64>,
    log: Arc<Mutex<Vec<(&'static str, Duration)>>>,
    start: Instant,
    _search: JoinHandle<()>,
}

impl SearchSetup {
    fn start(services: [&[Says]; 2], written: &[Says]) -> Self {
        let (log, start) = (Arc::default(), Instant::now());
        let fake = |name, answers: &[Says]| {
            Arc::new(Fake {
                name,
                answers: Mutex::new(answers.iter().copied().collect()),
                log: Arc::clone(&log),
                start,
            })
        };
        let [first, second] = services;
        let (source, search) = Search::new(Candidates {
            services: vec![fake("first", first), fake("second", second)],
            written: fake("written", written),
            last: fake("last", &[]),
        });
        let (sender, changed) = watch::channel(0);
        let search = search.run(sender, CancellationToken::new());
        Self {
            source,
            changed,
            log,
            start,
            _search: tokio::spawn(search),
        }
    }

    /// Whose facts are given, once there are any, and when.
    async fn first_answer(&self) -> (&'static str, Duration) {
        let answer = self.source.facts(&Identity::default()).await.unwrap();
        let Completeness::Partial { missing } = answer.completeness else {
            panic!("fakes are partial");
        };
        assert_eq!(missing, [self.source.name()]);
        (self.source.name(), self.start.elapsed())
    }

    fn asked(&self) -> Vec<&'static str> {
        self.log
            .lock()
            .unwrap()
            .iter()
            .map(|(name, _)| *name)
            .collect()
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn keeps_first_source_that_knows_machine() {
    for (services, written, expected, asked) in [
        (
            [&[Says::Yes][..], &[Says::Yes]],
            &[Says::Yes][..],
            "first",
            vec!["first"],
        ),
        (
            [&[Says::No], &[Says::Yes]],
            &[Says::Yes],
            "second",
            vec!["first", "second"],
        ),
        (
            [&[Says::Hangs], &[Says::Yes]],
            &[Says::Yes],
            "second",
            vec!["first", "second"],
        ),
        (
            [&[Says::No], &[Says::No]],
            &[Says::Yes],
            "written",
            vec!["first", "second", "written"],
        ),
    ] {
        let setup = SearchSetup::start(services, written);
        let (found, after) = setup.first_answer().await;
        assert_eq!(found, expected);
        assert!(after <= SECOND, "{after:?}");
        sleep(10 * REST).await;
        assert_eq!(setup.asked(), asked, "asked again although it is known");
        assert_eq!(*setup.changed.borrow(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn waits_for_late_service() {
    let late = [Says::Unreachable, Says::Unreachable, Says::Hangs, Says::Yes];
    let setup = SearchSetup::start([&late, &[Says::No]], &[Says::Yes]);
    let (found, after) = setup.first_answer().await;
    assert_eq!(found, "first");
    assert!(after < 2 * SECOND, "{after:?}");
    let expected = ["first", "first", "first", "second", "first"];
    assert_eq!(
        setup.asked(),
        expected,
        "nobody else is at an endpoint that is not there"
    );
}

#[tokio::test(start_paused = true)]
async fn clear_refusals_end_search_until_recheck() {
    let setup = SearchSetup::start([&[Says::No, Says::No, Says::Yes], &[Says::No]], &[Says::No]);
    let (found, after) = setup.first_answer().await;
    assert_eq!((found, after), ("last", Duration::ZERO));
    sleep(REST / 2).await;
    assert_eq!(setup.asked(), ["first", "second", "written"]);
    let mut changed = setup.changed.clone();
    changed
        .wait_for(|generation| *generation == 2)
        .await
        .unwrap();
    assert_eq!(setup.first_answer().await, ("first", 2 * REST));
}

#[tokio::test(start_paused = true)]
async fn search_goes_on_after_timeout() {
    for (written, expected) in [
        (Says::No, "last"),
        (Says::Hangs, "last"),
        (Says::Yes, "written"),
    ] {
        let mut answers = vec![Says::Unreachable; 62];
        answers.push(Says::Yes);
        let setup = SearchSetup::start([&answers, &[Says::No]], &[written]);
        let (found, after) = setup.first_answer().await;
        assert_eq!(found, expected);
        assert!(
            after >= SEARCH_TIMEOUT && after < SEARCH_TIMEOUT + 2 * SECOND,
            "{after:?}"
        );
        let mut changed = setup.changed.clone();
        changed
            .wait_for(|generation| *generation == 2)
            .await
            .unwrap();
        let (found, later) = setup.first_answer().await;
        assert_eq!(found, "first");
        assert!(
            later >= after + REST,
            "asked again sooner than once per {REST:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn aborted_search_is_no_answer() {
    let never: &[Says] = &[Says::Hangs];
    let setup = SearchSetup::start([never, never], never);
    setup._search.abort();
    let error = setup.source.facts(&Identity::default()).await.unwrap_err();
    assert!(matches!(error, MetadataError::Searching) && error.is_retryable());
}
