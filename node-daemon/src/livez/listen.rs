//! Where health checks are heard.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

/// How many connections the kernel may hold until they are accepted.
const BACKLOG: i32 = 256;

/// Why there is no listener.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen on {address} for health checks; choose another --livez-bind-address or --probe-bind-address"
)]
pub struct ListenError {
    /// Where.
    pub address: SocketAddr,
    /// Why.
    pub source: io::Error,
}

/// An address that is taken, and not listened on yet: whoever listened on it before goes on alone.
#[derive(Debug)]
pub struct Bound {
    socket: Socket,
    address: SocketAddr,
}

impl Bound {
    /// Takes an address, which may be shared with the daemon before this one on the same node. `[::]`
    /// stands for all addresses of both families; where there is no IPv6, for all of IPv4.
    ///
    /// # Errors
    /// [`ListenError`] if somebody else has the port, or the address is not this node's.
    pub fn new(address: SocketAddr) -> Result<Self, ListenError> {
        let bound = any_family(address, |address| bind(address, Sharing::Ours));
        let socket = bound.map_err(|source| ListenError { address, source })?;
        Ok(Self { socket, address })
    }

    /// The port.
    #[cfg(test)]
    pub(super) fn port(&self) -> u16 {
        let address = self.socket.local_addr().unwrap().as_socket();
        address.unwrap().port()
    }

    /// Begins to listen. Needs a runtime.
    ///
    /// # Errors
    /// [`ListenError`] if the kernel does not let it.
    pub fn listen(self) -> Result<TcpListener, ListenError> {
        let address = self.address;
        listen_on(self.socket).map_err(|source| ListenError { address, source })
    }
}

/// Listens on one address. A daemon that takes the place of another one on the same node listens
/// beside it for a while.
///
/// # Errors
/// If somebody else has the port, or the address is not this node's.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    listen_on(bind(address, Sharing::Ours)?)
}

/// Who has a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PortOwner {
    /// Nobody.
    Nobody,
    /// A process of the same user that shares it: the daemon before this one.
    Ours,
    /// Somebody else.
    Other,
}

/// Finds out who has a port. The kernel lets processes share one only if all of them ask for it, and
/// are of the same user; kube-proxy does not ask.
pub(super) fn occupant(port: u16) -> PortOwner {
    if everywhere(port, Sharing::None).is_ok() {
        PortOwner::Nobody
    } else if everywhere(port, Sharing::Ours).is_ok() {
        PortOwner::Ours
    } else {
        PortOwner::Other
    }
}

/// Listens on a port of all addresses.
pub(super) fn listen_everywhere(port: u16) -> io::Result<TcpListener> {
    listen_on(everywhere(port, Sharing::Ours)?)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    None,
    Ours,
}

fn everywhere(port: u16, sharing: Sharing) -> io::Result<Socket> {
    let all = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
    any_family(all, |address| bind(address, sharing))
}

fn any_family<T>(address: SocketAddr, bind: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    match bind(address) {
        Err(error)
            if error.raw_os_error() == Some(nix::libc::EAFNOSUPPORT)
                && address.ip().is_unspecified() =>
        {
            let all = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
            bind(SocketAddr::new(all, address.port()))
        }
        result => result,
    }
}

fn bind(address: SocketAddr, sharing: Sharing) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(sharing == Sharing::Ours)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn listen_on(socket: Socket) -> io::Result<TcpListener> {
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    fn port_of(listener: &TcpListener) -> u16 {
        listener.local_addr().unwrap().port()
    }

    #[tokio::test]
    async fn taken_port_error_names_remedy() {
        let somebody_else = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = somebody_else.local_addr().unwrap();
        let error = Bound::new(address).unwrap_err().to_string();
        for part in [&*address.to_string(), "--livez-bind-address"] {
            assert!(error.contains(part), "{error}");
        }
    }

    /// In an update of the daemon, the next one waits until it can answer.
    #[tokio::test]
    async fn bound_socket_accepts_nothing() {
        let listener = Bound::new("[::]:0".parse().unwrap())
            .unwrap()
            .listen()
            .unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port_of(&listener)));
        let next = Bound::new(SocketAddr::new(
            Ipv6Addr::UNSPECIFIED.into(),
            address.port(),
        ));
        for _ in 0..50 {
            let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
            client.and(accepted.map(drop)).unwrap();
        }
        drop(listener);
        TcpStream::connect(address).await.unwrap_err();
        let next = next.unwrap().listen().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), next.accept());
        client.and(accepted.map(drop)).unwrap();
    }

    #[tokio::test]
    async fn detects_owner_of_port() {
        let ours = Bound::new("[::]:0".parse().unwrap())
            .unwrap()
            .listen()
            .unwrap();
        let port = port_of(&ours);
        assert_eq!(occupant(port), PortOwner::Ours);
        let beside = listen_everywhere(port).unwrap();
        drop((ours, beside));
        assert_eq!(occupant(port), PortOwner::Nobody);
        for address in ["0.0.0.0:0", "127.0.0.1:0", "[::]:0"] {
            let other = std::net::TcpListener::bind(address).unwrap();
            let port = other.local_addr().unwrap().port();
            assert_eq!(occupant(port), PortOwner::Other, "{address}");
        }
    }
}
