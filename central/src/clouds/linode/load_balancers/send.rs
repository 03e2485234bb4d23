//! The requests of each step.

use std::time::Duration;

use futures::future::try_join_all;
use reqwest::Method;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::NAME;
use super::super::api::node_balancers::{
    ADDRESSES, ATTACHED, BALANCERS, CONFIGS, FIREWALLS, MARKS, NODES,
};
use super::super::vpcs::Subnet;
use super::NodeBalancers;
use super::firewalls::{Firewall, FirewallSpec};
use super::model::{ConfigSpec, FirewallWish, NodeSpec, VpcUse};
use super::step::{NewBalancer, Step};
use crate::cloud_api::{CloudError, ErrorKind, Request, body, leaves_out_refused, permitted, with};
use crate::engine::step::{Action, PartStep, Step as _};

/// How old a listing of firewalls may be in which those of the Go controller are looked for.
const RECENT: Duration = Duration::from_secs(10);

impl NodeBalancers {
    /// Takes a step. Gives the ID of what it has made, or nothing.
    pub(super) async fn send_step(
        &self,
        step: &Step,
        balancer: &str,
        planned: &[String],
    ) -> Result<String, CloudError> {
        let client = &self.cloud.client;
        let request = match step {
            Step::CreateBalancer(new) => return self.create(new).await,
            Step::DeleteBalancer {
                id,
                name,
                release,
                marks,
            } => {
                self.mark_firewalls(id, name, marks).await?;
                if let Some(address) = release {
                    client.call_off(&ADDRESSES.delete(&[], address)).await?;
                }
                BALANCERS.delete(&[], id)
            }
            Step::ChangeBalancer { throttle, tags } => {
                let body = body(&json!({"client_conn_throttle": throttle, "tags": tags}));
                BALANCERS.change(&[], balancer, body)
            }
            Step::Release { id, tags } => BALANCERS.change(&[], id, json!({"tags": tags})),
            Step::CreateConfig(spec) => CONFIGS.create(&[balancer], config(spec)),
            Step::FillConfig { pool, spec, nodes } => {
                let body = with(config(spec), json!({"nodes": self.nodes(nodes).await?}));
                let (config, how) = (pool.made(planned, NAME)?, (Method::POST, "rebuild"));
                let called = "rebuild_nodebalancer_config";
                CONFIGS.act((&[balancer], config), how, called).json(body)
            }
            Step::ChangeConfig { id, spec, .. } => CONFIGS.change(&[balancer], id, config(spec)),
            Step::DeleteConfig { id, .. } => CONFIGS.delete(&[balancer], id),
            Step::Node(step) => self.of_node(step, balancer, planned).await?,
            Step::CreateFirewall(spec) => create_firewall(spec),
            Step::MarkFirewall { id, tags, .. } => {
                FIREWALLS.change(&[], &id.to_string(), json!({"tags": tags}))
            }
            Step::ChangeRules { id, spec, enables } => {
                self.change_of_rules(*id, spec, *enables).await?
            }
            Step::Attach { firewall, former } => {
                let wanted = match firewall {
                    Some(id) => Some(number(id.made(planned, NAME)?)?),
                    None => None,
                };
                let former = former.as_ref().map(|(id, _)| *id);
                self.look_before_attaching(balancer, &[former, wanted])
                    .await?;
                let (how, called) = ((Method::PUT, "firewalls"), "update_nodebalancer_firewalls");
                let body = json!({"firewall_ids": wanted.as_slice()});
                BALANCERS.act((&[], balancer), how, called).json(body)
            }
            Step::DeleteFirewall { id, .. } => {
                let is_idle = |there: &Firewall| there.entities.is_empty();
                self.delete_firewall(&id.to_string(), is_idle).await?;
                return Ok(String::new());
            }
        };
        step.effect(planned).send(client, &request).await
    }

    /// The firewall comes first, so that nobody gets in who is not to. One that an interrupted attempt has made
    /// is found by its marks.
    async fn create(&self, new: &NewBalancer) -> Result<String, CloudError> {
        let mut configs: Vec<Value> = Vec::new();
        for (spec, nodes) in &new.configs {
            let nodes = json!({"nodes": self.nodes(nodes).await?});
            configs.push(with(config(spec), nodes));
        }
        let firewall = match &new.firewall {
            FirewallWish::None => None,
            FirewallWish::Id(id) => Some(*id),
            FirewallWish::Own(spec) => Some(number(&self.own_firewall(spec).await?)?),
        };
        let more = json!({
            "firewall_id": firewall,
            "backend_vpcs": self.vpc(new.spec.backend.as_ref()).await?,
            "frontend_vpcs": self.vpc(new.spec.frontend.as_ref()).await?,
        });
        let body = with(&new.spec, more);
        loop {
            let request = BALANCERS.create(&[], with(&body, json!({ "configs": configs })));
            match self.cloud.client.make(&request).await {
                Err(error) if leaves_out_refused(&mut configs, ("configs", "nodes"), &error) => {
                    tracing::warn!(%error, "nodes are refused, and it is made without them");
                }
                made => return made,
            }
        }
    }

    /// The firewall that the Go controller has made for a NodeBalancer which is about to go gets marks, by which
    /// it is found and deleted afterwards. It is looked for in a listing that many deletions share, and read again
    /// before it is marked.
    async fn mark_firewalls(
        &self,
        balancer: &str,
        name: &str,
        marks: &[String],
    ) -> Result<(), CloudError> {
        if marks.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        let since = now.checked_sub(RECENT).unwrap_or(now);
        // A token that may not list them may not mark them either.
        let Some(listing) = permitted(self.firewalls.get(since).await)? else {
            return Ok(());
        };
        let is_made_by_go = |firewall: &Firewall| {
            let is_marked = MARKS.owner(&firewall.tags).is_some();
            firewall.protects(balancer) && firewall.is_made_by_go(name) && !is_marked
        };
        for listed in listing.all.iter().filter(|listed| is_made_by_go(listed)) {
            let id = listed.id.to_string();
            let there: Option<Firewall> = self.cloud.client.find(&FIREWALLS.get(&[], &id)).await?;
            let Some(there) = there.filter(&is_made_by_go) else {
                continue;
            };
            let tags: Vec<&String> = there.tags.iter().chain(marks).collect();
            let request = FIREWALLS.change(&[], &id, json!({ "tags": tags }));
            self.cloud.client.call(&request).await?;
        }
        Ok(())
    }

    /// Attaching one takes all others off: somebody may have attached one that was not there when the step was
    /// planned.
    async fn look_before_attaching(
        &self,
        balancer: &str,
        known: &[Option<u64>],
    ) -> Result<(), CloudError> {
        let attached: Vec<Firewall> = self.cloud.all(&ATTACHED, &[balancer]).await?;
        let mut strange = attached.iter().filter(|one| !known.contains(&Some(one.id)));
        strange.next().map_or(Ok(()), |Firewall { id, label, .. }| {
            let what =
                format!("firewall {label} ({id}) was attached meanwhile; it is looked at anew");
            Err(CloudError::new(NAME, ErrorKind::Busy, what))
        })
    }

    /// Deletes a firewall that may be deleted as it is now, unless it is gone already.
    pub(super) async fn delete_firewall(
        &self,
        id: &str,
        may_go: impl Fn(&Firewall) -> bool + Send,
    ) -> Result<(), CloudError> {
        let client = &self.cloud.client;
        match client.find::<Firewall>(&FIREWALLS.get(&[], id)).await? {
            Some(there) if may_go(&there) => client.call_off(&FIREWALLS.delete(&[], id)).await,
            Some(there) => {
                let what = format!("firewall {} is another's or in use by now", there.label);
                Err(CloudError::new(NAME, ErrorKind::Busy, what))
            }
            None => Ok(()),
        }
    }

    async fn own_firewall(&self, spec: &FirewallSpec) -> Result<String, CloudError> {
        let all: Vec<Firewall> = self.cloud.all(&FIREWALLS, &[]).await?;
        let own = all.iter().find(|firewall| {
            let is_marked = spec.tags.iter().all(|tag| firewall.tags.contains(tag));
            is_marked && firewall.entities.is_empty()
        });
        let Some(own) = own else {
            return self.cloud.client.make(&create_firewall(spec)).await;
        };
        if !own.is_as(spec) {
            let change = self.change_of_rules(own.id, spec, own.is_disabled);
            self.cloud.client.call(&change.await?).await?;
        }
        Ok(own.id.to_string())
    }

    /// What changes what a firewall lets through. One that is disabled is enabled before.
    async fn change_of_rules(
        &self,
        id: u64,
        spec: &FirewallSpec,
        enables: bool,
    ) -> Result<Request, CloudError> {
        let id = id.to_string();
        if enables {
            let request = FIREWALLS.change(&[], &id, json!({"status": "enabled"}));
            self.cloud.client.call(&request).await?;
        }
        let how = (Method::PUT, "rules");
        let rules = FIREWALLS.act((&[], &id), how, "update_firewall_rules");
        Ok(rules.json(spec.told_rules()))
    }

    async fn of_node(
        &self,
        step: &PartStep<NodeSpec>,
        balancer: &str,
        planned: &[String],
    ) -> Result<Request, CloudError> {
        let of = [balancer, step.pool.made(planned, NAME)?];
        let new = match &step.action {
            Action::Create(spec) => self.in_subnet(spec, spec.subnet.as_ref()).await?,
            _ => Value::Null,
        };
        Ok(step.request(&NODES, &of, |_| new))
    }

    async fn nodes(&self, specs: &[NodeSpec]) -> Result<Vec<Value>, CloudError> {
        let specs = specs.iter();
        try_join_all(specs.map(|spec| self.in_subnet(spec, spec.subnet.as_ref()))).await
    }

    /// What a new one has of a VPC, if it has something.
    async fn vpc(&self, choice: Option<&VpcUse>) -> Result<Option<[Value; 1]>, CloudError> {
        match choice {
            Some(choice) => Ok(Some([self.in_subnet(choice, Some(&choice.subnet)).await?])),
            None => Ok(None),
        }
    }

    /// All that it says, and the number of its subnet.
    async fn in_subnet(
        &self,
        spec: impl Serialize,
        subnet: Option<&Subnet>,
    ) -> Result<Value, CloudError> {
        let number = match subnet {
            Some(subnet) => Some(self.cloud.vpcs.number(subnet).await?),
            None => None,
        };
        Ok(with(spec, json!({ "subnet_id": number })))
    }
}

/// What the cloud is told of a config.
fn config(spec: &ConfigSpec) -> Value {
    let tls = spec.tls.as_ref();
    let tls = tls.map(|tls| json!({"ssl_cert": tls.certificate, "ssl_key": tls.key.expose()}));
    with(spec, tls.unwrap_or_else(|| json!({})))
}

fn create_firewall(spec: &FirewallSpec) -> Request {
    let body = json!({"label": spec.label, "tags": spec.tags, "rules": spec.told_rules()});
    FIREWALLS.create(&[], body)
}

fn number(id: &str) -> Result<u64, CloudError> {
    id.parse().map_err(|_| {
        let what = format!("{id:?} is no number of a firewall");
        CloudError::new(NAME, ErrorKind::Malformed, what)
    })
}
