//! A watch that outlives a restored backup, and an API server that is away.

use std::fmt::Debug;
use std::time::Duration;

use backon::ExponentialBuilder;
use futures::{Stream, StreamExt as _, future, stream};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::utils::ResetTimerBackoff;
use kube::runtime::watcher::{self, ExponentialBackoff, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::errors::with_causes;

/// The first pause after a failure. Each pause is up to twice as long, by chance, so that watches do not
/// all ask at once.
const FIRST_PAUSE: Duration = Duration::from_millis(800);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A watch that has gone on for so long without a failure begins with the first pause again.
const FORGET_AFTER: Duration = Duration::from_secs(120);

/// Follows one kind of object. After a failure it pauses, for ever longer until there is an answer. Refusals
/// are logged once, however long they last; that the API server cannot be reached, by its client.
///
/// A watch that the API server ends goes on from the version that it has come to. That version may lie ahead
/// of the API server that is reached then: a restored etcd counts from its backup, and says nothing until it
/// has passed that version. etcd is restored while no API server runs. So a watch whose connection has broken,
/// or that has found no API server, begins with a complete list.
pub fn watch<K>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Event<K>> + Send
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    answers(move || watcher(api.clone(), config.clone()).boxed())
        .backoff(pauses())
        .filter_map(told(K::kind(&()).into_owned()))
        .flat_map(|answer| {
            let begins = answer.begins_list.then_some(watcher::Event::Init);
            stream::iter(begins.into_iter().chain([answer.event]))
        })
}

fn pauses() -> ResetTimerBackoff<ExponentialBackoff> {
    let pauses = ExponentialBuilder::new()
        .with_min_delay(FIRST_PAUSE)
        .with_max_delay(LONGEST_PAUSE)
        .with_factor(2.0)
        .with_jitter()
        .without_max_times();
    ResetTimerBackoff::new(pauses.into(), FORGET_AFTER)
}

/// What the API server has said.
struct Answer<K> {
    /// Whether this is the first of a new list.
    begins_list: bool,
    /// Never [`watcher::Event::Init`].
    event: watcher::Event<K>,
}

/// The answers, and failures. kube tells the beginning of a list before it asks the API server for one: that
/// is no answer, and ends no interruption.
fn answers<K, S>(
    begin: impl Fn() -> S + Send,
) -> impl Stream<Item = watcher::Result<Answer<K>>> + Send
where
    K: Send,
    S: Stream<Item = watcher::Result<watcher::Event<K>>> + Unpin + Send,
{
    let first = (begin(), false);
    stream::unfold(
        (first, begin),
        async |((mut current, mut begins_list), begin)| {
            loop {
                let answer = match current.next().await? {
                    Ok(watcher::Event::Init) => {
                        begins_list = true;
                        continue;
                    }
                    Ok(event) => Ok(Answer {
                        begins_list: std::mem::take(&mut begins_list),
                        event,
                    }),
                    Err(error) => Err(error),
                };
                if answer.as_ref().is_err_and(is_broken_connection) {
                    current = begin();
                }
                return Some((answer, ((current, begins_list), begin)));
            }
        },
    )
}

/// Tells what has come, and logs what has not. A first refusal is no warning: an API server that has just
/// started does not know its own roles yet.
fn told<K>(
    kind: String,
) -> impl FnMut(watcher::Result<Answer<K>>) -> future::Ready<Option<Answer<K>>> {
    let mut refusals = 0;
    move |answer| {
        match &answer {
            Ok(_) => refusals = 0,
            Err(error) => {
                let refused = !is_broken_connection(error) && !is_expired(error);
                refusals += u32::from(refused);
                let error = with_causes(error);
                if refused && refusals == 2 {
                    tracing::warn!(kind, error, "watch refused, will ask again");
                } else {
                    tracing::debug!(kind, error, "watch interrupted, will resume");
                }
            }
        }
        future::ready(answer.ok())
    }
}

/// Whether the version that a watch goes on from is too old. A list comes next.
fn is_expired(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchError(status) if status.code == 410)
}

fn is_broken_connection(error: &watcher::Error) -> bool {
    use kube::Error::{HyperError, ReadEvents, Service};
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => {
            matches!(error, HyperError(_) | ReadEvents(_) | Service(_))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
