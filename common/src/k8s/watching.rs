//! A watch that outlives a restored backup.

use std::fmt::Debug;

use futures::{Stream, StreamExt as _, future, stream};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::errors::with_causes;

/// Follows one kind of object, with backoff after failures. An interruption is logged once, however long
/// it lasts.
///
/// An interrupted watch goes on from the version that it has come to. That version may lie ahead of the
/// API server that is reached then: a restored etcd counts from its backup, and says nothing until it
/// has passed that version. etcd is restored while no API server runs. So a watch that has found no API
/// server begins with a complete list.
pub fn watch<K>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Event<K>> + Send
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let begin = move || watcher(api.clone(), config.clone()).boxed();
    let first = begin();
    stream::unfold((first, begin), async |(mut current, begin)| {
        let event = current.next().await?;
        if let Err(watcher::Error::WatchStartFailed(error)) = &event
            && !matches!(error, kube::Error::Api(_))
        {
            current = begin();
        }
        Some((event, (current, begin)))
    })
    .default_backoff()
    .filter_map(told(K::kind(&()).into_owned()))
}

/// Tells what has come, and logs what has not.
fn told<K>(
    kind: String,
) -> impl FnMut(watcher::Result<watcher::Event<K>>) -> future::Ready<Option<watcher::Event<K>>> {
    let mut interrupted = false;
    move |event| {
        match &event {
            // A list begins before the API server is asked for it.
            Ok(watcher::Event::Init) => {}
            Ok(_) => interrupted = false,
            Err(error) if interrupted => {
                tracing::debug!(kind, error = with_causes(error), "watch still interrupted");
            }
            Err(error) => {
                interrupted = true;
                tracing::warn!(
                    kind,
                    error = with_causes(error),
                    "watch interrupted, will resume"
                );
            }
        }
        future::ready(event.ok())
    }
}
