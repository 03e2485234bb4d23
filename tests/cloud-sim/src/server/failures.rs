//! How a request ends that a fault strikes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures::stream;
use http::{HeaderValue, Request, header};
use http_body_util::BodyExt as _;

use super::{Shared, Wire, call};
use crate::faults::{Ending, Injection};
use crate::request::Asked;

/// How long half an answer has to leave before the connection ends.
const HALF_WAY: Duration = Duration::from_millis(20);

/// What clouds answer, unlike what stands between them and their clients.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What comes of a request, and of its connection.
pub(super) async fn fail(
    shared: &Arc<Shared>,
    injection: &Injection,
    wire: &Arc<Wire>,
    asked: &Asked,
    request: Request<Body>,
) -> io::Result<Response> {
    let fault = injection.fault();
    if let Some(hook) = &fault.hook {
        hook();
    }
    tokio::time::sleep(fault.delay).await;
    if let Some(after) = fault.later {
        // The client's going away ends this function, and must not end that.
        let (shared, last) = (shared.clone(), fault.last.clone());
        let executed = tokio::spawn(async move {
            tokio::time::sleep(after).await;
            let answer = call(&shared, request).await;
            if let Some(last) = last {
                last();
            }
            answer
        });
        if matches!(fault.ending, Ending::Answer) {
            return executed.await.map_err(io::Error::other)?;
        }
        injection.is_lifted().await;
        return Err(reset(wire));
    }
    let executed = if fault.executed {
        Some(call(shared, request).await?)
    } else {
        None
    };
    if let Some(last) = &fault.last {
        last();
    }
    let executed = executed.unwrap_or_default();
    let mut answer = match &fault.ending {
        Ending::Answer => executed,
        Ending::Rewritten(rewrite) => {
            let (parts, body) = whole(executed).await?;
            let mut value = serde_json::from_slice(&body)?;
            rewrite(&mut value);
            with_length(parts, value.to_string().into())
        }
        Ending::CutOff => half(executed, None).await?,
        Ending::Torn => half(executed, Some(wire.clone())).await?,
        Ending::Reset => return Err(reset(wire)),
        Ending::Hang => {
            injection.is_lifted().await;
            return Err(reset(wire));
        }
        Ending::Status(status) => (shared.api.error)(*status),
        Ending::Body(status, kind, body) => {
            let mut answer = Response::new(Body::from(body.clone()));
            *answer.status_mut() = *status;
            let kind = HeaderValue::from_static(kind);
            answer.headers_mut().insert(header::CONTENT_TYPE, kind);
            answer
        }
    };
    if let Some(retry_after) = &fault.retry_after {
        let value = HeaderValue::try_from(retry_after.text()).map_err(io::Error::other)?;
        answer.headers_mut().insert(header::RETRY_AFTER, value);
    }
    let is_of_the_cloud = answer.headers().get(header::CONTENT_TYPE) == Some(&JSON);
    if let Some(door) = shared.api.door.as_ref().filter(|_| is_of_the_cloud) {
        door.dress(asked, &mut answer);
    }
    for (name, value) in fault.headers.clone() {
        answer.headers_mut().insert(name, value);
    }
    Ok(answer)
}

fn reset(wire: &Wire) -> io::Error {
    wire.reset();
    io::Error::from(io::ErrorKind::ConnectionReset)
}

async fn whole(answer: Response) -> io::Result<(http::response::Parts, Bytes)> {
    let (parts, body) = answer.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?;
    Ok((parts, body.to_bytes()))
}

fn with_length(mut parts: http::response::Parts, body: Bytes) -> Response {
    let length = HeaderValue::from(body.len());
    parts.headers.insert(header::CONTENT_LENGTH, length);
    Response::from_parts(parts, Body::from(body))
}

/// The first half of an answer under the length of the whole; then the connection ends, by a reset
/// if there is a wire.
async fn half(answer: Response, wire: Option<Arc<Wire>>) -> io::Result<Response> {
    let (parts, body) = whole(answer).await?;
    let length = HeaderValue::from(body.len());
    let first = body.slice(..body.len() / 2);
    let parts_of_body = stream::unfold(Some(first), move |first| {
        let wire = wire.clone();
        async move {
            if let Some(first) = first {
                return Some((Ok(first), None));
            }
            tokio::time::sleep(HALF_WAY).await;
            if let Some(wire) = &wire {
                wire.reset();
            }
            Some((Err(io::Error::from(io::ErrorKind::ConnectionReset)), None))
        }
    });
    let mut answer = Response::from_parts(parts, Body::from_stream(parts_of_body));
    answer.headers_mut().insert(header::CONTENT_LENGTH, length);
    Ok(answer)
}
