//! A simulated cloud for whoever wants to point a controller at one by hand.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use mooring_tests::cloud_sim::TOKEN;
use mooring_tests::cloud_sim::cloudscale::Cloudscale;
use mooring_tests::cloud_sim::linode::Linode;
use serde_json::Value;

/// The API of a cloud, simulated. It runs until it is interrupted.
#[derive(Parser)]
struct Arguments {
    /// Which cloud.
    #[arg(long)]
    provider: Provider,
    /// Where to listen; port 0 is a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// What there is in it, as JSON: {"instances": […], "vpcs": […]} for linode, {"servers": […]}
    /// for cloudscale, each as the API shows it. Fields that are absent are filled in.
    #[arg(long)]
    state: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Provider {
    Linode,
    Cloudscale,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let state = arguments.state.as_deref().map(|path| -> Result<Value> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    });
    let state = state.transpose()?;
    match arguments.provider {
        Provider::Linode => {
            let linode = Linode::start_on(arguments.listen).await?;
            state.map_or(Ok(()), |state| linode.load(&state))?;
            println!("LINODE_URL={}", linode.url());
            println!("LINODE_API_TOKEN={TOKEN}");
            println!("LINODE_REGION=eu-central");
            tokio::signal::ctrl_c().await?;
        }
        Provider::Cloudscale => {
            let cloudscale = Cloudscale::start_on(arguments.listen).await?;
            state.map_or(Ok(()), |state| cloudscale.load(&state))?;
            println!("CLOUDSCALE_API_URL={}", cloudscale.url());
            println!("CLOUDSCALE_ACCESS_TOKEN={TOKEN}");
            tokio::signal::ctrl_c().await?;
        }
    }
    Ok(())
}
