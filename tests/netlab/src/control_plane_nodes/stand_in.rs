//! Plays an API server for who asks whether it is ready, and for who sends datagrams to its address.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use mooring_common::serving::{self, Certificate, ConnectionLimits};
use mooring_test_cluster::control_plane::choose_tls_provider;
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

/// More than ask at once.
const CONNECTIONS: ConnectionLimits = ConnectionLimits {
    remote: 8,
    loopback: 32,
};

/// What it does.
#[derive(Clone, Debug)]
pub struct StandIn {
    /// Where `/readyz` is answered, by HTTPS at 127.0.0.1.
    pub port: u16,
    /// Where datagrams are sent back, whether the host has these addresses now or not.
    pub echo: Vec<SocketAddr>,
    /// While there is such a file it is not ready, as without etcd.
    pub unready_while: PathBuf,
}

impl StandIn {
    /// Serves until it fails.
    ///
    /// # Errors
    /// If it cannot listen.
    pub async fn serve(self) -> Result<()> {
        for address in self.echo {
            let socket = bind(address).with_context(|| format!("listening at {address}"))?;
            std::thread::spawn(move || send_back(&socket));
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await?;
        choose_tls_provider();
        let name = "kube-apiserver";
        let certificate = Certificate::new(None, name, serving::Metrics::default())?;
        let readyz = get(move || {
            let is_ready = !self.unready_while.exists();
            std::future::ready(if is_ready {
                (StatusCode::OK, "ok")
            } else {
                (StatusCode::INTERNAL_SERVER_ERROR, "[-]etcd failed")
            })
        });
        let router = Router::new().route("/readyz", readyz);
        serving::serve(listener, &certificate, CONNECTIONS, router).await;
        Ok(())
    }
}

fn bind(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    if address.is_ipv4() {
        socket.set_freebind_v4(true)?;
    } else {
        socket.set_freebind_v6(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}

fn send_back(socket: &UdpSocket) {
    let mut buffer = [0; 64];
    loop {
        if let Ok((length, from)) = socket.recv_from(&mut buffer) {
            // Whether it arrives is the client's to say.
            let _ = socket.send_to(&buffer[..length], from);
        }
    }
}
