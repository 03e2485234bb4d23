//! A plain HTTP request from inside a namespace, on a connection of its own.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// What an HTTP server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Header lines, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as text.
    pub body: String,
    /// From the first packet to the last byte.
    pub took: Duration,
}

impl Answer {
    /// The value of a header; the name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

/// `http://address:port/path`: addresses only, since namespaces have no name service.
pub(super) fn parse(url: &str) -> Result<(SocketAddr, String)> {
    let Some(rest) = url.strip_prefix("http://") else {
        bail!("not an http URL: {url}")
    };
    let (host, path) = rest
        .find('/')
        .map_or((rest, "/"), |slash| rest.split_at(slash));
    let address = if host.ends_with(']') || !host.contains(':') {
        format!("{host}:80")
    } else {
        host.to_owned()
    };
    Ok((
        address
            .parse()
            .with_context(|| format!("the address in {url}"))?,
        path.to_owned(),
    ))
}

/// Asks once. Every stage may take up to `limit`.
///
/// # Errors
/// If there is no whole answer.
pub fn get(url: &str, limit: Duration) -> Result<Answer> {
    let (address, path) = parse(url)?;
    let start = Instant::now();
    let mut stream = TcpStream::connect_timeout(&address, limit)
        .with_context(|| format!("connecting to {address}"))?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    // HTTP/1.0, so that the body is simply what comes until the end.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut bytes = Vec::new();
    stream
        .read_to_end(&mut bytes)
        .with_context(|| format!("reading the answer of {address}"))?;
    let text = String::from_utf8_lossy(&bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        bail!("{address} gave no whole answer")
    };
    let mut lines = head.lines();
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|code| code.parse().ok());
    Ok(Answer {
        status: status.with_context(|| format!("{address} gave no status line"))?,
        headers: lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
            .collect(),
        body: body.to_owned(),
        took: start.elapsed(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_urls_with_addresses() {
        let cases = [
            ("http://10.77.0.11/", "10.77.0.11:80", "/"),
            ("http://10.77.0.11:81", "10.77.0.11:81", "/"),
            ("http://[fd77::11]/a?b", "[fd77::11]:80", "/a?b"),
            ("http://[fd77::11]:8080/", "[fd77::11]:8080", "/"),
        ];
        for (url, address, path) in cases {
            let (parsed, rest) = parse(url).expect(url);
            assert_eq!(
                (parsed.to_string().as_str(), rest.as_str()),
                (address, path)
            );
        }
        parse("http://example.com/").expect_err("namespaces have no name service");
    }
}
