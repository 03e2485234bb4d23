use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, proptest};
use proptest::prop_oneof;

use super::*;

fn request<'a>(path: &'a str, head: &str) -> Request<'a> {
    Request {
        method: Method::Get,
        path,
        is_old: false,
        last: false,
        length: head.len(),
        body: Body::Length(0),
    }
}

#[test]
fn reads_every_http_dialect() {
    let table = [
        ("GET /livez HTTP/1.0\r\n\r\n", "/livez", true),
        ("GET /livez HTTP/1.1\r\n\r\n", "/livez", false),
        ("\r\nGET /livez HTTP/1.1\nHost: a\n\n", "/livez", false),
        ("GET /livez?a=/b HTTP/1.1\r\n\r\n", "/livez", false),
        ("GET /livez#a HTTP/1.1\r\n\r\n", "/livez", false),
        ("GET http://a:1/livez?b HTTP/1.1\r\n\r\n", "/livez", false),
        ("GET http://a HTTP/1.1\r\n\r\n", "/", false),
        ("GET http://a?b=/c HTTP/1.1\r\n\r\n", "/", false),
        ("GET * HTTP/1.1\r\n\r\n", "*", false),
        (
            "GET / HTTP/1.1\r\nConnection: Keep-Alive, CLOSE\r\n\r\n",
            "/",
            true,
        ),
        ("GET / HTTP/1.1\r\nconnection: closed\r\n\r\n", "/", false),
        (
            "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            "/",
            true,
        ),
    ];
    for (head, path, last) in table {
        let wanted = Request {
            is_old: head.contains("HTTP/1.0"),
            last,
            ..request(path, head)
        };
        assert_eq!(parse(head.as_bytes()), Parsed::Request(wanted), "{head:?}");
    }
}

#[test]
fn tells_methods_and_bodies_apart() {
    let table = [
        ("HEAD / HTTP/1.1\r\n\r\n", Method::Head, Body::Length(0)),
        (
            "POST / HTTP/1.1\r\nContent-Length: 7\r\n\r\n",
            Method::Other,
            Body::Length(7),
        ),
        ("get / HTTP/1.1\r\n\r\n", Method::Other, Body::Length(0)),
        (
            "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            Method::Get,
            Body::Unknown,
        ),
        (
            "PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
            Method::Other,
            Body::Unknown,
        ),
    ];
    for (head, method, body) in table {
        let wanted = Request {
            method,
            body,
            ..request("/", head)
        };
        assert_eq!(parse(head.as_bytes()), Parsed::Request(wanted), "{head:?}");
    }
}

#[test]
fn rejects_malformed_requests() {
    let many = format!(
        "GET / HTTP/1.1\r\n{}\r\n",
        "A: b\r\n".repeat(MOST_HEADERS + 1)
    );
    let long = format!("GET / HTTP/1.1\r\nA: {}", "b".repeat(LONGEST_HEAD));
    let whole = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(LONGEST_HEAD));
    let table = [
        ("GET / HTTP/2.0\r\n\r\n", Fault::Version),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Fault::Version),
        ("GET /\r\n\r\n", Fault::Malformed),
        ("\x16\x03\x01\x02\x00", Fault::Malformed),
        ("GET / HTTP/1.1\r\nno colon\r\n\r\n", Fault::Malformed),
        (
            "GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
            Fault::Malformed,
        ),
        (
            "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            Fault::Malformed,
        ),
        (&many, Fault::TooLong),
        (&long, Fault::TooLong),
        (&whole, Fault::TooLong),
    ];
    for (head, fault) in table {
        assert_eq!(parse(head.as_bytes()), Parsed::Fault(fault), "{head:?}");
    }
}

/// Heads that are nearly right: what a fuzzer needs to get past the first line.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just("GET"),
        Just("HEAD"),
        Just("POST"),
        Just(" "),
        Just("/"),
        Just("/livez"),
        Just("/services/a/b"),
        Just("http://"),
        Just("HTTP/1.0"),
        Just("HTTP/1.1"),
        Just("HTTP/2.0"),
        Just("\r\n"),
        Just("\n"),
        Just("\r"),
        Just(":"),
        Just("Content-Length"),
        Just("0"),
        Just("-1"),
        Just("18446744073709551616"),
        Just("Connection"),
        Just("close"),
        Just(","),
        Just("\0"),
        Just("Transfer-Encoding"),
        Just("chunked"),
        Just("?"),
        Just("#"),
        Just("é"),
    ];
    prop::collection::vec(word, 0..24).prop_map(|words| words.concat().into_bytes())
}

fn anything() -> impl Strategy<Value = Vec<u8>> {
    let right = "GET /services/a/b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let noise = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4);
    let mutated = noise.prop_map(move |noise| {
        let mut bytes = right.as_bytes().to_vec();
        for (index, byte) in noise {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        bytes
    });
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..400),
        nearly(),
        mutated
    ]
}

proptest! {
    #[test]
    fn any_bytes_are_read_within_bounds(bytes in anything()) {
        if let Parsed::Request(request) = parse(&bytes) {
            prop_assert!(request.length <= bytes.len() && request.length > 0);
            prop_assert!(!request.path.contains(['?', '#', ' ', '\r', '\n']));
        }
    }

    /// Bytes may come in any portions: what is a request or a fault stays it, whatever follows.
    #[test]
    fn later_bytes_change_nothing(bytes in anything(), more in anything()) {
        let before = parse(&bytes);
        let together = [bytes.as_slice(), &more].concat();
        match &before {
            Parsed::Incomplete => {}
            Parsed::Request(_) | Parsed::Fault(_) => prop_assert_eq!(parse(&together), before.clone()),
        }
    }

    #[test]
    fn reads_valid_request_with_any_headers(
        path in "/[a-z/]{0,40}",
        query in "(\\?[a-z=&]{0,20})?",
        old in any::<bool>(),
        lines in prop::collection::vec(("X-[A-Za-z-]{1,12}", "[ -~]{0,40}"), 0..20),
    ) {
        let version = if old { "1.0" } else { "1.1" };
        let lines: String = lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!("GET {path}{query} HTTP/{version}\r\n{lines}\r\n");
        let wanted = Request { is_old: old, last: old, ..request(&path, &head) };
        prop_assert_eq!(parse(head.as_bytes()), Parsed::Request(wanted));
    }
}
