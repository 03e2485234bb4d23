//! What it would have cost.

use anyhow::{Context as _, Result, ensure};

use super::scenario::Cast;
use crate::console::{Console, short};
use mooring_cloud_sim::Call;
use mooring_cloud_sim::phoenixnap::TOKEN_PATH;

/// Tells what was bought, for how long, and how much was asked. The API knows no prices.
pub(super) fn tell(console: &Console, cast: &Cast) -> Result<()> {
    console.chapter("What it would have cost");
    let purchases = cast.cloud.purchases();
    let [bought] = purchases.as_slice() else {
        anyhow::bail!("{} blocks were bought instead of one", purchases.len());
    };
    ensure!(
        bought.released,
        "the block that was bought is not given back"
    );
    let cidr = bought.block["cidr"]
        .as_str()
        .context("a block has a cidr")?;
    let hours = bought.held.as_secs_f64() / 3600.0;
    console.event(&format!(
        "1 IP block, {cidr}, held for {}: {hours:.4} block-hours. The API names no prices: look at \
         what an hour of such a block is for you",
        short(bought.held)
    ));
    let calls = cast.cloud.calls();
    let (writes, tokens) = (cast.cloud.writes(), calls.to(TOKEN_PATH).len());
    let reads = calls.len() - writes.len() - tokens;
    console.event(&format!(
        "{} requests that change something, {reads} that look, {tokens} for tokens:",
        writes.len()
    ));
    let lines: Vec<String> = writes.iter().map(line).collect();
    for alike in lines.chunk_by(|a, b| a == b) {
        println!("        {:>3} × {}", alike.len(), alike[0]);
    }
    Ok(())
}

fn line(call: &Call) -> String {
    let status = call.status.map_or(0, |status| status.as_u16());
    format!("{} {}: {status}", call.method, call.path)
}
