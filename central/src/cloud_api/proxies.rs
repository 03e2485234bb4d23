//! The proxies that the environment names.

use std::fmt;

use reqwest::{ClientBuilder, NoProxy, Proxy, Url};

use super::Environment;

/// `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, in capitals or not, as Go programs read them. Their
/// credentials are never shown.
#[derive(Clone, Default)]
pub struct Proxies {
    https: Option<Url>,
    http: Option<Url>,
    except: Option<String>,
}

impl Proxies {
    /// Reads the variables.
    pub fn read(environment: &mut Environment<'_>) -> Self {
        // A program that serves a CGI request cannot trust HTTP_PROXY: the request can set it.
        let is_cgi = environment.text("REQUEST_METHOD").is_some();
        Self {
            https: read(environment, ["HTTPS_PROXY", "https_proxy"]),
            http: if is_cgi {
                None
            } else {
                read(environment, ["HTTP_PROXY", "http_proxy"])
            },
            except: environment
                .text("NO_PROXY")
                .or_else(|| environment.text("no_proxy")),
        }
    }

    /// Has a client use them. What runs on this machine is reached directly.
    pub(super) fn apply(
        &self,
        builder: ClientBuilder,
        base: &Url,
    ) -> reqwest::Result<ClientBuilder> {
        let mut builder = builder.no_proxy();
        if is_loopback(base) {
            return Ok(builder);
        }
        let except = || self.except.as_deref().and_then(NoProxy::from_string);
        if let Some(url) = &self.https {
            builder = builder.proxy(Proxy::https(url.clone())?.no_proxy(except()));
        }
        if let Some(url) = &self.http {
            builder = builder.proxy(Proxy::http(url.clone())?.no_proxy(except()));
        }
        Ok(builder)
    }
}

fn read(environment: &mut Environment<'_>, variables: [&'static str; 2]) -> Option<Url> {
    let (variable, text) = variables
        .into_iter()
        .find_map(|variable| Some((variable, environment.text(variable)?)))?;
    let with_scheme = if text.contains("://") {
        text
    } else {
        format!("http://{text}")
    };
    let url = Url::parse(&with_scheme)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some());
    if url.is_none() {
        environment.fault(
            variable,
            None,
            "is no proxy that can be used; write it like http://proxy.example:3128",
        );
    }
    url
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = |url: &Option<Url>| url.as_ref().and_then(Url::host_str).map(ToOwned::to_owned);
        f.debug_struct("Proxies")
            .field("https", &host(&self.https))
            .field("http", &host(&self.http))
            .field("except", &self.except)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(set: &'static [(&str, &str)]) -> Result<Proxies, Vec<super::super::Fault>> {
        let read = |name: &str| {
            let found = set.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let mut environment = Environment::new(&read);
        let proxies = Proxies::read(&mut environment);
        environment.finish().map(|_| proxies)
    }

    #[test]
    fn reads_proxies_like_go_and_hides_passwords() {
        let read = proxies(&[
            ("https_proxy", "http://mallory:hunter2@proxy.example:3128"),
            ("HTTP_PROXY", "other.example"),
            ("NO_PROXY", "10.0.0.0/8,.cluster.local"),
        ]);
        let shown = format!("{:?}", read.unwrap());
        assert!(
            shown.contains("proxy.example") && shown.contains("other.example"),
            "{shown}"
        );
        assert!(
            !shown.contains("hunter2") && !shown.contains("mallory"),
            "{shown}"
        );
    }

    #[test]
    fn invalid_proxy_fault_hides_value() {
        let faults = proxies(&[("HTTPS_PROXY", "socks5://me:hunter2@proxy.example")]).unwrap_err();
        assert_eq!(faults.len(), 1);
        assert!(!faults[0].to_string().contains("hunter2"));
    }

    #[test]
    fn cgi_request_cannot_choose_proxy() {
        let read = proxies(&[("HTTP_PROXY", "evil.example"), ("REQUEST_METHOD", "GET")]);
        assert!(read.unwrap().http.is_none());
    }

    #[test]
    fn reaches_loopback_directly() {
        for (base, is) in [
            ("http://localhost:1/", true),
            ("http://127.0.0.1:1/", true),
            ("http://[::1]:1/", true),
            ("http://192.0.2.1/", false),
        ] {
            assert_eq!(is_loopback(&base.parse().unwrap()), is, "{base}");
        }
    }
}
