//! A metadata service that says what a test wants it to say.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::Endpoint;

/// Answers each request, given its head, with the bytes of an answer. Ends when it is dropped.
pub(super) struct Scripted {
    pub(super) endpoint: Endpoint,
    heads: Arc<Mutex<Vec<String>>>,
    server: JoinHandle<()>,
}

impl Scripted {
    /// `answer` gets the request's head, and the number of requests before it.
    pub(super) async fn start(answer: impl Fn(&str, usize) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let log = heads.clone();
        let server = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    match stream.read_u8().await {
                        Ok(byte) => head.push(byte),
                        Err(_) => break,
                    }
                }
                let head = String::from_utf8(head).unwrap();
                let before = log.lock().unwrap().len();
                let reply = answer(&head, before);
                log.lock().unwrap().push(head);
                let _ = stream.write_all(reply.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        Self {
            endpoint: format!("http://{address}/m1").parse().unwrap(),
            heads,
            server,
        }
    }

    /// The first lines of all requests.
    pub(super) fn asked(&self) -> Vec<String> {
        let first = |head: &String| head.lines().next().unwrap_or_default().to_owned();
        self.heads.lock().unwrap().iter().map(first).collect()
    }

    /// The heads of all requests, in lower case.
    pub(super) fn heads(&self) -> Vec<String> {
        let heads = self.heads.lock().unwrap();
        heads.iter().map(|head| head.to_lowercase()).collect()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// An answer with a body.
pub(super) fn ok(body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// An answer without one.
pub(super) fn status(line: &str) -> String {
    format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n")
}
