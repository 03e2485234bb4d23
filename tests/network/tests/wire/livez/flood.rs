//! Strangers who hold all connections of the public port.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use mooring_test_cluster::control_plane::ControlPlane;

use super::daemon::{Daemon, read_one};

/// More than a listener's connections, which are 256.
const FLOOD: usize = 300;
/// The chart's timeout of a probe.
const PROBE: Duration = Duration::from_secs(5);

/// A connection that is kept, after one probe.
fn kept(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
    stream.set_read_timeout(Some(PROBE)).unwrap();
    assert_eq!(probe(&mut stream), Some(200));
    stream
}

/// Asks once more; `None` if the connection was closed.
fn probe(stream: &mut TcpStream) -> Option<u16> {
    let request = b"GET /livez/ping HTTP/1.1\r\nHost: node\r\n\r\n";
    stream.write_all(request).ok()?;
    let peeked = stream.peek(&mut [0]).ok()?;
    (peeked > 0).then(|| read_one(stream).status)
}

#[tokio::test]
async fn a_flood_of_the_public_port_does_not_reach_the_probes() {
    let port = {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let flag = format!("--probe-bind-address=127.0.0.1:{port}");
    let daemon = Daemon::start_on(ControlPlane::shared(), &[&flag]).await;
    let (mut kubelet, mut at_the_public_port) = (kept(port), kept(daemon.port));
    let mut flood: Vec<TcpStream> = (0..FLOOD).map(|_| daemon.connect()).collect();
    // All of them have been accepted once the last is answered.
    assert_eq!(flood.last_mut().and_then(probe), Some(200));
    assert_eq!(probe(&mut kubelet), Some(200));
    drop(kept(port));
    assert_eq!(
        probe(&mut at_the_public_port),
        None,
        "there it would have been closed, or this test sees nothing"
    );
}
