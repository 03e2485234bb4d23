//! What a service proxy says of itself, as a test wants it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

/// Somebody who gives the same answer to all.
pub struct FakeProxy {
    /// Where it answers.
    pub address: SocketAddr,
    status: Arc<AtomicU16>,
}

impl FakeProxy {
    /// On this port of the test's own host.
    pub fn start(port: u16) -> Self {
        Self::on(TcpListener::bind(("127.0.0.1", port)).expect("its port is free"))
    }

    /// Where this listens.
    pub fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let status = Arc::new(AtomicU16::new(200));
        let says = Arc::clone(&status);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 1024]);
                let status = says.load(Ordering::Relaxed);
                let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { address, status }
    }

    /// What it says from now on.
    pub fn says(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }
}
