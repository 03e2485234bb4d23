//! The parts of a Kubernetes node that run in a host.

use std::time::Duration;

use anyhow::{Result, bail};

use super::host::Host;
use super::{Netlab, packages};
use mooring_test_cluster::control_plane::{ControlPlane, Options, program};
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::wait::try_eventually;

/// How long kube-proxy may take until it has programmed its rules for the first time.
const PROXY_LIMIT: Duration = Duration::from_secs(30);

impl Netlab {
    /// Starts a control plane that all hosts of the lab can reach, with the usual controllers.
    pub async fn control_plane(&self) -> Result<ControlPlane> {
        ControlPlane::start(
            Options::default()
                .bind(Self::GATEWAY_V4)
                .with_controller_manager(),
        )
        .await
    }
}

/// How kube-proxy programs the kernel.
#[derive(Clone, Copy, Debug)]
pub enum ProxyMode {
    /// `--proxy-mode=iptables`, its default.
    Iptables,
    /// `--proxy-mode=nftables`.
    Nftables,
}

impl Host {
    /// [`Self::kube_proxy_in`] nftables mode.
    pub async fn kube_proxy(&self, control_plane: &ControlPlane) -> Result<Process> {
        self.kube_proxy_in(ProxyMode::Nftables, control_plane).await
    }

    /// Starts kube-proxy and waits until it has programmed its rules.
    ///
    /// The Node object of the host's name must already have its InternalIP: without it kube-proxy
    /// would wait for half a minute and then take the loopback address for its own.
    pub async fn kube_proxy_in(
        &self,
        mode: ProxyMode,
        control_plane: &ControlPlane,
    ) -> Result<Process> {
        let mode = match mode {
            ProxyMode::Iptables => "iptables",
            ProxyMode::Nftables => "nftables",
        };
        let kubeconfig = control_plane.kubeconfig_for_user("system:kube-proxy", None)?;
        let spec = Spec::new(
            format!("kube-proxy on {}", self.name()),
            program("kube-proxy")?,
            self.log_path("kube-proxy"),
        )
        .args([
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--hostname-override={}", self.name()),
            format!("--proxy-mode={mode}"),
            // These settings belong to the host of the whole lab.
            "--conntrack-max-per-core=0".to_owned(),
            "--conntrack-tcp-timeout-established=0".to_owned(),
            "--conntrack-tcp-timeout-close-wait=0".to_owned(),
        ])
        .env("PATH", packages::search_path().to_string_lossy());
        let process = self.start(spec)?;
        let outcome = try_eventually(PROXY_LIMIT, async || {
            if let Some(status) = process.try_wait() {
                return Ok(Err(status));
            }
            let answer = self.get("http://127.0.0.1:10256/healthz").await?;
            if answer.status != 200 {
                bail!("it is not ready: {}", answer.body);
            }
            Ok(Ok(()))
        })
        .await;
        match outcome {
            Ok(Ok(())) => Ok(process),
            Ok(Err(status)) => bail!(
                "{} ended with {status}:\n{}",
                process.name(),
                process.log_tail()
            ),
            Err(reason) => bail!(
                "{} is not ready: {reason}\n{}",
                process.name(),
                process.log_tail()
            ),
        }
    }
}
