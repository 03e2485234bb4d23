//! Asking a metadata service: one request per connection, limited in time and in size.
//!
//! No proxy is used, whatever the environment says: the service is a link-local address. No
//! redirection is followed. The daemon may have 10 MiB, so there is no connection pool either.

use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use http::header::{CONNECTION, HOST, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::errors::{MetadataError, Problem};

/// How long until there is a connection.
const CONNECT: Duration = Duration::from_secs(1);
/// How long, from then on, until the answer is there whole.
const EXCHANGE: Duration = Duration::from_secs(1);
/// The longest body, in bytes.
const LONGEST_BODY: usize = 64 * 1024;
/// The longest head, in bytes.
const LONGEST_HEAD: usize = 16 * 1024;

/// The address at which all clouds have their metadata service.
const USUAL: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

/// Where a metadata service is: an address, a port, and what all paths begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    address: SocketAddr,
    prefix: String,
}

impl Default for Endpoint {
    fn default() -> Self {
        Self {
            address: SocketAddr::new(USUAL, 80),
            prefix: String::new(),
        }
    }
}

/// Why a text is no [`Endpoint`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no address of a metadata service; write it with an IP address, like \
     http://169.254.169.254 or http://[fd00:a9fe:a9fe::1]"
)]
pub struct EndpointError {
    /// What was written.
    pub text: String,
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || EndpointError {
            text: text.to_owned(),
        };
        let uri: Uri = text.parse().map_err(|_| error())?;
        let authority = uri.authority().ok_or_else(error)?;
        if uri.scheme_str() != Some("http")
            || uri.query().is_some()
            || authority.as_str().contains('@')
        {
            return Err(error());
        }
        let (host, rest) = authority.as_str().split_at(authority.host().len());
        let ip = host.trim_matches(['[', ']']).parse().map_err(|_| error())?;
        let port = match rest.strip_prefix(':') {
            None => 80,
            Some(port) => port.parse().map_err(|_| error())?,
        };
        Ok(Self {
            address: SocketAddr::new(ip, port),
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, prefix } = self;
        match (address.ip(), address.port()) {
            (IpAddr::V4(ip), 80) => write!(f, "http://{ip}{prefix}"),
            (IpAddr::V6(ip), 80) => write!(f, "http://[{ip}]{prefix}"),
            _ => write!(f, "http://{address}{prefix}"),
        }
    }
}

/// What a service answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// What was asked.
    pub(super) url: String,
    /// The status: 200, or that of a refusal.
    pub(super) status: StatusCode,
    /// The body; empty unless the status is 200.
    pub(super) body: String,
}

impl Answer {
    /// Whether what was asked for is here.
    pub(super) fn is_found(&self) -> bool {
        self.status == StatusCode::OK
    }

    /// The body.
    ///
    /// # Errors
    /// [`MetadataError::NotServed`] if there is none: then the machine is none of this source's.
    pub(super) fn found(self, source_name: &'static str) -> Result<Self, MetadataError> {
        if self.is_found() {
            return Ok(self);
        }
        Err(MetadataError::NotServed {
            url: self.url,
            status: self.status,
            source_name,
        })
    }
}

impl Endpoint {
    /// What an answer to this path is called in messages.
    pub(super) fn url(&self, path: &str) -> String {
        format!("{self}{path}")
    }

    /// Asks for a path. An answer is either there (200) or a clear refusal: a client error other
    /// than those that ask to come back later.
    ///
    /// # Errors
    /// [`MetadataError::Unanswered`] in all other cases.
    pub(super) async fn get(
        &self,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
    ) -> Result<Answer, MetadataError> {
        self.ask(Method::GET, path, headers).await
    }

    /// [`Self::get`] with another method.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
    ) -> Result<Answer, MetadataError> {
        let url = self.url(path);
        tracing::trace!(url, %method, "asking");
        match self.try_ask(method, path, headers).await {
            Ok((status, body)) => Ok(Answer { url, status, body }),
            Err(problem) => Err(MetadataError::Unanswered { url, problem }),
        }
    }

    async fn try_ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
    ) -> Result<(StatusCode, String), Problem> {
        let request = self.request(method, path, headers)?;
        let stream = timeout(CONNECT, TcpStream::connect(self.address))
            .await
            .map_err(|_| Problem::ConnectTimeout)?
            .map_err(Problem::Connect)?;
        timeout(EXCHANGE, converse(stream, request))
            .await
            .map_err(|_| Problem::TooSlow)?
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
    ) -> Result<Request<Empty<Bytes>>, Problem> {
        // Both are made of what has been read as an endpoint, and of constants.
        let invalid = |_| Problem::Status(StatusCode::BAD_REQUEST);
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header(HOST, self.address.to_string())
            .header(CONNECTION, "close")
            .body(Empty::new())
            .map_err(invalid)?;
        request.headers_mut().extend(headers.iter().cloned());
        Ok(request)
    }
}

async fn converse(
    stream: TcpStream,
    request: Request<Empty<Bytes>>,
) -> Result<(StatusCode, String), Problem> {
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(LONGEST_HEAD)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(Problem::NotHttp)?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(of_head)?;
        let status = response.status();
        match status {
            StatusCode::OK => Ok((status, body(response.into_body()).await?)),
            status if is_refusal(status) => Ok((status, String::new())),
            status if status.is_redirection() => Err(Problem::Redirected(status)),
            status => Err(Problem::Status(status)),
        }
    };
    // What has arrived when the connection ends is still to be read.
    let drive = async {
        if let Err(error) = connection.await {
            tracing::trace!(%error, "connection ended");
        }
        pending::<Infallible>().await
    };
    tokio::select! {
        ended = exchange => ended,
        never = drive => match never {},
    }
}

/// Whether a status says that there is no such thing here, now or later.
fn is_refusal(status: StatusCode) -> bool {
    let later = [
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_EARLY,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    status.is_client_error() && !later.contains(&status)
}

fn of_head(error: hyper::Error) -> Problem {
    if error.is_incomplete_message() || error.is_canceled() {
        Problem::CutOff
    } else {
        Problem::NotHttp(error)
    }
}

/// A body of which the length is known is whole, or an error.
async fn body(body: Incoming) -> Result<String, Problem> {
    let whole = Limited::new(body, LONGEST_BODY)
        .collect()
        .await
        .map_err(|error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => Problem::TooLong,
            None => Problem::CutOff,
        })?;
    String::from_utf8(whole.to_bytes().into()).map_err(|_| Problem::NotText)
}

#[cfg(test)]
mod tests;
