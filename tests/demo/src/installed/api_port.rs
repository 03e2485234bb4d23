//! A machine's port 6443: what comes there is carried to the API server of the lab, as if each machine had one.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use mooring_test_netlab::netlab::Host;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// The port of API servers.
pub(super) const PORT: u16 = 6443;

/// The port is open as long as this lives: without it, the machine's API server is gone.
#[derive(Debug)]
pub(super) struct ApiPort(JoinHandle<()>);

impl ApiPort {
    /// Opens the port on all addresses of a machine.
    pub(super) async fn open(host: &Host, api_server: SocketAddr) -> Result<Self> {
        let listener = host.listen((Ipv4Addr::UNSPECIFIED, PORT).into()).await?;
        Ok(Self(tokio::spawn(carry(listener, api_server))))
    }
}

impl Drop for ApiPort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn carry(listener: TcpListener, api_server: SocketAddr) {
    // They end with the port.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((mut here, _)) = accepted else {
                    continue;
                };
                connections.spawn(async move {
                    let mut there = TcpStream::connect(api_server).await?;
                    tokio::io::copy_bidirectional(&mut here, &mut there).await
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}
