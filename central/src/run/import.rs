//! `mooring-central import`: what MetalLB or kube-vip is configured to do, as L2Networks.
//!
//! ```text
//!   read         the objects, from the cluster or a file          objects
//!   metallb      } pools, each with where it is announced         finding
//!   kube_vip     }   (ranges, selectors, workload)
//!   assemble     pools to L2Networks, on subnets that are given or guessed
//!   services     each Service: its address now, and afterwards
//!   print        YAML, findings, the table
//! ```
//!
//! It only reads. All but `read` is pure. What a configuration says and no L2Network does is a finding, and so is
//! every field that is not known.

mod assemble;
mod finding;
mod flags;
mod kube_vip;
mod metallb;
mod objects;
mod print;
mod ranges;
mod read;
mod selectors;
mod services;
mod subnets;
mod workload;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use mooring_common::flags::FlagTable;
use mooring_common::k8s::client;
use mooring_common::l2_network::L2Network;
use mooring_common::program::{self, Threads};
use mooring_common::telemetry::LogFormat;

use assemble::SourcePool;
use finding::Findings;
use flags::{ImportFlags, Source, long_names};
use objects::Objects;
use services::Row;
use subnets::KnownSubnet;

/// The flags, for the reference page.
pub const TABLE: FlagTable = flags::TABLE;

/// The exit code if something cannot be said.
const INCOMPLETE: u8 = 3;

/// What an import comes to.
#[derive(Debug, PartialEq)]
struct Imported {
    networks: Vec<L2Network>,
    rows: Vec<Row>,
    findings: Findings,
}

/// The whole command, from what stands behind `import` to the exit code: 0 if the L2Networks say all, 1 if the
/// configuration cannot be read, 2 for a command line that cannot be read, 3 if something cannot be said.
#[must_use]
pub fn main(arguments: Vec<String>) -> ExitCode {
    program::main(
        &flags::TABLE,
        long_names(arguments),
        ImportFlags::read,
        |_| (0, LogFormat::Text),
        Threads::One,
        run,
    )
}

async fn run(flags: ImportFlags) -> anyhow::Result<ExitCode> {
    let mut findings = Findings::default();
    let objects = match &flags.filename {
        Some(path) => read::file(path, flags.source)?,
        None => read::cluster(&client(&flags.client).await?, flags.source, &mut findings).await?,
    };
    let imported = import(&objects, flags.source, &flags.subnets, findings);
    let report = print::report(&imported.rows, &imported.findings);
    std::io::stderr()
        .write_all(report.as_bytes())
        .context("cannot print")?;
    if imported.networks.is_empty() {
        bail!("there is nothing to import: no pool is announced on a segment");
    }
    let yaml = print::yaml(&imported.networks, &imported.findings)?;
    std::io::stdout()
        .write_all(yaml.as_bytes())
        .context("cannot print")?;
    Ok(match imported.findings.is_complete() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(INCOMPLETE),
    })
}

/// What the objects come to. Pure.
fn import(
    objects: &Objects,
    source: Source,
    given: &[KnownSubnet],
    mut findings: Findings,
) -> Imported {
    let pools: Vec<SourcePool> = match source {
        Source::MetalLb => metallb::pools(objects, &mut findings),
        Source::KubeVip => kube_vip::pools(objects, &mut findings),
    };
    let mut networks = assemble::assemble(pools, given, &objects.node_addresses(), &mut findings);
    match source {
        Source::MetalLb => metallb::told_of_services(objects, &mut findings),
        Source::KubeVip => {
            let interfaces: Vec<_> = networks
                .iter()
                .map(|network| network.spec.parent.clone())
                .collect();
            kube_vip::told_of_services(objects, &interfaces, &mut findings);
        }
    }
    services::permit_sharing(objects, &mut networks, &mut findings);
    let rows = services::rows(objects, &networks, &mut findings);
    Imported {
        networks,
        rows,
        findings,
    }
}
