//! What the API shows of a certificate: never the certificate itself, nor its key.

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// `id-at-commonName`, as DER writes it.
const COMMON_NAME: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x03];

/// What is shown instead of a certificate and a key.
pub(super) const REDACTED: &str = "<REDACTED>";

/// The common name and the SHA-1 fingerprint of the first certificate in a PEM text.
pub(super) fn read(pem: &str) -> Option<(String, String)> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    let fingerprint = digest(&SHA1_FOR_LEGACY_USE_ONLY, &der);
    let fingerprint: Vec<String> = fingerprint
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect();
    Some((common_name(&der).unwrap_or_default(), fingerprint.join(":")))
}

/// Whether a PEM text has a private key in it.
pub(super) fn is_key(pem: &str) -> bool {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).is_ok()
}

/// The last common name of a certificate: the issuer's comes before the subject's.
fn common_name(der: &[u8]) -> Option<String> {
    let mut windows = der.windows(COMMON_NAME.len());
    let found = windows.rposition(|window| window == COMMON_NAME)?;
    let (length, text) = der[found + COMMON_NAME.len()..].get(1..)?.split_first()?;
    let text = text.get(..usize::from(*length))?;
    Some(String::from_utf8_lossy(text).into_owned())
}
