use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// Somebody who gives this answer to whoever asks; `None`: who takes connections, and says nothing.
async fn server(answer: Option<&'static str>) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut held = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let Some(answer) = answer else {
                held.push(stream);
                continue;
            };
            let mut request = [0; 1024];
            let length = stream.read(&mut request).await.unwrap_or(0);
            assert!(request[..length].starts_with(b"GET /readyz"));
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    client(&format!("http://{address}"))
}

fn client(url: &str) -> Client {
    let mut config = kube::Config::new(url.parse().unwrap());
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

#[tokio::test]
async fn tells_ready_from_not_ready() {
    const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    const ETCD_LOST: &str = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
    const ANONYMOUS: &str = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n";
    for (answer, outcome) in [
        (OK, Outcome::Ready),
        (ETCD_LOST, Outcome::NotReady),
        (ANONYMOUS, Outcome::Forbidden),
    ] {
        assert_eq!(ask(&server(Some(answer)).await).await.outcome, outcome);
    }
}

#[test]
fn certificate_is_read_again_while_nothing_is_permitted() {
    let start = Instant::now();
    let mut forbidden = Forbidden::default();
    let mut at = |seconds, outcome| forbidden.note(&outcome, start + Duration::from_secs(seconds));
    assert_eq!(at(0, Outcome::Forbidden), None);
    assert_eq!(at(14, Outcome::Forbidden), None);
    assert_eq!(at(15, Outcome::Forbidden), Some(1));
    assert_eq!(at(16, Outcome::Forbidden), None);
    assert_eq!(at(30, Outcome::Forbidden), Some(2));
    assert_eq!(at(31, Outcome::Ready), None);
    assert_eq!(at(32, Outcome::Forbidden), None);
    assert_eq!(at(47, Outcome::Forbidden), Some(1));
}

#[tokio::test]
async fn tells_hung_from_dead() {
    assert_eq!(ask(&server(None).await).await.outcome, Outcome::Hung);
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let dead = ask(&client(&format!("http://{address}"))).await.outcome;
    assert!(matches!(dead, Outcome::Unreachable(_)), "{dead:?}");
}

#[tokio::test]
async fn names_the_checks_that_fail() {
    const ETCD_LOST: &str = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 84\r\n\r\n\
        [+]ping ok\n[-]etcd-readiness failed: reason withheld\n[+]log ok\nreadyz check failed\n\n";
    let answer = ask(&server(Some(ETCD_LOST)).await).await;
    let named = ["[-]etcd-readiness failed: reason withheld".to_owned()];
    assert_eq!(answer.outcome, Outcome::NotReady);
    assert_eq!(answer.failing, named);
    let many = failing(&"[-]x\n".repeat(MOST_NAMED + 1));
    assert_eq!(many.len(), MOST_NAMED);
    let long = failing(&format!("[-]{}", "x".repeat(LONGEST_CHECK)));
    assert_eq!(long[0].len(), LONGEST_CHECK);
}

#[test]
fn explains_what_fails_once_a_minute_and_never_while_it_is_ready() {
    let start = Instant::now();
    let lost = |outcome, check: &str| Answer {
        outcome,
        failing: vec![check.to_owned()],
    };
    let not_ready = lost(Outcome::NotReady, "[-]etcd-readiness failed");
    let mut explanation = Explanation::from(start);
    // Ten times a second, for three minutes.
    let told = (1..=1800_u32).filter_map(|tenth| {
        let now = start + Duration::from_millis(100) * tenth;
        let reason = explanation.note(Readiness::NotReady, &not_ready, now)?;
        Some((tenth, reason))
    });
    let why = "[-]etcd-readiness failed".to_owned();
    let each_minute = [600, 1200, 1800].map(|tenth| (tenth, why.clone()));
    assert_eq!(told.collect::<Vec<_>>(), each_minute);
    let later = start + Duration::from_secs(600);
    for readiness in [Readiness::Ready, Readiness::Doubtful] {
        assert_eq!(explanation.note(readiness, &not_ready, later), None);
    }
    let forbidden = lost(Outcome::Forbidden, "");
    let not_ready = Readiness::NotReady;
    assert_eq!(explanation.note(not_ready, &forbidden, later), None);
    let unreachable = lost(Outcome::Unreachable("refused".to_owned()), "");
    let told = explanation.note(Readiness::Absent, &unreachable, later);
    assert!(told.unwrap().contains("refused"));
}

#[tokio::test]
async fn witness_asks_nobody_before_it_is_a_member() {
    const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    let api_server = server(Some(OK)).await;
    let (role, roles) = watch::channel(false);
    let (sender, mut readiness) = watch::channel(Readiness::default());
    let (_urgency, urgency) = watch::channel(Urgency::default());
    let asks_as = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let (asked, role_now) = (asks_as.clone(), roles.clone());
    let connect = move || {
        asked.lock().unwrap().push(*role_now.borrow());
        Ok(api_server.clone())
    };
    let following = follow_while(roles, |is_member| *is_member, connect, sender, urgency);
    let following = tokio::spawn(following);
    // Whatever runs before the role changes is run by now.
    tokio::task::yield_now().await;
    role.send_replace(true);
    readiness.wait_for(|now| now.is_ready()).await.unwrap();
    role.send_replace(false);
    let unknown = readiness.wait_for(|now| *now == Readiness::Unknown);
    unknown.await.unwrap();
    role.send_replace(true);
    readiness.wait_for(|now| now.is_ready()).await.unwrap();
    assert_eq!(*asks_as.lock().unwrap(), [true, true]);
    following.abort();
}
