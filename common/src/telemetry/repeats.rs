//! A state that lasts is told once a minute, whoever meets it and however often.

use std::collections::HashMap;
use std::fmt::{Debug, Write as _};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

/// How long a warning stands for those like it.
const STANDS_FOR: Duration = Duration::from_secs(60);

/// How many warnings are known at most: beyond it, one more is told than needed.
const MOST_KNOWN: usize = 1024;

/// Lets a warning or an error pass once a minute.
///
/// Warnings are alike if they are of the same place in the code and have the same `error`, also of other
/// objects: a cloud that does not answer is one state, and not one of each Service. Without an `error`
/// all that they say has to be the same.
#[derive(Default)]
pub(super) struct OncePerMinute {
    /// When each was told last, by its hash.
    told: Mutex<HashMap<u64, Instant>>,
}

impl OncePerMinute {
    fn passes(&self, alike: u64, now: Instant) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let stands = |at: &Instant| now.duration_since(*at) < STANDS_FOR;
        if told.get(&alike).is_some_and(stands) {
            return false;
        }
        if told.len() >= MOST_KNOWN {
            told.retain(|_, at| stands(at));
            if told.len() >= MOST_KNOWN {
                told.clear();
            }
        }
        told.insert(alike, now);
        true
    }
}

impl<S: Subscriber> Filter<S> for OncePerMinute {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        *event.metadata().level() > Level::WARN || self.passes(alike(event), Instant::now())
    }
}

/// The same number for events that tell the same.
fn alike(event: &Event<'_>) -> u64 {
    let mut fields = Fields::default();
    event.record(&mut fields);
    let mut hasher = DefaultHasher::new();
    event.metadata().callsite().hash(&mut hasher);
    fields.error.unwrap_or(fields.all).hash(&mut hasher);
    hasher.finish()
}

/// What an event says.
#[derive(Default)]
struct Fields {
    error: Option<String>,
    all: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "error" {
            self.error = Some(format!("{value:?}"));
        }
        let written = write!(self.all, "{}={value:?} ", field.name());
        debug_assert!(written.is_ok(), "a String takes all");
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;

    use tracing_subscriber::Layer as _;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is left of what `tell` logs, a line each.
    fn left_of(tell: impl FnOnce()) -> Vec<String> {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer()
            .without_time()
            .with_target(false)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .with_filter(OncePerMinute::default());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), tell);
        let bytes = lines.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    fn failed(key: &str, error: &str) {
        tracing::warn!(key, error, "failed, will retry");
    }

    #[test]
    fn the_same_error_of_many_objects_is_told_once() {
        let told = left_of(|| {
            failed("shop/a", "503");
            failed("shop/a", "503");
            failed("shop/b", "503");
            failed("shop/b", "refused");
        });
        assert_eq!(
            told,
            [
                r#"WARN failed, will retry key="shop/a" error="503""#,
                r#"WARN failed, will retry key="shop/b" error="refused""#,
            ]
        );
    }

    #[test]
    fn without_an_error_each_object_is_told_of() {
        let told = left_of(|| {
            for node in ["n1", "n1", "n2"] {
                tracing::warn!(node, "deletion held");
            }
        });
        assert_eq!(told.len(), 2);
    }

    #[test]
    fn what_is_no_warning_is_told_each_time() {
        let told = left_of(|| {
            for _ in 0..2 {
                tracing::info!("address announced");
            }
        });
        assert_eq!(told.len(), 2);
    }

    #[test]
    fn after_a_minute_it_is_told_again_and_no_more_than_so_many_are_known() {
        let (filter, start) = (OncePerMinute::default(), Instant::now());
        assert!(filter.passes(1, start));
        assert!(!filter.passes(1, start + STANDS_FOR - Duration::from_secs(1)));
        assert!(filter.passes(1, start + STANDS_FOR));
        for other in 2..10_000 {
            assert!(filter.passes(other, start + STANDS_FOR));
        }
        assert!(filter.told.lock().unwrap().len() <= MOST_KNOWN);
    }
}
