//! The demo of attacks: what a tenant, a stolen token, an unplugged rack and a restored backup did
//! before this release, and what they get now. `SECURITY.md` says which test shows each.
//!
//! ```text
//!   a whole cluster of four nodes, with clients (failover::FailoverCluster)
//!      │  tenant ─► token ─► rack ─► backup: each an Attack, with the answer that it gets
//!   table: who, what was tried, what it did before, what happens now
//! ```
//!
//! What an attack did before is what was found from outside, on the version before this one. What
//! happens now is asserted: an attack that is not withstood ends the demo with its name and a non-zero
//! code.

mod backup;
mod rack;
mod table;
mod tenant;
mod token;

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};

use super::console::{Console, Step};
use super::run_demo;
use super::scenario::MOORING;
use mooring_test_netlab::failover::{FailoverCluster, Layout};
use table::Row;

/// What `make demo-attack` runs.
pub fn main() -> ExitCode {
    run_demo("demo-attack", async |console, _keep| run(console).await)
}

/// One attack.
#[derive(Clone, Copy, Debug)]
struct Attack {
    /// Who attacks, or what happens.
    who: &'static str,
    /// What they try.
    tried: &'static str,
    /// What that did before.
    before: &'static str,
    /// Within how many seconds it must be over.
    limit: u64,
}

/// Whom the attacks are shown to, and what has become of them.
struct Demo<'a> {
    console: &'a Console,
    rows: Vec<Row>,
}

impl Demo<'_> {
    /// Makes one attack. The work says how it was withstood, or fails.
    async fn withstand(
        &mut self,
        attack: Attack,
        work: impl AsyncFnOnce(Step) -> Result<String>,
    ) -> Result<()> {
        let step = Step::new(attack.tried, attack.limit, MOORING);
        let withstood = self.console.attempt(step, async {
            let now = work(step).await?;
            Ok((now.clone(), now))
        });
        let now = withstood
            .await
            .with_context(|| format!("NOT WITHSTOOD: {}: {}", attack.who, attack.tried))?;
        self.rows.push(Row { attack, now });
        Ok(())
    }
}

/// Makes all attacks, up to the first that is not withstood.
async fn run(console: &Console) -> Result<()> {
    let mut cluster = build(console).await?;
    let mut demo = Demo {
        console,
        rows: Vec::new(),
    };
    tenant::attack(&mut demo, &cluster).await?;
    token::attack(&mut demo, &cluster).await?;
    rack::unplug(&mut demo, &mut cluster).await?;
    backup::restore(&mut demo, &mut cluster).await?;
    println!("\n{}", table::draw(console, &demo.rows));
    println!("All {} attacks were withstood.", demo.rows.len());
    Ok(())
}

async fn build(console: &Console) -> Result<FailoverCluster> {
    console.chapter("A cluster of four nodes, and Mooring as it is shipped");
    let step = Step::new("cluster at work", 150, MOORING);
    console
        .run(step, async {
            let cluster = FailoverCluster::build(Layout::of(4)).await?;
            console.heed(&cluster.central);
            cluster
                .daemons
                .values()
                .for_each(|daemon| console.heed(daemon));
            let [v4, v6] = cluster.addresses();
            let speaker = cluster.speaker().await?;
            let voters = cluster.voters().await?.join(", ");
            let seen = format!("{speaker} answers for {v4} and {v6}; {voters} vote");
            Ok((cluster, seen))
        })
        .await
}

/// What a policy said, in one line; `message` is that of the API server.
fn refused_by(policy: &str, message: &str) -> Result<String> {
    let named = format!("ValidatingAdmissionPolicy '{policy}'");
    ensure!(
        message.contains(&named),
        "it was refused, but not by the policy {policy}: {message}"
    );
    let (_, reason) = message
        .split_once("denied request: ")
        .unwrap_or(("", message));
    // What to do instead comes after it.
    let reason = reason.split(';').next().unwrap_or(reason);
    Ok(format!("refused by {policy}: {reason}"))
}
