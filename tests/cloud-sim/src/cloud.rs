//! Any of the clouds by one set of names: for scenarios that must hold on all.

mod tokens;

use http::StatusCode;
use serde_json::{Value, json};

use super::brightbox::{self, Brightbox};
use super::cloudscale::{Cloudscale, Interface, Machine};
use super::linode::{Instance, Limits, Linode};
use super::phoenixnap::{CLIENT_ID, CLIENT_SECRET, Machine as BareMetal, Phoenixnap};
use super::{Calls, Faults, TOKEN, When};

/// Which cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cloud {
    /// Linode.
    Linode,
    /// cloudscale.ch.
    Cloudscale,
    /// PhoenixNAP.
    Phoenixnap,
    /// Brightbox.
    Brightbox,
}

impl Cloud {
    /// Its name for `--cloud-provider`, and the scheme of its provider IDs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linode => "linode",
            Self::Cloudscale => "cloudscale",
            Self::Phoenixnap => "phoenixnap",
            Self::Brightbox => "brightbox",
        }
    }

    /// A provider ID of it that no machine has.
    pub const fn nobodys_id(self) -> &'static str {
        match self {
            Self::Linode => "linode://4711",
            Self::Cloudscale => "cloudscale://00000000-0000-4000-8000-000000004711",
            Self::Phoenixnap => "phoenixnap://60473c25ffffffff00004711",
            Self::Brightbox => "brightbox://srv-z4711",
        }
    }

    /// How it answers when it is asked for a machine that it has not.
    pub const fn absence(self) -> StatusCode {
        match self {
            Self::Linode | Self::Cloudscale | Self::Brightbox => StatusCode::NOT_FOUND,
            Self::Phoenixnap => StatusCode::FORBIDDEN,
        }
    }

    /// What its machines are called in the labels of region and zone, unless a test says otherwise.
    pub const fn region_and_zone(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Linode => ("eu-central", None),
            Self::Cloudscale => ("rma", Some("rma1")),
            Self::Phoenixnap => ("PHX", None),
            Self::Brightbox => ("gb1", Some("gb1-a")),
        }
    }
}

/// A machine, whatever its cloud calls it.
#[derive(Clone, Debug)]
#[must_use]
pub struct Server {
    name: String,
    kind: String,
    public: Vec<String>,
    private: Vec<String>,
}

impl Server {
    /// A running machine without an address.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: "small".to_owned(),
            public: Vec::new(),
            private: Vec::new(),
        }
    }

    /// One more public address.
    pub fn public(mut self, address: &str) -> Self {
        self.public.push(address.to_owned());
        self
    }

    /// One more private address.
    pub fn private(mut self, address: &str) -> Self {
        self.private.push(address.to_owned());
        self
    }

    /// Its type.
    pub fn kind(mut self, kind: &str) -> Self {
        kind.clone_into(&mut self.kind);
        self
    }

    /// The addresses that its Node is to have on this cloud, in order.
    pub fn addresses(&self, cloud: Cloud) -> Vec<String> {
        let (v6, v4): (Vec<_>, Vec<_>) = self.public.iter().partition(|a| a.contains(':'));
        let all = |kind: &'static str, addresses: &[&String]| -> Vec<String> {
            addresses.iter().map(|a| format!("{kind} {a}")).collect()
        };
        let private = all("InternalIP", &self.private.iter().collect::<Vec<_>>());
        let public = all("ExternalIP", &self.public.iter().collect::<Vec<_>>());
        let (v4, v6) = (all("ExternalIP", &v4), all("ExternalIP", &v6));
        let addresses = match cloud {
            Cloud::Linode => [v4, private, v6],
            Cloud::Cloudscale => [v4, v6, private],
            Cloud::Phoenixnap => [public, private, Vec::new()],
            // Public IPv4 addresses are Cloud IPs, which come last.
            Cloud::Brightbox => [private, v6, v4],
        };
        let name = format!("Hostname {}", self.name);
        std::iter::once(name)
            .chain(addresses.into_iter().flatten())
            .collect()
    }

    fn instance(self) -> Instance {
        let mut instance = Instance::labelled(&self.name).kind(&self.kind);
        for address in self.public.iter().chain(&self.private) {
            instance = if address.contains(':') {
                instance.ipv6(address)
            } else {
                instance.ipv4(address)
            };
        }
        instance
    }

    fn machine(self) -> Machine {
        let mut machine = Machine::named(&self.name).flavor(&self.kind);
        for interface in interfaces(&self) {
            machine = machine.interface(interface);
        }
        machine
    }
}

/// Its own addresses. Names in the DNS, which Nodes would have as well, it has none.
fn brightbox_machine(server: &Server) -> brightbox::Machine {
    brightbox::Machine::named(&server.name)
        .kind(&server.kind)
        .with("fqdn", Value::Null)
        .with("interfaces", brightbox_interfaces(server))
}

/// Each private address on an interface of its own, and then each public IPv6 address.
fn brightbox_interfaces(server: &Server) -> Value {
    let v6 = server.public.iter().filter(|a| a.contains(':'));
    let interfaces = server.private.iter().chain(v6).map(|address| {
        if address.contains(':') {
            brightbox::interface(None, Some(address))
        } else {
            brightbox::interface(Some(address), None)
        }
    });
    interfaces.collect()
}

/// Its public IPv4 addresses, as Cloud IPs.
fn brightbox_ips(brightbox: &Brightbox, id: &str, server: &Server) {
    for ip in brightbox.all(brightbox::Kind::CloudIp) {
        if ip["server"]["id"] == id {
            brightbox.take(
                brightbox::Kind::CloudIp,
                ip["id"].as_str().unwrap_or_default(),
            );
        }
    }
    for address in server.public.iter().filter(|a| !a.contains(':')) {
        let ip = json!({
            "public_ip": address, "public_ipv4": address, "fqdn": null, "reverse_dns": null,
            "status": "mapped", "server": id,
        });
        brightbox.put(brightbox::Kind::CloudIp, ip);
    }
}

fn bare_metal(server: Server) -> BareMetal {
    let mut machine = BareMetal::named(&server.name).kind(&server.kind);
    for address in &server.public {
        machine = machine.public(address);
    }
    for address in &server.private {
        machine = machine.private(address);
    }
    machine
}

fn interfaces(server: &Server) -> Vec<Interface> {
    let (v6, v4): (Vec<_>, Vec<_>) = server.public.iter().partition(|a| a.contains(':'));
    let with = |interface: Interface, addresses: &[&String]| {
        let addresses = addresses.iter();
        addresses.fold(interface, |interface, address| interface.address(address))
    };
    let mut interfaces = Vec::new();
    if !server.public.is_empty() {
        interfaces.push(with(Interface::public(), &[v4, v6].concat()));
    }
    // Each private address on an interface of its own, as in a cluster with several networks.
    for address in &server.private {
        interfaces.push(Interface::private().address(address));
    }
    interfaces
}

enum Sim {
    Linode(Linode),
    Cloudscale(Cloudscale),
    Phoenixnap(Phoenixnap),
    Brightbox(Brightbox),
}

/// A simulated cloud of any kind. Machines are told apart by their provider IDs.
pub struct CloudSim {
    sim: Sim,
}

impl CloudSim {
    /// A cloud without machines, which limits nothing.
    pub async fn start(cloud: Cloud) -> Self {
        let sim = match cloud {
            Cloud::Linode => {
                let linode = Linode::start().await.expect("a free port");
                linode.limit(Limits::none());
                Sim::Linode(linode)
            }
            Cloud::Cloudscale => Sim::Cloudscale(Cloudscale::start().await.expect("a free port")),
            Cloud::Phoenixnap => Sim::Phoenixnap(Phoenixnap::start().await.expect("a free port")),
            Cloud::Brightbox => Sim::Brightbox(Brightbox::start().await.expect("a free port")),
        };
        Self { sim }
    }

    /// Which cloud it is.
    pub const fn kind(&self) -> Cloud {
        match self.sim {
            Sim::Linode(_) => Cloud::Linode,
            Sim::Cloudscale(_) => Cloud::Cloudscale,
            Sim::Phoenixnap(_) => Cloud::Phoenixnap,
            Sim::Brightbox(_) => Cloud::Brightbox,
        }
    }

    /// What central needs in its environment.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        match &self.sim {
            Sim::Linode(linode) => vec![
                ("LINODE_URL", linode.url()),
                ("LINODE_API_TOKEN", TOKEN.to_owned()),
                ("LINODE_REGION", "eu-central".to_owned()),
            ],
            Sim::Cloudscale(cloudscale) => vec![
                ("CLOUDSCALE_API_URL", cloudscale.url()),
                ("CLOUDSCALE_ACCESS_TOKEN", TOKEN.to_owned()),
            ],
            Sim::Phoenixnap(phoenixnap) => vec![
                ("PNAP_BASE_URL", phoenixnap.url()),
                ("PNAP_TOKEN_URL", phoenixnap.token_url()),
                ("PNAP_CLIENT_ID", CLIENT_ID.to_owned()),
                ("PNAP_CLIENT_SECRET", CLIENT_SECRET.to_owned()),
            ],
            Sim::Brightbox(brightbox) => vec![
                ("BRIGHTBOX_API_URL", brightbox.url()),
                ("BRIGHTBOX_CLIENT", brightbox::CLIENT_ID.to_owned()),
                (
                    "BRIGHTBOX_CLIENT_SECRET",
                    brightbox::CLIENT_SECRET.to_owned(),
                ),
            ],
        }
    }

    /// The simulation, if it is that of Linode.
    pub const fn linode(&self) -> Option<&Linode> {
        match &self.sim {
            Sim::Linode(linode) => Some(linode),
            Sim::Cloudscale(_) | Sim::Phoenixnap(_) | Sim::Brightbox(_) => None,
        }
    }

    /// The simulation, if it is that of cloudscale.ch.
    pub const fn cloudscale(&self) -> Option<&Cloudscale> {
        match &self.sim {
            Sim::Cloudscale(cloudscale) => Some(cloudscale),
            Sim::Linode(_) | Sim::Phoenixnap(_) | Sim::Brightbox(_) => None,
        }
    }

    /// The simulation, if it is that of PhoenixNAP.
    pub const fn phoenixnap(&self) -> Option<&Phoenixnap> {
        match &self.sim {
            Sim::Phoenixnap(phoenixnap) => Some(phoenixnap),
            Sim::Linode(_) | Sim::Cloudscale(_) | Sim::Brightbox(_) => None,
        }
    }

    /// The simulation, if it is that of Brightbox.
    pub const fn brightbox(&self) -> Option<&Brightbox> {
        match &self.sim {
            Sim::Brightbox(brightbox) => Some(brightbox),
            Sim::Linode(_) | Sim::Cloudscale(_) | Sim::Phoenixnap(_) => None,
        }
    }

    // --- machines -----------------------------------------------------------------------------

    /// A new machine; gives its provider ID.
    pub fn add(&self, server: Server) -> String {
        match &self.sim {
            Sim::Linode(linode) => format!("linode://{}", linode.add(server.instance())),
            Sim::Cloudscale(cloudscale) => {
                format!("cloudscale://{}", cloudscale.add(server.machine()))
            }
            Sim::Phoenixnap(phoenixnap) => {
                format!("phoenixnap://{}", phoenixnap.add(bare_metal(server)))
            }
            Sim::Brightbox(brightbox) => {
                let id = brightbox.add(brightbox_machine(&server));
                brightbox_ips(brightbox, &id, &server);
                format!("brightbox://{id}")
            }
        }
    }

    /// A machine is deleted.
    pub fn remove(&self, id: &str) {
        let there = match &self.sim {
            Sim::Linode(linode) => linode.remove(number(id)),
            Sim::Cloudscale(cloudscale) => cloudscale.remove(uuid(id)),
            Sim::Phoenixnap(phoenixnap) => phoenixnap.remove(server_id(id)),
            Sim::Brightbox(brightbox) => brightbox.remove(brightbox_id(id)),
        };
        assert!(there, "there is no machine {id}");
    }

    /// A machine that was there before is there again, at the end of the listing.
    pub fn restore(&self, id: &str, server: Server) {
        match &self.sim {
            Sim::Linode(linode) => linode.restore(number(id), server.instance()),
            Sim::Cloudscale(cloudscale) => cloudscale.restore(uuid(id), server.machine()),
            Sim::Phoenixnap(phoenixnap) => phoenixnap.restore(server_id(id), bare_metal(server)),
            Sim::Brightbox(brightbox) => {
                let id = brightbox_id(id);
                brightbox.restore(id, brightbox_machine(&server));
                brightbox_ips(brightbox, id, &server);
            }
        }
    }

    /// A machine gets another name.
    pub fn rename(&self, id: &str, name: &str) {
        match self.kind() {
            Cloud::Linode => self.set(id, "label", json!(name)),
            Cloud::Cloudscale => self.set(id, "name", json!(name)),
            Cloud::Phoenixnap | Cloud::Brightbox => self.set(id, "hostname", json!(name)),
        }
    }

    /// A machine is switched off.
    pub fn stop(&self, id: &str) {
        match self.kind() {
            Cloud::Linode => self.set(id, "status", json!("offline")),
            Cloud::Cloudscale => self.set(id, "status", json!("stopped")),
            Cloud::Phoenixnap => self.set(id, "status", json!("powered-off")),
            Cloud::Brightbox => self.set(id, "status", json!("inactive")),
        }
    }

    /// A machine is switched on.
    pub fn boot(&self, id: &str) {
        let running = match self.kind() {
            Cloud::Linode | Cloud::Cloudscale => "running",
            Cloud::Phoenixnap => "powered-on",
            Cloud::Brightbox => "active",
        };
        self.set(id, "status", json!(running));
    }

    /// A machine gets another type.
    pub fn resize(&self, id: &str, kind: &str) {
        match self.kind() {
            Cloud::Linode | Cloud::Phoenixnap => self.set(id, "type", json!(kind)),
            Cloud::Cloudscale => {
                self.set(id, "flavor", json!({ "slug": kind, "name": kind }));
            }
            Cloud::Brightbox => self.set(id, "server_type", brightbox::server_type(kind)),
        }
    }

    /// A machine gets the addresses of this description.
    pub fn readdress(&self, id: &str, server: Server) {
        match self.kind() {
            Cloud::Linode => {
                let addresses = server.public.iter().chain(&server.private);
                let (v6, v4): (Vec<_>, Vec<_>) = addresses.partition(|a| a.contains(':'));
                self.set(id, "ipv4", json!(v4));
                let v6 = v6.first().map(|address| format!("{address}/128"));
                self.set(id, "ipv6", json!(v6));
            }
            Cloud::Cloudscale => {
                let interfaces = interfaces(&server).into_iter().map(Interface::into_value);
                self.set(id, "interfaces", interfaces.collect());
            }
            Cloud::Phoenixnap => {
                self.set(id, "publicIpAddresses", json!(server.public));
                self.set(id, "privateIpAddresses", json!(server.private));
            }
            Cloud::Brightbox => {
                self.set(id, "interfaces", brightbox_interfaces(&server));
                if let Sim::Brightbox(brightbox) = &self.sim {
                    brightbox_ips(brightbox, brightbox_id(id), &server);
                }
            }
        }
    }

    /// Changes a field as the API shows it.
    pub fn set(&self, id: &str, field: &str, value: Value) {
        match &self.sim {
            Sim::Linode(linode) => linode.set(number(id), field, value),
            Sim::Cloudscale(cloudscale) => cloudscale.set(uuid(id), field, value),
            Sim::Phoenixnap(phoenixnap) => phoenixnap.set(server_id(id), field, value),
            Sim::Brightbox(brightbox) => brightbox.set(brightbox_id(id), field, value),
        }
    }

    // --- failures -----------------------------------------------------------------------------

    /// What goes wrong.
    pub fn faults(&self) -> &Faults {
        match &self.sim {
            Sim::Linode(linode) => linode.faults(),
            Sim::Cloudscale(cloudscale) => cloudscale.faults(),
            Sim::Phoenixnap(phoenixnap) => phoenixnap.faults(),
            Sim::Brightbox(brightbox) => brightbox.faults(),
        }
    }

    /// All requests.
    pub fn everything() -> When {
        When::any("**/*")
    }

    /// Requests for a listing of all machines.
    pub fn listing(&self) -> When {
        When::get(self.listing_path())
    }

    /// Requests for one machine.
    pub fn lookup(&self) -> When {
        When::get(self.lookup_path())
    }

    /// Whether nobody is at home: all connections are reset.
    pub fn set_down(&self, down: bool) {
        match &self.sim {
            Sim::Linode(linode) => linode.set_down(down),
            Sim::Cloudscale(cloudscale) => cloudscale.set_down(down),
            Sim::Phoenixnap(phoenixnap) => phoenixnap.set_down(down),
            Sim::Brightbox(brightbox) => brightbox.set_down(down),
        }
    }

    /// How many connections were reset at once since nobody was at home.
    pub fn turned_away(&self) -> u64 {
        match &self.sim {
            Sim::Linode(linode) => linode.turned_away(),
            Sim::Cloudscale(cloudscale) => cloudscale.turned_away(),
            Sim::Phoenixnap(phoenixnap) => phoenixnap.turned_away(),
            Sim::Brightbox(brightbox) => brightbox.turned_away(),
        }
    }

    // --- what was asked -----------------------------------------------------------------------

    /// All requests so far.
    pub fn calls(&self) -> Calls {
        match &self.sim {
            Sim::Linode(linode) => linode.calls(),
            Sim::Cloudscale(cloudscale) => cloudscale.calls(),
            Sim::Phoenixnap(phoenixnap) => phoenixnap.calls(),
            Sim::Brightbox(brightbox) => brightbox.calls(),
        }
    }

    /// The listings of all machines that were begun so far: requests for a first page.
    pub fn listings(&self) -> Calls {
        let listings = self.calls().to(self.listing_path());
        listings.filter(|call| call.parameter("page").is_none_or(|page| page == "1"))
    }

    /// The requests for one machine so far.
    pub fn lookups(&self) -> Calls {
        self.calls().to(self.lookup_path())
    }

    const fn listing_path(&self) -> &'static str {
        match self.kind() {
            Cloud::Linode => "**/linode/instances",
            Cloud::Cloudscale => "/v1/servers",
            Cloud::Phoenixnap => "/bmc/v1/servers",
            Cloud::Brightbox => "/1.0/servers",
        }
    }

    const fn lookup_path(&self) -> &'static str {
        match self.kind() {
            Cloud::Linode => "**/linode/instances/*",
            Cloud::Cloudscale => "/v1/servers/*",
            Cloud::Phoenixnap => "/bmc/v1/servers/*",
            Cloud::Brightbox => "/1.0/servers/*",
        }
    }
}

fn number(id: &str) -> u64 {
    let number = id.strip_prefix("linode://").and_then(|id| id.parse().ok());
    number.expect("a provider ID of Linode")
}

fn uuid(id: &str) -> &str {
    id.strip_prefix("cloudscale://")
        .expect("a provider ID of cloudscale.ch")
}

fn server_id(id: &str) -> &str {
    id.strip_prefix("phoenixnap://")
        .expect("a provider ID of PhoenixNAP")
}

fn brightbox_id(id: &str) -> &str {
    id.strip_prefix("brightbox://")
        .expect("a provider ID of Brightbox")
}
