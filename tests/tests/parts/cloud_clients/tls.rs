//! Clouds behind TLS: nothing is said to a server that no authority vouches for.

use std::env;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use mooring_cloud_sim::TOKEN;
use mooring_cloud_sim::cloud::{Cloud, CloudSim, Server};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::{CLOUDS, configured, flags};

const ASKS: &str = "cloud_clients::tls::asks_the_cloud_that_the_environment_names";
const WHICH: &str = "CLOUD_OF_THIS_TEST";

/// What vouches for a server at 127.0.0.1: its own certificate.
struct Vouched {
    pair: CertifiedKey<KeyPair>,
    pem: PathBuf,
}

impl Vouched {
    fn new(folder: &Path, name: &str, server: &str) -> Result<Self> {
        let pair = generate_simple_self_signed([server.to_owned()])?;
        let pem = folder.join(format!("{name}.pem"));
        std::fs::write(&pem, pair.cert.pem())?;
        Ok(Self { pair, pem })
    }

    /// Takes TLS off what goes to a simulated cloud. The address to ask at instead.
    async fn stand_before(&self, cloud: String) -> Result<(String, JoinHandle<()>)> {
        let key = PrivateKeyDer::try_from(self.pair.signing_key.serialize_der())
            .map_err(anyhow::Error::msg)?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![self.pair.cert.der().clone()], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("https://{}", listener.local_addr()?);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, cloud) = (acceptor.clone(), cloud.clone());
                connections.spawn(async move {
                    let mut inside = TcpStream::connect(cloud).await?;
                    let mut outside = acceptor.accept(stream).await?;
                    copy_bidirectional(&mut outside, &mut inside).await
                });
            }
        });
        Ok((url, task))
    }
}

/// A process of its own asks for all machines: where authorities are is a matter of its environment.
async fn ask(sim: &CloudSim, tls: &str, settings: &[(&str, &Path)]) -> Result<String> {
    let inside = plain_address(sim);
    let mut command = Command::new(env::current_exe()?);
    command
        .args(["--exact", "--ignored", "--nocapture", ASKS])
        .env_clear()
        .env(WHICH, format!("{:?}", sim.kind()))
        .stdin(Stdio::null());
    for (name, value) in sim.environment() {
        command.env(name, value.replace(&format!("http://{inside}"), tls));
    }
    for (name, path) in settings {
        command.env(name, path);
    }
    let output = command.output().await?;
    ensure!(output.status.success(), "the test that asks has failed");
    Ok(String::from_utf8(output.stdout)?)
}

fn plain_address(sim: &CloudSim) -> String {
    let environment = sim.environment();
    let url = environment
        .iter()
        .find_map(|(_, value)| value.strip_prefix("http://"));
    let address = url.and_then(|url| url.split('/').next());
    address.unwrap_or_default().to_owned()
}

/// Not a test of its own: [`ask`] starts it.
#[tokio::test]
#[ignore = "started by the other tests, with an environment of its own"]
async fn asks_the_cloud_that_the_environment_names() {
    let env = |name: &str| env::var(name).ok();
    let Some(which) = env(WHICH) else {
        return;
    };
    let mut clouds = CLOUDS.into_iter();
    let cloud = clouds.find(|cloud| format!("{cloud:?}") == which).unwrap();
    match configured(cloud, &env, flags()).list().await {
        Ok(machines) => println!("listed {}", machines.len()),
        Err(error) => println!("refused: {error}"),
    }
}

async fn behind(cloud: Cloud, vouched: &Vouched) -> Result<(CloudSim, String, JoinHandle<()>)> {
    let sim = CloudSim::start(cloud).await;
    sim.add(Server::named("n1").private("192.168.130.4"));
    let (url, front) = vouched
        .stand_before(plain_address(&sim))
        .await
        .context("standing before the cloud")?;
    Ok((sim, url, front))
}

#[tokio::test]
async fn a_cloud_that_an_authority_of_the_system_vouches_for_is_asked() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let vouched = Vouched::new(folder.path(), "known", "127.0.0.1")?;
    for cloud in CLOUDS {
        let (sim, url, _front) = behind(cloud, &vouched).await?;
        let said = ask(&sim, &url, &[("SSL_CERT_FILE", &vouched.pem)]).await?;
        assert!(said.contains("listed 1"), "{cloud:?}: {said}");
    }
    Ok(())
}

#[tokio::test]
async fn nothing_is_said_to_a_server_that_nobody_vouches_for_or_under_another_name() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let known = Vouched::new(folder.path(), "known", "127.0.0.1")?;
    let stranger = Vouched::new(folder.path(), "stranger", "127.0.0.1")?;
    let elsewhere = Vouched::new(folder.path(), "elsewhere", "cloud.example")?;
    for cloud in CLOUDS {
        for (server, trusted) in [(&stranger, &known), (&elsewhere, &elsewhere)] {
            let (sim, url, _front) = behind(cloud, server).await?;
            let said = ask(&sim, &url, &[("SSL_CERT_FILE", &trusted.pem)]).await?;
            assert!(said.contains("refused: "), "{cloud:?}: {said}");
            assert!(said.contains("certificate"), "{cloud:?}: {said}");
            assert!(!said.contains(TOKEN), "{cloud:?}: {said}");
            assert_eq!(sim.calls().len(), 0, "{cloud:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn linode_ca_alone_says_whom_to_trust() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Vouched::new(folder.path(), "server", "127.0.0.1")?;
    let other = Vouched::new(folder.path(), "other", "127.0.0.1")?;
    let (sim, url, _front) = behind(Cloud::Linode, &server).await?;
    for (system, own, listed) in [(&other, &server, true), (&server, &other, false)] {
        let settings: [(&str, &Path); 2] =
            [("SSL_CERT_FILE", &system.pem), ("LINODE_CA", &own.pem)];
        let said = ask(&sim, &url, &settings).await?;
        assert_eq!(said.contains("listed 1"), listed, "{said}");
    }
    Ok(())
}
