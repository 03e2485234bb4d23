//! What Linode registers.

use std::sync::Arc;

use anyhow::Context as _;
use futures::FutureExt as _;
use mooring_common::flags::Action::{Accept, Act};
use mooring_common::flags::Kind::{Bool, Integer, List, Text};
use mooring_common::flags::{Flag, flag};

use super::flags::IPV4_MASK_FLAG;
use super::node_ranges::LinodeRanges;
use super::routes::LinodeRoutes;
use super::{Config, Flags, LIMITS, Linode, NAME, annotations};
use crate::cloud_api::Fault;
use crate::cloud_provider::pod_network::{NodeIpam, PodNetwork};
use crate::cloud_provider::registration::{
    Background, Cloud, ConfigFile, Configure, OpenCloud, OpenContext, Registration, Source,
};
use crate::engine::inventory::Inventory;

/// It.
pub const REGISTRATION: Registration = Registration {
    name: NAME,
    program: Some("linode-cloud-controller-manager"),
    credentials: &["LINODE_API_TOKEN", "LINODE_API_TOKEN_FILE"],
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
    flag(GROUP, "linodego-debug", Bool, "false", Accept, "-v=6 logs every request to a cloud."),
    flag(GROUP, "enable-route-controller", Bool, "false", Act, "Make routes to the Pods of Nodes, as ranges on the interfaces of Linodes in the VPC. Needs --vpc-names or --vpc-ids, and --cluster-cidr."),
    flag(GROUP, "load-balancer-type", Text, "nodebalancer", Accept, "This version makes no NodeBalancers yet."),
    flag(GROUP, "default-nodebalancer-type", Text, "common", Accept, "The type of new NodeBalancers; this version makes none yet."),
    flag(GROUP, "nodebalancer-prefix", Text, "ccm", Accept, "How the names of NodeBalancers begin; this version makes none yet."),
    flag(GROUP, "nodebalancer-tags", List, "", Accept, "Tags of new NodeBalancers; this version makes none yet."),
    flag(GROUP, "nodebalancer-backend-ipv4-subnet", Text, "", Accept, "Where NodeBalancers take addresses towards the Nodes from; this version makes none yet."),
    flag(GROUP, "nodebalancer-backend-ipv4-subnet-id", Integer, "0", Accept, "The subnet of these addresses, by number; this version makes no NodeBalancers yet."),
    flag(GROUP, "nodebalancer-backend-ipv4-subnet-name", Text, "", Accept, "The subnet of these addresses, by name; this version makes no NodeBalancers yet."),
    flag(GROUP, "disable-nodebalancer-vpc-backends", Bool, "false", Accept, "NodeBalancers outside of VPCs; this version makes none yet."),
    flag(GROUP, "enable-ipv6-for-loadbalancers", Bool, "false", Accept, "IPv6 addresses of NodeBalancers in the status of Services; this version makes no NodeBalancers yet."),
    flag(GROUP, "enable-ipv6-for-nodebalancer-backends", Bool, "false", Accept, "NodeBalancers reach Nodes by IPv6; this version makes none yet."),
    flag(GROUP, "node-cidr-mask-size-ipv4", Integer, "0", Act, "With --allocate-node-cidrs: the length of the Nodes' IPv4 pod CIDRs. 0: 24."),
    flag(GROUP, "node-cidr-mask-size-ipv6", Integer, "0", Act, "The same of their IPv6 pod CIDRs. 0: 112."),
    flag(GROUP, "disable-ipv6-node-cidr-allocation", Bool, "false", Act, "With --allocate-node-cidrs: give Nodes no IPv6 pod CIDRs. Otherwise a Node whose Linode has no IPv6 range in a VPC gets none at all."),
    flag(GROUP, "bgp-node-selector", Text, "", Accept, "The Go controller has given up sharing addresses by BGP as well."),
    flag(GROUP, "ip-holder-suffix", Text, "", Accept, "The Go controller has given up sharing addresses by BGP as well."),
];

impl Configure for Flags {
    fn configure(&self, source: &Source<'_>) -> Result<OpenCloud, Vec<Fault>> {
        let config = Config::read(source.env, self.clone())?;
        Ok(Box::new(|context| open(config, context).boxed()))
    }
}

const TOKEN_CHECK: &str = "the token that --enable-token-health-checker asks to check";

async fn open(config: Config, context: OpenContext<'_>) -> anyhow::Result<Cloud> {
    let checks_token = config.flags.checks_token;
    let (has_routes, routes_max_age) = (config.flags.has_routes, config.routes_max_age);
    let (ipv4_mask, ipv6_mask) = (config.flags.ipv4_mask, config.flags.ipv6_mask);
    let linode = Linode::new(config, context.limits.or(LIMITS), context.requests)?;
    let mut background: Option<Background> = None;
    if checks_token {
        linode.check_token().await.context(TOKEN_CHECK)?;
        let linode = linode.clone();
        background = Some(Box::new(|_| {
            let refused = async move { linode.until_token_is_refused().await };
            refused
                .map(|refusal| anyhow::Error::new(refusal).context(TOKEN_CHECK))
                .boxed()
        }));
    }
    let ranges = LinodeRanges {
        linode: linode.clone(),
        ipv6_mask,
    };
    let pod_network = PodNetwork {
        routes: has_routes.then(|| LinodeRoutes::new(linode.clone(), routes_max_age) as _),
        node_ipam: Some(NodeIpam {
            ipv4_mask,
            ipv4_mask_flag: IPV4_MASK_FLAG,
            ranges: Arc::new(ranges),
        }),
    };
    Ok(Cloud {
        instances: Arc::new(Inventory::new(linode)),
        load_balancers: None,
        networks: None,
        pod_network,
        background,
    })
}
