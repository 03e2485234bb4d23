//! Writes answers.

use std::fmt::Write as _;
use std::time::SystemTime;

use super::plan::{Answer, Status};
use super::request::Fault;

/// An answer, ready to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Response {
    /// What it says in short.
    pub(super) status: StatusCode,
    /// All of the head that is the same for each client, from behind the version on.
    head: String,
    /// JSON.
    body: String,
}

/// How a client is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Framing {
    /// In HTTP/1.0.
    pub(super) is_old: bool,
    /// Without the body.
    pub(super) head_only: bool,
    /// For the last time on this connection.
    pub(super) last: bool,
}

/// The statuses that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusCode {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    HeadTooLong,
    Unavailable,
    VersionNotSupported,
}

impl StatusCode {
    /// The number.
    pub(super) const fn number(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::BadRequest => 400,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::HeadTooLong => 431,
            Self::Unavailable => 503,
            Self::VersionNotSupported => 505,
        }
    }

    const fn line(self) -> &'static str {
        match self {
            Self::Ok => " 200 OK",
            Self::BadRequest => " 400 Bad Request",
            Self::NotFound => " 404 Not Found",
            Self::MethodNotAllowed => " 405 Method Not Allowed\r\nAllow: GET, HEAD",
            Self::HeadTooLong => " 431 Request Header Fields Too Large",
            Self::Unavailable => " 503 Service Unavailable",
            Self::VersionNotSupported => " 505 HTTP Version Not Supported",
        }
    }
}

impl From<Status> for StatusCode {
    fn from(status: Status) -> Self {
        match status {
            Status::Healthy => Self::Ok,
            Status::Unhealthy => Self::Unavailable,
            Status::Unknown => Self::NotFound,
        }
    }
}

impl From<Answer> for Response {
    fn from(answer: Answer) -> Self {
        Self::new(answer.status.into(), answer.body, answer.weight)
    }
}

impl From<Fault> for Response {
    fn from(fault: Fault) -> Self {
        let (status, reason) = match fault {
            Fault::Malformed => (StatusCode::BadRequest, "this is no HTTP request"),
            Fault::TooLong => (
                StatusCode::HeadTooLong,
                "a request may have a head of 8 KiB",
            ),
            Fault::Version => (
                StatusCode::VersionNotSupported,
                "HTTP/1.0 and HTTP/1.1 are spoken",
            ),
        };
        Self::refusal(status, reason)
    }
}

impl Response {
    /// The method is not one for asking.
    pub(super) fn method_not_allowed() -> Self {
        Self::refusal(StatusCode::MethodNotAllowed, "ask by GET or HEAD")
    }

    fn refusal(status: StatusCode, reason: &str) -> Self {
        Self::new(
            status,
            format!("{{\n\t\"reason\": \"{reason}\"\n}}\n"),
            None,
        )
    }

    /// A status alone, for those who are told no more.
    pub(super) fn bare(status: Status) -> Self {
        Self::new(status.into(), String::new(), None)
    }

    /// `weight`: ready endpoints behind it; `None` if it is about no Service.
    fn new(status: StatusCode, body: String, weight: Option<usize>) -> Self {
        let date = httpdate::HttpDate::from(SystemTime::now());
        let (line, length) = (status.line(), body.len());
        let mut head = format!(
            "{line}\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n\
             Cache-Control: no-store\r\nDate: {date}\r\nContent-Length: {length}\r\n",
        );
        if let Some(weight) = weight {
            // kube-proxy's name for how many endpoints are behind an answer.
            let _ = write!(head, "X-Load-Balancing-Endpoint-Weight: {weight}\r\n");
        }
        Self { status, head, body }
    }

    /// Writes it at the end of `out`.
    pub(super) fn write(&self, out: &mut Vec<u8>, manner: Framing) {
        out.extend_from_slice(if manner.is_old {
            b"HTTP/1.0"
        } else {
            b"HTTP/1.1"
        });
        out.extend_from_slice(self.head.as_bytes());
        if manner.last {
            out.extend_from_slice(b"Connection: close\r\n");
        }
        out.extend_from_slice(b"\r\n");
        if !manner.head_only {
            out.extend_from_slice(self.body.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_has_length_and_head_no_body() {
        let response = Response::new(StatusCode::Ok, "{}\n".into(), Some(7));
        let write = |manner| {
            let mut out = b"before".to_vec();
            response.write(&mut out, manner);
            String::from_utf8(out).unwrap()
        };
        let whole = write(Framing::default());
        assert!(whole.starts_with("beforeHTTP/1.1 200 OK\r\n"), "{whole}");
        assert!(whole.ends_with("\r\n\r\n{}\n"), "{whole}");
        for line in ["Content-Length: 3", "X-Load-Balancing-Endpoint-Weight: 7"] {
            assert!(whole.contains(&format!("\r\n{line}\r\n")), "{whole}");
        }
        assert!(!whole.contains("Connection"), "{whole}");
        let head = write(Framing {
            is_old: true,
            head_only: true,
            last: true,
        });
        assert!(head.starts_with("beforeHTTP/1.0 200 OK\r\n"), "{head}");
        assert!(head.ends_with("\r\nConnection: close\r\n\r\n"), "{head}");
        assert!(head.contains("Content-Length: 3\r\n"), "{head}");
    }

    #[test]
    fn status_line_has_number() {
        for status in [
            StatusCode::Ok,
            StatusCode::BadRequest,
            StatusCode::NotFound,
            StatusCode::MethodNotAllowed,
            StatusCode::HeadTooLong,
            StatusCode::Unavailable,
            StatusCode::VersionNotSupported,
        ] {
            let begins = format!(" {} ", status.number());
            assert!(status.line().starts_with(&begins), "{status:?}");
        }
    }
}
