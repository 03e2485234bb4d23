//! A simulated cloud for whoever wants to point a controller at one by hand.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use mooring_tests::cloud_sim::cloudscale::{Behaviour, Cloudscale};
use mooring_tests::cloud_sim::linode::Linode;
use mooring_tests::cloud_sim::{TOKEN, When};
use serde_json::Value;

/// The API of a cloud, simulated. It prints what to put into a controller's environment, and runs
/// until it is interrupted.
#[derive(Parser)]
#[command(after_help = CONTROL)]
struct Arguments {
    /// Which cloud.
    provider: Provider,
    /// Where to listen; port 0 is a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// What there is in it, as JSON, each as the API shows it: {"instances": […], "vpcs": […]} for
    /// linode; {"servers": […], "load_balancers": […], "pools": […], "members": […], "listeners":
    /// […], "health_monitors": […], "floating_ips": […]} for cloudscale. Fields that are absent are
    /// filled in.
    #[arg(long)]
    state: Option<PathBuf>,
    #[command(flatten)]
    balancers: Balancers,
}

/// What load balancers do, for cloudscale only.
#[derive(clap::Args)]
#[command(next_help_heading = "For cloudscale")]
struct Balancers {
    /// For how long a new load balancer is changing.
    #[arg(long, value_parser = duration, default_value = "200ms")]
    provisioning: Duration,
    /// For how long a load balancer is changing after each write.
    #[arg(long, value_parser = duration, default_value = "0s")]
    change_time: Duration,
    /// Refuse writes on a load balancer that is changing, instead of letting them wait.
    #[arg(long)]
    refuse_while_changing: bool,
    /// How much later every answer comes.
    #[arg(long, value_parser = duration, default_value = "0s")]
    latency: Duration,
    /// At the N-th request, which still takes effect, reset the connection; can be given again.
    #[arg(long, value_name = "N")]
    die_at: Vec<u64>,
    /// What the shell does when --die-at strikes: `kill -9 4711`, say.
    #[arg(long, value_name = "COMMAND")]
    die_run: Option<String>,
}

const CONTROL: &str = "\
Of cloudscale, these can be asked without a token:
  GET /_sim/state      what there is, without what differs from run to run
  GET /_sim/calls      what was asked so far
  GET /_sim/traffic    what is served, which listeners were down and for how long
  POST /_sim/faults    what is to go wrong: {\"path\": \"**/listeners\", \"method\": \"POST\",
                       \"writes\": true, \"nth\": 2, \"times\": 1, \"status\": 429, \"retry_after\": 5,
                       \"fault\": \"status\", \"executed\": true, \"delay\": 1.5}, all of it optional;
                       fault: status, hang, html, cut, torn, dropped, slow; path: * is one segment,
                       **/ at the start any number of them
  DELETE /_sim/faults  nothing goes wrong any more
  POST /_sim/down      nobody is at home for a while: {\"seconds\": 5}";

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
            arguments.balancers.put_into(&cloudscale);
            println!("CLOUDSCALE_API_URL={}", cloudscale.url());
            println!("CLOUDSCALE_ACCESS_TOKEN={TOKEN}");
            tokio::signal::ctrl_c().await?;
        }
    }
    Ok(())
}

impl Balancers {
    fn put_into(self, cloud: &Cloudscale) {
        cloud.set_latency(self.latency);
        cloud.behave(Behaviour {
            provisioning: self.provisioning,
            change_time: self.change_time,
            refuse_while_changing: self.refuse_while_changing,
            ..Behaviour::default()
        });
        // One that strikes hides its request from those armed before it: so the last comes first.
        let mut die_at = self.die_at;
        die_at.sort_unstable();
        for n in die_at {
            let command = self.die_run.clone();
            cloud.kill_switch(When::everything(), n, true, move || {
                println!("DIED_AT={n}");
                if let Some(command) = &command {
                    let status = Command::new("sh").args(["-c", command]).status();
                    println!("DIED_BY={status:?}");
                }
            });
        }
    }
}

/// `2s`, `400ms`, `1m30s`.
fn duration(text: &str) -> Result<Duration> {
    let length: jiff::SignedDuration = text.parse().context("write something like 2s or 400ms")?;
    ensure!(!length.is_negative(), "write a length that is not negative");
    Ok(length.unsigned_abs())
}
