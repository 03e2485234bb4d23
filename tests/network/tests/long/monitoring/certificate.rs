//! The certificate of central, which somebody renews in time or not.

use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use mooring_test_support::process::Spec;
use mooring_test_support::scratch::Scratch;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};

/// The files of `--tls-cert-file` and `--tls-private-key-file`.
pub(super) struct ServingCertificate {
    scratch: Scratch,
    key: KeyPair,
}

impl ServingCertificate {
    /// One that lasts for so many days.
    pub(super) fn lasting(days: i64) -> Self {
        let certificate = Self {
            scratch: Scratch::new("certificate").unwrap(),
            key: KeyPair::generate().unwrap(),
        };
        std::fs::write(certificate.file("tls.key"), certificate.key.serialize_pem()).unwrap();
        certificate.renew(days);
        certificate
    }

    /// Another one for the same key takes its place.
    pub(super) fn renew(&self, days: i64) {
        let ends = Timestamp::now() + SignedDuration::from_hours(24 * days);
        let ends = ends.to_zoned(jiff::tz::TimeZone::UTC);
        let mut params = CertificateParams::new(["central.test".to_owned()]).unwrap();
        params.not_after = date_time_ymd(
            ends.year().into(),
            ends.month().unsigned_abs(),
            ends.day().unsigned_abs(),
        );
        let made = params.self_signed(&self.key).unwrap();
        std::fs::write(self.file("new"), made.pem()).unwrap();
        std::fs::rename(self.file("new"), self.file("tls.crt")).unwrap();
    }

    /// A central that serves it.
    pub(super) fn with_central(&self, central: Spec) -> Spec {
        let [certificate, key] = ["tls.crt", "tls.key"].map(|name| self.file(name));
        central.args([
            format!("--tls-cert-file={}", certificate.display()),
            format!("--tls-private-key-file={}", key.display()),
        ])
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }
}
