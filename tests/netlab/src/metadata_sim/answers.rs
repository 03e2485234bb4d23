//! What the services answer when all is well.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::machine::Machine;
use super::{BRIGHTBOX, CLOUDSCALE, CLOUDSCALE_LATEST, State};
use super::{LINODE_INSTANCE, LINODE_NETWORK, LINODE_TOKEN};

/// A request without its machine's part of the path.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) machine: String,
    pub(super) method: String,
    pub(super) path: String,
    /// Names in lower case.
    pub(super) headers: BTreeMap<String, String>,
}

/// Status, content type, body.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) body: String,
}

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

impl Reply {
    fn text(status: u16, body: impl Into<String>) -> Self {
        let body = body.into();
        let kind = TEXT;
        Self { status, kind, body }
    }

    fn json(status: u16, body: &Value) -> Self {
        Self {
            status,
            kind: JSON,
            body: body.to_string(),
        }
    }

    /// As Linode words errors.
    fn error(status: u16, reason: &str) -> Self {
        Self::json(status, &json!({"errors": [{"reason": reason}]}))
    }
}

impl Request {
    fn takes_json(&self) -> bool {
        self.headers
            .get("accept")
            .is_some_and(|kinds| kinds.contains(JSON))
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// Answers a request.
pub(super) fn answer(state: &mut State, request: &Request) -> Reply {
    let Some(machine) = state.machines.get(&request.machine).cloned() else {
        return Reply::text(404, "no such machine");
    };
    match machine {
        Machine::Linode { instance, network } => linode(state, request, &instance, &network),
        Machine::Cloudscale(document) => match request.path.as_str() {
            CLOUDSCALE | CLOUDSCALE_LATEST => only_get(request, || Reply::json(200, &document)),
            _ => Reply::text(404, "404 Not Found"),
        },
        Machine::Brightbox(values) => brightbox(request, &values),
        Machine::Stranger => Reply::text(404, "not found"),
    }
}

fn only_get(request: &Request, reply: impl FnOnce() -> Reply) -> Reply {
    if request.method == "GET" {
        reply()
    } else {
        Reply::error(405, "method not allowed")
    }
}

fn linode(state: &mut State, request: &Request, instance: &Value, network: &Value) -> Reply {
    let document = match request.path.as_str() {
        LINODE_TOKEN => return linode_token(state, request),
        LINODE_INSTANCE => instance,
        LINODE_NETWORK => network,
        _ => return Reply::error(404, "not found"),
    };
    only_get(request, || match request.header("metadata-token") {
        None => Reply::error(401, "Metadata-Token header is missing"),
        Some(token) if !state.is_valid(token, &request.machine) => {
            Reply::error(401, "token is unknown or has expired")
        }
        Some(_) if request.takes_json() => Reply::json(200, document),
        Some(_) => Reply::text(200, as_lines(document)),
    })
}

fn linode_token(state: &mut State, request: &Request) -> Reply {
    if request.method != "PUT" {
        return Reply::error(405, "method not allowed");
    }
    let life = request.header("metadata-token-expiry-seconds");
    let life = life.and_then(|seconds| seconds.parse::<u64>().ok());
    let Some(life) = life.filter(|seconds| (1..=86400).contains(seconds)) else {
        let reason = "Metadata-Token-Expiry-Seconds must be a number from 1 to 86400";
        return Reply::error(400, reason);
    };
    let token = state.make_token(&request.machine, Duration::from_secs(life));
    if request.takes_json() {
        Reply::json(200, &json!([token]))
    } else {
        Reply::text(200, token)
    }
}

/// What a service says to those who do not ask for JSON.
fn as_lines(document: &Value) -> String {
    let mut lines = String::new();
    for (key, value) in document.as_object().into_iter().flatten() {
        let _ = writeln!(lines, "{key}: {value}");
    }
    lines
}

fn brightbox(request: &Request, values: &BTreeMap<String, String>) -> Reply {
    let Some(key) = request.path.strip_prefix(BRIGHTBOX) else {
        return Reply::text(404, "404 - Not Found");
    };
    only_get(request, || match values.get(key) {
        Some(value) => Reply::text(200, value.as_str()),
        None if key.is_empty() => {
            let keys: Vec<_> = values.keys().map(String::as_str).collect();
            Reply::text(200, keys.join("\n"))
        }
        None => Reply::text(404, "404 - Not Found"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(state: &mut State, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        let headers = headers
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let request = Request {
            machine: String::new(),
            method: method.to_owned(),
            path: path.to_owned(),
            headers: headers.collect(),
        };
        answer(state, &request)
    }

    fn serving(machine: Machine) -> State {
        let mut state = State::default();
        state.machines.insert(String::new(), machine);
        state
    }

    #[test]
    fn a_linode_tells_nothing_without_a_token() {
        let mut state = serving(Machine::linode(1, "n1"));
        let life = "metadata-token-expiry-seconds";
        for (method, headers, status) in [
            ("GET", vec![(life, "60")], 405),
            ("PUT", vec![], 400),
            ("PUT", vec![(life, "0")], 400),
            ("PUT", vec![(life, "86401")], 400),
            ("PUT", vec![(life, "soon")], 400),
        ] {
            assert_eq!(
                ask(&mut state, method, LINODE_TOKEN, &headers).status,
                status
            );
        }
        let token = ask(&mut state, "PUT", LINODE_TOKEN, &[(life, "60")]).body;
        let json = ("accept", JSON);
        for (headers, status) in [
            (vec![json], 401),
            (vec![json, ("metadata-token", "guess")], 401),
            (vec![json, ("metadata-token", &token)], 200),
        ] {
            assert_eq!(
                ask(&mut state, "GET", LINODE_INSTANCE, &headers).status,
                status
            );
        }
        let plain = ask(
            &mut state,
            "GET",
            LINODE_INSTANCE,
            &[("metadata-token", &token)],
        );
        assert!(plain.kind == TEXT && plain.body.contains("label: \"n1\"\n"));
        assert_eq!(ask(&mut state, "GET", "/v1/other", &[]).status, 404);
        let held = state.tokens.get_mut(&token).unwrap();
        held.expires = std::time::Instant::now();
        let late = ask(
            &mut state,
            "GET",
            LINODE_INSTANCE,
            &[json, ("metadata-token", &token)],
        );
        assert_eq!(late.status, 401);
    }

    #[test]
    fn the_others_are_read_only() {
        let mut state = serving(Machine::brightbox("srv-12345"));
        let path = "/latest/meta-data/instance-id";
        assert_eq!(ask(&mut state, "GET", path, &[]).body, "srv-12345");
        assert_eq!(ask(&mut state, "PUT", path, &[]).status, 405);
        assert_eq!(ask(&mut state, "PUT", LINODE_TOKEN, &[]).status, 404);
        let mut state = serving(Machine::cloudscale("u", "n"));
        assert!(
            ask(&mut state, "GET", CLOUDSCALE, &[])
                .body
                .contains("cloudscale_uuid")
        );
        assert_eq!(ask(&mut state, "POST", CLOUDSCALE_LATEST, &[]).status, 405);
        assert_eq!(ask(&mut state, "GET", path, &[]).status, 404);
    }
}
