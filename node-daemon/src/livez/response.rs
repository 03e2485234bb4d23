//! Writes answers.

use std::io::Write as _;
use std::time::SystemTime;

use super::plan::{Answer, Status};
use super::request::Fault;

/// A line with which an answer begins, and what else is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Response {
    /// The number, and its meaning.
    pub(super) status: StatusCode,
    /// JSON.
    pub(super) body: String,
    /// Ready endpoints behind it; `None` if it is about no Service.
    pub(super) weight: Option<usize>,
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
            Self::Ok => "HTTP/1.1 200 OK",
            Self::BadRequest => "HTTP/1.1 400 Bad Request",
            Self::NotFound => "HTTP/1.1 404 Not Found",
            Self::MethodNotAllowed => "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD",
            Self::HeadTooLong => "HTTP/1.1 431 Request Header Fields Too Large",
            Self::Unavailable => "HTTP/1.1 503 Service Unavailable",
            Self::VersionNotSupported => "HTTP/1.1 505 HTTP Version Not Supported",
        }
    }
}

impl From<Answer> for Response {
    fn from(answer: Answer) -> Self {
        Self {
            status: match answer.status {
                Status::Healthy => StatusCode::Ok,
                Status::Unhealthy => StatusCode::Unavailable,
                Status::Unknown => StatusCode::NotFound,
            },
            body: answer.body,
            weight: answer.weight,
        }
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
        Self {
            status,
            body: format!("{{\n\t\"reason\": \"{reason}\"\n}}\n"),
            weight: None,
        }
    }

    /// Writes it at the end of `out`: without its body to HEAD, and as the last one on its connection
    /// if it is.
    pub(super) fn write(&self, out: &mut Vec<u8>, head_only: bool, last: bool) {
        let date = httpdate::HttpDate::from(SystemTime::now());
        let line = self.status.line();
        let length = self.body.len();
        // Writing into memory does not fail.
        let _ = write!(
            out,
            "{line}\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n\
             Cache-Control: no-store\r\nDate: {date}\r\nContent-Length: {length}\r\n",
        );
        if let Some(weight) = self.weight {
            // kube-proxy's name for how many endpoints are behind an answer.
            let _ = write!(out, "X-Load-Balancing-Endpoint-Weight: {weight}\r\n");
        }
        if last {
            out.extend_from_slice(b"Connection: close\r\n");
        }
        out.extend_from_slice(b"\r\n");
        if !head_only {
            out.extend_from_slice(self.body.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_its_length_and_to_head_no_body() {
        let response = Response {
            status: StatusCode::Ok,
            body: "{}\n".into(),
            weight: Some(7),
        };
        let write = |head_only, last| {
            let mut out = b"before".to_vec();
            response.write(&mut out, head_only, last);
            String::from_utf8(out).unwrap()
        };
        let whole = write(false, false);
        assert!(whole.starts_with("beforeHTTP/1.1 200 OK\r\n"), "{whole}");
        assert!(whole.ends_with("\r\n\r\n{}\n"), "{whole}");
        for line in ["Content-Length: 3", "X-Load-Balancing-Endpoint-Weight: 7"] {
            assert!(whole.contains(&format!("\r\n{line}\r\n")), "{whole}");
        }
        assert!(!whole.contains("Connection"), "{whole}");
        let head = write(true, true);
        assert!(head.ends_with("\r\nConnection: close\r\n\r\n"), "{head}");
        assert!(head.contains("Content-Length: 3\r\n"), "{head}");
    }

    #[test]
    fn each_status_says_its_number() {
        for status in [
            StatusCode::Ok,
            StatusCode::BadRequest,
            StatusCode::NotFound,
            StatusCode::MethodNotAllowed,
            StatusCode::HeadTooLong,
            StatusCode::Unavailable,
            StatusCode::VersionNotSupported,
        ] {
            let begins = format!("HTTP/1.1 {} ", status.number());
            assert!(status.line().starts_with(&begins), "{status:?}");
        }
    }
}
