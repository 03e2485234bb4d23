//! Load balancers of cloudscale.ch.
//!
//! ```text
//!   annotations ─► desired ─┐
//!                           ├─► plan: steps ─► apply ─► the API
//!   listings ───► observed ─┘                    └────► observed, as it is after each step
//! ```
//!
//! A Service has one load balancer; each of its ports a pool with members, one health monitor and
//! one listener.
//!
//! **Guarantees.** What was observed and done is remembered, so that a Service of which nothing
//! changes costs no request. Nothing is made or adopted but on the word of a complete listing that
//! was begun in the same pass, and nothing is changed that is not provably the Service's own
//! ([`ownership`]). No two writes to one load balancer are under way at once.

mod annotations;
mod apply;
mod assembly;
mod credentials;
mod desired;
mod endpoints;
mod floating_ips;
mod listings;
mod machines;
mod memory;
mod model;
mod networks;
mod observe;
mod observed;
mod orphans;
mod ownership;
mod plan;
mod removal;
mod requests;
mod selector;
mod step;
mod zones;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::engine::{Plan, Step as _};
use mooring_common::names::cloudscale_annotations as keys;
use tokio::time::Instant;

use super::{Cloudscale, NAME};
use crate::cloud_api::CloudError;
use crate::clouds::load_balancers::{
    Demand, Gate, LoadBalancers, Orphan, PlannedStep, Prepared, Progress, Provided, Setback, Shown,
};
use crate::inventory::Inventory;
use crate::service_view::{Ingress, ServiceView};
use annotations::Options;
use apply::Work;
use desired::{Desired, Machines};
use endpoints::Presences;
use floating_ips::Permitted;
use listings::Listings;
use machines::Finder;
use memory::{Known, Memory};
use observe::{Found, Question};
use observed::Observed;
use removal::Removal;
use step::Step;

/// The name of the Go controller, under which it reports Events.
const COMPONENT: &str = "cloudscale-cloud-controller-manager";
/// How often what was asked for is looked for.
const LOOK_FOR_IT: Duration = Duration::from_secs(5);
/// Load balancers, pools, listeners, health monitors, floating IPs.
const KINDS: usize = 5;

/// The load balancers of a project.
pub(super) struct Balancers {
    shared: Arc<Shared>,
}

/// What all passes share.
struct Shared {
    cloud: Arc<Cloudscale>,
    machines: Finder,
    listings: Listings,
    memory: Memory,
}

impl Balancers {
    /// Nothing is known of them yet. `inventory`: the machines of the same project.
    pub(super) fn new(cloud: Arc<Cloudscale>, inventory: Arc<Inventory>) -> Self {
        Self {
            shared: Arc::new(Shared {
                machines: Finder::new(inventory),
                listings: Listings::new(cloud.clone()),
                memory: Memory::new(),
                cloud,
            }),
        }
    }
}

/// A plan for a Service that is to have a load balancer.
struct Ensurance {
    shared: Arc<Shared>,
    question: Question,
    options: Options,
    /// What there is; `None`: nothing.
    known: Option<Known>,
    /// When the listing was begun that says so.
    as_of: Instant,
    steps: Vec<Step>,
    /// The floating IPs that it may be given.
    permitted: Permitted,
    shown: Shown,
    /// For how long what was asked for may still turn up that nothing shows.
    unsettled: Option<Duration>,
    /// When to look again, if not all of the Nodes' machines could be asked for, or if members wait for
    /// others to serve.
    again: Option<Duration>,
}

impl Ensurance {
    async fn prepare(shared: Arc<Shared>, demand: &Demand) -> Result<Self, Setback> {
        let options = Options::read(&demand.service).map_err(Setback::Invalid)?;
        let question = Question::of(demand);
        let nodes = desired::selected(&demand.nodes, &options);
        let machines::Found {
            machines,
            mut notices,
            again,
        } = shared.machines.find(&nodes).await;
        notices.extend(options.notices.iter().cloned());
        let mut desired = desired::desired(demand, &options, &machines);
        let mut unsettled = None;
        let (known, as_of) = match shared.find(&question, &machines).await? {
            Found::Nothing(listing) => {
                if again.is_none() {
                    shared.check_credentials(demand, &listing).await?;
                }
                (None, listing.begun)
            }
            Found::Unsettled(left) => {
                unsettled = Some(left);
                (None, question.asked)
            }
            Found::One(known) => (Some(*known), question.asked),
            Found::Refused(why) => return Err(Setback::Refused(why)),
        };
        let observed = known.as_ref().map(|known| &known.observed);
        let permitted = shared
            .check_floating_ips(demand, &question, &desired, observed)
            .await?;
        let again = shared
            .follow_endpoints(demand, &machines, &mut desired, observed)
            .await?
            .or(again);
        notices.extend(zones::keep(&mut desired, &machines, observed));
        let is_changing = observed.is_some_and(|observed| observed.balancer.is_changing);
        notices.extend(desired::notices(
            demand, &options, &desired, &machines, observed,
        ));
        let plan = match plan::plan(&desired, observed) {
            _ if unsettled.is_some() => Plan::default(),
            // Nothing is done until the cloud is, and then all of it can be told.
            Err(_) if is_changing || (observed.is_none() && again.is_some()) => Plan::default(),
            Err(why) if notices.is_empty() => return Err(why),
            Err(why) => {
                let why = Box::new(why);
                return Err(Setback::Noted { why, notices });
            }
            Ok(plan) => plan,
        };
        let mut steps = plan.steps().to_vec();
        let surplus = known.iter().flat_map(|known| &known.surplus);
        steps.extend(surplus.map(|(uuid, name)| Step::DeleteBalancer {
            uuid: uuid.clone(),
            name: name.clone(),
        }));
        let shown = Shown {
            steps: steps.iter().map(planned).collect(),
            notices,
        };
        Ok(Self {
            shared,
            question,
            options,
            known,
            as_of,
            steps,
            permitted,
            shown,
            unsettled,
            again,
        })
    }
}

impl Shared {
    /// Says of each member that is wanted whether it is enabled, where the endpoints of the Service are
    /// followed. Gives when to look again, if some wait for others to serve.
    async fn follow_endpoints(
        &self,
        demand: &Demand,
        machines: &Machines,
        desired: &mut Desired,
        observed: Option<&Observed>,
    ) -> Result<Option<Duration>, CloudError> {
        let presences = Presences::of(demand, machines);
        let (Some(presences), Some(observed)) = (presences, observed) else {
            return Ok(None);
        };
        let serving = self.serving(&presences.to_ask(desired, observed)).await?;
        let is_held = presences.settle(desired, observed, &serving);
        Ok(self.memory.held(&demand.service.uid, is_held))
    }
}

/// For people.
fn planned(step: &Step) -> PlannedStep {
    PlannedStep {
        step: step.to_string(),
        impact: step.impact(),
    }
}

#[async_trait]
impl Prepared for Ensurance {
    fn shown(&self) -> &Shown {
        &self.shown
    }

    async fn carry_out(self: Box<Self>, gate: &dyn Gate) -> Result<Progress, Setback> {
        let shared = &self.shared;
        let _turn = shared.memory.turn(&self.question.uid).lock_owned().await;
        if let Some(left) = self.unsettled {
            return Ok(turns_up(left));
        }
        let balancer = self.known.as_ref().map(|known| &known.observed.balancer);
        if let Some(changing) = balancer.filter(|balancer| balancer.is_changing) {
            return Ok(shared.wait(&self.question.uid, &changing.name));
        }
        shared.memory.rested(&self.question.uid);
        let mut work = Work::new(
            shared,
            gate,
            &self.question,
            self.permitted,
            self.known,
            self.as_of,
        );
        if let Some(wait) = work.run(&self.steps).await? {
            return Ok(wait);
        }
        let notices = work.notices();
        let refused = shared
            .memory
            .refused(&self.question.uid, !notices.is_empty());
        match (work.into_known(), self.again) {
            (Some(known), again) => Ok(Progress::Provided(Provided {
                again: again.into_iter().chain(refused).min(),
                notices,
                ..provided(&known, &self.options)
            })),
            (None, Some(after)) => Ok(Progress::Wait {
                after,
                what: "the servers of the Nodes cannot be listed".to_owned(),
            }),
            (None, None) => Ok(Progress::Provided(Provided::default())),
        }
    }
}

/// Waits for what was asked for to turn up, for so long at most.
fn turns_up(left: Duration) -> Progress {
    Progress::Wait {
        after: left.min(LOOK_FOR_IT),
        what: "a load balancer was asked for that cloudscale.ch does not show yet".to_owned(),
    }
}

/// What the Service has.
fn provided(known: &Known, options: &Options) -> Provided {
    let balancer = &known.observed.balancer;
    let ingress = match &options.force_hostname {
        Some(hostname) => vec![Ingress {
            hostname: Some(hostname.clone()),
            ..Ingress::default()
        }],
        None => balancer
            .vips
            .iter()
            .map(|vip| Ingress {
                ip: Some(vip.address.clone()),
                hostname: None,
                ip_mode: Some(options.ip_mode.to_owned()),
            })
            .collect(),
    };
    let mut annotations = vec![
        (keys::UUID, balancer.uuid.clone()),
        (keys::CONFIG_VERSION, keys::CONFIG_VERSION_VALUE.to_owned()),
    ];
    annotations.extend(balancer.zone.clone().map(|zone| (keys::ZONE, zone)));
    Provided {
        ingress,
        annotations,
        load_balancer_ip: None,
        again: None,
        notices: Vec::new(),
    }
}

#[async_trait]
impl LoadBalancers for Balancers {
    fn provider(&self) -> &'static str {
        NAME
    }

    fn component(&self) -> &'static str {
        COMPONENT
    }

    fn follows_endpoints(&self) -> bool {
        true
    }

    fn may_have(&self, service: &ServiceView) -> bool {
        service.annotation(keys::UUID).is_some() || service.creation_asked.is_some()
    }

    async fn prepare(&self, demand: &Demand) -> Result<Box<dyn Prepared>, Setback> {
        let prepared = Ensurance::prepare(self.shared.clone(), demand).await?;
        Ok(Box::new(prepared))
    }

    async fn prepare_removal(&self, demand: &Demand) -> Result<Box<dyn Prepared>, Setback> {
        let prepared = Removal::prepare(self.shared.clone(), demand).await?;
        Ok(Box::new(prepared))
    }

    fn forget(&self, service_uid: &str) {
        self.shared.memory.forget(service_uid);
    }

    fn observe_anew(&self) {
        self.shared.memory.observe_anew();
    }

    fn observation_cost(&self) -> usize {
        KINDS + self.shared.memory.pools()
    }

    async fn orphans(
        &self,
        cluster: &str,
        living: &[ServiceView],
    ) -> Result<Vec<Orphan>, CloudError> {
        self.shared.orphans(cluster, living).await
    }

    async fn remove_orphan(
        &self,
        cluster: &str,
        orphan: &Orphan,
        gate: &dyn Gate,
    ) -> Result<(), Setback> {
        self.shared.remove_orphan(cluster, orphan, gate).await
    }
}

#[cfg(test)]
mod tests;
