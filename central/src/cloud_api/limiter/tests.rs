mod learned;

use super::*;

fn limiter(qps: f64, burst: u32) -> Limiter {
    Limiter::new(Limits { qps, burst })
}

async fn count(limiter: &Limiter, during: Duration) -> usize {
    let end = Instant::now() + during;
    let mut admitted = 0;
    while tokio::time::timeout_at(end, limiter.admit())
        .await
        .is_ok_and(|a| a.is_ok())
    {
        admitted += 1;
    }
    admitted
}

#[tokio::test(start_paused = true)]
async fn burst_passes_then_rate_applies() {
    let limiter = limiter(5.0, 20);
    for _ in 0..20 {
        assert_eq!(limiter.admit().await, Ok(Duration::ZERO));
    }
    assert_eq!(count(&limiter, Duration::from_millis(2050)).await, 10);
}

#[tokio::test(start_paused = true)]
async fn wait_is_bounded() {
    let limiter = limiter(0.1, 1);
    limiter.admit().await.unwrap();
    let began = Instant::now();
    assert_eq!(limiter.admit().await, Err(Duration::from_secs(10)));
    assert_eq!(began.elapsed(), Duration::ZERO);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(limiter.admit().await, Ok(Duration::from_secs(4)));
}

/// T13: the rate falls below what `Retry-After` permits, and recovers by itself.
#[tokio::test(start_paused = true)]
async fn honours_pause_of_cloud() {
    let limiter = limiter(5.0, 20);
    limiter.admit().await.unwrap();
    assert_eq!(
        limiter.refused(Instant::now(), Some(Duration::from_secs(60))),
        Duration::from_secs(60)
    );
    assert_eq!(limiter.admit().await, Err(Duration::from_secs(60)));
    tokio::time::sleep(Duration::from_secs(58)).await;
    let began = Instant::now();
    limiter.admit().await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(2));
    let after = count(&limiter, Duration::from_millis(1050)).await;
    assert!(after <= 6, "{after} requests at once after the pause");
    tokio::time::sleep(RECOVERY).await;
    assert!(count(&limiter, Duration::from_millis(1)).await >= 20);
}

#[tokio::test(start_paused = true)]
async fn waiting_caller_notices_pause() {
    let limiter = limiter(1.0, 1);
    limiter.admit().await.unwrap();
    let (waited, ()) = tokio::join!(limiter.admit(), async {
        limiter.refused(Instant::now(), Some(Duration::from_secs(30)));
    });
    assert_eq!(waited, Err(Duration::from_secs(29)));
}

#[tokio::test(start_paused = true)]
async fn counts_refusals_until_success() {
    let limiter = limiter(5.0, 20);
    for wait in [1, 2, 4] {
        tokio::time::sleep(Duration::from_secs(wait)).await;
        assert_eq!(
            limiter.refused(Instant::now(), None),
            Duration::from_secs(wait)
        );
    }
    limiter.accepted();
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(
        limiter.refused(Instant::now(), None),
        Duration::from_secs(1)
    );
}
