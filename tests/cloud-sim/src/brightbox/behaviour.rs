//! How a simulated Brightbox behaves.

use std::collections::BTreeSet;
use std::time::Duration;

/// How it behaves.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// For how long a new load balancer is `creating`.
    pub creating: Duration,
    /// For how long one that is deleted is `deleting`.
    pub deleting: Duration,
    /// For how long what is deleted is still shown as `deleted`.
    pub deleted_shown: Duration,
    /// How long it takes to map a Cloud IP, and to unmap it.
    pub mapping: Duration,
    /// How much later than a load balancer is deleted its Cloud IPs are unmapped.
    pub unmapping: Duration,
    /// For how long a load balancer is still `active` that is being deleted.
    pub deletion_shown: Duration,
    /// For how long a domain is `validating`, once a Cloud IP leads to its load balancer.
    pub validating: Duration,
    /// How long it takes to empty a server group.
    pub emptying: Duration,
    /// The domains that are `invalid` in the end.
    pub invalid_domains: BTreeSet<String>,
    /// Whether the listing of load balancers shows `acme`, as one of them alone does.
    pub acme_in_listings: bool,
    /// For how long a new load balancer is in no listing.
    pub listed_after: Duration,
    /// Whether new Cloud IPs have one name, which resolves to their IPv4 address without any DNS server.
    pub numeric_names: bool,
    /// Whether load balancers can be told by a list that they have no nodes.
    pub takes_no_nodes: bool,
    /// Whether load balancers keep the last of their nodes.
    pub keeps_last_node: bool,
    /// How many Cloud IPs the account may have.
    pub cloud_ips_limit: usize,
    /// How many load balancers the account may have.
    pub load_balancers_limit: usize,
    /// For how long a token is valid.
    pub token_lifetime: Duration,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            creating: Duration::from_millis(200),
            deleting: Duration::from_millis(200),
            deleted_shown: Duration::from_secs(60),
            mapping: Duration::from_millis(200),
            unmapping: Duration::ZERO,
            deletion_shown: Duration::ZERO,
            validating: Duration::from_millis(300),
            emptying: Duration::ZERO,
            invalid_domains: BTreeSet::new(),
            acme_in_listings: false,
            listed_after: Duration::ZERO,
            numeric_names: false,
            takes_no_nodes: false,
            keeps_last_node: false,
            cloud_ips_limit: 200,
            load_balancers_limit: 200,
            token_lifetime: Duration::from_secs(7200),
        }
    }
}
