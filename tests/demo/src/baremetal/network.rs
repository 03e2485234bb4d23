//! What is in the VM: servers on the cloud's switch, its router, and a client behind that.
//!
//! ```text
//!   n1, n2, n3: bond0 10.0.0.11 …, VLAN as soon as they are members ─┐
//!   the VM itself, out to the API server: 10.0.0.1 ──────────────────┤ br0, which filters by VLAN
//!   client 198.51.100.2 ── router: the blocks' first addresses ──────┘
//! ```

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result};
use mooring_common::names::NAMESPACE;

use super::hands::Hands;
use mooring_cloud_sim::phoenixnap::Machine;
use mooring_test_netlab::netlab::Mac;
use mooring_test_netlab::vm::{quote, taken_along};
use mooring_test_support::program::Program;

use mooring_test_support::process::Spec;

/// The VLAN of the public network.
pub(super) const VLAN: u16 = 100;

/// Where Pods listen.
pub(super) const POD_PORT: u16 = 8080;

/// What the client has been answered, in the VM.
const ASKED: &str = "/run/tmp/asked";

/// A server of the cloud, and the Node on it.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) name: &'static str,
    number: u8,
}

/// All of them.
pub(super) const SERVERS: [Server; 3] = [
    Server::new("n1", 11),
    Server::new("n2", 12),
    Server::new("n3", 13),
];

impl Server {
    const fn new(name: &'static str, number: u8) -> Self {
        Self { name, number }
    }

    /// Its address in the private network.
    pub(super) const fn private(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, self.number)
    }

    /// The hardware address of its bond, and so of the VLAN on it.
    pub(super) const fn mac(&self) -> Mac {
        Mac([0x02, 0x62, 0x6d, 0, 0, self.number])
    }

    /// As the cloud knows it.
    pub(super) fn in_the_cloud(&self) -> Machine {
        Machine::named(self.name)
            .private(&self.private().to_string())
            .public(&Ipv4Addr::new(192, 0, 2, self.number).to_string())
    }

    /// What its Pod answers.
    pub(super) fn greeting(&self) -> String {
        format!("hello from a Pod on {}", self.name)
    }

    /// Where its daemon logs, in the VM.
    fn log(&self) -> String {
        format!("/run/tmp/mooring-node-{}.log", self.name)
    }
}

/// A request of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// When it was over, in milliseconds since the client began.
    pub(super) at: u64,
    /// The answer.
    pub(super) answer: Option<String>,
}

/// The servers with what listens on them, the cloud's switch and router, and the client.
pub(super) async fn build(hands: &Hands, servers: &[Server]) -> Result<()> {
    let mut script = format!(
        "
        port() {{
            ip -n switch link set $1 master br0 up
            bridge -n switch vlan add dev $1 vid $2 pvid untagged
        }}
        host() {{
            ip netns add $1
            ip -n $1 link set lo up
            ip link add $2 address $3 netns $1 type veth peer name $1 netns switch
            ip -n $1 link set $2 up
        }}
        strict='net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=1'
        ip netns add switch
        ip -n switch link add br0 type bridge vlan_filtering 1 vlan_default_pvid 0 forward_delay 0 \
            mcast_snooping 0
        ip -n switch link set br0 up
        ip link add private0 type veth peer name private netns switch
        ip link set private0 up
        ip address add 10.0.0.1/24 dev private0
        port private 2
        sysctl -q -w $strict
        nft -f - <<END
        table ip out {{
            chain leaving {{
                type nat hook postrouting priority srcnat
                oifname out0 masquerade
            }}
        }}
END
        host router eth0 02:62:6d:00:00:01
        port router {VLAN}
        ip netns exec router sysctl -q -w $strict
        ip netns add client
        ip link add eth0 netns client type veth peer name world netns router
        ip -n router link set world up
        ip -n router address add 198.51.100.1/24 dev world
        ip -n client link set eth0 up
        ip -n client address add 198.51.100.2/24 dev eth0
        ip -n client route add default via 198.51.100.1
        "
    );
    let tool = quote(&Program::NetlabTool.path()?);
    for server in servers {
        let (name, mac, private) = (server.name, server.mac(), server.private());
        let greeting = server.greeting();
        script += &format!(
            "
            host {name} bond0 {mac}
            port {name} 2
            ip -n {name} address add {private}/24 dev bond0
            ip -n {name} route add default via 10.0.0.1
            ip netns exec {name} sysctl -q -w $strict
            ip netns exec {name} {tool} serve --port {POD_PORT} --body '{greeting}' \
                </dev/null >/dev/null 2>&1 &
            "
        );
    }
    hands.run(&script).await.map(drop)
}

/// The cloud lets the VLAN of the public network reach the server.
pub(super) async fn carry_vlan(hands: &Hands, server: &Server) -> Result<()> {
    let name = server.name;
    let script = format!("bridge -n switch vlan add dev {name} vid {VLAN}");
    hands.run(&script).await.map(drop)
}

/// The cloud's router has this address on the public network: `203.0.113.17/28`.
pub(super) async fn route(hands: &Hands, gateway: &str) -> Result<()> {
    let script = format!("ip -n router address add {gateway} dev eth0");
    hands.run(&script).await.map(drop)
}

/// Starts the daemon on a server.
pub(super) async fn start_daemon(hands: &Hands, server: &Server, daemon: &Spec) -> Result<()> {
    let name = server.name;
    let (arguments, files) = taken_along(daemon, &format!("{name}-"))?;
    hands.put(&files).await?;
    let words = arguments.iter().map(|argument| quote(argument.as_ref()));
    let words: Vec<String> = words.collect();
    let script = format!(
        "export NODE_NAME={name} POD_NAMESPACE={NAMESPACE}
        ip netns exec {name} {} {} </dev/null >{} 2>&1 &
        echo $! >/run/tmp/{name}.pid",
        quote(&daemon.program),
        words.join(" "),
        server.log(),
    );
    hands.run(&script).await.map(drop)
}

/// The end of the daemons' logs.
pub(super) async fn logs(hands: &Hands, servers: &[Server]) -> Result<String> {
    let logs: Vec<String> = servers.iter().map(Server::log).collect();
    hands.run(&format!("tail -n 25 {}", logs.join(" "))).await
}

/// The service proxy's rules for an address. A rule stands for kube-proxy, which would take minutes
/// to start in the VM.
pub(super) async fn translate(hands: &Hands, servers: &[Server], address: Ipv4Addr) -> Result<()> {
    let mut script = String::new();
    for server in servers {
        let (name, pod) = (server.name, server.private());
        script += &format!(
            "
            ip netns exec {name} nft -f - <<END
            table ip proxy {{
                chain services {{
                    type nat hook prerouting priority dstnat
                    ip daddr {address} tcp dport 80 dnat to {pod}:{POD_PORT}
                }}
            }}
END
            "
        );
    }
    hands.run(&script).await.map(drop)
}

/// The rules are gone, as kube-proxy's when the Service goes, and the router forgets where the address
/// was. Waits, for some minutes at most, until the client is not answered, and the router has asked for
/// the address in vain.
pub(super) async fn await_silence(
    hands: &Hands,
    servers: &[Server],
    address: Ipv4Addr,
) -> Result<()> {
    let mut script = String::new();
    for Server { name, .. } in servers {
        script += &format!("ip netns exec {name} nft delete table ip proxy\n");
    }
    hands.run(&script).await?;
    await_answer(hands, &["-".to_owned()]).await?;
    // A single packet: with each further one the router would ask again.
    let script = format!(
        "kill $(cat /run/tmp/client.pid)
        ip -n router neighbor flush to {address} dev eth0
        ip netns exec client bash -c 'echo x >/dev/udp/{address}/9'
        timeout 200 sh -c 'until ip -n router neighbor show {address} dev eth0 | grep -q FAILED; do
            sleep 0.2
        done'"
    );
    let silent = hands.run(&script).await;
    silent.map(drop).context("somebody answers for the address")
}

/// From now on the client asks for the address by HTTP, five times a second.
pub(super) async fn ask_steadily(hands: &Hands, address: Ipv4Addr) -> Result<()> {
    let tool = quote(&Program::NetlabTool.path()?);
    let script = format!(
        "ip netns exec client {tool} ask --url http://{address}/ --every 200 --within 500 \
            </dev/null >{ASKED} 2>&1 &
        echo $! >/run/tmp/client.pid"
    );
    hands.run(&script).await.map(drop)
}

/// Waits, for some minutes at most, until the client's last answer is one of these words.
pub(super) async fn await_answer(hands: &Hands, words: &[String]) -> Result<()> {
    let words = words.iter().map(|word| format!(" -e ' {word}$'"));
    let script = format!(
        "timeout 200 sh -c 'until tail -n 1 {ASKED} | grep -q {}; do sleep 0.2; done'",
        words.collect::<String>().replace('\'', "\"")
    );
    let answered = hands.run(&script).await;
    answered.map(drop).context("the client is not answered so")
}

/// All that the client has asked so far.
pub(super) async fn asked(hands: &Hands) -> Result<Vec<Asked>> {
    let text = hands.run(&format!("cat {ASKED}")).await?;
    Ok(text.lines().filter_map(read).collect())
}

/// A line of the client. `None`: it is not written to its end yet.
fn read(line: &str) -> Option<Asked> {
    let (at, answer) = line.split_once(' ')?;
    Some(Asked {
        at: at.parse().ok()?,
        answer: (answer != "-").then(|| answer.to_owned()),
    })
}

/// The hardware address that the router believes an address to have.
pub(super) async fn seen_at(hands: &Hands, address: Ipv4Addr) -> Result<Mac> {
    let script = format!("ip -n router neighbor show {address} dev eth0");
    let known = hands.run(&script).await?;
    let mut words = known.split_whitespace();
    let mac = words
        .find(|word| *word == "lladdr")
        .and_then(|_| words.next());
    mac.with_context(|| format!("the router knows no neighbour: {known:?}"))?
        .parse()
}

/// As in a power cut: the cable first, and nobody has time to say anything.
pub(super) async fn crash(hands: &Hands, server: &Server) -> Result<()> {
    let name = server.name;
    let script = format!(
        "ip -n switch link set {name} down
        kill -9 $(cat /run/tmp/{name}.pid)"
    );
    hands.run(&script).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_prints_is_read() {
        let answered = Asked {
            at: 12,
            answer: Some("hello from a Pod on n1".to_owned()),
        };
        assert_eq!(read("12 hello from a Pod on n1"), Some(answered));
        assert_eq!(
            read("350 -"),
            Some(Asked {
                at: 350,
                answer: None
            })
        );
        assert_eq!(read("1"), None);
    }
}
