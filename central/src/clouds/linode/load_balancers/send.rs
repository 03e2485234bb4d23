//! The requests of each step.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::super::api::node_balancers::{self, Made};
use super::super::{NAME, pages};
use super::NodeBalancers;
use super::firewalls::{Firewall, FirewallSpec};
use super::model::{ConfigSpec, FirewallWish, NodeSpec, VpcUse};
use super::step::{FirewallRef, NewBalancer, Step};
use crate::cloud_api::{CloudError, ErrorKind, Request};
use crate::engine::step::{Action, PartStep, PoolRef};

impl NodeBalancers {
    /// Takes a step. Gives the ID of what it has made, or nothing.
    pub(super) async fn send_step(
        &self,
        step: &Step,
        balancer: &str,
        planned: &[String],
    ) -> Result<String, CloudError> {
        let request = match step {
            Step::CreateBalancer(new) => return self.create(new).await,
            Step::CreateFirewall(spec) => return self.create_firewall(spec).await,
            Step::CreateConfig(spec) => {
                let request = node_balancers::create_config(balancer, config(spec).into());
                return self.make(&request).await;
            }
            Step::Node(step) => return self.send_node(step, balancer, planned).await,
            Step::DeleteBalancer { id, release, .. } => {
                if let Some(address) = release {
                    self.release(address).await?;
                }
                node_balancers::delete(id)
            }
            Step::DeleteFirewall { id, .. } => {
                if let Some(there) = self.firewall(*id).await?
                    && !there.entities.is_empty()
                {
                    let what = format!("firewall {} is still in use", there.label);
                    return Err(CloudError::new(NAME, ErrorKind::Busy, what));
                }
                node_balancers::delete_firewall(*id)
            }
            Step::ChangeBalancer { throttle, tags } => {
                let mut body = Body::default();
                body.say("client_conn_throttle", throttle.as_ref());
                body.say("tags", tags.as_ref());
                node_balancers::change(balancer, body.into())
            }
            Step::Release { id, tags } => node_balancers::change(id, json!({"tags": tags})),
            Step::FillConfig { pool, spec, nodes } => {
                let mut body = config(spec);
                body.say("nodes", Some(self.nodes(nodes).await?));
                node_balancers::rebuild_config(balancer, of(pool, planned)?, body.into())
            }
            Step::ChangeConfig { id, spec, .. } => {
                node_balancers::change_config(balancer, id, config(spec).into())
            }
            Step::DeleteConfig { id, .. } => node_balancers::delete_config(balancer, id),
            Step::ChangeRules { id, spec } => node_balancers::change_rules(*id, spec.rules()),
            Step::Attach { firewall, .. } => {
                let id = match firewall {
                    Some(FirewallRef::Known(id)) => Some(*id),
                    Some(FirewallRef::Planned(index)) => {
                        let pool = PoolRef::Planned(*index);
                        Some(number(of(&pool, planned)?)?)
                    }
                    None => None,
                };
                let ids: Vec<u64> = id.into_iter().collect();
                node_balancers::attach(balancer, &ids)
            }
        };
        self.cloud.client.call(&request).await?;
        Ok(String::new())
    }

    async fn make(&self, request: &Request) -> Result<String, CloudError> {
        let made: Made = self.cloud.client.fetch(request).await?;
        Ok(made.id)
    }

    /// The firewall comes first, so that nobody gets in who is not to. One that an interrupted attempt has made
    /// is found by its marks.
    async fn create(&self, new: &NewBalancer) -> Result<String, CloudError> {
        let mut body = Body::of(&new.spec);
        let mut configs: Vec<Value> = Vec::new();
        for (spec, nodes) in &new.configs {
            let mut one = config(spec);
            one.say("nodes", Some(self.nodes(nodes).await?));
            configs.push(one.into());
        }
        body.say("configs", Some(configs));
        for (field, choice) in [
            ("backend_vpcs", &new.spec.backend),
            ("frontend_vpcs", &new.spec.frontend),
        ] {
            if let Some(choice) = choice {
                body.say(field, Some([self.vpc(choice).await?]));
            }
        }
        let firewall = match &new.firewall {
            FirewallWish::None => None,
            FirewallWish::Id(id) => Some(*id),
            FirewallWish::Own(spec) => Some(number(&self.own_firewall(spec).await?)?),
        };
        body.say("firewall_id", firewall);
        self.make(&node_balancers::create(body.into())).await
    }

    async fn own_firewall(&self, spec: &FirewallSpec) -> Result<String, CloudError> {
        let all: Vec<Firewall> =
            pages::all(&self.cloud.client, &node_balancers::firewalls()).await?;
        let mut all = all.iter();
        let own = all.find(|firewall| {
            let is_marked = spec.tags.iter().all(|tag| firewall.tags.contains(tag));
            is_marked && firewall.entities.is_empty()
        });
        let Some(own) = own else {
            return self.create_firewall(spec).await;
        };
        if !own.is_as(spec) {
            let request = node_balancers::change_rules(own.id, spec.rules());
            self.cloud.client.call(&request).await?;
        }
        Ok(own.id.to_string())
    }

    async fn create_firewall(&self, spec: &FirewallSpec) -> Result<String, CloudError> {
        let body = json!({"label": spec.label, "tags": spec.tags, "rules": spec.rules()});
        self.make(&node_balancers::create_firewall(body)).await
    }

    /// One firewall. `None`: it is not there.
    pub(super) async fn firewall(&self, id: u64) -> Result<Option<Firewall>, CloudError> {
        match self.cloud.client.fetch(&node_balancers::firewall(id)).await {
            Err(error) if error.is_not_found() => Ok(None),
            answer => Ok(Some(answer?)),
        }
    }

    /// Deletes one. What is not there is deleted.
    pub(super) async fn delete_firewall(&self, id: u64) -> Result<(), CloudError> {
        gone(
            self.cloud
                .client
                .call(&node_balancers::delete_firewall(id))
                .await,
        )
    }

    async fn release(&self, address: &str) -> Result<(), CloudError> {
        gone(
            self.cloud
                .client
                .call(&node_balancers::release(address))
                .await,
        )
    }

    async fn send_node(
        &self,
        step: &PartStep<NodeSpec>,
        balancer: &str,
        planned: &[String],
    ) -> Result<String, CloudError> {
        let id = of(&step.pool, planned)?;
        let request = match &step.action {
            Action::Create(spec) => {
                let body = self.node(spec).await?;
                return self
                    .make(&node_balancers::create_node(balancer, id, body))
                    .await;
            }
            Action::Change(node, change) => {
                node_balancers::change_node(balancer, id, &node.id, change.body())
            }
            Action::Delete(node, _) => node_balancers::delete_node(balancer, id, &node.id),
        };
        self.cloud.client.call(&request).await?;
        Ok(String::new())
    }

    async fn nodes(&self, specs: &[NodeSpec]) -> Result<Vec<Value>, CloudError> {
        let mut nodes = Vec::new();
        for spec in specs {
            nodes.push(self.node(spec).await?);
        }
        Ok(nodes)
    }

    async fn node(&self, spec: &NodeSpec) -> Result<Value, CloudError> {
        let mut node = Body::default();
        node.say("address", Some(spec.address()));
        node.say("label", Some(&spec.label));
        node.say("weight", Some(spec.weight));
        node.say("mode", spec.mode.as_ref());
        if let Some(subnet) = &spec.subnet {
            let number = self.subnets.get(&self.cloud.client, subnet).await?;
            node.say("subnet_id", Some(number));
        }
        Ok(node.into())
    }

    async fn vpc(&self, choice: &VpcUse) -> Result<Value, CloudError> {
        let number = self.subnets.get(&self.cloud.client, &choice.subnet).await?;
        let mut vpc = Body::default();
        vpc.say("subnet_id", Some(number));
        vpc.say("ipv4_range", choice.ipv4_range.as_ref());
        vpc.say("ipv6_range", choice.ipv6_range.as_ref());
        vpc.say(
            "ipv4_range_auto_assign",
            choice.is_any_of_range.then_some(true),
        );
        Ok(vpc.into())
    }
}

/// The body of a request.
#[derive(Default)]
struct Body(Map<String, Value>);

impl Body {
    /// All that this says.
    fn of(spec: &impl Serialize) -> Self {
        match json!(spec) {
            Value::Object(fields) => Self(fields),
            _ => Self::default(),
        }
    }

    /// Says this too, if there is something to say.
    fn say(&mut self, field: &str, value: Option<impl Serialize>) {
        if let Some(value) = value {
            self.0.insert(field.to_owned(), json!(value));
        }
    }
}

impl From<Body> for Value {
    fn from(body: Body) -> Self {
        Self::Object(body.0)
    }
}

/// What the cloud is told of a config.
fn config(spec: &ConfigSpec) -> Body {
    let mut body = Body::of(spec);
    if let Some(tls) = &spec.tls {
        body.say("ssl_cert", Some(&tls.certificate));
        body.say("ssl_key", Some(tls.key.expose()));
    }
    body
}

fn gone(answer: Result<(), CloudError>) -> Result<(), CloudError> {
    answer.or_else(|error| {
        if error.is_not_found() {
            Ok(())
        } else {
            Err(error)
        }
    })
}

fn number(id: &str) -> Result<u64, CloudError> {
    id.parse().map_err(|_| {
        let what = format!("{id:?} is no number of a firewall");
        CloudError::new(NAME, ErrorKind::Malformed, what)
    })
}

/// The ID of a config or firewall, where this plan may have made it.
fn of<'a>(pool: &'a PoolRef, planned: &'a [String]) -> Result<&'a str, CloudError> {
    pool.id(planned).ok_or_else(|| {
        let what = format!("{pool} was not made");
        CloudError::new(NAME, ErrorKind::Malformed, what)
    })
}
