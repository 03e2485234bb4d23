//! A client that writes to the API server behind the address, ten times a second.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::netlab::Host;

/// How often it writes.
const PERIOD: Duration = Duration::from_millis(100);

/// How long a write may take.
const LIMIT: Duration = Duration::from_millis(1000);

/// Writes by when they began: whether they were done; `None`: not known yet.
type Writes = Mutex<BTreeMap<Instant, Option<bool>>>;

/// The client. Each write has a connection of its own, as `kubectl` has.
pub struct Writer {
    writes: Arc<Writes>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

/// What the client has noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noticed {
    /// How many writes there were.
    pub writes: usize,
    /// How many of them failed, or took longer than a second.
    pub failed: usize,
    /// For how long none was done, at the longest.
    pub longest: Duration,
}

impl Writer {
    /// Writes from this host.
    pub fn start(host: &Host, config: kube::Config) -> Self {
        let writes = Arc::<Writes>::default();
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (writes, stop) = (Arc::clone(&writes), Arc::clone(&stop));
            host.thread(move || write_steadily(&config, &writes, &stop))
        };
        Self {
            writes,
            stop,
            thread: Some(thread),
        }
    }

    /// Whether all writes of this span that are over were done, and there were as many as there should be.
    pub fn is_well(&self, span: Duration) -> bool {
        let Some(since) = Instant::now().checked_sub(span + LIMIT / 2) else {
            return false;
        };
        let writes = lock(&self.writes);
        let recent: Vec<Option<bool>> = writes.range(since..).map(|(_, done)| *done).collect();
        let done = recent.iter().filter(|done| **done == Some(true)).count();
        let enough = usize::try_from(span.as_millis() / PERIOD.as_millis()).unwrap_or(usize::MAX);
        done >= enough && !recent.contains(&Some(false))
    }

    /// Stops, and says what was noticed since.
    pub fn end(mut self, since: Instant) -> Noticed {
        self.join();
        let writes = lock(&self.writes);
        let mut noticed = Noticed::default();
        let mut run = 0;
        for done in writes.range(since..).map(|(_, done)| *done == Some(true)) {
            noticed.writes += 1;
            noticed.failed += usize::from(!done);
            run = if done { 0 } else { run + 1 };
            noticed.longest = noticed.longest.max(PERIOD * run);
        }
        noticed
    }

    fn join(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in it has been reported already.
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.join();
    }
}

fn lock(writes: &Writes) -> MutexGuard<'_, BTreeMap<Instant, Option<bool>>> {
    writes.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write_steadily(config: &kube::Config, writes: &Arc<Writes>, stop: &AtomicBool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut under_way = JoinSet::new();
        let mut period = interval(PERIOD);
        let mut number = 0_u64;
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !stop.load(Ordering::Relaxed) {
            period.tick().await;
            number += 1;
            let (began, config, writes) = (Instant::now(), config.clone(), Arc::clone(writes));
            lock(&writes).insert(began, None);
            under_way.spawn(async move {
                let written = timeout(LIMIT, write(config, number)).await;
                let done = matches!(written, Ok(Ok(())));
                lock(&writes).insert(began, Some(done));
            });
        }
        under_way.join_all().await;
    });
}

async fn write(config: kube::Config, number: u64) -> Result<()> {
    let client = kube::Client::try_from(config)?;
    let maps = Api::<ConfigMap>::namespaced(client, "default");
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "writer" },
        "data": { "written": number.to_string() },
    });
    let params = PatchParams::apply("writer").force();
    maps.patch("writer", &params, &Patch::Apply(map)).await?;
    Ok(())
}
