//! One request on one connection, by hand: a real server would not do what the failures need.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::answers::{Reply, Request, answer};
use super::{Asked, Fault, Shared};

/// The longest head of a request, in bytes.
const LONGEST_HEAD: usize = 8192;
/// Between the bytes of a slow answer.
const DRIP: Duration = Duration::from_millis(100);
/// What nobody wants to read, in bytes.
const HUGE: usize = 4 * 1024 * 1024;

pub(super) async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let Some(request) = read(&mut stream, &shared).await else {
        return;
    };
    let (reply, fault) = {
        let mut state = shared.lock();
        let fault = state.fault(&request.path);
        let reply = match fault {
            Some(Fault::Status(status)) => failure(status),
            Some(Fault::Html) => page(),
            _ => answer(&mut state, &request),
        };
        let status = match fault {
            Some(Fault::Hang) => 0,
            Some(Fault::Redirect) => 302,
            _ => reply.status,
        };
        state.asked.push(Asked {
            at: Instant::now(),
            machine: request.machine.clone(),
            method: request.method.clone(),
            path: request.path.clone(),
            status,
        });
        (reply, fault)
    };
    // A client that has gone is no failure of the service.
    let _ = write(&mut stream, &request, &reply, fault).await;
}

async fn read(stream: &mut TcpStream, shared: &Shared) -> Option<Request> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > LONGEST_HEAD || stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let head = String::from_utf8(head).ok()?;
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?, first.next()?);
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let (machine, path) = {
        let state = shared.lock();
        let (key, _) = target
            .strip_prefix('/')?
            .split_once('/')
            .unwrap_or_default();
        if !key.is_empty() && state.machines.contains_key(key) {
            (key.to_owned(), target[key.len() + 1..].to_owned())
        } else {
            (String::new(), target.to_owned())
        }
    };
    Some(Request {
        machine,
        method: method.to_owned(),
        path,
        headers,
    })
}

fn failure(status: u16) -> Reply {
    Reply {
        status,
        kind: "text/plain",
        body: "on purpose".to_owned(),
    }
}

fn page() -> Reply {
    Reply {
        status: 200,
        kind: "text/html",
        body: "<!DOCTYPE html><html><body>Please log in</body></html>".to_owned(),
    }
}

async fn write(
    stream: &mut TcpStream,
    request: &Request,
    reply: &Reply,
    fault: Option<Fault>,
) -> std::io::Result<()> {
    let length = reply.body.len();
    let head = |status: u16, more: &str, length: usize| {
        let kind = reply.kind;
        format!(
            "HTTP/1.1 {status} Status\r\nContent-Type: {kind}\r\n{more}Connection: close\r\n\
             Content-Length: {length}\r\n\r\n"
        )
    };
    let body = reply.body.as_bytes();
    match fault {
        None | Some(Fault::Status(_) | Fault::Html) => {
            let answer = [head(reply.status, "", length).as_bytes(), body].concat();
            stream.write_all(&answer).await?;
        }
        Some(Fault::Hang) => {
            let mut nothing = [0_u8; 1];
            while stream.read(&mut nothing).await? > 0 {}
        }
        Some(Fault::CutOff) => {
            stream
                .write_all(head(reply.status, "", length).as_bytes())
                .await?;
            stream.write_all(&body[..length / 2]).await?;
        }
        Some(Fault::Slow) => {
            stream
                .write_all(head(reply.status, "", length).as_bytes())
                .await?;
            for byte in body {
                stream.write_all(&[*byte]).await?;
                tokio::time::sleep(DRIP).await;
            }
        }
        Some(Fault::Redirect) => {
            let separator = if request.machine.is_empty() { "" } else { "/" };
            let path = &request.path;
            let location = format!("Location: {separator}{}{path}?\r\n", request.machine);
            stream.write_all(head(302, &location, 0).as_bytes()).await?;
        }
        Some(Fault::Huge) => {
            stream.write_all(head(200, "", HUGE).as_bytes()).await?;
            let piece = [b' '; 4096];
            for _ in 0..HUGE / piece.len() {
                stream.write_all(&piece).await?;
            }
        }
    }
    stream.shutdown().await
}
