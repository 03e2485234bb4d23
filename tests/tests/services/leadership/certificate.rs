//! The certificate that central serves is the one that is on disk.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::shipped::{Central, CentralFlags};
use mooring_test_cluster::test_namespace::SOON;
use mooring_test_support::scratch::Scratch;
use mooring_test_support::wait::{eventually, never};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::endpoints::reader;

const NAME: &str = "central.test";

type Pair = CertifiedKey<KeyPair>;

fn made() -> Pair {
    generate_simple_self_signed([NAME.to_owned()]).unwrap()
}

/// A Secret as a kubelet mounts it: files that lead to a folder, which is exchanged as a whole.
struct Secret {
    folder: PathBuf,
    version: u32,
}

impl Secret {
    fn new(folder: &Path, pair: &Pair) -> Self {
        let folder = folder.to_owned();
        for file in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(file), folder.join(file)).unwrap();
        }
        let mut secret = Self { folder, version: 0 };
        secret.exchange(&pair.cert.pem(), &pair.signing_key.serialize_pem());
        secret
    }

    fn exchange(&mut self, certificate: &str, key: &str) {
        self.version += 1;
        let version = format!("..version-{}", self.version);
        let new = self.folder.join(&version);
        std::fs::create_dir(&new).unwrap();
        std::fs::write(new.join("tls.crt"), certificate).unwrap();
        std::fs::write(new.join("tls.key"), key).unwrap();
        let link = self.folder.join("..data_tmp");
        symlink(&version, &link).unwrap();
        std::fs::rename(link, self.folder.join("..data")).unwrap();
    }
}

/// Whether a client that trusts this certificate alone can connect.
async fn serves(central: &Central, pair: &Pair) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(pair.cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let Ok(stream) = TcpStream::connect(("127.0.0.1", central.endpoints.port())).await else {
        return false;
    };
    let name = NAME.try_into().unwrap();
    connector.connect(name, stream).await.is_ok()
}

#[tokio::test]
async fn a_certificate_that_changes_on_disk_is_served_and_a_broken_one_is_not() {
    let cluster = Cluster::exclusive().await;
    let scratch = Scratch::new("certificate").unwrap();
    let (first, second, third) = (made(), made(), made());
    let mut secret = Secret::new(scratch.path(), &first);
    let file = |name: &str| scratch.path().join(name).display().to_string();
    let flags = CentralFlags::alone()
        .with(format!("--tls-cert-file={}", file("tls.crt")))
        .with(format!("--tls-private-key-file={}", file("tls.key")));
    let central = cluster.start_central(flags).await;
    eventually("it serves the first", SOON, async || {
        serves(&central, &first).await
    })
    .await;
    secret.exchange(&second.cert.pem(), &second.signing_key.serialize_pem());
    eventually("it serves the second", SOON, async || {
        serves(&central, &second).await
    })
    .await;
    assert!(!serves(&central, &first).await);
    // A key that is another certificate's.
    secret.exchange(&third.cert.pem(), &first.signing_key.serialize_pem());
    never(
        "the certificate that was good is not served",
        SOON,
        async || central.process.log().contains("key and certificate belong"),
        async || (!serves(&central, &second).await).then(|| "a handshake failed".to_owned()),
    )
    .await;
    let scraper = reader(&cluster, true).await;
    eventually("it is counted", SOON, async || {
        let (_, metrics) = central.endpoints.get("/metrics", Some(&scraper)).await?;
        for line in ["reloads_total 1", "reload_failures_total 1"] {
            let line = format!("mooring_serving_certificate_{line}\n");
            anyhow::ensure!(metrics.contains(&line), "{line}{metrics}");
        }
        Ok(())
    })
    .await;
    secret.exchange(&third.cert.pem(), &third.signing_key.serialize_pem());
    eventually("it serves the third", SOON, async || {
        serves(&central, &third).await
    })
    .await;
    cluster.finish().await;
}
