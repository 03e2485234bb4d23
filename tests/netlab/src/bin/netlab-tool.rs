//! The rig's helper for processes that must really run in a namespace of the lab.

use std::io::{BufRead as _, BufReader, Write as _, stdout};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use mooring_common::l2_network::{L2Network, L2NetworkSpec, Segment, Subnet};
use mooring_node::vlan::{Faults, Metrics, Options, keep};
use mooring_test_netlab::control_plane_nodes::stand_in::StandIn;
use mooring_test_netlab::netlab::{enter_netlab, get};

/// Helper of Mooring's network suites.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Answers every HTTP request, on all addresses of both families.
    Serve {
        /// The port to listen on.
        #[arg(long)]
        port: u16,
        /// What to answer.
        #[arg(long)]
        body: String,
    },
    /// Asks by HTTP again and again until it is ended, and prints a line for each request: after how
    /// many milliseconds it was over, and the answer, or `-`.
    Ask {
        /// What to ask for; with an address, not a name.
        #[arg(long)]
        url: String,
        /// How far apart the requests are, in milliseconds.
        #[arg(long)]
        every: u64,
        /// How long one may take to connect, and to be answered, in milliseconds.
        #[arg(long)]
        within: u64,
    },
    /// Plays an API server for who asks whether it is ready, by HTTPS at 127.0.0.1, and sends datagrams back.
    ServeReadyz {
        /// The port to listen on.
        #[arg(long, default_value_t = 6443)]
        port: u16,
        /// Where datagrams are sent back, whether the host has the address or not.
        #[arg(long)]
        echo: Vec<SocketAddr>,
        /// While there is such a file it is not ready.
        #[arg(long)]
        unready_while: PathBuf,
    },
    /// Keeps a VLAN interface as the node daemon does, until it is ended.
    KeepVlan {
        /// The 802.1Q id.
        #[arg(long)]
        vlan: u16,
        /// The interface below.
        #[arg(long)]
        parent: String,
        /// The subnet.
        #[arg(long)]
        subnet: String,
        /// Its router.
        #[arg(long)]
        gateway: String,
        /// Where `/proc/sys/net` can be written.
        #[arg(long)]
        proc_sys_net: PathBuf,
    },
    /// Runs a command in namespaces of its own, to try things out: `netlab-tool inside ip link`.
    Inside {
        /// The command and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Task::Serve { port, body } => serve(port, &body),
        Task::Ask { url, every, within } => {
            let [every, within] = [every, within].map(Duration::from_millis);
            ask(&url, every, within)
        }
        Task::ServeReadyz {
            port,
            echo,
            unready_while,
        } => serve_readyz(StandIn {
            port,
            echo,
            unready_while,
        }),
        Task::KeepVlan {
            vlan,
            parent,
            subnet,
            gateway,
            proc_sys_net,
        } => {
            let spec = L2NetworkSpec {
                vlan: Some(vlan),
                parent: Some(parent),
                subnets: vec![Subnet {
                    cidr: subnet.clone(),
                    gateway: Some(gateway),
                }],
                ranges: vec![subnet],
                ..L2NetworkSpec::default()
            };
            let options = Options {
                proc_sys_net,
                ..Options::default()
            };
            keep_vlan(&L2Network::new("network", spec), options)
        }
        Task::Inside { command } => {
            enter_netlab()?;
            let (program, args) = command.split_first().context("no command")?;
            let status = Command::new(program)
                .args(args)
                .status()
                .context("running the command")?;
            std::process::exit(status.code().unwrap_or(1));
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn serve_readyz(stand_in: StandIn) -> Result<()> {
    stand_in.serve().await
}

#[tokio::main(flavor = "current_thread")]
async fn keep_vlan(network: &L2Network, options: Options) -> Result<()> {
    let segment = Segment::try_from(network)?;
    let (_sender, segments) = tokio::sync::watch::channel(Some(vec![segment]));
    keep(options, segments, Faults::default(), Metrics::default()).await;
    Ok(())
}

fn ask(url: &str, every: Duration, within: Duration) -> Result<()> {
    let start = Instant::now();
    let mut due = start;
    loop {
        let answer = get(url, within).map_or_else(|_| "-".to_owned(), |answer| answer.body);
        writeln!(stdout(), "{} {answer}", start.elapsed().as_millis())?;
        // What was missed while a request took long is not caught up with.
        due = (due + every).max(Instant::now());
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

fn serve(port: u16, body: &str) -> Result<()> {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .with_context(|| format!("listening on port {port}"))?;
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    let answer: Arc<str> = answer.into();
    for stream in listener.incoming() {
        let stream = stream.context("accepting a connection")?;
        let answer = Arc::clone(&answer);
        std::thread::spawn(move || respond(stream, &answer));
    }
    Ok(())
}

/// Answers one request. A client that goes away is its own business.
fn respond(mut stream: TcpStream, answer: &str) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
    let Ok(reader) = stream.try_clone() else {
        return;
    };
    for line in BufReader::new(reader).lines() {
        match line {
            Ok(line) if line.is_empty() => break,
            Ok(_) => {}
            Err(_) => return,
        }
    }
    let _ = stream.write_all(answer.as_bytes());
}
