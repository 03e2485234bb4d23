//! Puts `mooring-node control-plane` together.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use mooring_common::control_plane::{ControlPlaneFile, Role};
use mooring_common::k8s::of_this_machine;
use mooring_common::metrics::register_program;
use mooring_common::program::{self, Threads};
use mooring_common::shutdown;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{failure_of, start_metrics};
use crate::announce::control_plane::fitness::{Readiness, Urgency};
use crate::announce::control_plane::flags::{Flags, TABLE};
use crate::announce::control_plane::memory::Memory;
use crate::announce::control_plane::supervisor::Supervisor;
use crate::announce::control_plane::{Metrics, file, published, readyz};
use crate::responder;
use crate::wire::keys::{self, KeyRing};
use crate::wire::links;

/// The whole program, from what stands behind `control-plane` to the exit code: 0 after SIGTERM, 1 after a failure,
/// 2 for a command line that cannot be read.
pub(super) fn main(arguments: Vec<String>) -> ExitCode {
    let logging = |flags: &Flags| (flags.verbosity, flags.log_format);
    program::main(&TABLE, arguments, Flags::read, logging, Threads::One, run)
}

async fn run(flags: Flags) -> anyhow::Result<()> {
    let stop = shutdown::on_signal().context("cannot listen to signals")?;
    let read = file::read(&flags.file)?;
    let secrets = Arc::new(ArcSwap::from_pointee(
        KeyRing::read(&read.key_file).context("keyFile of the control plane file")?,
    ));
    let memory = Memory::new(&flags.state_dir, &read.segment());
    let remembered = memory.read()?;
    let (key_file, role) = (read.key_file.clone(), read.role_of(&flags.node_name));
    if role == Role::Stranger {
        tracing::warn!(
            node = flags.node_name,
            "the control plane file does not name this node, which takes no part; add it to members"
        );
    }
    let (readiness_sender, readiness) = watch::channel(Readiness::default());
    let (urgency_sender, urgency) = watch::channel(Urgency::default());
    let (file_sender, file) = watch::channel(Arc::new(read));
    let node = flags.node_name.clone();
    let probe = follow_readyz(node, file.clone(), readiness_sender, urgency)?;
    let (fault_sender, file_fault) = watch::channel(None);
    let (state_sender, states) = watch::channel(None);
    let (links_sender, links) = watch::channel(Arc::default());
    let mut registry = Registry::default();
    register_program(&mut registry, "mooring-node");
    let supervisor = Supervisor {
        node_name: flags.node_name,
        file,
        file_fault,
        memory,
        remembered,
        links,
        readiness,
        urgency: urgency_sender,
        secrets: Arc::clone(&secrets),
        proc_sys_net: flags.proc_sys_net,
        published: state_sender,
        metrics: Metrics::register(&mut registry),
        responder_metrics: responder::metrics::Metrics::register(&mut registry),
    };
    let mut tasks = JoinSet::new();
    if let Some(address) = flags.metrics {
        start_metrics(&mut tasks, address, Arc::new(registry))?;
    }
    let publish = async {
        published::keep(flags.status_dir, states).await;
        // The supervisor still takes the address off.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = supervisor.run(stop) => Ok(()),
        () = links::follow(links_sender) => Ok(()),
        () = file::follow(flags.file, file_sender, fault_sender) => Ok(()),
        () = publish => Ok(()),
        () = keys::follow(key_file, secrets) => Ok(()),
        () = probe => Ok(()),
        ended = failure_of(&mut tasks) => ended,
    }
}

/// Asks the API server of this node while the file names it a member. Only of such a node the files of `probe` must be
/// there when it starts.
fn follow_readyz(
    node: String,
    file: watch::Receiver<Arc<ControlPlaneFile>>,
    readiness: watch::Sender<Readiness>,
    urgency: watch::Receiver<Urgency>,
) -> anyhow::Result<impl Future<Output = ()>> {
    // Neither can change while this process runs.
    let (server, certificate) = {
        let file = file.borrow();
        (file.api_server(), file.probe.client.clone())
    };
    let connect = move || {
        let certificate = certificate.as_ref();
        let files = certificate.map(|client| (client.certificate.as_path(), client.key.as_path()));
        of_this_machine(server, files)
    };
    let is_member = move |file: &Arc<ControlPlaneFile>| file.role_of(&node) == Role::Member;
    if is_member(&file.borrow()) {
        connect().context(
            "cannot use probe.clientCertificate and probe.clientKey of the control plane file",
        )?;
    }
    Ok(readyz::follow_while(
        file, is_member, connect, readiness, urgency,
    ))
}

#[cfg(test)]
mod tests {
    use mooring_common::control_plane::parse;

    use super::*;

    const FILE: &str = "{version: 1, revision: 1, addresses: [192.0.2.100], interface: eth0, \
        members: [{name: cp1, address: 192.0.2.11}, {name: cp2, address: 192.0.2.12}], \
        witness: {name: w1, address: 192.0.2.21}, keyFile: /k, \
        probe: {clientCertificate: /there/is/no.crt, clientKey: /there/is/no.key}}";

    /// Whether the process starts on this node, with a file whose `probe` names nothing that is there.
    fn starts_on(node: &str) -> anyhow::Result<()> {
        let (_file, file) = watch::channel(Arc::new(parse(FILE)?));
        let (readiness, _) = watch::channel(Readiness::default());
        let (_, urgency) = watch::channel(Urgency::default());
        follow_readyz(node.to_owned(), file, readiness, urgency).map(drop)
    }

    #[tokio::test]
    async fn only_a_member_needs_the_files_of_probe() {
        let error = starts_on("cp1").unwrap_err().to_string();
        assert!(error.contains("probe.clientCertificate"), "{error}");
        starts_on("w1").unwrap();
        starts_on("cp9").unwrap();
    }
}
