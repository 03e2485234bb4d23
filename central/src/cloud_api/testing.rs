//! A cloud for tests: answers each request as it is told, torn answers included.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::registry::Registry;
use reqwest::Url;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::{Connection, Credentials, Environment, Metrics, Proxies, TokenVariables};

/// A request as it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Method and target: `GET /v4/linode/instances?page=1`.
    pub(crate) line: String,
    /// What was sent along, null if nothing was.
    pub(crate) body: serde_json::Value,
    /// The same as it came.
    pub(crate) text: String,
    headers: Vec<(String, String)>,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        let query = self.line.split_once('?')?.1;
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }
}

/// What is answered.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
    cut: usize,
    never: bool,
}

impl Reply {
    #[expect(
        clippy::needless_pass_by_value,
        reason = "reads better where it is called"
    )]
    pub(crate) fn json(body: impl ToString) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type", "application/json".to_owned())],
            body: body.to_string(),
            cut: 0,
            never: false,
        }
    }

    pub(crate) fn html() -> Self {
        Self::typed("text/html", "<html><body>Sign in</body></html>")
    }

    /// A body of this media type.
    pub(crate) fn typed(content_type: &str, body: &str) -> Self {
        let mut reply = Self::json(body);
        reply.headers = vec![("content-type", content_type.to_owned())];
        reply
    }

    pub(crate) fn never() -> Self {
        let mut reply = Self::json("");
        reply.never = true;
        reply
    }

    /// These words, whatever they are.
    pub(crate) fn saying(mut self, words: &str) -> Self {
        words.clone_into(&mut self.body);
        self
    }

    pub(crate) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "reads better where it is called"
    )]
    pub(crate) fn header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    /// The last so many bytes are promised and never come.
    pub(crate) fn cut(mut self, bytes: usize) -> Self {
        self.cut = bytes;
        self
    }
}

/// The cloud.
pub(crate) struct Cloud {
    /// Where it is, with a slash at the end.
    pub(crate) base: Url,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Cloud {
    /// Answers by this function, which is given each request and how many there were before.
    pub(crate) async fn start(
        answer: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (answer, kept) = (Arc::new(answer), Arc::clone(&seen));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, kept) = (Arc::clone(&answer), Arc::clone(&kept));
                tokio::spawn(async move {
                    let decide = move |request: Seen| {
                        let mut kept = kept.lock().unwrap();
                        let reply = answer(&request, kept.len());
                        kept.push(request);
                        reply
                    };
                    let _ = serve(stream, decide).await;
                });
            }
        });
        Self {
            base: base.parse().unwrap(),
            seen,
        }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.line).collect()
    }
}

async fn serve(stream: TcpStream, decide: impl Fn(Seen) -> Reply) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut request = Seen::default();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        match line.trim_end() {
            "" => break,
            line if request.line.is_empty() => {
                line.trim_end_matches(" HTTP/1.1")
                    .clone_into(&mut request.line);
            }
            line => {
                let (name, value) = line.split_once(": ").unwrap();
                request
                    .headers
                    .push((name.to_lowercase(), value.to_owned()));
            }
        }
    }
    let length = request.header("content-length");
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await?;
    request.body = serde_json::from_slice(&body).unwrap_or_default();
    request.text = String::from_utf8_lossy(&body).into_owned();
    let reply = decide(request);
    if reply.never {
        tokio::time::sleep(Duration::from_secs(3600)).await;
    }
    let mut text = format!("HTTP/1.1 {} Said\r\nconnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("content-length: {}\r\n\r\n", reply.body.len()));
    text.push_str(&reply.body);
    let sent = text.len() - reply.cut;
    stream.write_all(&text.as_bytes()[..sent]).await?;
    stream.shutdown().await
}

/// The token that [`credentials`] show.
pub(crate) const TOKEN: &str = "s3cr3t-t0k3n";

/// Credentials from variables, or from a file.
pub(crate) fn credentials(file: Option<&std::path::Path>) -> Credentials {
    let file = file.map(|path| path.to_str().unwrap().to_owned());
    let read = |name: &str| match name {
        "TOKEN" => Some(TOKEN.to_owned()),
        "TOKEN_FILE" => file.clone(),
        _ => None,
    };
    let names = TokenVariables {
        token: "TOKEN",
        file: "TOKEN_FILE",
        default_file: None,
        max_age: Duration::from_secs(3600),
    };
    Credentials::read(&mut Environment::new(&read), names).unwrap()
}

/// A connection to this base.
pub(crate) fn connection(base: &Url) -> Connection {
    Connection {
        base: base.clone(),
        credentials: Arc::new(credentials(None)),
        timeout: Duration::from_secs(10),
        timeout_variable: "TIMEOUT",
        proxies: Proxies::default(),
        authorities: None,
    }
}

/// Metrics that nobody looks at.
pub(crate) fn metrics() -> Metrics {
    Metrics::register(&mut Registry::default())
}
