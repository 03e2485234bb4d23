//! What the API shows of a certificate: never the certificate itself, nor its key.

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ring::rsa::KeyPair as RsaKeyPair;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
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

/// Whether the first certificate in a PEM text is for this private key. A key of a kind that is not
/// known here is taken for the right one.
pub(super) fn is_pair(certificate: &str, key: &str) -> bool {
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
    let (Ok(certificate), Ok(key)) = (certificate, key) else {
        return false;
    };
    public_key(&key).is_none_or(|public| {
        let mut windows = certificate.windows(public.len());
        windows.any(|window| window == public)
    })
}

/// The public half of a private key, as it is in its certificate.
fn public_key(key: &PrivateKeyDer<'_>) -> Option<Vec<u8>> {
    let der = key.secret_der();
    let rsa = match key {
        PrivateKeyDer::Pkcs1(_) => RsaKeyPair::from_der(der),
        _ => RsaKeyPair::from_pkcs8(der),
    };
    if let Ok(rsa) = rsa {
        return Some(rsa.public().as_ref().to_vec());
    }
    if let Ok(edwards) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
        return Some(edwards.public_key().as_ref().to_vec());
    }
    // A key on a curve ends with its public half: a point without compression.
    let points = [65, 97, 133].into_iter();
    let mut points = points.filter_map(|length| der.get(der.len().checked_sub(length)?..));
    let point = points.find(|point| point[0] == 4 && is_preceded(der, point.len()));
    point.map(<[u8]>::to_vec)
}

/// Whether the last bytes of a text in DER are a bit string of this length.
fn is_preceded(der: &[u8], length: usize) -> bool {
    let Ok(length) = u8::try_from(length + 1) else {
        return false;
    };
    let head: &[u8] = if length < 128 {
        &[0x03, length, 0]
    } else {
        &[0x03, 0x81, length, 0]
    };
    let before = &der[..der.len() - usize::from(length) + 1];
    before.ends_with(head)
}

/// The last common name of a certificate: the issuer's comes before the subject's.
fn common_name(der: &[u8]) -> Option<String> {
    let mut windows = der.windows(COMMON_NAME.len());
    let found = windows.rposition(|window| window == COMMON_NAME)?;
    let (length, text) = der[found + COMMON_NAME.len()..].get(1..)?.split_first()?;
    let text = text.get(..usize::from(*length))?;
    Some(String::from_utf8_lossy(text).into_owned())
}
