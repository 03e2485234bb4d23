//! The scenario, step by step.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;

use super::hands::{Hands, Summons, summon};
use super::network::{self, Server, VLAN};
use super::{costs, fail_over, service};
use crate::console::{Console, Step};
use crate::nodes::await_initialised;
use crate::scenario::{MOORING, await_leader, check_refusals, start_cluster};
use mooring_cloud_sim::phoenixnap::{Behaviour, CLIENT_ID, CLIENT_SECRET, Kind, Pace, Phoenixnap};
use mooring_test_cluster::objects::apply_manifests;
use mooring_test_netlab::netlab_cluster::{Kubelet, NetlabCluster, Site};
use mooring_test_support::process::Process;

/// What the cloud takes for each answer, and for what it does later than it answers: seconds, in the
/// place of up to minutes.
const ANSWER: Duration = Duration::from_millis(100);
const MAKING: Pace = Pace::Takes(Duration::from_secs(1));
const MEMBERSHIP: Pace = Pace::Takes(Duration::from_secs(1));
const MOVING: Pace = Pace::Takes(Duration::from_secs(4));

/// All that plays. Dropping it ends it.
pub(super) struct Cast {
    pub(super) kubelets: BTreeMap<String, Kubelet>,
    _central: Process,
    pub(super) hands: Hands,
    pub(super) cloud: Phoenixnap,
    /// The public network.
    pub(super) network: String,
    pub(super) servers: &'static [Server],
    /// The daemon's program.
    daemon: PathBuf,
    pub(super) cluster: NetlabCluster,
}

/// Tells it to the end, or to the first step that does not happen. The VM runs this program again, as
/// the test of this name, and `daemon` on each server.
pub(super) async fn tell(
    console: &Console,
    test: &str,
    servers: &'static [Server],
    daemon: &Path,
) -> Result<()> {
    println!("\n{}", picture(servers));
    let site = Site::build(&[])?;
    let vm = summon(test).await?;
    let cluster = start_cluster(console, site).await?;
    let mut cast = gather(console, cluster, vm, servers, daemon).await?;
    let told = run(console, &mut cast).await;
    if told.is_err() {
        let logs = network::logs(&cast.hands, servers).await;
        println!("{}", logs.unwrap_or_else(|error| format!("{error:#}")));
    }
    told
}

async fn run(console: &Console, cast: &mut Cast) -> Result<()> {
    join(console, cast).await?;
    let address = service::expose(console, cast).await?;
    service::answer(console, cast, address).await?;
    if cast.servers.len() > 1 {
        fail_over::take_down(console, cast, address).await?;
    }
    service::withdraw(console, cast, address).await?;
    check_refusals(console, &cast.cluster).await?;
    console.print_table();
    costs::tell(console, cast)
}

/// The cloud, central, and the VM.
async fn gather(
    console: &Console,
    cluster: NetlabCluster,
    vm: Summons,
    servers: &'static [Server],
    daemon: &Path,
) -> Result<Cast> {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/manifests");
    apply_manifests(&cluster, &manifests.join("phoenixnap-l2.yaml")).await?;
    let cloud = Phoenixnap::start().await?;
    let network = cloud.put(
        Kind::Network,
        json!({ "name": "services", "location": "PHX", "vlanId": VLAN }),
    );
    for server in servers {
        cloud.add(server.in_the_cloud());
    }
    cloud.set_latency(ANSWER);
    cloud.behave(Behaviour {
        creating: MAKING,
        assigning: MOVING,
        unassigning: MOVING,
        membership: MEMBERSHIP,
        ..Behaviour::default()
    });
    console.event(&format!(
        "PhoenixNAP, simulated: {} servers, none of them in the public network, which has VLAN \
         {VLAN} and no IP block",
        servers.len()
    ));
    let config = config(&cluster, &cloud, &network)?;
    let flags = [
        "--cloud-provider=phoenixnap",
        &format!("--cloud-config={}", config.display()),
        // There is no metadata service, so central initialises Nodes.
        "--node-daemon-grace=0s",
        "--attach-nodes=true",
    ];
    let central = cluster.start_central(&flags).await?;
    await_leader(console, &cluster, &central).await?;
    let step = Step::new("small VM ready", 300, &[]);
    let hands = console
        .run(step, async {
            let hands = vm.answered().await?;
            network::build(&hands, servers).await?;
            let seen = "the servers, their switch, the cloud's router, and a client behind it";
            Ok((hands, seen.to_owned()))
        })
        .await?;
    Ok(Cast {
        kubelets: BTreeMap::new(),
        _central: central,
        hands,
        cloud,
        network,
        servers,
        daemon: daemon.to_owned(),
        cluster,
    })
}

/// The file that the Go controller reads as well.
fn config(cluster: &NetlabCluster, cloud: &Phoenixnap, network: &str) -> Result<PathBuf> {
    let path = cluster.lab.folder().join("cloud-sa.json");
    let config = json!({
        "clientID": CLIENT_ID,
        "clientSecret": CLIENT_SECRET,
        "loadbalancer": format!("l2://{network}"),
        "base-url": cloud.url(),
        "token-url": cloud.token_url(),
    });
    std::fs::write(&path, serde_json::to_string_pretty(&config)?)?;
    Ok(path)
}

/// The servers become Nodes, each with its daemon.
async fn join(console: &Console, cast: &mut Cast) -> Result<()> {
    console.chapter("Servers become Nodes");
    let start = Instant::now();
    let names: Vec<&str> = cast.servers.iter().map(|server| server.name).collect();
    for name in &names {
        let kubelet = Kubelet::register(&cast.cluster, name).await?;
        cast.kubelets.insert((*name).to_owned(), kubelet);
    }
    console.event(&format!(
        "{} have registered: tainted uninitialized, without addresses",
        names.join(", ")
    ));
    await_initialised(console, &cast.cluster, &names, start).await?;
    let step = Step::new("mooring-node starts on each", 240, MOORING);
    console
        .run(step, async {
            for server in cast.servers {
                let flags = [
                    // With this provider there is no machines file, and the chart names none.
                    "--cloud-config=",
                    "--host-proc-sys-net=/proc/sys/net",
                    &format!("--state-dir=/run/tmp/state-{}", server.name),
                ];
                let (name, address) = (server.name, server.private());
                let mut daemon = cast.cluster.daemon_spec_of(name, address, &flags).await?;
                daemon.program.clone_from(&cast.daemon);
                network::start_daemon(&cast.hands, server, &daemon).await?;
            }
            Ok(((), "without credentials of the cloud".to_owned()))
        })
        .await
}

/// How wide a server is drawn.
const WIDTH: usize = 20;

/// Who is where.
fn picture(servers: &[Server]) -> String {
    let row = |text: &dyn Fn(&Server) -> String| -> String {
        let cells = servers
            .iter()
            .map(|server| format!("{:^WIDTH$}", text(server)));
        format!("  {}", cells.collect::<String>().trim_end())
    };
    let bus: String = (0..servers.len() * WIDTH)
        .map(|column| {
            if column % WIDTH == WIDTH / 2 {
                '┴'
            } else {
                '─'
            }
        })
        .collect();
    let lines = [
        "  outside: kube-apiserver, etcd, kube-controller-manager, mooring-central, PhoenixNAP (simulated)"
            .to_owned(),
        "  in a small VM, emulated, whose kernel has VLANs:".to_owned(),
        String::new(),
        row(&|server| server.name.to_owned()),
        row(&|_| "mooring-node".to_owned()),
        row(&|server| server.private().to_string()),
        row(&|server| server.mac().to_string()),
        row(&|_| "│ bond0".to_owned()),
        format!("  {bus}── switch ── VLAN {VLAN} ── router ── client"),
    ];
    lines.join("\n")
}
