//! What tells a kubelet that its machine is to shut down: a real D-Bus, and Debian's mock of logind, which keeps a
//! list of those who delay that.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use mooring_test_support::wait::try_eventually;

use super::Machine;

/// How long a kubelet may take to end all Pods.
const END_LIMIT: Duration = Duration::from_secs(60);

/// For how long logind would wait, in microseconds. The mock does not know it from the start.
const DELAY: &str = "dbus-send --system --print-reply --dest=org.freedesktop.login1 /org/freedesktop/login1 \
    org.freedesktop.DBus.Mock.AddProperty string:org.freedesktop.login1.Manager \
    string:InhibitDelayMaxUSec variant:uint64:60000000";

const PREPARE: &str = "dbus-send --system --type=signal /org/freedesktop/login1 \
    org.freedesktop.login1.Manager.PrepareForShutdown boolean:true";

const INHIBITORS: &str = "dbus-send --system --print-reply --dest=org.freedesktop.login1 \
    /org/freedesktop/login1 org.freedesktop.login1.Manager.ListInhibitors";

impl Machine {
    /// Starts both. A kubelet that starts afterwards delays shutdowns.
    pub(super) async fn start_logind(&mut self) -> Result<()> {
        self.run("mkdir -p /run/dbus").await?;
        let flags = ["--config-file=/etc/dbus.conf", "--nofork", "--nopidfile"].map(str::to_owned);
        self.start("dbus-daemon", PathBuf::from("dbus-daemon"), &flags)?;
        self.until("D-Bus answers", "test -S /run/dbus/system_bus_socket")
            .await?;
        let flags = ["-m", "dbusmock", "--system", "--template", "logind"].map(str::to_owned);
        self.start("logind", PathBuf::from("/usr/bin/python3"), &flags)?;
        self.until("logind answers", DELAY).await
    }

    /// Shuts it down in order: the kubelet ends all Pods, and is waited for. Then it is off.
    pub(in super::super) async fn shut_down(&mut self) -> Result<()> {
        let delays = async || {
            self.run(INHIBITORS)
                .await
                .map(|list| list.contains("kubelet"))
        };
        ensure!(
            delays().await?,
            "the kubelet of {} delays no shutdown",
            self.name()
        );
        self.run(PREPARE).await?;
        let ended = try_eventually(END_LIMIT, async || {
            ensure!(!delays().await?, "it still delays the shutdown");
            anyhow::Ok(())
        });
        ended
            .await
            .map_err(|reason| anyhow!("the kubelet of {}: {reason}", self.name()))?;
        self.switch_off()
    }
}
