//! What tells certificates apart without showing them.

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use super::TlsSecret;
use crate::cloud_provider::digest::hex;

impl TlsSecret {
    /// A digest of the certificate and its key together.
    #[must_use]
    pub fn digest(&self) -> String {
        let digest = Sha256::new()
            .chain_update(&self.certificate)
            .chain_update([0])
            .chain_update(self.key.expose())
            .finalize();
        hex(&digest, 32)
    }

    /// Whether an API shows this certificate: the digest of its first one, in hexadecimal digits with or without
    /// colons.
    #[must_use]
    pub fn is_shown_as(&self, fingerprint: &str) -> bool {
        let Ok(der) = CertificateDer::from_pem_slice(self.certificate.as_bytes()) else {
            return false;
        };
        let shown = fingerprint.chars().filter(char::is_ascii_hexdigit);
        let shown = shown.collect::<String>().to_lowercase();
        shown == hex(&Sha1::digest(&der), 40) || shown == hex(&Sha256::digest(&der), 64)
    }
}
