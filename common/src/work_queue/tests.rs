use super::*;
use tokio::sync::mpsc;

const BACKOFF: Backoff = Backoff {
    first: Duration::from_secs(5),
    most: Duration::from_secs(300),
};

/// Runs a worker whose passes report to the returned channel, with the outcome that `answer` gives.
fn worker(
    queue: &Arc<WorkQueue<&'static str>>,
    concurrency: usize,
    answer: impl Fn(u32) -> Outcome<std::fmt::Error> + Send + Sync + 'static,
) -> (
    mpsc::UnboundedReceiver<(&'static str, Instant)>,
    CancellationToken,
) {
    let (seen, passes) = mpsc::unbounded_channel();
    let cancel = CancellationToken::new();
    let count = std::sync::atomic::AtomicU32::new(0);
    tokio::spawn(work(
        "test",
        queue.clone(),
        concurrency,
        cancel.clone(),
        move |key| {
            let n = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let outcome = answer(n);
            let seen = seen.clone();
            async move {
                seen.send((key, Instant::now())).unwrap();
                tokio::time::sleep(Duration::from_millis(10)).await;
                outcome
            }
        },
    ));
    (passes, cancel)
}

#[tokio::test(start_paused = true)]
async fn repeated_key_costs_one_pass_plus_one_if_running() {
    let queue = Arc::new(WorkQueue::new(BACKOFF));
    for _ in 0..5 {
        queue.add("a");
    }
    let (mut passes, cancel) = worker(&queue, 4, |_| Outcome::Done);
    passes.recv().await.unwrap();
    queue.add("a");
    queue.add("a");
    passes.recv().await.unwrap();
    queue.add("marker");
    assert_eq!(passes.recv().await.unwrap().0, "marker");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(passes.try_recv().is_err());
    cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_and_success_resets() {
    let queue = Arc::new(WorkQueue::new(BACKOFF));
    queue.add("a");
    let (mut passes, _cancel) = worker(&queue, 1, |n| match n {
        0 | 1 | 3 => Outcome::Backoff(std::fmt::Error),
        2 => Outcome::RetryAfter(Duration::from_secs(20)),
        _ => Outcome::Done,
    });
    let mut at = Vec::new();
    for _ in 0..5 {
        at.push(passes.recv().await.unwrap().1);
    }
    let gaps: Vec<u64> = at.windows(2).map(|w| (w[1] - w[0]).as_secs()).collect();
    assert_eq!(gaps, [5, 10, 20, 5]);
}

#[tokio::test(start_paused = true)]
async fn failing_key_delays_no_other() {
    let queue = Arc::new(WorkQueue::new(BACKOFF));
    queue.add("bad");
    let (mut passes, _cancel) = worker(&queue, 1, |n| {
        if n == 0 {
            Outcome::Backoff(std::fmt::Error)
        } else {
            Outcome::Done
        }
    });
    let first = passes.recv().await.unwrap();
    queue.add("good");
    let second = passes.recv().await.unwrap();
    assert_eq!((first.0, second.0), ("bad", "good"));
    assert!(second.1 - first.1 < Duration::from_secs(1));
}

#[test]
fn keeps_longest_delay() {
    assert_eq!(BACKOFF.after(1), Duration::from_secs(5));
    assert_eq!(BACKOFF.after(7), Duration::from_secs(300));
    assert_eq!(BACKOFF.after(u32::MAX), Duration::from_secs(300));
}

#[tokio::test(start_paused = true)]
async fn hanging_pass_is_dropped_and_retried() {
    let queue = Arc::new(WorkQueue::new(BACKOFF));
    queue.add("a");
    let (seen, mut passes) = mpsc::unbounded_channel();
    tokio::spawn(work(
        "test",
        queue,
        1,
        CancellationToken::new(),
        move |_| {
            seen.send(Instant::now()).unwrap();
            std::future::pending::<Outcome<std::fmt::Error>>()
        },
    ));
    let first = passes.recv().await.unwrap();
    let second = passes.recv().await.unwrap();
    assert_eq!(second - first, LONGEST_PASS + BACKOFF.first);
}

/// E18: whatever the constants are, what is begun in time comes to its own end.
#[tokio::test(start_paused = true)]
async fn request_begun_in_time_is_never_cut_off() {
    let queue = Arc::new(WorkQueue::new(BACKOFF));
    let (ended, mut end) = mpsc::unbounded_channel();
    tokio::spawn(work(
        "test",
        queue.clone(),
        1,
        CancellationToken::new(),
        move |_| {
            let ended = ended.clone();
            async move {
                let begun = Instant::now();
                let mut latest = Duration::ZERO;
                while has_time(begun.elapsed()) {
                    latest = begun.elapsed();
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                // As if it had been sent in the last second that permits it.
                tokio::time::sleep(LONGEST_REQUEST.saturating_sub(Duration::from_secs(1))).await;
                ended.send(latest).unwrap();
                Outcome::<std::fmt::Error>::Done
            }
        },
    ));
    queue.add("a");
    let latest = tokio::time::timeout(LONGEST_PASS * 2, end.recv()).await;
    let latest = latest.expect("the pass came to its end").unwrap();
    assert!(
        latest > Duration::from_secs(30),
        "a pass has time for more than one: {latest:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn low_priority_keys_come_last_unless_raised() {
    let queue = Arc::new(WorkQueue::new(BACKOFF));
    for key in ["later", "sooner"] {
        queue.add_later(key);
    }
    assert!(!queue.is_busy());
    queue.add("first");
    queue.add("sooner");
    assert!(queue.is_busy());
    let (mut passes, _cancel) = worker(&queue, 1, |_| Outcome::Done);
    let mut order = Vec::new();
    for _ in 0..3 {
        order.push(passes.recv().await.unwrap().0);
    }
    assert_eq!(order, ["first", "sooner", "later"]);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(passes.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn yielding_key_resumes_when_queue_is_empty() {
    let queue = Arc::new(WorkQueue::new(BACKOFF));
    queue.add("long");
    let (mut passes, _cancel) = worker(&queue, 1, |n| match n {
        0 => Outcome::Yield,
        _ => Outcome::Done,
    });
    let first = passes.recv().await.unwrap();
    queue.add("waiting");
    let second = passes.recv().await.unwrap();
    let third = passes.recv().await.unwrap();
    assert_eq!((first.0, second.0, third.0), ("long", "waiting", "long"));
    assert!(third.1 - first.1 < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn progress_restarts_delay() {
    let queue = Arc::new(WorkQueue::new(BACKOFF));
    queue.add("a");
    let (mut passes, _cancel) = worker(&queue, 1, |n| match n {
        0 | 1 | 3 => Outcome::Backoff(std::fmt::Error),
        2 => Outcome::BackoffAnew(std::fmt::Error),
        _ => Outcome::Done,
    });
    let mut at = Vec::new();
    for _ in 0..5 {
        at.push(passes.recv().await.unwrap().1);
    }
    let gaps: Vec<u64> = at.windows(2).map(|w| (w[1] - w[0]).as_secs()).collect();
    assert_eq!(gaps, [5, 10, 5, 10]);
}

#[tokio::test(start_paused = true)]
async fn expired_delay_makes_queue_busy() {
    let queue = WorkQueue::new(BACKOFF);
    queue.add_after("a", Duration::from_secs(1));
    assert!(!queue.is_busy());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(queue.is_busy());
}

#[tokio::test(start_paused = true)]
async fn low_priority_add_does_not_shorten_delay() {
    let queue = Arc::new(WorkQueue::new(BACKOFF));
    queue.add("a");
    let (mut passes, _cancel) = worker(&queue, 1, |n| match n {
        0 => Outcome::<std::fmt::Error>::RetryAfter(BACKOFF.first),
        _ => Outcome::Done,
    });
    let first = passes.recv().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    queue.add_later("a");
    let second = passes.recv().await.unwrap();
    assert!(second.1 - first.1 >= BACKOFF.first);
}

#[tokio::test(start_paused = true)]
async fn low_priority_add_wakes_key_that_was_done_for_a_while() {
    let queue = Arc::new(WorkQueue::new(BACKOFF));
    queue.add("a");
    let asking = queue.clone();
    let (mut passes, _cancel) = worker(&queue, 1, move |n| {
        if n == 2 {
            asking.add_later("a");
        }
        Outcome::<std::fmt::Error>::DoneFor(Duration::from_secs(3600))
    });
    let first = passes.recv().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    queue.add_later("a");
    let second = passes.recv().await.unwrap();
    assert_eq!(second.1 - first.1, Duration::from_secs(1));
    // Undisturbed, it waits for its time; and a change during a pass is not missed.
    let third = passes.recv().await.unwrap();
    // A pass takes a moment itself.
    let waited = third.1 - second.1;
    assert!((3600..3601).contains(&waited.as_secs()), "{waited:?}");
    let fourth = passes.recv().await.unwrap();
    assert!(fourth.1 - third.1 < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn low_priority_add_wakes_failed_key_and_keeps_count() {
    let queue = Arc::new(WorkQueue::new(BACKOFF));
    queue.add("a");
    let (mut passes, _cancel) = worker(&queue, 1, |_| Outcome::Backoff(std::fmt::Error));
    let first = passes.recv().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    queue.add_later("a");
    let second = passes.recv().await.unwrap();
    assert_eq!(second.1 - first.1, Duration::from_secs(1));
    let third = passes.recv().await.unwrap();
    assert!(third.1 - second.1 >= BACKOFF.after(2));
}

/// A pass that began before it was asked for may not know of what it was asked for.
#[tokio::test(start_paused = true)]
async fn failing_key_hears_add_during_pass_once() {
    let queue = Arc::new(WorkQueue::new(BACKOFF));
    queue.add("a");
    let asking = queue.clone();
    let (mut passes, _cancel) = worker(&queue, 1, move |n| {
        if n == 0 {
            asking.add_later("a");
        }
        Outcome::Backoff(std::fmt::Error)
    });
    let first = passes.recv().await.unwrap();
    let second = passes.recv().await.unwrap();
    assert!(second.1 - first.1 < BACKOFF.first);
    let third = passes.recv().await.unwrap();
    assert!(third.1 - second.1 >= BACKOFF.after(2));
}

#[tokio::test(start_paused = true)]
async fn cancellation_lets_running_pass_end() {
    let queue = Arc::new(WorkQueue::new(BACKOFF));
    for key in ["a", "b", "c"] {
        queue.add(key);
    }
    let cancel = CancellationToken::new();
    let (began, mut begun) = mpsc::unbounded_channel();
    let (ended, mut over) = mpsc::unbounded_channel();
    let pass = {
        let cancel = cancel.clone();
        move |key| {
            let (began, ended, cancel) = (began.clone(), ended.clone(), cancel.clone());
            async move {
                began.send(key).unwrap();
                cancel.cancel();
                tokio::time::sleep(Duration::from_secs(20)).await;
                ended.send(key).unwrap();
                Outcome::<std::fmt::Error>::Done
            }
        }
    };
    let start = Instant::now();
    work("test", queue, 1, cancel, pass).await;
    assert_eq!(start.elapsed(), Duration::from_secs(20));
    assert_eq!((begun.recv().await, begun.recv().await), (Some("a"), None));
    assert_eq!((over.recv().await, over.recv().await), (Some("a"), None));
}

/// What a scrape says of one queue.
fn scraped(queue: &Arc<WorkQueue<&'static str>>) -> String {
    let mut queues = Queues::default();
    queues.add("test", queue);
    let mut registry = prometheus_client::registry::Registry::default();
    registry.register_collector(Box::new(queues));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    text
}

#[track_caller]
fn says(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|l| l == *line), "no {line}:\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn queue_counts_depth_adds_retries_and_outcomes() {
    let queue = Arc::new(WorkQueue::new(BACKOFF));
    for key in ["a", "b", "b"] {
        queue.add(key);
    }
    queue.add_later("c");
    queue.add_after("d", Duration::from_secs(60));
    says(
        &scraped(&queue),
        &[
            "workqueue_depth{name=\"test\"} 3",
            "workqueue_adds_total{name=\"test\"} 3",
            "workqueue_longest_running_processor_seconds{name=\"test\"} 0.0",
        ],
    );
    let (mut passes, cancel) = worker(&queue, 1, |n| match n {
        0 => Outcome::Backoff(std::fmt::Error),
        1 => Outcome::WaitForChange("no".to_owned()),
        _ => Outcome::Done,
    });
    passes.recv().await.unwrap();
    says(&scraped(&queue), &["workqueue_depth{name=\"test\"} 2"]);
    for _ in 0..2 {
        passes.recv().await.unwrap();
    }
    // The failed one comes again, and d at last.
    for _ in 0..2 {
        passes.recv().await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    says(
        &scraped(&queue),
        &[
            "workqueue_depth{name=\"test\"} 0",
            "workqueue_adds_total{name=\"test\"} 5",
            "workqueue_retries_total{name=\"test\"} 1",
            "workqueue_work_duration_seconds_count{name=\"test\"} 5",
            "workqueue_queue_duration_seconds_count{name=\"test\"} 5",
            "mooring_passes_total{controller=\"test\",outcome=\"failed\"} 1",
            "mooring_passes_total{controller=\"test\",outcome=\"waits_for_change\"} 1",
            "mooring_passes_total{controller=\"test\",outcome=\"done\"} 3",
        ],
    );
    cancel.cancel();
}
