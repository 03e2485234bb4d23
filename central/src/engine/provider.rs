//! What a cloud writes about its load balancers. The engine does the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug, Display};
use std::net::IpAddr;

use async_trait::async_trait;
use mooring_common::engine::{self, Plan};
use tokio::time::Instant;

use super::members::Members;
use super::selector::Selector;
use crate::cloud_api::CloudError;
use crate::cloud_provider::load_balancers::{
    InvalidField, LoadBalancerRequest, LoadBalancerStatus, Notice, ReconcileError,
};
use crate::views::service_view::ServiceView;

/// The names and words of a cloud.
#[derive(Debug)]
pub struct Vocabulary {
    /// The provider's name: `cloudscale`.
    pub provider: &'static str,
    /// The name under which its Go controller reports Events.
    pub component: &'static str,
    /// What Events call the cloud: `cloudscale.ch`.
    pub cloud: &'static str,
    /// The annotation with the ID of a Service's load balancer.
    pub id_key: &'static str,
    /// The annotation that gives it a name.
    pub name_key: &'static str,
    /// What the names of load balancers begin with whose Services give them none; the UID follows.
    pub name_prefix: &'static str,
    /// The annotation that selects Nodes.
    pub selector_key: &'static str,
    /// What its credentials open.
    pub account: AccountWords,
    /// What a resource is called that leads to one load balancer at a time: `floating IP`.
    pub exclusive: &'static str,
    /// The annotation that asks for such resources.
    pub exclusive_key: &'static str,
}

impl Vocabulary {
    /// The name of a load balancer whose Service gives it none.
    #[must_use]
    pub fn default_name(&self, service_uid: &str) -> String {
        format!("{}{service_uid}", self.name_prefix)
    }
}

/// What the credentials open, in words.
#[derive(Debug)]
pub struct AccountWords {
    /// What is looked for in it: `a load balancer`.
    pub resource: &'static str,
    /// What the cloud calls it: `project`.
    pub account: &'static str,
    /// Where the credentials are said.
    pub credentials: &'static str,
}

/// What an exclusive resource leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A load balancer, by ID.
    LoadBalancer(String),
    /// A server, by ID.
    Server(String),
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LoadBalancer(id) => write!(f, "the load balancer {id}"),
            Self::Server(id) => write!(f, "the server {id}"),
        }
    }
}

/// A load balancer as a listing shows it, without its parts.
pub trait Listed: Clone + Debug + Send + Sync + 'static {
    /// The cloud's own name for it.
    fn id(&self) -> &str;
    /// Its name; several may have the same.
    fn name(&self) -> &str;
    /// The UID of the Service whose mark it bears.
    fn owner(&self) -> Option<&str>;
    /// The cluster whose mark it bears.
    fn cluster(&self) -> Option<&str>;
    /// When it was made, in a form that sorts.
    fn created(&self) -> Option<&str>;
    /// Its addresses.
    fn addresses(&self) -> Vec<IpAddr>;
    /// Whether the cloud is at work on it and takes no other change.
    fn is_changing(&self) -> bool;
}

/// A load balancer with all its parts, as it is.
pub trait Observed: Clone + Debug + PartialEq + Send + Sync + 'static {
    /// The same without its parts.
    type Listed: Listed;
    /// What can be done to it.
    type Step: Step;

    /// The cloud's own name for it.
    fn id(&self) -> &str;
    /// Its name.
    fn name(&self) -> &str;
    /// The UID of the Service whose mark it bears.
    fn owner(&self) -> Option<&str>;
    /// Whether the cloud is at work on it.
    fn is_changing(&self) -> bool;
    /// The cloud is at work on it.
    fn changes(&mut self);
    /// Takes up what a younger listing says of it.
    fn refresh(&mut self, listed: &Self::Listed);
    /// Whether nobody uses it: it distributes nothing.
    fn is_unused(&self) -> bool;
    /// Whether something is missing that a load balancer needs to serve.
    fn lacks_parts(&self) -> bool;
    /// Where it sends traffic: addresses and ports of its members.
    fn targets(&self) -> Vec<(&str, u16)>;
    /// How many requests it takes to observe it, beside the listings that are shared.
    fn cost(&self) -> usize;
    /// The exclusive resources that lead to it.
    fn exclusives(&self) -> &BTreeSet<String>;
    /// An exclusive resource does not lead to it any more.
    fn loses(&mut self, exclusive: &str);
    /// What there is once it was created, by the ID that the cloud gave it. `None`: it is another step.
    fn created(step: &Self::Step, id: &str) -> Option<Self>;
    /// Takes up what a step has changed. `made`: the ID of what it has made, if it makes something;
    /// `planned`: the IDs of the pools that the plan has made so far.
    fn take(&mut self, step: &Self::Step, made: &str, planned: &mut Vec<String>);
    /// Whether these pools all have a member that gets traffic once the step is done.
    fn serves_after(&self, step: &Self::Step, pools: &BTreeSet<String>) -> bool;
    /// What takes away all that is in the pool that a step deletes.
    fn emptying(&self, step: &Self::Step) -> Vec<Self::Step>;
}

/// What a step does, as far as the engine has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Creates the load balancer.
    CreateBalancer,
    /// Deletes one, by ID and name.
    DeleteBalancer(String, String),
    /// Puts a member of this name into a pool, by its ID if that is known.
    CreateMember(Option<String>, String),
    /// Creates another part.
    Create,
    /// Changes something.
    Change,
    /// Stops a member from getting new connections.
    Withdraw,
    /// Deletes a pool, which must be empty in some clouds.
    DeletePool,
    /// Deletes another part.
    Delete,
    /// Lets an exclusive resource lead to the load balancer.
    Assign(String),
}

/// What can be done to a load balancer: each step is one request.
pub trait Step: engine::Step + Clone + Display + Send + Sync + 'static {
    /// What it does. `planned`: the IDs of the pools that the plan has made so far.
    fn effect(&self, planned: &[String]) -> Effect;

    /// Whether it puts back what the step before it has taken away.
    fn puts_back(&self, before: &Self) -> bool;

    /// The deletion of a load balancer with all its parts.
    fn delete_balancer(id: &str, name: &str) -> Self;
}

/// A cloud's load balancers.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// What a Service asks for.
    type Options: Send + Sync;
    /// The load balancer that it is to have.
    type Desired: Send + Sync;
    /// The load balancer that it has.
    type Observed: Observed;

    /// Names and words.
    const WORDS: &'static Vocabulary;
    /// How many requests listing everything takes, beside what [`Observed::cost`] says.
    const LISTINGS: usize;
    /// Whether members follow [`LoadBalancerRequest::endpoints`]: the cloud can stop sending traffic to one
    /// without cutting the connections that it has.
    const FOLLOWS_ENDPOINTS: bool;

    /// Reads what a Service asks for.
    ///
    /// # Errors
    /// All that cannot be understood, or that no load balancer can do, together.
    fn read(service: &ServiceView) -> Result<Self::Options, Vec<InvalidField>>;

    /// Which Nodes carry the Service's traffic.
    fn selector(options: &Self::Options) -> &Selector;

    /// The load balancer that a Service is to have.
    fn desired(
        request: &LoadBalancerRequest,
        options: &Self::Options,
        members: &Members,
    ) -> Self::Desired;

    /// The exclusive resources that are to lead to it.
    fn exclusives_of(desired: &Self::Desired) -> &BTreeSet<String>;

    /// The exclusive resources that a Service asks for; none where that cannot be read.
    fn asked_exclusives(service: &ServiceView) -> BTreeSet<String>;

    /// What is wanted where the load balancer is, and where endpoints are. Gives whether members wait for
    /// others to serve, and what a person should know.
    ///
    /// # Errors
    /// [`CloudError`] unless the answers are complete.
    async fn settle(
        &self,
        request: &LoadBalancerRequest,
        members: &Members,
        desired: &mut Self::Desired,
        observed: Option<&Self::Observed>,
    ) -> Result<(bool, Vec<Notice>), CloudError>;

    /// Everything that a person should know although it can be carried out.
    fn notices(
        request: &LoadBalancerRequest,
        options: &Self::Options,
        desired: &Self::Desired,
        members: &Members,
        observed: Option<&Self::Observed>,
    ) -> Vec<Notice>;

    /// The steps in order. Whether the cloud is at work is not asked here.
    ///
    /// # Errors
    /// [`ReconcileError::Refused`] if it cannot be done: all the reasons.
    fn plan(
        desired: &Self::Desired,
        observed: Option<&Self::Observed>,
    ) -> Result<Plan<StepOf<Self>>, ReconcileError>;

    /// What a Service has whose load balancer is as wanted.
    fn status(observed: &Self::Observed, options: &Self::Options) -> LoadBalancerStatus;

    /// All load balancers.
    ///
    /// # Errors
    /// [`CloudError`], here and below, unless the answer is complete.
    async fn list(&self) -> Result<Vec<ListedOf<Self>>, CloudError>;

    /// One load balancer. `None`: by the cloud's own word there is none of this ID.
    async fn get(&self, id: &str) -> Result<Option<ListedOf<Self>>, CloudError>;

    /// A load balancer with all its parts as they were at `since` or later, and since when that holds.
    async fn observe(
        &self,
        listed: &ListedOf<Self>,
        since: Instant,
    ) -> Result<(Self::Observed, Instant), CloudError>;

    /// Takes a step about the load balancer of this ID (nobody has one yet when it is created). Gives the
    /// ID of what it has made, or nothing.
    async fn send(
        &self,
        step: &StepOf<Self>,
        balancer: &str,
        planned: &[String],
    ) -> Result<String, CloudError>;

    /// What each exclusive resource leads to, as of `since` or later.
    async fn exclusives(
        &self,
        since: Instant,
    ) -> Result<BTreeMap<String, Option<Holder>>, CloudError>;

    /// What one of them leads to now.
    async fn exclusive(&self, name: &str) -> Result<Option<Holder>, CloudError>;
}

/// What a provider's listings show.
pub type ListedOf<P> = <<P as Provider>::Observed as Observed>::Listed;
/// What a provider can do to a load balancer.
pub type StepOf<P> = <<P as Provider>::Observed as Observed>::Step;
