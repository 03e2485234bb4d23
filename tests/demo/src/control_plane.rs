//! The demo of an address for the control plane: three real API servers, each with its own member of etcd, and
//! `mooring-node control-plane` beside each. A client writes ten times a second at the address, while one thing
//! after the other fails.
//!
//! ```text
//!   netlab: cp1, cp2, cp3: etcd ◄─ kube-apiserver ◄─ mooring-node control-plane ── br0
//!             client: ten writes a second, each on its own connection ─────────────┤
//!             asker: 50 new neighbours a second that ask where the address is ─────┘
//! ```
//!
//! What is asserted: never two answer, the address is with another node within a second wherever an API server is
//! ready, and stays where it is where none is.

mod faults;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::console::{Console, Ink, Step, short};
use super::run_demo;
use faults::{FAULTS, Fault, Outcome};
use mooring_test_netlab::control_plane_nodes::{ControlPlaneNodes, Members, Noticed};
use mooring_test_netlab::failover::Seen;

const NODES: [&str; 3] = ["cp1", "cp2", "cp3"];

/// For so long at a stretch all must be well.
const WELL: Duration = Duration::from_millis(1000);

/// How long is watched after a fault at least.
const AFTER: Duration = Duration::from_secs(3);

/// For how long nobody may say where the address is, where another node can.
const LONGEST: Duration = Duration::from_secs(1);

/// What `make demo-control-plane` runs.
pub fn main() -> ExitCode {
    run_demo("demo-control-plane", async |console, _keep| {
        run(console).await
    })
}

/// What happened at one fault.
struct Row {
    fault: &'static Fault,
    from: String,
    seen: Seen,
    noticed: Noticed,
}

async fn run(console: &Console) -> Result<()> {
    let members = Members::new(1, &NODES);
    let mut nodes = start(console, &members).await?;
    let mut rows = Vec::new();
    for fault in FAULTS {
        let step = Step::new(fault.name, 240, &["mooring-node", "kube-apiserver", "etcd"]);
        let work = async {
            let row = befall(&mut nodes, &members, fault).await?;
            let text = describe(&row);
            Ok((row, text))
        };
        rows.push(console.run(step, work).await?);
    }
    console.print_table();
    print(console, &rows);
    rows.iter().try_for_each(judge)
}

async fn start(console: &Console, members: &Members) -> Result<ControlPlaneNodes> {
    let step = Step::new("three API servers behind one address", 120, &[]);
    console
        .run(step, async {
            let mut nodes = ControlPlaneNodes::with_api_servers(&NODES).await?;
            nodes.start(members).await?;
            Ok((nodes, "each with its own member of etcd".to_owned()))
        })
        .await
}

async fn befall(
    nodes: &mut ControlPlaneNodes,
    members: &Members,
    fault: &'static Fault,
) -> Result<Row> {
    let writer = nodes.writer().await?;
    let mut watch = nodes.watch().await?;
    let step = Step::new("writes are done", 30, &[]);
    step.until(async || {
        ensure!(writer.is_well(WELL), "not all writes are done");
        Ok(())
    })
    .await?;
    let speaker = watch
        .speaker()
        .context("not one node, and always one, answers")?;
    let from = nodes.name_of(speaker);
    watch.begin();
    let began = Instant::now();
    (fault.strike)(nodes, &from).await?;
    watch.settle(AFTER, Duration::from_secs(20)).await;
    if fault.outcome == Outcome::Stays {
        // Nothing serves: who waits for writes would wait in vain.
        let seen = watch.end(nodes);
        let noticed = writer.end(began);
        nodes.restore(members).await?;
        return Ok(Row {
            fault,
            from,
            seen,
            noticed,
        });
    }
    let step = Step::new("writes are done again", 60, &[]);
    step.until(async || {
        ensure!(writer.is_well(WELL), "not all writes are done");
        Ok(())
    })
    .await?;
    watch.is_well(WELL, Duration::from_secs(20)).await?;
    let seen = watch.end(nodes);
    let noticed = writer.end(began);
    nodes.restore(members).await?;
    Ok(Row {
        fault,
        from,
        seen,
        noticed,
    })
}

fn describe(row: &Row) -> String {
    let (dark, longest) = (short(row.seen.dark), short(row.noticed.longest));
    format!(
        "{}; nobody answered for {dark}, no write was done for {longest}",
        row.seen.speakers.join(" → ")
    )
}

fn print(console: &Console, rows: &[Row]) {
    let line = |cells: [&str; 7]| {
        let [fault, from, to, dark, two, longest, failed] = cells;
        format!("{fault:<36} {from:<5} {to:<5} {dark:>9} {two:>5} {longest:>9} {failed:>13}")
    };
    let heads = [
        "fault",
        "from",
        "to",
        "silent",
        "two",
        "no write",
        "failed writes",
    ];
    println!("\n{}", console.paint(Ink::Bold, &line(heads)));
    for row in rows {
        let (seen, noticed) = (&row.seen, &row.noticed);
        let to = seen.speakers.last().map_or("-", String::as_str);
        let failed = format!("{} of {}", noticed.failed, noticed.writes);
        println!(
            "{}",
            line([
                row.fault.name,
                &row.from,
                to,
                &short(seen.dark),
                &short(seen.two),
                &short(noticed.longest),
                &failed,
            ])
        );
    }
    let moved = rows
        .iter()
        .filter(|row| row.fault.outcome == Outcome::Moves);
    let dark = moved.map(|row| row.seen.dark).max().unwrap_or_default();
    println!(
        "FIGURE Longest silence of the control plane's address, another API server being ready: {} ms",
        dark.as_millis()
    );
}

fn judge(row: &Row) -> Result<()> {
    let (name, seen) = (row.fault.name, &row.seen);
    ensure!(seen.two.is_zero(), "{name}: two nodes answered: {seen}");
    match row.fault.outcome {
        Outcome::Moves => {
            ensure!(seen.dark <= LONGEST || !seen.counts(), "{name}: {seen}");
            ensure!(
                seen.speakers.last() != Some(&row.from),
                "{name}: the address has not moved: {seen}"
            );
        }
        Outcome::Stays | Outcome::Returns => ensure!(
            seen.speakers.last() == Some(&row.from),
            "{name}: the address has moved: {seen}"
        ),
        Outcome::Restarts => {}
    }
    Ok(())
}
