//! Digests: what tells certificates apart without showing them, and names that are made from an ID.

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::cloud_provider::secrets::TlsSecret;

/// A digest of a certificate and its key together.
pub(super) fn digest(secret: &TlsSecret) -> String {
    let digest = Sha256::new()
        .chain_update(&secret.certificate)
        .chain_update([0])
        .chain_update(secret.key.expose())
        .finalize();
    hex(&digest, 32)
}

/// Whether the API shows this certificate: the digest of its first one, in hexadecimal digits with or without
/// colons.
pub(super) fn is_shown(secret: &TlsSecret, fingerprint: &str) -> bool {
    let Ok(der) = CertificateDer::from_pem_slice(secret.certificate.as_bytes()) else {
        return false;
    };
    let shown: String = fingerprint
        .chars()
        .filter(char::is_ascii_hexdigit)
        .collect();
    let shown = shown.to_lowercase();
    shown == hex(&Sha1::digest(&der), 40) || shown == hex(&Sha256::digest(&der), 64)
}

/// The first so many hexadecimal digits.
pub(super) fn hex(digest: &[u8], digits: usize) -> String {
    let all: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    all.chars().take(digits).collect()
}
