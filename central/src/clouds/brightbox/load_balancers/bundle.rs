//! All that has the name of one Service: its load balancer, its server group with the firewall policy, its Cloud
//! IPs. That is what the engine takes for a load balancer, so that nothing of it is left or made twice when
//! something comes in between.

mod observed;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use mooring_common::names::brightbox_marks as marks;

use super::super::api::{Balancer, CloudIp, Group, Policy, plain_name};
use crate::cloud_api::Reference;
use crate::engine::provider::Listed;
use crate::engine::text_marks;
use crate::views::service_view::ServiceView;

/// The text that marks what was made for a Service.
pub(super) fn mark(service: &str, cluster: Option<&str>) -> String {
    let said = [(marks::CLUSTER, cluster), (marks::SERVICE, Some(service))];
    text_marks::text(marks::PREFIX, &said)
}

/// What the description of a group says under this key.
fn marked<'a>(group: &'a Group, key: &str) -> Option<&'a str> {
    text_marks::said(&group.description, marks::PREFIX, key)
}

/// All that there is, as it was listed.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// The load balancers.
    pub(super) balancers: Vec<Balancer>,
    /// The server groups.
    pub(super) groups: Vec<Group>,
    /// The firewall policies.
    pub(super) policies: Vec<Policy>,
    /// The Cloud IPs.
    pub(super) cloud_ips: Vec<CloudIp>,
}

/// All that has one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bundle {
    /// The name.
    pub(super) name: String,
    /// The load balancers, those on their way out included; the one that serves comes first.
    pub(super) balancers: Vec<Balancer>,
    /// The server groups; the one that bears a mark comes first.
    pub(super) groups: Vec<Group>,
    /// The firewall policies.
    pub(super) policies: Vec<Policy>,
    /// The Cloud IPs that have the name and lead nowhere else, or to what is gone, and those that lead here.
    pub(super) cloud_ips: Vec<CloudIp>,
    /// Those that have the name, and lead elsewhere.
    pub(super) taken: Vec<CloudIp>,
    /// The identifiers of those that lead here.
    held: BTreeSet<String>,
}

impl Bundle {
    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// All of an account, by name.
    pub(super) fn all(account: &Account) -> Vec<Self> {
        let mut all: BTreeMap<String, Self> = BTreeMap::new();
        let mut names: HashMap<&str, &str> = HashMap::new();
        let there = |balancer: &&Balancer| !balancer.is("deleted");
        for balancer in account.balancers.iter().filter(there) {
            let name = name_of(plain_name(&balancer.name), &balancer.id);
            names.insert(&balancer.id, name);
            of(&mut all, name).balancers.push(balancer.clone());
        }
        for group in account.groups.iter().filter(|one| !one.name.is_empty()) {
            of(&mut all, &group.name).groups.push(group.clone());
        }
        for policy in account.policies.iter().filter(|one| !one.name.is_empty()) {
            of(&mut all, &policy.name).policies.push(policy.clone());
        }
        for ip in &account.cloud_ips {
            let balancer = ip.load_balancer.as_ref();
            let leads_to = balancer.and_then(|balancer| names.get(balancer.id.as_str()));
            // The cloud may unmap it later than it deletes the load balancer.
            let was_here = balancer.is_some_and(|one| plain_name(&one.name) == ip.name);
            let is_free = was_here || ip.known_target().is_none();
            let name = leads_to.copied().or(is_free.then_some(&ip.name));
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                of(&mut all, name).cloud_ips.push(ip.clone());
            }
        }
        for ip in &account.cloud_ips {
            let named = all.get_mut(&ip.name);
            if let Some(bundle) = named.filter(|bundle| !bundle.cloud_ips.contains(ip)) {
                bundle.taken.push(ip.clone());
            }
        }
        let mut all: Vec<Self> = all.into_values().collect();
        all.iter_mut().for_each(Self::settle);
        all
    }

    /// Puts first what comes first.
    fn settle(&mut self) {
        self.balancers.sort_by_key(|balancer| !balancer.is_alive());
        self.groups
            .sort_by_key(|group| marked(group, marks::SERVICE).is_none());
        let held = self.balancers.first().into_iter();
        let held = held.flat_map(|balancer| &balancer.cloud_ips);
        self.held = held.map(|ip| ip.id.clone()).collect();
    }

    /// The load balancer that serves, or will.
    pub(super) fn balancer(&self) -> Option<&Balancer> {
        self.balancers.iter().find(|balancer| balancer.is_alive())
    }

    /// The Cloud IP that is its own, or that leads here although nobody asks for it any more.
    pub(super) fn own_ip(&self) -> Option<&CloudIp> {
        let leads_here = |ip: &&CloudIp| self.held.contains(&ip.id);
        let is_named = |ip: &&CloudIp| ip.name == self.name;
        let mut all = self.cloud_ips.iter();
        let here = all.clone().find(|ip| leads_here(ip) && is_named(ip));
        let here = here.or_else(|| all.clone().find(leads_here));
        here.or_else(|| all.find(is_named))
    }

    /// The names in the DNS that lead here, in the order of a Service's status.
    pub(super) fn host_names(&self) -> impl Iterator<Item = &String> {
        let ips = self.balancer().into_iter();
        ips.flat_map(|balancer| &balancer.cloud_ips)
            .flat_map(CloudIp::names)
    }
}

fn name_of<'a>(name: &'a str, id: &'a str) -> &'a str {
    if name.is_empty() { id } else { name }
}

fn of<'a>(all: &'a mut BTreeMap<String, Bundle>, name: &str) -> &'a mut Bundle {
    all.entry(name.to_owned())
        .or_insert_with(|| Bundle::named(name))
}

/// What an object shows of a load balancer, by the name of all that is its Service's.
pub(super) fn holder_of(balancer: &Reference) -> String {
    name_of(plain_name(&balancer.name), &balancer.id).to_owned()
}

impl Listed for Bundle {
    fn id(&self) -> &str {
        &self.name
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn owner(&self) -> Option<&str> {
        marked(self.groups.first()?, marks::SERVICE)
    }

    fn cluster(&self) -> Option<&str> {
        marked(self.groups.first()?, marks::CLUSTER)
    }

    fn addresses(&self) -> Vec<IpAddr> {
        let ips = self.cloud_ips.iter();
        ips.flat_map(CloudIp::addresses).collect()
    }

    /// Something of it is on its way out, or emptied so that it can go; or a Cloud IP is still to be unmapped
    /// from what is gone.
    fn is_changing(&self) -> bool {
        let is_leaving = |balancer: &Balancer| balancer.is("deleting");
        let is_leading = |ip: &CloudIp| ip.is_moving && ip.target().is_some();
        let is_in_the_way =
            self.balancers.iter().any(is_leaving) || self.cloud_ips.iter().any(is_leading);
        let is_emptied = |group: &Group| group.is_emptied && !group.servers.is_empty();
        self.balancer().is_none() && is_in_the_way || self.groups.iter().any(is_emptied)
    }

    fn is_made(&self) -> bool {
        self.balancer().is_some()
    }

    fn is_shown_by(&self, service: &ServiceView) -> bool {
        let own: BTreeSet<&String> = self.cloud_ips.iter().flat_map(CloudIp::names).collect();
        let shown = service.ingress.iter();
        let mut shown = shown.filter_map(|one| one.hostname.as_ref());
        shown.any(|name| own.contains(name))
    }
}

#[cfg(test)]
mod tests;
