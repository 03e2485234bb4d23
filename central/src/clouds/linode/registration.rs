//! What Linode registers.

use std::sync::Arc;

use anyhow::Context as _;
use futures::FutureExt as _;
use mooring_common::flags::Action::Act;
use mooring_common::flags::Kind::{Bool, Duration, Integer, List, Text};
use mooring_common::flags::{Flag, flag};

use super::routes::LinodeInterfaces;
use super::{
    Config, Flags, LIMITS, Linode, NAME, annotations, api, go_names, load_balancers, node_ranges,
};
use crate::cloud_api::{Fault, TokenCheck};
use crate::cloud_provider::pod_network::PodNetwork;
use crate::cloud_provider::registration::{
    Cloud, ConfigFile, Configure, OpenCloud, OpenContext, Registration, Source,
};
use crate::engine::interface_routes::InterfaceRoutes;
use crate::engine::inventory::Inventory;

/// It.
pub const REGISTRATION: Registration = Registration {
    name: NAME,
    program: Some("linode-cloud-controller-manager"),
    // A token that is mounted where it is looked for by default has no variable.
    credentials: &["LINODE_API_TOKEN", "LINODE_API_TOKEN_FILE", "LINODE_REGION"],
    limits: Some(LIMITS),
    config_file: ConfigFile::None,
    annotations: annotations::ALL,
    flags: FLAGS,
    read: |reader| Arc::new(Flags::read(reader)),
};

const GROUP: &str = "Linode";

/// One flag a line.
#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    flag(GROUP, "linode-tag-filter", Text, "", Act, "Only Linodes with this tag are listed. Absent: all of the account."),
    flag(GROUP, "vpc-names", List, "", Act, "VPCs whose addresses are the Nodes' first internal ones, by name."),
    flag(GROUP, "subnet-names", List, "default", Act, "The subnets of --vpc-names that are looked at, in each of the VPCs."),
    flag(GROUP, "vpc-ids", List, "", Act, "Like --vpc-names, by number; needs --subnet-ids."),
    flag(GROUP, "subnet-ids", List, "", Act, "The subnets of --vpc-ids, by number."),
    flag(GROUP, "enable-token-health-checker", Bool, "false", Act, "Ask Linode at start and every 5 minutes whether the token is valid, and end if it is not."),
    flag(GROUP, "linodego-debug", Bool, "false", Act, "Log every request to Linode and its answer, without the token and without keys of certificates."),
    flag(GROUP, "load-balancer-type", Text, "nodebalancer", Act, "Only nodebalancer. cilium-bgp is taken for it, with a warning; the Go controller has given it up too."),
    flag(GROUP, "bgp-node-selector", Text, "", Act, "No effect but a warning: addresses are not shared by BGP."),
    flag(GROUP, "ip-holder-suffix", Text, "", Act, "No effect but a warning: addresses are not shared by BGP."),
    flag(GROUP, "default-nodebalancer-type", Text, "common", Act, "The type of new NodeBalancers: common, premium or premium_40gb."),
    flag(GROUP, "nodebalancer-prefix", Text, "ccm", Act, "How the names of NodeBalancers and their firewalls begin: up to 19 letters, digits, hyphens and underscores."),
    flag(GROUP, "nodebalancer-tags", List, "", Act, "Tags of NodeBalancers, after the name of the cluster."),
    flag(GROUP, "nodebalancer-backend-ipv4-subnet", Text, "", Act, "The block that NodeBalancers' addresses in a VPC, towards the Nodes, lie in."),
    flag(GROUP, "nodebalancer-backend-ipv4-subnet-id", Integer, "0", Act, "The subnet that NodeBalancers take these addresses from, by number. 0: the first one that the flags for VPCs name."),
    flag(GROUP, "nodebalancer-backend-ipv4-subnet-name", Text, "", Act, "The same subnet by name, in the first VPC."),
    flag(GROUP, "disable-nodebalancer-vpc-backends", Bool, "false", Act, "NodeBalancers reach Nodes outside of the VPCs, by their private addresses."),
    flag(GROUP, "enable-ipv6-for-loadbalancers", Bool, "false", Act, "The status of Services has the NodeBalancer's IPv6 address too."),
    flag(GROUP, "enable-ipv6-for-nodebalancer-backends", Bool, "false", Act, "NodeBalancers reach Nodes by their public IPv6 addresses."),
    flag(GROUP, "nodebalancer-drain-period", Duration, "5s", Act, "How long a Node that leaves a NodeBalancer keeps its connections and gets no new ones, before it is taken out. 0: it is taken out at once."),
    flag(GROUP, "enable-route-controller", Bool, "false", Act, "Make routes to the Pods of Nodes, as ranges on the interfaces of Linodes in the VPC. Needs --vpc-names or --vpc-ids, and --cluster-cidr."),
    flag(GROUP, "node-cidr-mask-size-ipv4", Integer, "0", Act, "With --allocate-node-cidrs: the length of the Nodes' IPv4 pod CIDRs. 0: 24."),
    flag(GROUP, "node-cidr-mask-size-ipv6", Integer, "0", Act, "The same of their IPv6 pod CIDRs. 0: 112."),
    flag(GROUP, "disable-ipv6-node-cidr-allocation", Bool, "false", Act, "With --allocate-node-cidrs: give Nodes no IPv6 pod CIDRs. Otherwise a Node whose Linode has no IPv6 range in a VPC gets none at all."),
];

const INVALID_TOKEN: &str = "the linode api token is invalid";

impl Configure for Flags {
    fn configure(&self, source: &Source<'_>) -> Result<OpenCloud, Vec<Fault>> {
        let config = Config::read(source.env, self.clone())?;
        Ok(Box::new(|context| open(config, context).boxed()))
    }
}

async fn open(config: Config, context: OpenContext<'_>) -> anyhow::Result<Cloud> {
    let Flags {
        checks_token,
        has_routes,
        ..
    } = config.settings.flags;
    let limits = context.limits.or(LIMITS);
    let requests = context.requests;
    let requests = requests.with_calls(context.registry, go_names::CALLS, go_names::method);
    let linode = Linode::new(config, limits, requests)?;
    let inventory = Arc::new(Inventory::new(linode.clone()));
    let mut cloud = Cloud::of(inventory.clone());
    if checks_token {
        let check = TokenCheck::start(linode.clone(), api::profile());
        cloud.watch(&check.await.context(INVALID_TOKEN)?, INVALID_TOKEN);
    }
    cloud.pod_network = PodNetwork {
        routes: has_routes
            .then(|| Arc::new(InterfaceRoutes(LinodeInterfaces(linode.clone()))) as _),
        node_ipam: Some(node_ranges::ipam(linode.clone())),
    };
    cloud.load_balancers = Some(Box::new(move |_, _| {
        load_balancers::of_account(linode, inventory)
    }));
    Ok(cloud)
}
