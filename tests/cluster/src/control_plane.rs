//! A real Kubernetes control plane for one test program.
//!
//! ```text
//!   test ──► kube-apiserver ──► etcd          (a socket and a folder of its own, no port)
//!    │            ▲   └──► audit.log ──► ControlPlane::audit()
//!    └── certificates, kubeconfigs, tokens
//!                 ├── kube-controller-manager  (if asked for)
//!                 └── mooring-central, mooring-node, kube-proxy, kubectl
//! ```
//!
//! Everything runs on free ports with its files in a temporary folder, so that test programs may
//! run side by side. The processes and the folder are gone when the [`ControlPlane`] is dropped,
//! and also when the test program panics, is interrupted or is killed. `KEEP=1` keeps the files.
//!
//! The crate `envtest` starts a control plane too, but fixes the audit log, the addresses and
//! the restart of the API server, and needs a Go compiler in every build of the workspace.

mod assets;
mod audit;
mod certificates;
mod clients;
mod launch;
mod options;
mod stacked;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use uuid::Uuid;

pub use assets::{assets, program};
pub use audit::{AuditLog, Record};
pub use certificates::Identity;
pub use clients::client_from;
pub use launch::{choose_tls_provider, free_port};
pub use options::Options;
pub use stacked::{StackedNode, StackedNodes};

use clients::Credentials;
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::scratch::Scratch;
use mooring_test_support::wait::eventually;

/// How long the API server may take to be ready. Far above the usual 4 s: machines get busy.
const READY_LIMIT: Duration = Duration::from_secs(90);

/// A running control plane. Dropping it ends its processes and removes its files.
pub struct ControlPlane {
    // The order matters: servers go first, their folder last.
    controller_manager: Mutex<Option<Process>>,
    api_server: Mutex<Option<Process>>,
    etcd: Mutex<Option<Process>>,
    api_server_spec: Spec,
    etcd_spec: Spec,
    controller_manager_spec: Option<Spec>,
    authority: certificates::Authority,
    url: String,
    admin: kube::Config,
    admin_kubeconfig: PathBuf,
    audit_log: PathBuf,
    ready_after: Duration,
    starts: Mutex<Vec<Span>>,
    scratch: Scratch,
}

/// The data of etcd at some time. Dropping it removes them.
#[derive(Debug)]
pub struct Backup(Scratch);

/// From when to when.
type Span = (Timestamp, Timestamp);

impl fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlPlane")
            .field("url", &self.url)
            .field("folder", &self.scratch.path())
            .finish_non_exhaustive()
    }
}

impl ControlPlane {
    /// Starts a control plane and waits until it is ready, about 4 s.
    ///
    /// The first call on a machine may first have to build the programs, with progress shown.
    pub async fn start(options: Options) -> Result<Self> {
        tokio::task::spawn_blocking(assets).await??;
        launch::launch(&options).await
    }

    /// [`Self::start`] for callers outside of any async runtime.
    pub fn start_blocking(options: Options) -> Result<Self> {
        // A thread of its own, because the caller may be inside a runtime after all.
        let launcher = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(Self::start(options))
        });
        match launcher.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// One control plane for all tests of this test program, with the usual controllers.
    ///
    /// The first test starts it, the end of the program ends it. Tests keep apart by their own
    /// namespaces and object names.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Result<ControlPlane, String>> = OnceLock::new();
        let started = SHARED.get_or_init(|| {
            Self::start_blocking(Options::default().with_controller_manager())
                .map_err(|error| format!("{error:#}"))
        });
        match started {
            Ok(control_plane) => control_plane,
            Err(message) => panic!("the shared control plane did not start: {message}"),
        }
    }

    /// A new client with all rights. Make one per test: a client belongs to the test's runtime.
    pub fn admin(&self) -> kube::Client {
        kube::Client::try_from(self.admin.clone()).expect("the configuration has worked before")
    }

    /// Kubeconfig file of the administrator.
    pub fn admin_kubeconfig(&self) -> &Path {
        &self.admin_kubeconfig
    }

    /// Where the API server listens, for example `https://127.0.0.1:12345`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How long the start took until everything was ready.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// The folder with the logs, certificates and kubeconfigs.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// Path of kubectl.
    pub fn kubectl(&self) -> PathBuf {
        program("kubectl").expect("the programs have been found before")
    }

    /// The processes' ids and names, for tests of the rig itself.
    pub fn processes(&self) -> Vec<(u32, String)> {
        let (etcd, api_server) = (lock(&self.etcd), lock(&self.api_server));
        let controller_manager = lock(&self.controller_manager);
        [
            etcd.as_ref(),
            api_server.as_ref(),
            controller_manager.as_ref(),
        ]
        .into_iter()
        .flatten()
        .map(|process| (process.pid(), process.name().to_owned()))
        .collect()
    }

    // --- identities ---------------------------------------------------------------------------

    /// Kubeconfig file of any user, by a client certificate. For example
    /// `("system:node:n1", Some("system:nodes"))` is the kubelet of n1.
    pub fn kubeconfig_for_user(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        let text = self.kubeconfig(&Credentials::Certificate(
            self.authority.client(user, group)?,
        ))?;
        clients::write(self.scratch.path(), &user.replace([':', '/'], "-"), &text)
    }

    /// A client of any user, see [`Self::kubeconfig_for_user`].
    pub async fn client_for_user(&self, user: &str, group: Option<&str>) -> Result<kube::Client> {
        let text = self.kubeconfig(&Credentials::Certificate(
            self.authority.client(user, group)?,
        ))?;
        Ok(kube::Client::try_from(clients::config(&text).await?)?)
    }

    /// A token of a ServiceAccount. Bound to a Pod `(namespace, name)` where one is given: then
    /// it names the Pod's node, as the token of a DaemonSet's Pod does.
    pub async fn token_for(
        &self,
        namespace: &str,
        name: &str,
        bound_pod: Option<(&str, &str)>,
    ) -> Result<String> {
        clients::token(&self.admin(), namespace, name, bound_pod).await
    }

    /// Kubeconfig file of a ServiceAccount, see [`Self::token_for`].
    pub async fn kubeconfig_for_service_account(
        &self,
        namespace: &str,
        name: &str,
        bound_pod: Option<(&str, &str)>,
    ) -> Result<PathBuf> {
        let text = self.kubeconfig(&Credentials::Token(
            self.token_for(namespace, name, bound_pod).await?,
        ))?;
        let pod = bound_pod
            .map(|(_, pod)| format!("-{pod}"))
            .unwrap_or_default();
        clients::write(
            self.scratch.path(),
            &format!("{namespace}-{name}{pod}"),
            &text,
        )
    }

    /// A client of a ServiceAccount, see [`Self::token_for`].
    pub async fn client_for(
        &self,
        namespace: &str,
        name: &str,
        bound_pod: Option<(&str, &str)>,
    ) -> Result<kube::Client> {
        let text = self.kubeconfig(&Credentials::Token(
            self.token_for(namespace, name, bound_pod).await?,
        ))?;
        Ok(kube::Client::try_from(clients::config(&text).await?)?)
    }

    fn kubeconfig(&self, credentials: &Credentials) -> Result<String> {
        clients::kubeconfig(&self.url, &self.authority.certificate(), credentials)
    }

    // --- the audit log ------------------------------------------------------------------------

    /// What the API server has been asked so far.
    pub fn audit(&self) -> AuditLog {
        self.audit_from(0)
    }

    /// Where the audit log ends now, to be given to [`Self::audit_settled_from`].
    pub fn audit_mark(&self) -> u64 {
        std::fs::metadata(&self.audit_log).map_or(0, |file| file.len())
    }

    fn audit_from(&self, mark: u64) -> AuditLog {
        AuditLog::read(&self.audit_log, mark).expect("the API server's audit log must be readable")
    }

    /// Like [`Self::audit`], but certain to hold all that was answered before this call: the
    /// API server writes an entry just after its answer.
    pub async fn audit_settled(&self) -> AuditLog {
        self.audit_settled_from(0).await
    }

    /// Like [`Self::audit_settled`], without what was before the mark: a log grows long.
    pub async fn audit_settled_from(&self, start: u64) -> AuditLog {
        let mark = format!("/version?mark={}", Uuid::new_v4());
        let client = self.admin();
        eventually(
            "the audit log has caught up",
            READY_LIMIT,
            async || -> Result<AuditLog> {
                let request = http_get(&mark)?;
                client.request_text(request).await?;
                let log = self.audit_from(start);
                if log.iter().all(|record| record.uri != mark) {
                    bail!("the mark is not there yet");
                }
                Ok(log)
            },
        )
        .await
    }

    /// The API server's clock is this machine's: a time to give to [`AuditLog::since`].
    pub fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    // --- outages ------------------------------------------------------------------------------

    /// Ends the API server at once, as a crash would. The data stay.
    pub fn stop_api_server(&self) {
        drop(lock(&self.api_server).take());
    }

    /// Whether the API server has not been stopped.
    pub fn is_up(&self) -> bool {
        lock(&self.api_server).is_some()
    }

    /// Starts the API server again, on the same address with the same data, and waits for it.
    pub async fn start_api_server(&self) -> Result<()> {
        {
            let mut api_server = lock(&self.api_server);
            if api_server.is_none() {
                *api_server = Some(Process::start(&self.api_server_spec)?);
            }
        }
        let start = self.now();
        let client = self.admin();
        launch::wait_until_ready(&client, || Ok(()))
            .await
            .context("the API server did not come back")?;
        lock(&self.starts).push((start, self.now()));
        Ok(())
    }

    /// Whether the API server was just starting again at this time: then it answers already, but
    /// does not know its own roles, and refuses what it permits a moment later.
    pub fn was_starting(&self, at: Timestamp) -> bool {
        let starts = lock(&self.starts);
        starts.iter().any(|(from, to)| *from <= at && at <= *to)
    }

    /// Takes a backup of etcd: its data, copied while neither it nor the API server runs.
    pub async fn back_up(&self) -> Result<Backup> {
        let folder = Scratch::new("backup")?;
        self.with_etcd_stopped(|data| copy_folder(data, &folder.path().join("etcd")))
            .await?;
        Ok(Backup(folder))
    }

    /// Puts the data of a backup back, as an administrator does after a disaster: etcd and the API
    /// server are stopped meanwhile. All that was written since is gone, and versions count from then.
    /// kube-controller-manager does not notice, and is started anew, as Kubernetes' documentation advises.
    pub async fn restore(&self, backup: &Backup) -> Result<()> {
        self.with_etcd_stopped(|data| {
            fs::remove_dir_all(data)?;
            copy_folder(&backup.0.path().join("etcd"), data)
        })
        .await?;
        if let Some(spec) = &self.controller_manager_spec {
            let mut running = lock(&self.controller_manager);
            drop(running.take());
            *running = Some(Process::start(spec)?);
        }
        Ok(())
    }

    async fn with_etcd_stopped(&self, work: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        self.stop_api_server();
        drop(lock(&self.etcd).take());
        work(&launch::etcd_data(self.scratch.path()))?;
        *lock(&self.etcd) = Some(Process::start(&self.etcd_spec)?);
        self.start_api_server().await
    }

    /// Freezes the API server (SIGSTOP): connections stay open and nothing is answered.
    pub fn freeze_api_server(&self) -> Result<()> {
        self.with_api_server(Process::freeze)
    }

    /// Lets a frozen API server go on.
    pub fn thaw_api_server(&self) -> Result<()> {
        self.with_api_server(Process::thaw)
    }

    fn with_api_server(&self, action: impl Fn(&Process) -> Result<()>) -> Result<()> {
        let api_server = lock(&self.api_server);
        api_server
            .as_ref()
            .map_or_else(|| bail!("the API server is stopped"), action)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn http_get(path: &str) -> Result<http::Request<Vec<u8>>> {
    Ok(http::Request::get(path).body(Vec::new())?)
}
