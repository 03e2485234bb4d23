//! Threads of clients and servers, which end when they are told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::time::sleep;

/// How soon a thread notices that it should stop.
pub(super) const STOP_INTERVAL: Duration = Duration::from_millis(20);

/// Threads that end with this.
#[derive(Debug, Default)]
pub(super) struct Threads {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(super) fn spawn(&mut self, work: impl FnOnce(&AtomicBool) + Send + 'static) {
        let stop = Arc::clone(&self.stop);
        self.threads.push(std::thread::spawn(move || work(&stop)));
    }

    /// One thread for as many connections as there are: with one each, a thousand of them would take the
    /// processors from the programs that are tested.
    pub(super) fn spawn_async(
        &mut self,
        work: impl AsyncFnOnce() + Send + 'static,
    ) -> std::io::Result<()> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build()?;
        self.spawn(move |stop| {
            runtime.block_on(async {
                tokio::select! {
                    () = work() => {}
                    () = until_set(stop) => {}
                }
            });
        });
        Ok(())
    }

    /// Tells them to end.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for their end.
    pub(super) fn end(&mut self) {
        self.stop();
        for thread in self.threads.drain(..) {
            // A panic in it has been reported already.
            let _ = thread.join();
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.end();
    }
}

async fn until_set(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        sleep(STOP_INTERVAL).await;
    }
}
