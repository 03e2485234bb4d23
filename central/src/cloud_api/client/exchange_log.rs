//! Requests and answers, logged with their bodies for whoever asks for that.

use reqwest::header::HeaderMap;
use reqwest::{StatusCode, Url};
use serde_json::Value;

use super::Request;
use crate::cloud_api::CloudError;
use crate::cloud_api::credentials::LONGEST_SHOWN;

/// What the names of secrets have in them: `ssl_key`, `root_pass`.
const SECRET: [&str; 4] = ["key", "pass", "secret", "token"];

/// Logs one request and its answer, whose body has no token in it any more. Headers are told only where
/// they say something: never the one with the token.
pub(super) fn log(
    provider: &str,
    url: &Url,
    request: &Request,
    status: StatusCode,
    headers: &HeaderMap,
    body: &Result<Vec<u8>, CloudError>,
) {
    let asked: Vec<String> = request
        .header_lines()
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let told: Vec<String> = headers
        .iter()
        .filter(|(name, _)| name.as_str() != "set-cookie")
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    tracing::info!(
        provider,
        method = %request.method(),
        %url,
        request_headers = asked.join("; "),
        request = request.body().map(|body| shown(body.to_string().as_bytes())),
        status = status.as_u16(),
        answer_headers = told.join("; "),
        answer = body.as_deref().map_or_else(ToString::to_string, shown),
        "an exchange with a cloud"
    );
}

/// A body without the secrets in it, and without what is too long to be read.
fn shown(body: &[u8]) -> String {
    if body.len() > LONGEST_SHOWN {
        return format!("{} bytes", body.len());
    }
    match serde_json::from_slice::<Value>(body) {
        Ok(mut value) => {
            conceal(&mut value);
            value.to_string()
        }
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    }
}

fn conceal(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let name = name.to_lowercase();
                if SECRET.iter().any(|secret| name.contains(secret)) && !member.is_null() {
                    *member = "***".into();
                } else {
                    conceal(member);
                }
            }
        }
        Value::Array(members) => members.iter_mut().for_each(conceal),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let body = br#"{"configs":[{"port":443,"ssl_cert":"c","ssl_key":"private","Token":"t"}]}"#;
        assert_eq!(
            shown(body),
            r#"{"configs":[{"Token":"***","port":443,"ssl_cert":"c","ssl_key":"***"}]}"#
        );
        assert_eq!(shown(b"<html>"), "<html>");
        assert_eq!(shown(&[b'x'; LONGEST_SHOWN + 1]), "65537 bytes");
    }
}
