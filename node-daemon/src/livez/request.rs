//! Reads requests: pure, from the bytes that have come.

/// How long a head may be, in bytes.
pub(super) const LONGEST_HEAD: usize = 8192;
/// How many header lines it may have.
const MOST_HEADERS: usize = 64;

/// What has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    /// Not a whole head yet.
    Incomplete,
    /// A head.
    Request(Request<'a>),
    /// Nothing that could be answered.
    Fault(Fault),
}

/// One request, without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request<'a> {
    /// What to do.
    pub(super) method: Method,
    /// Of what is asked for, the path, without a query.
    pub(super) path: &'a str,
    /// Whether it is HTTP/1.0.
    pub(super) is_old: bool,
    /// Whether this is the last one on its connection.
    pub(super) last: bool,
    /// The head's length in bytes.
    pub(super) length: usize,
    /// How many bytes follow that belong to it.
    pub(super) body: Body,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// `GET`.
    Get,
    /// `HEAD`.
    Head,
    /// Something else.
    Other,
}

/// A body. Nobody reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// So many bytes.
    Length(u64),
    /// Its length is not known from the start, or it is not sent yet.
    Unknown,
}

/// Why there is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is no HTTP.
    Malformed,
    /// It is too long, or has too many lines.
    TooLong,
    /// Of HTTP, 1.0 and 1.1 are spoken.
    Version,
}

/// Reads the first request of what has come on a connection.
pub(super) fn parse(bytes: &[u8]) -> Parsed<'_> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let length = match head.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= LONGEST_HEAD => length,
        Ok(httparse::Status::Complete(_)) => return Parsed::Fault(Fault::TooLong),
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST_HEAD => return Parsed::Incomplete,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Parsed::Fault(Fault::TooLong);
        }
        Err(httparse::Error::Version) => return Parsed::Fault(Fault::Version),
        Err(_) => return Parsed::Fault(Fault::Malformed),
    };
    let Some(means) = means(head.headers) else {
        return Parsed::Fault(Fault::Malformed);
    };
    Parsed::Request(Request {
        method: match head.method {
            Some("GET") => Method::Get,
            Some("HEAD") => Method::Head,
            _ => Method::Other,
        },
        path: path_of(head.path.unwrap_or_default()),
        is_old: head.version == Some(0),
        // HTTP/1.0 knows connections that are kept as an extension only.
        last: head.version == Some(0) || means.close,
        length,
        body: means.body,
    })
}

struct ConnectionHeaders {
    close: bool,
    body: Body,
}

/// What header lines mean for the connection. `None` if they contradict each other.
fn means(headers: &[httparse::Header<'_>]) -> Option<ConnectionHeaders> {
    let mut close = false;
    let mut length: Option<u64> = None;
    let mut unknown = false;
    for header in headers {
        let name = header.name;
        if name.eq_ignore_ascii_case("connection") {
            let mut options = header.value.split(|byte| *byte == b',');
            close |= options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"));
        } else if name.eq_ignore_ascii_case("content-length") {
            let value = std::str::from_utf8(header.value).ok()?.trim();
            // `parse` takes a sign.
            let digits = value.bytes().all(|byte| byte.is_ascii_digit());
            let value = value.parse().ok().filter(|_| digits)?;
            if length.replace(value).is_some_and(|before| before != value) {
                return None;
            }
        } else if name.eq_ignore_ascii_case("transfer-encoding")
            || name.eq_ignore_ascii_case("expect")
        {
            unknown = true;
        }
    }
    let body = if unknown {
        Body::Unknown
    } else {
        Body::Length(length.unwrap_or(0))
    };
    Some(ConnectionHeaders { close, body })
}

/// The path of a target, which may be a whole URL.
fn path_of(target: &str) -> &str {
    let from_path = if target.starts_with('/') {
        target
    } else if let Some((_, rest)) = target.split_once("://") {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (_, from_path) = rest.split_at(end);
        if from_path.starts_with('/') {
            from_path
        } else {
            "/"
        }
    } else {
        target
    };
    let end = from_path.find(['?', '#']).unwrap_or(from_path.len());
    from_path.split_at(end).0
}

#[cfg(test)]
mod tests;
