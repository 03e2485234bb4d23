//! The control plane's certificate authority, its server certificate, its keys and its tokens.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};
use uuid::Uuid;

/// A private key and its certificate, both as PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key (PKCS 8).
    pub key: String,
}

/// One authority that signs the API server's certificate and everybody's client certificates.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name_of("mooring-test-authority", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Self { issuer })
    }

    /// The authority's certificate as PEM.
    pub(super) fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// A server certificate for these addresses and names.
    pub(super) fn server(&self, addresses: &[IpAddr], names: &[String]) -> Result<Identity> {
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name = name_of("kube-apiserver", None);
        params
            .subject_alt_names
            .extend(addresses.iter().copied().map(SanType::IpAddress));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(&params)
    }

    /// A client certificate: the API server takes the user and the group from it.
    pub(super) fn client(&self, user: &str, group: Option<&str>) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name_of(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&params)
    }

    fn issue(&self, params: &CertificateParams) -> Result<Identity> {
        let key = KeyPair::generate()?;
        let mut params = params.clone();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

fn name_of(user: &str, group: Option<&str>) -> rcgen::DistinguishedName {
    let mut name = rcgen::DistinguishedName::new();
    name.push(DnType::CommonName, user);
    if let Some(group) = group {
        name.push(DnType::OrganizationName, group);
    }
    name
}

/// The administrator, who may do everything.
const ADMIN: &str = "mooring-test-admin";

/// The files that the API server and the controller manager read.
pub(super) struct Files {
    pub(super) authority: PathBuf,
    pub(super) server_certificate: PathBuf,
    pub(super) server_key: PathBuf,
    pub(super) token_private_key: PathBuf,
    pub(super) token_public_key: PathBuf,
    /// Who has which token, as `--token-auth-file` takes it.
    pub(super) tokens: PathBuf,
    /// The administrator's token. A certificate would be verified anew at each request, and most of what the API
    /// servers of the suites are asked is asked by the administrator.
    pub(super) admin_token: String,
}

impl Files {
    pub(super) fn write(folder: &Path, authority: &Authority, server: &Identity) -> Result<Self> {
        let token_key = KeyPair::generate()?;
        let write = |name: &str, content: &str| -> Result<PathBuf> {
            let path = folder.join(name);
            fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
            Ok(path)
        };
        let admin_token = Uuid::new_v4().to_string();
        let tokens = format!("{admin_token},{ADMIN},{ADMIN},system:masters\n");
        Ok(Self {
            authority: write("ca.crt", &authority.certificate())?,
            server_certificate: write("apiserver.crt", &server.certificate)?,
            server_key: write("apiserver.key", &server.key)?,
            token_private_key: write("service-accounts.key", &token_key.serialize_pem())?,
            token_public_key: write("service-accounts.pub", &token_key.public_key_pem())?,
            tokens: write("tokens.csv", &tokens)?,
            admin_token,
        })
    }
}
