//! Addresses to which credentials would be sent in clear text.

use std::net::IpAddr;

/// Whether what is sent there leaves this machine without TLS: by `http`, and not to loopback.
#[must_use]
pub fn is_exposed(scheme: &str, host: &str) -> bool {
    scheme.eq_ignore_ascii_case("http") && !is_loopback(host)
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<IpAddr>();
    address.map_or_else(
        |_| host.eq_ignore_ascii_case("localhost"),
        |address| address.to_canonical().is_loopback(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_remote_http_exposes_credentials() {
        for (scheme, host, expected) in [
            ("http", "api.cloud.example", true),
            ("HTTP", "10.0.0.1", true),
            ("http", "[fd00::1]", true),
            ("http", "localhost.example", true),
            ("https", "api.cloud.example", false),
            ("http", "127.0.0.1", false),
            ("http", "[::1]", false),
            ("http", "localhost", false),
        ] {
            assert_eq!(is_exposed(scheme, host), expected, "{scheme}://{host}");
        }
    }
}
