//! Starting the processes of a control plane.

use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::api::Api;
use uuid::Uuid;

use super::certificates::{Authority, Files};
use super::clients::Credentials;
use super::{ControlPlane, Options, READY_LIMIT, assets, audit, clients, http_get};
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::scratch::Scratch;
use mooring_test_support::wait::try_eventually;

/// How often a start is repeated when somebody else has taken the port in the meantime.
const ATTEMPTS: usize = 4;

/// Below the range from which the kernel takes ports for outgoing connections.
const PORTS: std::ops::Range<u16> = 12_000..30_000;

pub(super) async fn launch(options: &Options) -> Result<ControlPlane> {
    choose_tls_provider();
    let mut attempt = 1;
    loop {
        match try_launch(options).await {
            Err(error) if attempt < ATTEMPTS && error.is::<PortTaken>() => attempt += 1,
            result => return result,
        }
    }
}

/// Somebody else was faster to listen on the port that looked free.
#[derive(Debug, thiserror::Error)]
#[error("the port {0} was taken by somebody else")]
struct PortTaken(u16);

async fn try_launch(options: &Options) -> Result<ControlPlane> {
    let started = Instant::now();
    let scratch = Scratch::new("control-plane")?;
    let folder = scratch.path().to_owned();
    let assets = assets::assets()?;

    let authority = Authority::new()?;
    let addresses: Vec<IpAddr> = [
        options.bind,
        Ipv4Addr::LOCALHOST.into(),
        [10, 96, 0, 1].into(),
    ]
    .into();
    let mut names: Vec<String> = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
    ]
    .map(str::to_owned)
    .into();
    names.extend(options.names.iter().cloned());
    let files = Files::write(&folder, &authority, &authority.server(&addresses, &names)?)?;

    let port = free_port(options.bind)?;
    let url = format!("https://{}", SocketAddr::new(options.bind, port));
    let kubeconfig = |credentials: &Credentials, name: &str| -> Result<_> {
        let text = clients::kubeconfig(&url, &authority.certificate(), credentials)?;
        Ok((clients::write(&folder, name, &text)?, text))
    };
    let admin_token = Credentials::Token(files.admin_token.clone());
    let (admin_kubeconfig, admin_text) = kubeconfig(&admin_token, "admin")?;
    let admin = clients::config(&admin_text).await?;

    let etcd_spec = etcd_spec(assets, &folder);
    let etcd = Process::start(&etcd_spec)?;
    let audit_log = folder.join("audit.log");
    let api_server_spec = api_server_spec(assets, &folder, &files, options, port)?;
    let api_server = Process::start(&api_server_spec)?;

    let client = kube::Client::try_from(admin.clone())?;
    let alive = || check_alive(&etcd, &api_server, port);
    wait_until_ready(&client, alive).await?;

    let controller_manager_spec = if options.controllers.is_empty() {
        None
    } else {
        let identity = authority.client("system:kube-controller-manager", None)?;
        let (path, _) = kubeconfig(&Credentials::Certificate(identity), "controller-manager")?;
        Some(controller_manager_spec(
            assets, &folder, &files, options, &path,
        ))
    };
    let controller_manager = match &controller_manager_spec {
        None => None,
        Some(spec) => {
            let process = Process::start(spec)?;
            wait_for_controllers(&client, options, &process).await?;
            Some(process)
        }
    };

    Ok(ControlPlane {
        controller_manager: Mutex::new(controller_manager),
        api_server: Mutex::new(Some(api_server)),
        etcd: Mutex::new(Some(etcd)),
        api_server_spec,
        etcd_spec,
        controller_manager_spec,
        authority,
        url,
        admin,
        admin_kubeconfig,
        audit_log,
        ready_after: started.elapsed(),
        starts: std::sync::Mutex::default(),
        scratch,
    })
}

/// A program of the control plane, without its flags. It collects its garbage less often, at the price of memory: whatever
/// runs here shares few processors.
fn program(name: &str, assets: &Path, folder: &Path) -> Spec {
    let log = folder.join(format!("{name}.log"));
    Spec::new(name, assets.join(name), log).env("GOGC", "400")
}

// etcd needs no port: the API server reaches it through a socket in the folder, and the port for
// other members, of which there are none, is one that the kernel picks.
fn etcd_spec(assets: &Path, folder: &Path) -> Spec {
    let nobody = "http://127.0.0.1:1";
    program("etcd", assets, folder).args([
        format!("--data-dir={}", etcd_data(folder).display()),
        format!("--listen-client-urls={}", etcd_url(folder)),
        format!("--advertise-client-urls={nobody}"),
        "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
        format!("--initial-advertise-peer-urls={nobody}"),
        format!("--initial-cluster=default={nobody}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ])
}

pub(super) fn etcd_data(folder: &Path) -> PathBuf {
    folder.join("etcd")
}

pub(super) fn etcd_url(folder: &Path) -> String {
    format!("unix://{}", folder.join("etcd.sock").display())
}

pub(super) fn api_server_spec(
    assets: &Path,
    folder: &Path,
    files: &Files,
    options: &Options,
    port: u16,
) -> Result<Spec> {
    let policy = folder.join("audit-policy.yaml");
    fs::write(&policy, audit::POLICY).context("writing the audit policy")?;
    let mut args = vec![
        format!("--etcd-servers={}", etcd_url(folder)),
        format!("--bind-address={}", options.bind),
        format!("--advertise-address={}", options.bind),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", files.server_certificate.display()),
        format!("--tls-private-key-file={}", files.server_key.display()),
        format!("--client-ca-file={}", files.authority.display()),
        format!("--token-auth-file={}", files.tokens.display()),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!(
            "--service-account-key-file={}",
            files.token_public_key.display()
        ),
        format!(
            "--service-account-signing-key-file={}",
            files.token_private_key.display()
        ),
        "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", folder.join("audit.log").display()),
        "--profiling=false".to_owned(),
    ];
    if !options
        .controllers
        .iter()
        .any(|name| name == "serviceaccount-controller")
    {
        // Nobody would make the ServiceAccount `default` of a namespace, without which this
        // plugin refuses Pods.
        args.push("--disable-admission-plugins=ServiceAccount".to_owned());
    }
    args.extend(options.api_server_flags.iter().cloned());
    Ok(program("kube-apiserver", assets, folder).args(args))
}

fn controller_manager_spec(
    assets: &Path,
    folder: &Path,
    files: &Files,
    options: &Options,
    kubeconfig: &Path,
) -> Spec {
    program("kube-controller-manager", assets, folder).args([
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--controllers={}", options.controllers.join(",")),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--use-service-account-credentials=true".to_owned(),
        format!(
            "--service-account-private-key-file={}",
            files.token_private_key.display()
        ),
        format!("--root-ca-file={}", files.authority.display()),
        "--profiling=false".to_owned(),
    ])
}

/// Waits for `/readyz` and for the namespaces that the API server makes by itself.
pub(super) async fn wait_until_ready(
    client: &kube::Client,
    alive: impl Fn() -> Result<()>,
) -> Result<()> {
    let outcome = try_eventually(READY_LIMIT, async || {
        if let Err(fault) = alive() {
            return Ok(Err(fault)); // waiting longer is of no use
        }
        client.request_text(http_get("/readyz")?).await?;
        let namespaces = Api::<Namespace>::all(client.clone());
        for name in ["default", "kube-system", "kube-node-lease"] {
            namespaces.get(name).await?;
        }
        anyhow::Ok(Ok(()))
    })
    .await;
    outcome
        .map_err(|reason| anyhow!("the API server was not ready after {READY_LIMIT:?}: {reason}"))?
}

fn check_alive(etcd: &Process, api_server: &Process, port: u16) -> Result<()> {
    for process in [etcd, api_server] {
        if let Some(status) = process.try_wait() {
            if process.log().contains("address already in use") {
                bail!(PortTaken(port));
            }
            bail!(
                "{} ended with {status}; its log ends:\n{}",
                process.name(),
                process.log_tail()
            );
        }
    }
    Ok(())
}

async fn wait_for_controllers(
    client: &kube::Client,
    options: &Options,
    process: &Process,
) -> Result<()> {
    let runs = |name: &str| {
        options
            .controllers
            .iter()
            .any(|controller| controller == name)
    };
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "default");
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), "default");
    let outcome = try_eventually(READY_LIMIT, async || {
        if let Some(status) = process.try_wait() {
            let tail = process.log_tail();
            return Ok(Err(anyhow!(
                "{} ended with {status}; its log ends:\n{tail}",
                process.name()
            )));
        }
        if runs("serviceaccount-controller") {
            accounts.get("default").await?;
        }
        if runs("root-ca-certificate-publisher-controller") {
            config_maps.get("kube-root-ca.crt").await?;
        }
        Ok::<_, kube::Error>(Ok(()))
    })
    .await;
    outcome.map_err(|reason| {
        anyhow!("the controllers were not at work after {READY_LIMIT:?}: {reason}")
    })?
}

/// Chooses what TLS is made by in this program: kube picks the one provider that is compiled in, but only if the choice
/// is not open.
pub fn choose_tls_provider() {
    // It may have been chosen before.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A port that nobody uses now and that this program has not handed out before.
pub fn free_port(address: IpAddr) -> Result<u16> {
    static HANDED_OUT: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    let mut guard = HANDED_OUT
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let handed_out = guard.get_or_insert_with(HashSet::new);
    for _ in 0..200 {
        let random = Uuid::new_v4().as_u128() % u128::from(PORTS.end - PORTS.start);
        let port = PORTS.start + u16::try_from(random)?;
        if !handed_out.contains(&port) && TcpListener::bind((address, port)).is_ok() {
            handed_out.insert(port);
            return Ok(port);
        }
    }
    bail!("no free port found on {address}")
}
