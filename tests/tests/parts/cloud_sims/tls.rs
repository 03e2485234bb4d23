//! Simulations that speak TLS: for the controller of PhoenixNAP, whose endpoints are fixed.

use std::net::Ipv4Addr;
use std::sync::Arc;

use mooring_cloud_sim::Tls;
use mooring_cloud_sim::brightbox::Brightbox;
use mooring_cloud_sim::cloudscale::Cloudscale;
use mooring_cloud_sim::linode::Linode;
use mooring_cloud_sim::phoenixnap::{CLIENT_ID, CLIENT_SECRET, Machine, Phoenixnap, TOKEN_PATH};
use mooring_test_support::program::Program;
use mooring_test_support::scratch::Scratch;
use mooring_test_support::wait::eventually;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::cloud_sims::client::{Answer, talk};

const API: &str = "api.phoenixnap.com";
const AUTH: &str = "auth.phoenixnap.com";
const SOON: std::time::Duration = std::time::Duration::from_secs(10);

/// A client that believes this certificate and no other.
struct Client {
    connector: TlsConnector,
    address: String,
}

impl Client {
    fn new(url: &str, pem: &str) -> Self {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        roots.add(certificate).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            connector: TlsConnector::from(Arc::new(config)),
            address: url.strip_prefix("https://").expect("TLS").to_owned(),
        }
    }

    /// A request to the cloud under this name. `None`: its certificate is not for that name.
    async fn try_ask(
        &self,
        name: &'static str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Answer> {
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let server = ServerName::try_from(name).unwrap();
        let stream = self.connector.connect(server, stream).await.ok()?;
        talk(stream, name, method, path, headers, body).await
    }

    async fn token(&self) -> String {
        let form = format!(
            "grant_type=client_credentials&client_id={CLIENT_ID}&client_secret={CLIENT_SECRET}"
        );
        let length = form.len().to_string();
        let headers = [
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Content-Length", length.as_str()),
        ];
        let granted = self
            .try_ask(AUTH, "POST", TOKEN_PATH, &headers, &form)
            .await;
        let token = &granted.expect("an answer").json()["access_token"];
        token.as_str().expect("a token").to_owned()
    }
}

#[tokio::test]
async fn phoenixnap_is_asked_by_tls_under_its_own_names() {
    let tls = Tls::of([API, AUTH]).unwrap();
    let free = (Ipv4Addr::LOCALHOST, 0).into();
    let cloud = Phoenixnap::start_with(free, Some(tls.clone()))
        .await
        .unwrap();
    cloud.add(Machine::named("n1"));
    assert!(cloud.token_url().starts_with("https://127.0.0.1:"));
    let client = Client::new(&cloud.url(), tls.certificate());
    let bearer = format!("Bearer {}", client.token().await);
    let headers = [("Authorization", bearer.as_str())];
    let servers = "/bmc/v1/servers";
    let listed = client.try_ask(API, "GET", servers, &headers, "").await;
    assert_eq!(listed.expect("an answer").json()[0]["hostname"], "n1");

    let other = client
        .try_ask("api.example.com", "GET", servers, &headers, "")
        .await;
    assert!(other.is_none(), "the certificate is for other names");
    let stranger = Tls::of([API]).unwrap();
    let stranger = Client::new(&cloud.url(), stranger.certificate());
    let unknown = stranger.try_ask(API, "GET", servers, &headers, "").await;
    assert!(unknown.is_none(), "nobody vouches for it");
    assert_eq!(cloud.calls().to(servers).len(), 1);

    cloud.set_down(true);
    let down = client.try_ask(API, "GET", servers, &headers, "").await;
    assert!(down.is_none());
}

#[tokio::test]
async fn every_cloud_can_speak_tls() {
    let tls = Tls::of(["localhost"]).unwrap();
    let free = || (Ipv4Addr::LOCALHOST, 0).into();
    let linode = Linode::start_with(free(), Some(tls.clone())).await.unwrap();
    let cloudscale = Cloudscale::start_with(free(), Some(tls.clone()))
        .await
        .unwrap();
    let brightbox = Brightbox::start_with(free(), Some(tls.clone()))
        .await
        .unwrap();
    for (url, path) in [
        (linode.url(), "/v4/profile"),
        (cloudscale.url(), "/v1/servers"),
        (brightbox.url(), "/1.0/servers"),
    ] {
        let client = Client::new(&url, tls.certificate());
        let refused = client.try_ask("localhost", "GET", path, &[], "").await;
        assert_eq!(refused.expect("an answer").status, 401, "{path}");
    }
}

/// What a controller needs whose endpoints are fixed: names that lead there, and a certificate that it is told of.
#[tokio::test]
async fn the_program_writes_down_its_certificate() {
    let scratch = Scratch::new("cloud-sim").unwrap();
    let file = scratch.join("certificate.pem");
    let flags = ["phoenixnap".to_owned(), format!("--tls={}", file.display())];
    let process = Program::CloudSim.start(scratch.path(), flags).unwrap();
    let url = eventually("it tells its address", SOON, async || {
        let log = process.log();
        let url = log
            .split_once("PNAP_BASE_URL=")?
            .1
            .lines()
            .next()?
            .to_owned();
        log.contains(CLIENT_SECRET).then_some(url)
    })
    .await;
    let client = Client::new(&url, &std::fs::read_to_string(&file).unwrap());
    assert!(!client.token().await.is_empty());
}
