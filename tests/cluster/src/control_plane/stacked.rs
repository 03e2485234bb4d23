//! What runs on control-plane nodes that have a member of etcd and an API server each, as kubeadm makes them.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context as _, Result};

use super::certificates::{Authority, Files};
use super::clients::{self, Credentials};
use super::launch::{api_server_spec, choose_tls_provider, etcd_data, etcd_url};
use super::{Options, assets};
use mooring_test_support::process::Spec;
use mooring_test_support::scratch::Scratch;

/// The port of the API servers.
const PORT: u16 = 6443;

/// Where etcd's members hear each other.
const PEER_PORT: u16 = 2380;

/// Several API servers behind one address, with one authority and one etcd.
pub struct StackedNodes {
    address: IpAddr,
    admin: Credentials,
    authority: String,
    files: Files,
    members: Vec<(String, IpAddr)>,
    scratch: Scratch,
}

/// What runs on one of the nodes.
#[derive(Clone, Debug)]
pub struct StackedNode {
    /// Its member of etcd.
    pub etcd: Spec,
    /// Its API server, which asks that member alone.
    pub api_server: Spec,
}

impl StackedNodes {
    /// Makes certificates for these nodes, and for the address that they have in common.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub async fn new(address: IpAddr, members: &[(&str, IpAddr)]) -> Result<Self> {
        tokio::task::spawn_blocking(assets::assets).await??;
        choose_tls_provider();
        let scratch = Scratch::new("stacked")?;
        let authority = Authority::new()?;
        let mut addresses = vec![address, Ipv4Addr::LOCALHOST.into(), [10, 96, 0, 1].into()];
        addresses.extend(members.iter().map(|(_, address)| *address));
        let names = ["localhost", "kubernetes"].map(str::to_owned);
        let server = authority.server(&addresses, &names)?;
        let files = Files::write(scratch.path(), &authority, &server)?;
        let members = members.iter();
        let members = members.map(|(name, address)| ((*name).to_owned(), *address));
        Ok(Self {
            address,
            admin: Credentials::Token(files.admin_token.clone()),
            authority: authority.certificate(),
            files,
            members: members.collect(),
            scratch,
        })
    }

    /// How an administrator asks at the address that the nodes have in common.
    ///
    /// # Errors
    /// If the kubeconfig makes no sense.
    pub async fn admin(&self) -> Result<kube::Config> {
        clients::config(&self.kubeconfig(self.address)?).await
    }

    /// The kubeconfig of an administrator who asks the API server at an address.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn kubeconfig(&self, at: IpAddr) -> Result<String> {
        let server = format!("https://{}", SocketAddr::new(at, PORT));
        clients::kubeconfig(&server, &self.authority, &self.admin)
    }

    /// What runs on the node of this name.
    ///
    /// # Errors
    /// If there is none, or a file cannot be written.
    pub fn node(&self, name: &str) -> Result<StackedNode> {
        let member = self.members.iter().find(|(member, _)| member == name);
        let (_, address) = member.with_context(|| format!("no member {name}"))?;
        let assets = assets::assets()?;
        let folder = self.scratch.join(name);
        fs::create_dir_all(&folder)?;
        let options = Options::default()
            .bind(Ipv4Addr::UNSPECIFIED)
            .api_server_flag(format!("--advertise-address={address}"))
            // As the how-to advises.
            .api_server_flag("--etcd-readycheck-timeout=300ms");
        Ok(StackedNode {
            etcd: self.etcd(assets, &folder, name, *address),
            api_server: api_server_spec(assets, &folder, &self.files, &options, PORT)?,
        })
    }

    fn etcd(&self, assets: &Path, folder: &Path, name: &str, address: IpAddr) -> Spec {
        let peer = |address| format!("http://{}", SocketAddr::new(address, PEER_PORT));
        let cluster = self.members.iter();
        let cluster = cluster.map(|(name, address)| format!("{name}={}", peer(*address)));
        let cluster: Vec<String> = cluster.collect();
        Spec::new("etcd", assets.join("etcd"), folder.join("etcd.log")).args([
            format!("--name={name}"),
            format!("--data-dir={}", etcd_data(folder).display()),
            format!("--listen-client-urls={}", etcd_url(folder)),
            "--advertise-client-urls=http://127.0.0.1:1".to_owned(),
            format!("--listen-peer-urls={}", peer(address)),
            format!("--initial-advertise-peer-urls={}", peer(address)),
            format!("--initial-cluster={}", cluster.join(",")),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ])
    }
}
