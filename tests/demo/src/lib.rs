//! The demos: Mooring's main job from end to end, on this machine, without root. [`main`] needs
//! no cloud; [`baremetal::main`] buys addresses of a simulated one, for nodes on a VLAN;
//! [`attack::main`] attacks a whole cluster; [`clouds::main`] runs one cluster in two simulated clouds;
//! [`moving::main`] moves a cluster from MetalLB; [`control_plane::main`] gives the control plane an address;
//! [`installed::main`] installs Mooring on real nodes, and is a test.
//!
//! ```text
//!  main ─► a netlab of its own ─► scenario: cluster, nodes, Service, fail-over ─► table, exit code
//!                                   │ steps with limits, each told as it happens
//!                                 console ─► terminal
//! ```
//!
//! Every step has a limit. The first that misses it ends the demo with its name, the logs
//! concerned and a non-zero code. `KEEP=1` leaves the demo of [`main`] running until Ctrl-C. Whatever
//! the end, nothing is left behind.

pub mod attack;
pub mod baremetal;
pub mod clouds;
mod console;
pub mod control_plane;
mod failover;
pub mod installed;
mod look_around;
pub mod moving;
mod nodes;
mod picture;
mod scenario;
mod service;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use console::Console;
use mooring_test_netlab::netlab;
use mooring_test_support::scratch;

/// Set inside of the netlab when everything shall be left running. Not `KEEP` itself: with that,
/// the rig would leave its files behind.
const KEEP: &str = "MOORING_DEMO_KEEP";

/// What a shell makes of an interrupted program.
const INTERRUPTED: u8 = 130;

/// How long the netlab may take to end by itself after an interruption.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// The demo.
pub fn main() -> ExitCode {
    run_demo("demo", scenario::run)
}

/// Runs a scenario in a netlab of its own, to its end or to the first step that does not happen.
fn run_demo(name: &str, scenario: impl AsyncFnOnce(&Console, bool) -> Result<()>) -> ExitCode {
    run_demo_with(name, &[], scenario)
}

/// [`run_demo`] with these variables in the environment inside of the netlab.
fn run_demo_with(
    name: &str,
    environment: &[(&str, &str)],
    scenario: impl AsyncFnOnce(&Console, bool) -> Result<()>,
) -> ExitCode {
    if !netlab::is_netlab() {
        let keep = if scratch::keep() { "1" } else { "" };
        let _watchman = match outlast_the_netlab() {
            Ok(runtime) => runtime,
            Err(error) => return complain(name, &error),
        };
        // Does not come back, unless it fails.
        let own = [(KEEP, keep), ("KEEP", ""), ("TMPDIR", netlab::TEMPORARY)];
        let environment = [environment, &own].concat();
        if let Err(error) = netlab::enter_netlab_with(&environment) {
            return complain(name, &error);
        }
    }
    match netlab::enter_netlab().and_then(|()| run_to_the_end(scenario)) {
        Ok(code) => code,
        Err(error) => complain(name, &error),
    }
}

fn complain(name: &str, error: &anyhow::Error) -> ExitCode {
    eprintln!("{name}: {error:#}");
    ExitCode::FAILURE
}

/// Outside of the netlab: Ctrl-C reaches the program in there too, which then ends in good order.
/// This one waits for it, but not for ever.
fn outlast_the_netlab() -> Result<Runtime> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let guard = runtime.enter();
    let interruption = interruption()?;
    runtime.spawn(async move {
        interruption.await;
        tokio::time::sleep(END_TIMEOUT).await;
        std::process::exit(INTERRUPTED.into());
    });
    drop(guard);
    Ok(runtime)
}

/// Comes true on Ctrl-C or a request to end.
fn interruption() -> Result<impl Future<Output = ()> + Send + 'static> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

fn run_to_the_end(scenario: impl AsyncFnOnce(&Console, bool) -> Result<()>) -> Result<ExitCode> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let interruption = interruption()?;
        let console = Console::new();
        let keep = std::env::var_os(KEEP).is_some_and(|value| !value.is_empty());
        tokio::select! {
            () = interruption => {
                println!("\nEnded. Nothing is left behind.");
                Ok(ExitCode::from(if keep { 0 } else { INTERRUPTED }))
            }
            told = scenario(&console, keep) => Ok(match told {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    console.failed(&error);
                    ExitCode::FAILURE
                }
            }),
        }
    })
}
