//! `mooring-node control-plane` on a node, beside what stands in for its API server.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use mooring_test_netlab::netlab::Host;
use mooring_test_support::process::Process;
use mooring_test_support::program::Program;
use mooring_test_support::scratch::Scratch;
use mooring_test_support::wait::eventually;

use super::PAGED;

/// Where its metrics are, at the node's own address.
pub(super) const PORT: u16 = 10_272;

/// The programs of a control plane of one node.
pub(super) struct ControlPlaneNode {
    scratch: Scratch,
    announcer: Option<Process>,
    api_server: Option<Process>,
}

impl ControlPlaneNode {
    /// They run, and the API server is ready.
    pub(super) async fn start(host: &Host) -> Self {
        let mut node = Self {
            scratch: Scratch::new("control-plane").unwrap(),
            announcer: None,
            api_server: None,
        };
        let unready = format!("--unready-while={}", node.unready().display());
        let api_server = ["serve-readyz".to_owned(), unready];
        node.api_server = Some(node.run(host, Program::NetlabTool, api_server));
        let key = node.path("key");
        let mut options = std::fs::File::options();
        let options = options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(&key).unwrap();
        std::io::Write::write_all(&mut file, "5a".repeat(32).as_bytes()).unwrap();
        let (name, own) = (host.name(), host.ipv4());
        let text = format!(
            "version: 1\nrevision: 1\naddresses: [10.77.0.150]\ninterface: eth0\n\
             members: [{{name: {name}, address: {own}}}]\nkeyFile: {}\n",
            key.display()
        );
        std::fs::write(node.path("control-plane.yaml"), text).unwrap();
        let announcer = [
            "control-plane".to_owned(),
            format!("--node-name={name}"),
            format!("--file={}", node.path("control-plane.yaml").display()),
            format!("--state-dir={}", node.path("state").display()),
            format!("--status-dir={}", node.path("run").display()),
            format!("--metrics-bind-address={own}:{PORT}"),
        ];
        node.announcer = Some(node.run(host, Program::Node, announcer));
        let url = format!("http://{own}:{PORT}/metrics");
        eventually("the API server is ready", PAGED, async || {
            let answer = host.get(&url).await?;
            let is_ready = answer.body.contains("mooring_control_plane_ready{} 1\n");
            anyhow::ensure!(is_ready, "{}", answer.body);
            anyhow::Ok(())
        })
        .await;
        node
    }

    /// The API server says from now on that it is ready, or not.
    pub(super) fn is_ready(&self, is_ready: bool) {
        if is_ready {
            std::fs::remove_file(self.unready()).unwrap();
        } else {
            std::fs::write(self.unready(), "").unwrap();
        }
    }

    fn run(
        &self,
        host: &Host,
        program: Program,
        args: impl IntoIterator<Item = String>,
    ) -> Process {
        host.start(program.spec(self.scratch.path(), args).unwrap())
            .unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn unready(&self) -> PathBuf {
        self.path("unready")
    }
}
