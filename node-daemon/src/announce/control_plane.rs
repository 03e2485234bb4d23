//! `mooring-node control-plane`: the address of the API servers, announced from a node whose own is ready.
//!
//! ```text
//!   file ────────────┐            ┌──► responder, one thread: the protocol, ARP, neighbour discovery
//!   memory: voters ──┼► supervisor┤
//!   readyz ► fitness ┘  (desired) └──► the address on lo, while there is a right to it
//! ```
//!
//! It is a process of its own, a static Pod: there may be no API server yet. It shares the protocol and the
//! responder with the daemon of the DaemonSet, and nothing at run time.
//!
//! # Guarantees
//! * At most one node speaks for the address: by [`crate::protocol`], with the voters of
//!   [`crate::protocol::members`].
//! * Nothing of it needs an API server: not to start, not to vote, not to fail over.
//! * Where no API server is ready the address stays where it is.

pub mod desired;
pub mod file;
pub mod fitness;
pub mod flags;
pub mod manifest;
pub mod memory;
pub mod readyz;
pub mod supervisor;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use mooring_common::control_plane::{ControlPlaneFile, Role};
use mooring_common::k8s::loopback;
use mooring_common::program::{self, Threads};
use mooring_common::shutdown;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use self::flags::{Flags, TABLE};
use self::memory::Memory;
use self::supervisor::Supervisor;
use crate::responder::metrics::Metrics;
use crate::wire::keys::{self, KeyRing};
use crate::wire::links;

/// The whole program, from what stands behind `control-plane` to the exit code: 0 after SIGTERM, 1 after a failure,
/// 2 for a command line that cannot be read.
#[must_use]
pub fn main(arguments: Vec<String>) -> ExitCode {
    let logging = |flags: &Flags| (flags.verbosity, flags.log_format);
    program::main(
        &TABLE,
        arguments,
        Flags::read,
        logging,
        Threads::One,
        |flags| async { run(flags).await.map_err(|error| format!("{error:#}")) },
    )
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
    let (fit, is_fit) = watch::channel(false);
    let probe = follow_readyz(&read, role, fit)?;
    let (file_sender, file) = watch::channel(Arc::new(read));
    let (links_sender, links) = watch::channel(Arc::default());
    let supervisor = Supervisor {
        node_name: flags.node_name,
        file,
        memory,
        remembered,
        links,
        is_fit,
        secrets: Arc::clone(&secrets),
        proc_sys_net: flags.proc_sys_net,
        metrics: Metrics::register(&mut Registry::default()),
    };
    tokio::select! {
        () = supervisor.run(stop) => {}
        () = links::follow(links_sender) => {}
        () = file::follow(flags.file, file_sender) => {}
        () = keys::follow(key_file, secrets) => {}
        () = probe => {}
    }
    Ok(())
}

/// Asks the API server of this node; a witness has none.
fn follow_readyz(
    file: &ControlPlaneFile,
    role: Role,
    fit: watch::Sender<bool>,
) -> anyhow::Result<impl Future<Output = ()> + use<>> {
    let certificate = file.probe.client.as_ref();
    let certificate =
        certificate.map(|client| (client.certificate.as_path(), client.key.as_path()));
    let client = loopback(file.port, certificate).context(
        "cannot use probe.clientCertificate and probe.clientKey of the control plane file",
    )?;
    Ok(async move {
        if role == Role::Witness {
            fit.closed().await;
        } else {
            readyz::follow(client, fit).await;
        }
    })
}
