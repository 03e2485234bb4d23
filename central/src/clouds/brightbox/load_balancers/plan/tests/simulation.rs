//! An account that takes steps, and holds every step against what the cloud permits.

use std::collections::BTreeSet;

use tokio::time::Instant;

use crate::clouds::brightbox::api::{
    Balancer, CloudIp, Group, MOST_PORTS, Policy, Reference, Rule, RuleSpec, plain_name,
};
use crate::clouds::brightbox::load_balancers::bundle::{Account, Bundle};
use crate::clouds::brightbox::load_balancers::desired::Desired;
use crate::clouds::brightbox::load_balancers::options::CloudIpWish;
use crate::clouds::brightbox::load_balancers::step::Step;
use crate::engine::port_rules::Edit;
use crate::engine::step::PoolRef;

/// An account, and how far a plan has come.
#[derive(Clone, Debug)]
pub(super) struct Simulation {
    pub(super) account: Account,
    /// What all that is the Service's is called.
    name: String,
    /// What Cloud IPs are to lead to once the cloud has got round to it.
    moves: Vec<(String, Option<String>)>,
    planned: Vec<String>,
    made: usize,
}

impl Simulation {
    pub(super) fn of(account: Account, name: &str) -> Self {
        Self {
            account,
            name: name.to_owned(),
            moves: Vec::new(),
            planned: Vec::new(),
            made: 0,
        }
    }

    /// What the Service has, as it is listed now.
    pub(super) fn bundle(&self) -> Option<Bundle> {
        let mut account = self.account.clone();
        for ip in &mut account.cloud_ips {
            ip.is_moving = self.moves.iter().any(|(id, _)| *id == ip.id);
        }
        let mut all = Bundle::all(&account, Instant::now()).into_iter();
        all.find(|bundle| bundle.name == self.name)
    }

    /// With the Cloud IP that is looked up, and its names.
    pub(super) fn looked_up(&self, desired: &Desired) -> Desired {
        let bundle = self.bundle();
        let mut desired = desired.clone();
        desired.chosen = desired.own_choice(bundle.as_ref());
        if desired.chosen.is_none() && desired.wish != CloudIpWish::Own {
            let mut all = self.account.cloud_ips.iter();
            desired.chosen = all.find(|ip| desired.wish.is_met_by(ip)).cloned();
        }
        if let Some(ip) = desired.chosen.as_ref().filter(|_| desired.is_https()) {
            desired.domains.extend(ip.names().cloned());
        }
        desired
    }

    /// A plan begins.
    pub(super) fn begins(&mut self) {
        self.planned.clear();
    }

    /// The cloud does what it has taken.
    pub(super) fn passes(&mut self) {
        for (id, target) in std::mem::take(&mut self.moves) {
            let name = self.name.clone();
            let ip = self.ip(&id);
            ip.load_balancer = target.map(|id| Reference { id, name });
            ip.status = Some(
                if ip.load_balancer.is_some() {
                    "mapped"
                } else {
                    "unmapped"
                }
                .to_owned(),
            );
        }
        for balancer in &mut self.account.balancers {
            if balancer.is("failing") {
                balancer.status = Some("failed".to_owned());
            }
            for domain in balancer.acme.iter_mut().flat_map(|acme| &mut acme.domains) {
                "valid".clone_into(&mut domain.status);
            }
        }
        self.account
            .balancers
            .retain(|balancer| !balancer.is("deleting"));
        self.shows();
    }

    /// Load balancers show the Cloud IPs that lead to them, and what led to one that is no more leads nowhere.
    pub(super) fn shows(&mut self) {
        let balancers = &self.account.balancers;
        for ip in &mut self.account.cloud_ips {
            let is_there = |to: &Reference| balancers.iter().any(|one| one.id == to.id);
            if ip.load_balancer.take_if(|to| !is_there(to)).is_some() {
                ip.status = Some("unmapped".to_owned());
            }
        }
        let ips = &self.account.cloud_ips;
        for balancer in &mut self.account.balancers {
            let leads_here = |ip: &&CloudIp| ip.target() == Some(&balancer.id);
            balancer.cloud_ips = ips.iter().filter(leads_here).cloned().collect();
        }
    }

    /// The load balancer that serves, or will.
    pub(super) fn alive(&self) -> Option<&Balancer> {
        let mut all = self.account.balancers.iter();
        all.find(|one| plain_name(&one.name) == self.name && one.is_alive())
    }

    /// What the load balancer sends where: a port, the server's port, and the server.
    pub(super) fn sent(&self) -> BTreeSet<(u16, u16, String)> {
        let Some(balancer) = self.alive() else {
            return BTreeSet::new();
        };
        let all = balancer.listeners.iter().flat_map(|listener| {
            let nodes = balancer.nodes.iter();
            nodes.map(|node| (listener.port, listener.target, node.clone()))
        });
        all.collect()
    }

    /// What of that the firewall lets through.
    pub(super) fn served(&self) -> BTreeSet<(u16, u16, String)> {
        let mut served = self.sent();
        served.retain(|(_, target, node)| self.lets_through(*target, node));
        served
    }

    fn lets_through(&self, target: u16, node: &str) -> bool {
        let groups = self.account.groups.iter();
        let mut groups = groups.filter(|group| group.servers.contains(node));
        groups.any(|group| {
            let of_group = |policy: &&Policy| {
                policy
                    .server_group
                    .as_ref()
                    .is_some_and(|one| one.id == group.id)
            };
            let rules = self.account.policies.iter().filter(of_group);
            let mut rules = rules.flat_map(|policy| &policy.rules);
            rules.any(|rule| ports(&rule.spec).contains(&target.to_string()))
        })
    }

    /// Whether a Cloud IP leads to the load balancer, and is to stay.
    pub(super) fn is_reachable(&self) -> bool {
        let Some(balancer) = self.alive() else {
            return false;
        };
        self.account.cloud_ips.iter().any(|ip| {
            let moves = self.moves.iter().any(|(id, _)| *id == ip.id);
            ip.target() == Some(&balancer.id) && !moves
        })
    }

    fn ip(&mut self, id: &str) -> &mut CloudIp {
        let mut all = self.account.cloud_ips.iter_mut();
        all.find(|ip| ip.id == id).expect("the Cloud IP is there")
    }

    fn group(&mut self, id: &str) -> &mut Group {
        let mut all = self.account.groups.iter_mut();
        all.find(|group| group.id == id)
            .expect("the group is there")
    }

    fn policy(&mut self, id: &str) -> &mut Policy {
        let mut all = self.account.policies.iter_mut();
        all.find(|policy| policy.id == id)
            .expect("the policy is there")
    }

    fn balancer(&mut self, id: &str) -> &mut Balancer {
        let mut all = self.account.balancers.iter_mut();
        let balancer = all
            .find(|balancer| balancer.id == id)
            .expect("the load balancer is there");
        assert!(balancer.is_alive(), "{id} changes no more");
        balancer
    }

    fn rule(&mut self, id: &str) -> &mut Rule {
        let rules = self
            .account
            .policies
            .iter_mut()
            .flat_map(|one| &mut one.rules);
        rules
            .into_iter()
            .find(|rule| rule.id == id)
            .expect("the rule is there")
    }

    fn id(&self, reference: &PoolRef) -> String {
        reference
            .id(&self.planned)
            .expect("it was made before")
            .to_owned()
    }

    /// Whether a server group has a policy.
    fn has_policy(&self, group: &str) -> bool {
        let mut all = self.account.policies.iter();
        all.any(|policy| {
            policy
                .server_group
                .as_ref()
                .is_some_and(|one| one.id == group)
        })
    }

    /// Takes a step, which must be possible.
    pub(super) fn take(&mut self, step: &Step) {
        assert!(
            step.request(&self.planned).is_some(),
            "{step} has no request"
        );
        self.made += 1;
        let made = format!("new-{}", self.made);
        match step {
            Step::CreateGroup(new) => {
                assert!(new.id.is_empty() && new.servers.is_empty(), "{step}");
                self.account.groups.push(Group {
                    id: made.clone(),
                    ..new.clone()
                });
                self.planned.push(made);
            }
            Step::AddServers { group, servers } => {
                let group = self.id(group);
                let group = self.group(&group);
                assert!(
                    group.servers.is_disjoint(servers) && !servers.is_empty(),
                    "{step}"
                );
                group.servers.extend(servers.iter().cloned());
            }
            Step::RemoveServers { group, servers } | Step::EmptyGroup { group, servers } => {
                let group = self.group(group);
                assert!(
                    servers.is_subset(&group.servers) && !servers.is_empty(),
                    "{step}"
                );
                group.servers.retain(|server| !servers.contains(server));
            }
            Step::CreatePolicy { name, group } => {
                let group = self.id(group);
                assert!(!self.has_policy(&group), "{step}: the group has one");
                self.account.policies.push(Policy {
                    id: made.clone(),
                    name: name.clone(),
                    server_group: Some(Reference::of(&group)),
                    rules: Vec::new(),
                });
                self.planned.push(made);
            }
            Step::ApplyPolicy { policy, group } => {
                let group = self.id(group);
                assert!(!self.has_policy(&group), "{step}: the group has one");
                let policy = self.policy(policy);
                assert_eq!(policy.server_group, None, "{step}");
                policy.server_group = Some(Reference::of(&group));
            }
            Step::Rule(policy, Edit::Create(rule)) => {
                assert!(ports(rule).len() <= MOST_PORTS, "{step}");
                let policy = self.id(policy);
                let spec = rule.clone();
                self.policy(&policy).rules.push(Rule { id: made, spec });
            }
            Step::Rule(_, Edit::Change(id, rule, _)) => {
                assert!(ports(rule).len() <= MOST_PORTS, "{step}");
                self.rule(id).spec = rule.clone();
            }
            Step::Rule(_, Edit::Delete(Rule { id, .. })) => {
                self.rule(id);
                for policy in &mut self.account.policies {
                    policy.rules.retain(|rule| rule.id != *id);
                }
            }
            Step::CreateCloudIp { name } => {
                self.account.cloud_ips.push(cloud_ip(&made, name));
                self.planned.push(made);
            }
            Step::MapCloudIp { ip, balancer, .. } => {
                let (ip, balancer) = (self.id(ip), self.id(balancer));
                self.balancer(&balancer);
                assert_eq!(self.ip(&ip).target(), None, "{step}: it is mapped");
                self.moves.push((ip, Some(balancer)));
            }
            Step::UnmapCloudIp { ip, .. } => {
                assert!(
                    self.ip(&ip.id).target().is_some(),
                    "{step}: it is not mapped"
                );
                self.moves.push((ip.id.clone(), None));
            }
            Step::DeleteCloudIp { ip } => {
                assert_eq!(self.ip(&ip.id).target(), None, "{step}: it is mapped");
                self.account.cloud_ips.retain(|own| own.id != ip.id);
            }
            Step::CreateBalancer(new) => {
                self.account.balancers.push(new.as_it_is(made.clone()));
                self.planned.push(made);
            }
            Step::ChangeBalancer { id, change, .. } => {
                let is_emptied = change.nodes.as_ref().is_some_and(BTreeSet::is_empty);
                assert!(!is_emptied && !change.is_empty(), "{step}");
                change.take(self.balancer(id));
            }
            Step::RemoveNodes { id, nodes } => {
                let balancer = self.balancer(id);
                assert!(nodes.is_subset(&balancer.nodes), "{step}");
                balancer.nodes.retain(|node| !nodes.contains(node));
            }
            Step::DeleteBalancer { id, .. } => {
                let mut all = self.account.balancers.iter_mut();
                let balancer = all
                    .find(|one| one.id == *id)
                    .expect("the load balancer is there");
                balancer.status = Some("deleting".to_owned());
            }
            Step::DeletePolicy { id, .. } => {
                self.policy(id);
                self.account.policies.retain(|policy| policy.id != *id);
            }
            Step::DeleteGroup { id, .. } => {
                assert!(self.group(id).servers.is_empty(), "{step}: it has servers");
                self.account.groups.retain(|group| group.id != *id);
                for policy in &mut self.account.policies {
                    policy.server_group.take_if(|group| group.id == *id);
                }
            }
        }
    }
}

/// One that leads nowhere.
pub(super) fn cloud_ip(id: &str, name: &str) -> CloudIp {
    CloudIp {
        id: id.to_owned(),
        name: name.to_owned(),
        status: Some("unmapped".to_owned()),
        fqdn: Some(format!("{id}.gb1.brightbox.com")),
        ..CloudIp::default()
    }
}

/// The ports of a rule.
pub(super) fn ports(rule: &RuleSpec) -> BTreeSet<String> {
    let ports = rule.destination_port.split(',');
    ports.map(ToOwned::to_owned).collect()
}
