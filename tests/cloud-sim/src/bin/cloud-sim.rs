//! A simulated cloud for whoever wants to point a controller at one by hand.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use mooring_cloud_sim::brightbox::{self, Brightbox};
use mooring_cloud_sim::cloudscale::{Behaviour, Cloudscale};
use mooring_cloud_sim::linode::Linode;
use mooring_cloud_sim::phoenixnap::{self, Pace, Phoenixnap, Spelling};
use mooring_cloud_sim::{Faults, TOKEN, Tls, When};
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
    /// Speak TLS, with a new certificate for the address and for the names under which controllers know this cloud. It
    /// is written to this file, for SSL_CERT_FILE of the controller.
    #[arg(long, value_name = "FILE")]
    tls: Option<PathBuf>,
    /// What there is in it, as JSON, each as the API shows it: {"instances": […], "vpcs": […],
    /// "node_balancers": […], "firewalls": […], "reserved_ips": […]} for linode; {"servers": […], "load_balancers": […], "pools": […], "members": […], "listeners":
    /// […], "health_monitors": […], "floating_ips": […]} for cloudscale; {"servers": […], "tags": […],
    /// "networks": […], "blocks": […], "peer_groups": […]} for phoenixnap; {"servers": […],
    /// "load_balancers": […], "cloud_ips": […], "server_groups": […], "firewall_policies": […],
    /// "firewall_rules": […]} for brightbox. Fields that are absent are filled in.
    #[arg(long)]
    state: Option<PathBuf>,
    /// How much later every answer comes.
    #[arg(long, value_parser = duration, default_value = "0s")]
    latency: Duration,
    /// At the N-th request, which still takes effect, reset the connection; can be given again.
    #[arg(long, value_name = "N")]
    die_at: Vec<u64>,
    /// What the shell does when --die-at strikes: `kill -9 4711`, say.
    #[arg(long, value_name = "COMMAND")]
    die_run: Option<String>,
    #[command(flatten)]
    balancers: Balancers,
    #[command(flatten)]
    blocks: Blocks,
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
    /// Let a write wait until the one before it on the same load balancer is answered, instead of refusing it by 503.
    #[arg(long)]
    queue_concurrent_writes: bool,
}

/// What blocks and networks do, for phoenixnap only.
#[derive(clap::Args)]
#[command(next_help_heading = "For phoenixnap")]
struct Blocks {
    /// For how long a new block is being created.
    #[arg(long, value_parser = duration, default_value = "0s")]
    creating: Duration,
    /// For how long a block is being assigned to a network, which is busy meanwhile.
    #[arg(long, value_parser = duration, default_value = "2s")]
    assigning: Duration,
    /// For how long a block is being taken off a network, which is busy meanwhile.
    #[arg(long, value_parser = duration, default_value = "2s")]
    unassigning: Duration,
    /// For how long a server joins a network or leaves it, which is busy meanwhile.
    #[arg(long, value_parser = duration, default_value = "2s")]
    membership: Duration,
    /// For how long a token is valid.
    #[arg(long, value_parser = duration, default_value = "5m")]
    token_lifetime: Duration,
    /// Of several tags in a query, let any be enough.
    #[arg(long)]
    tags_widen: bool,
    /// Spell statuses and types in capitals.
    #[arg(long)]
    capitals: bool,
}

const CONTROL: &str = "\
These can be asked without a token:
  GET /_sim/state      what there is; of cloudscale without what differs from run to run
  GET /_sim/calls      what was asked so far
  GET /_sim/traffic    of cloudscale: what is served, which listeners were down and for how long
  POST /_sim/machines  a new machine, as the API shows it, but for what is absent: {\"label\": \"n1\"};
                       answered with its id
  PATCH, DELETE /_sim/machines/<id>
                       a machine has other values in these fields, or is gone
  POST /_sim/access    what the credentials may do: {\"revoked\": true}; of linode also
                       {\"scopes\": [\"nodebalancers:read_only\"], \"reserves\": false, \"grants\":
                       {\"add_linodes\": true, \"add_nodebalancers\": false, \"add_firewalls\": true,
                       \"refusal\": 404, \"nodebalancer\": [{\"id\": 7, \"permissions\":
                       \"read_only\"}]}}; of phoenixnap also {\"scopes\": [\"bmc.read\"]}
  POST /_sim/limits    how much may be asked, or be there: of linode {\"seconds\": 60, \"all\": 1600,
                       \"listings\": 200, \"creations\": 20}, of brightbox {\"cloud_ips\": 5,
                       \"load_balancers\": 2}, of phoenixnap {\"stock\": 3, \"quota\": 5,
                       \"blocks_per_network\": 10}, all of it optional; of cloudscale no limit is known
  GET /_sim/writes     of linode: how many writes there were on each NodeBalancer, and how many at
                       once
  POST /_sim/behaviour of linode: {\"listed_after\": 5, \"found_after\": 5, \"delisted_after\": 5,
                       \"detached_after\": 5, \"checked_after\": 5, \"provisioned_after\": 5, \"sorts_tags\": true,
                       \"several_firewalls\": true, \"beta_apart\": true}, all of it optional, lengths in seconds
                       of brightbox: {\"creating\": 5, \"deleting\": 5, \"deleted_shown\": 60,
                       \"mapping\": 5, \"validating\": 5, \"emptying\": 5, \"listed_after\": 5,
                       \"token_lifetime\": 60, \"acme_in_listings\": true, \"invalid_domains\":
                       [\"a.example\"]}, the same
                       of cloudscale: {\"provisioning\": 5, \"change_time\": 5, \"late_deletes\": 5,
                       \"listed_after\": 5, \"refuse_while_changing\": true,
                       \"refuse_concurrent_writes\": false, \"strict_deletes\": false,
                       \"pool_deletes_cascade_listeners\": false}, the same
  GET /_sim/ledger     of phoenixnap: what was bought and given back
  POST /_sim/advance   of phoenixnap and brightbox: so much time passes at once: {\"seconds\": 300}
  DELETE /_sim/tokens  of phoenixnap and brightbox: no token is good any more
  POST /_sim/faults    what is to go wrong: {\"path\": \"**/listeners\", \"method\": \"POST\",
                       \"writes\": true, \"nth\": 2, \"times\": 1, \"status\": 429, \"retry_after\": 5,
                       \"headers\": {\"X-Maintenance-Mode\": \"1\"},
                       \"fault\": \"status\", \"executed\": true, \"delay\": 1.5,
                       \"body\": {}}, all of it optional; body goes with status; fault: status,
                       hang, html, cut, torn, dropped, slow, late; path: * is one segment,
                       ** any number of them
  DELETE /_sim/faults  nothing goes wrong any more
  POST /_sim/down      nobody is at home for a while: {\"seconds\": 5}";

#[derive(Clone, Copy, ValueEnum)]
enum Provider {
    Linode,
    Cloudscale,
    Phoenixnap,
    Brightbox,
}

impl Provider {
    /// Under which names its API is known.
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Linode => &["api.linode.com"],
            Self::Cloudscale => &["api.cloudscale.ch"],
            Self::Phoenixnap => &["api.phoenixnap.com", "auth.phoenixnap.com"],
            Self::Brightbox => &["api.gb1.brightbox.com"],
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let state = arguments.state.as_deref().map(|path| -> Result<Value> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    });
    let state = state.transpose()?;
    let tls = arguments.tls.as_deref().map(|path| -> Result<Tls> {
        let address = arguments.listen.ip().to_string();
        let names = arguments.provider.names().iter().copied();
        let tls = Tls::of(names.chain(["localhost", &address]))?;
        fs::write(path, tls.certificate()).with_context(|| path.display().to_string())?;
        Ok(tls)
    });
    let tls = tls.transpose()?;
    match arguments.provider {
        Provider::Linode => {
            let linode = Linode::start_with(arguments.listen, tls).await?;
            state.map_or(Ok(()), |state| linode.load(&state))?;
            linode.set_latency(arguments.latency);
            arm(linode.faults(), arguments.die_at, arguments.die_run);
            println!("LINODE_URL={}", linode.url());
            println!("LINODE_API_TOKEN={TOKEN}");
            println!("LINODE_REGION=eu-central");
            tokio::signal::ctrl_c().await?;
        }
        Provider::Cloudscale => {
            let cloudscale = Cloudscale::start_with(arguments.listen, tls).await?;
            state.map_or(Ok(()), |state| cloudscale.load(&state))?;
            cloudscale.set_latency(arguments.latency);
            arguments.balancers.put_into(&cloudscale);
            arm(cloudscale.faults(), arguments.die_at, arguments.die_run);
            println!("CLOUDSCALE_API_URL={}", cloudscale.url());
            println!("CLOUDSCALE_ACCESS_TOKEN={TOKEN}");
            tokio::signal::ctrl_c().await?;
        }
        Provider::Phoenixnap => {
            let phoenixnap = Phoenixnap::start_with(arguments.listen, tls).await?;
            state.map_or(Ok(()), |state| phoenixnap.load(&state))?;
            phoenixnap.set_latency(arguments.latency);
            phoenixnap.behave(arguments.blocks.behaviour());
            arm(phoenixnap.faults(), arguments.die_at, arguments.die_run);
            println!("PNAP_BASE_URL={}", phoenixnap.url());
            println!("PNAP_TOKEN_URL={}", phoenixnap.token_url());
            println!("PNAP_CLIENT_ID={}", phoenixnap::CLIENT_ID);
            println!("PNAP_CLIENT_SECRET={}", phoenixnap::CLIENT_SECRET);
            tokio::signal::ctrl_c().await?;
        }
        Provider::Brightbox => {
            let brightbox = Brightbox::start_with(arguments.listen, tls).await?;
            state.map_or(Ok(()), |state| brightbox.load(&state))?;
            brightbox.set_latency(arguments.latency);
            arm(brightbox.faults(), arguments.die_at, arguments.die_run);
            println!("BRIGHTBOX_API_URL={}", brightbox.url());
            println!("BRIGHTBOX_CLIENT={}", brightbox::CLIENT_ID);
            println!("BRIGHTBOX_CLIENT_SECRET={}", brightbox::CLIENT_SECRET);
            tokio::signal::ctrl_c().await?;
        }
    }
    Ok(())
}

impl Balancers {
    fn put_into(self, cloud: &Cloudscale) {
        cloud.behave(Behaviour {
            provisioning: self.provisioning,
            change_time: self.change_time,
            refuse_while_changing: self.refuse_while_changing,
            refuse_concurrent_writes: !self.queue_concurrent_writes,
            ..Behaviour::default()
        });
    }
}

impl Blocks {
    fn behaviour(self) -> phoenixnap::Behaviour {
        let spelling = if self.capitals {
            Spelling::Constants
        } else {
            Spelling::Words
        };
        phoenixnap::Behaviour {
            creating: Pace::Takes(self.creating),
            assigning: Pace::Takes(self.assigning),
            unassigning: Pace::Takes(self.unassigning),
            membership: Pace::Takes(self.membership),
            peering: Pace::Takes(self.membership),
            token_lifetime: self.token_lifetime,
            tags_widen: self.tags_widen,
            resource_type: spelling,
            status: spelling,
            ..phoenixnap::Behaviour::default()
        }
    }
}

/// Resets the connection at each of these requests, and has the shell do something.
fn arm(faults: &Faults, mut die_at: Vec<u64>, command: Option<String>) {
    // One that strikes hides its request from those armed before it: so the last comes first.
    die_at.sort_unstable();
    for n in die_at {
        let command = command.clone();
        faults.kill_switch(When::everything(), n, true, move || {
            println!("DIED_AT={n}");
            if let Some(command) = &command {
                let status = Command::new("sh").args(["-c", command]).status();
                println!("DIED_BY={status:?}");
            }
        });
    }
}

/// `2s`, `400ms`, `1m30s`.
fn duration(text: &str) -> Result<Duration> {
    let length: jiff::SignedDuration = text.parse().context("write something like 2s or 400ms")?;
    ensure!(!length.is_negative(), "write a length that is not negative");
    Ok(length.unsigned_abs())
}
