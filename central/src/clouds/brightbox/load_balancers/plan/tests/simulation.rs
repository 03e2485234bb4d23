//! An account that takes steps, and holds every step against what the cloud permits.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cloud_api::Reference;
use crate::clouds::brightbox::api::{
    BALANCERS, Balancer, CLOUD_IPS, CloudIp, GROUPS, Group, MOST_PORTS, POLICIES, Policy, RULES,
    Rule, RuleSpec, plain_name,
};
use crate::clouds::brightbox::load_balancers::bundle::{Account, Bundle};
use crate::clouds::brightbox::load_balancers::desired::Desired;
use crate::clouds::brightbox::load_balancers::options::CloudIpWish;
use crate::engine::resource_step::{Operation, ResourceStep};

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
        let mut all = Bundle::all(&account).into_iter();
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
        let all = balancer.spec.listeners.iter().flat_map(|listener| {
            let nodes = balancer.spec.nodes.iter();
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

    /// Takes a step, which must be possible, by what the cloud is told.
    pub(super) fn take(&mut self, step: &ResourceStep) {
        assert!(
            step.request(&self.planned).is_some(),
            "{step} has no request"
        );
        let told = step.told(&self.planned).unwrap_or_default();
        self.made += 1;
        let made = format!("new-{}", self.made);
        let (id, verb) = match &step.operation {
            Operation::Create => (made.clone(), "create"),
            Operation::Change(of) => (of.id(&self.planned).unwrap().to_owned(), "change"),
            Operation::Act(of, [verb, _]) => (of.id(&self.planned).unwrap().to_owned(), *verb),
            Operation::Delete(of) => (of.id(&self.planned).unwrap().to_owned(), "delete"),
        };
        match step.kind.path {
            path if path == GROUPS.path => self.take_of_group(step, &told, &id, verb),
            path if path == POLICIES.path => self.take_of_policy(step, &told, &id, verb),
            path if path == RULES.path => self.take_of_rule(step, &told, &id, verb),
            path if path == CLOUD_IPS.path => self.take_of_cloud_ip(step, &told, &id, verb),
            path => {
                assert_eq!(path, BALANCERS.path, "{step}");
                self.take_of_balancer(step, &told, &id, verb);
            }
        }
        if verb == "create" && step.kind.path != RULES.path {
            self.planned.push(made);
        }
    }

    fn take_of_group(&mut self, step: &ResourceStep, told: &Value, id: &str, verb: &str) {
        let servers = || named_in(&told["servers"], "server");
        match verb {
            "create" => {
                assert_eq!(told.as_object().unwrap().len(), 2, "{step}");
                self.account.groups.push(Group {
                    id: id.to_owned(),
                    name: text(told, "name"),
                    description: text(told, "description"),
                    ..Group::default()
                });
            }
            "add_servers" => {
                let (group, servers) = (self.group(id), servers());
                assert!(
                    group.servers.is_disjoint(&servers) && !servers.is_empty(),
                    "{step}"
                );
                group.servers.extend(servers);
            }
            "remove_servers" => {
                let (group, servers) = (self.group(id), servers());
                assert!(
                    servers.is_subset(&group.servers) && !servers.is_empty(),
                    "{step}"
                );
                group.servers.retain(|server| !servers.contains(server));
            }
            verb => {
                assert_eq!(verb, "delete", "{step}");
                assert!(self.group(id).servers.is_empty(), "{step}: it has servers");
                self.account.groups.retain(|group| group.id != *id);
                for policy in &mut self.account.policies {
                    policy.server_group.take_if(|group| group.id == *id);
                }
            }
        }
    }

    fn take_of_policy(&mut self, step: &ResourceStep, told: &Value, id: &str, verb: &str) {
        let group = || {
            let id = text(told, "server_group");
            let name = String::new();
            Reference { id, name }
        };
        match verb {
            "create" => {
                let group = group();
                assert!(!self.has_policy(&group.id), "{step}: the group has one");
                self.account.policies.push(Policy {
                    id: id.to_owned(),
                    name: text(told, "name"),
                    server_group: Some(group),
                    rules: Vec::new(),
                });
            }
            "apply_to" => {
                let group = group();
                assert!(!self.has_policy(&group.id), "{step}: the group has one");
                let policy = self.policy(id);
                assert_eq!(policy.server_group, None, "{step}");
                policy.server_group = Some(group);
            }
            verb => {
                assert_eq!(verb, "delete", "{step}");
                self.policy(id);
                self.account.policies.retain(|policy| policy.id != *id);
            }
        }
    }

    fn take_of_rule(&mut self, step: &ResourceStep, told: &Value, id: &str, verb: &str) {
        let spec = || -> RuleSpec {
            let spec: RuleSpec = serde_json::from_value(told.clone()).unwrap();
            assert!(ports(&spec).len() <= MOST_PORTS, "{step}");
            spec
        };
        match verb {
            "create" => {
                let (id, spec) = (id.to_owned(), spec());
                let policy = text(told, "firewall_policy");
                self.policy(&policy).rules.push(Rule { id, spec });
            }
            "change" => self.rule(id).spec = spec(),
            verb => {
                assert_eq!(verb, "delete", "{step}");
                self.rule(id);
                for policy in &mut self.account.policies {
                    policy.rules.retain(|rule| rule.id != *id);
                }
            }
        }
    }

    fn take_of_cloud_ip(&mut self, step: &ResourceStep, told: &Value, id: &str, verb: &str) {
        match verb {
            "create" => {
                let ip = cloud_ip(id, &text(told, "name"));
                self.account.cloud_ips.push(ip);
            }
            "map" => {
                let balancer = text(told, "destination");
                self.balancer(&balancer);
                assert_eq!(self.ip(id).target(), None, "{step}: it is mapped");
                self.moves.push((id.to_owned(), Some(balancer)));
            }
            "unmap" => {
                assert!(self.ip(id).target().is_some(), "{step}: it is not mapped");
                self.moves.push((id.to_owned(), None));
            }
            verb => {
                assert_eq!(verb, "delete", "{step}");
                assert_eq!(self.ip(id).target(), None, "{step}: it is mapped");
                self.account.cloud_ips.retain(|own| own.id != *id);
            }
        }
    }

    fn take_of_balancer(&mut self, step: &ResourceStep, told: &Value, id: &str, verb: &str) {
        match verb {
            "create" | "change" => {
                if verb == "change" {
                    let is_emptied = told["nodes"] == json!([]);
                    assert!(!is_emptied && *told != json!({}), "{step}");
                    self.balancer(id);
                }
                step.take(&mut self.account.balancers, id, &self.planned);
                self.balancer(id);
            }
            "remove_nodes" => {
                let balancer = self.balancer(id);
                let nodes = named_in(told, "node");
                assert!(nodes.is_subset(&balancer.spec.nodes), "{step}");
                balancer.spec.nodes.retain(|node| !nodes.contains(node));
            }
            verb => {
                assert_eq!(verb, "delete", "{step}");
                let mut all = self.account.balancers.iter_mut();
                let balancer = all
                    .find(|one| one.id == *id)
                    .expect("the load balancer is there");
                balancer.status = Some("deleting".to_owned());
            }
        }
    }
}

/// A text that the cloud is told.
fn text(told: &Value, field: &str) -> String {
    told[field].as_str().unwrap().to_owned()
}

/// What a list of objects has in its only field.
fn named_in(told: &Value, field: &str) -> BTreeSet<String> {
    let all = told.as_array().unwrap().iter();
    all.map(|one| text(one, field)).collect()
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
