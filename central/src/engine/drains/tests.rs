use serde::{Deserialize, Serialize};
use tokio::time::advance;

use super::*;
use crate::engine::change::{Change, Field};

/// A member of no cloud.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Backend(bool);

impl Member for Backend {
    fn target(&self) -> (&str, u16) {
        ("10.0.0.1", 80)
    }

    fn name(&self) -> &str {
        "10.0.0.1:80"
    }

    fn is_enabled(&self) -> bool {
        self.0
    }

    fn enable(&mut self, enabled: bool) {
        self.0 = enabled;
    }

    fn switch(enabled: bool) -> Change {
        const ENABLED: Field = Field::new(&["enabled"], "enabled", "");
        Change::new(&ENABLED, enabled)
    }

    fn is_as(&self, _wanted: &Self) -> bool {
        true
    }
}

const PERIOD: Duration = Duration::from_secs(30);

/// Who stays, when to look again, and what is remembered.
fn look(
    period: Duration,
    since: HashMap<String, Instant>,
    members: &[(&str, bool)],
) -> (Vec<bool>, Option<Duration>, HashMap<String, Instant>) {
    let mut drains = Drains::new(period, since);
    let mut keeps = |(id, enabled): &(&str, bool)| {
        drains.keeps(&Part {
            id: (*id).to_owned(),
            spec: Backend(*enabled),
        })
    };
    let kept = members.iter().map(&mut keeps).collect();
    let (next, since) = drains.finish();
    (kept, next, since)
}

#[tokio::test(start_paused = true)]
async fn each_stays_for_the_period_after_its_last_new_connection() {
    // It still gets new ones.
    let (kept, next, since) = look(PERIOD, HashMap::new(), &[("a", true)]);
    assert_eq!((kept, next), (vec![true], Some(PERIOD)));
    assert!(since.is_empty());
    let (kept, next, since) = look(PERIOD, since, &[("a", false)]);
    assert_eq!((kept, next), (vec![true], Some(PERIOD)));
    advance(PERIOD / 2).await;
    // Another one leaves later: the sooner one tells when to look again.
    let (kept, next, since) = look(PERIOD, since, &[("b", false), ("a", false), ("c", true)]);
    assert_eq!((kept, next), (vec![true; 3], Some(PERIOD / 2)));
    advance(PERIOD / 2).await;
    let (kept, next, since) = look(PERIOD, since, &[("b", false), ("a", false)]);
    assert_eq!((kept, next), (vec![true, false], Some(PERIOD / 2)));
    assert_eq!(since.keys().collect::<Vec<_>>(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_leave_any_more_is_forgotten() {
    let (_, _, since) = look(PERIOD, HashMap::new(), &[("a", false)]);
    advance(PERIOD / 2).await;
    let (_, next, since) = look(PERIOD, since, &[]);
    assert_eq!((next, since.len()), (None, 0));
    let (_, next, _) = look(PERIOD, since, &[("a", false)]);
    assert_eq!(next, Some(PERIOD));
}

#[tokio::test(start_paused = true)]
async fn nobody_stays_without_a_period() {
    let members = [("a", true), ("b", false)];
    let (kept, next, _) = look(Duration::ZERO, HashMap::new(), &members);
    assert_eq!((kept, next), (vec![false, false], None));
}
