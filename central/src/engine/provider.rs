//! What a cloud writes about its load balancers. The engine does the rest.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::{self, Debug};
use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::engine::Plan;
use tokio::time::Instant;

use mooring_common::names::labels;
use mooring_common::node_view::NodeView;

use super::annotations::Reader;
use super::canonical::canonical_uuid;
use super::drains::Drains;
use super::members::Members;
use super::pool::Member;
use super::selector::Selector;
use super::step::{Part, Step};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::Attachment;
use crate::cloud_provider::load_balancers::{
    LoadBalancerRequest, LoadBalancerStatus, Notice, ReconcileError,
};
use crate::views::service_view::ServiceView;

static NONE: BTreeSet<String> = BTreeSet::new();
static ALL_NODES: LazyLock<Selector> = LazyLock::new(Selector::default);

/// The names and words of a cloud.
#[derive(Debug)]
pub struct Vocabulary {
    /// The provider's name: `cloudscale`.
    pub provider: &'static str,
    /// The name under which its Go controller reports Events.
    pub component: &'static str,
    /// What Events call the cloud: `cloudscale.ch`.
    pub cloud: &'static str,
    /// The annotation with the ID of a Service's load balancer; empty if there is none.
    pub id_key: &'static str,
    /// Who writes it.
    pub id_by: IdBy,
    /// The annotation that gives it a name, if there is one.
    pub name_key: Option<&'static str>,
    /// What the names of load balancers begin with whose Services give them none; the UID follows. `None`:
    /// their names do not tell for whom they were made.
    pub name_prefix: Option<&'static str>,
    /// The annotation that selects Nodes, if there is one.
    pub selector_key: Option<&'static str>,
    /// What its credentials open.
    pub account: AccountWords,
    /// What a resource is called that leads to one load balancer at a time: `floating IP`.
    pub exclusive: &'static str,
    /// The annotation that asks for such resources.
    pub exclusive_key: &'static str,
    /// The annotation that says which subnets members are taken from.
    pub subnets_key: &'static str,
    /// The annotation that lets a client stay with one member, and its value for that.
    pub affinity: [&'static str; 2],
}

impl Vocabulary {
    /// What keeps a Node from being a member.
    #[must_use]
    pub fn exclusion(&self) -> String {
        match self.selector_key {
            Some(key) => format!("annotation {key}"),
            None => format!("the label {}", labels::EXCLUDE_FROM_LOAD_BALANCERS),
        }
    }
}

/// Who writes the annotation with the ID of a Service's load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdBy {
    /// Central: which one the Service has.
    Central,
    /// A person: which one it is to have, instead of whichever it has now. Which one it has is told by its
    /// status alone, until the load balancer bears its mark.
    Person,
    /// Nobody: which one it is, is told by its name, which is that of the Service. That is no proof, since
    /// another cluster may use the same.
    Name,
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
    /// When it was made, in a form that sorts, if the cloud says it.
    fn created(&self) -> Option<&str> {
        None
    }
    /// Its addresses.
    fn addresses(&self) -> Vec<IpAddr>;
    /// Whether it has addresses that the cloud does not say now: nothing follows from their absence.
    fn lacks_addresses(&self) -> bool {
        false
    }
    /// The zone outside of which it reaches no machine, if there is such a thing and the cloud says it.
    fn zone(&self) -> Option<&str> {
        None
    }
    /// Whether the cloud is at work on it and takes no other change.
    fn is_changing(&self) -> bool {
        false
    }
    /// The cloud is at work on it.
    fn changes(&mut self) {}
    /// Whether the load balancer itself is there, where a listing shows what was made for it before.
    fn is_made(&self) -> bool {
        true
    }
    /// Whether the status of this Service shows it.
    fn is_shown_by(&self, service: &ServiceView) -> bool {
        let mut addresses = self.addresses().into_iter();
        addresses.any(|address| service.status.contains(&address))
    }
}

/// Something else in the cloud that was made for a load balancer and can outlive it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependent {
    /// The cloud's own name for it.
    pub id: String,
    /// What it is and its name, for people: `firewall ccm-0123456789ab`.
    pub name: String,
    /// The UID of the Service whose mark it bears.
    pub owner: String,
    /// The cluster whose mark it bears.
    pub cluster: Option<String>,
    /// What uses it, by ID.
    pub users: Vec<String>,
}

/// Why a Service may not be told yet of a load balancer that is as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unready {
    /// The cloud needs time for this.
    Wait(String),
    /// The cloud has given up for now: why, and what to do about it.
    Failed(String),
}

/// A load balancer as a Service is to have it.
pub trait Desired: Send + Sync {
    /// A member of its pools.
    type Member: Member;
    /// The same as it is.
    type Observed: Observed<Member = Self::Member>;

    /// The zone that the Service names.
    fn zone(&self) -> Option<&str> {
        None
    }
    /// The members of each of its pools; none where whole machines get the traffic.
    fn pools(&mut self) -> impl Iterator<Item = &mut Vec<Self::Member>> + Send {
        std::iter::empty()
    }
    /// The exclusive resources that are to lead to it.
    fn exclusives(&self) -> &BTreeSet<String> {
        &NONE
    }
    /// Leaves out these exclusive resources, which it cannot have. Whether all else goes on without them.
    fn deny(&mut self, _exclusives: &BTreeSet<String>) -> bool {
        false
    }
    /// `spec.loadBalancerIP`, if a new one would get another address.
    fn unmet_address(&self) -> Option<&str> {
        None
    }

    /// Keeps the members that leave without new connections for as long as `drains` says.
    fn drain(&mut self, _observed: &Self::Observed, _drains: &mut Drains) {}
    /// What tells whether anything of it has changed since it was carried out. `None`: that is never noted.
    fn fingerprint(&self) -> Option<String> {
        None
    }
}

/// A load balancer with all its parts, as it is.
pub trait Observed: Clone + Debug + PartialEq + Send + Sync + 'static {
    /// The same without its parts.
    type Listed: Listed;
    /// What can be done to it.
    type Step: Step;
    /// A member of its pools.
    type Member: Member;

    /// The same without its parts.
    fn listed(&self) -> &Self::Listed;
    /// The same, to be changed.
    fn listed_mut(&mut self) -> &mut Self::Listed;
    /// Its members, each with the ID of its pool; none where whole machines get the traffic.
    fn members(&self) -> impl Iterator<Item = (&str, &Part<Self::Member>)> {
        std::iter::empty()
    }
    /// Whether nobody uses it: it distributes nothing.
    fn is_unused(&self) -> bool;
    /// Whether something is missing that a load balancer needs to serve.
    fn lacks_parts(&self) -> bool;
    /// How many requests it takes to observe it, beside the listings that are shared.
    fn cost(&self) -> usize;
    /// Whether all that it distributes goes to these node ports, which no other Service of the cluster has,
    /// and some of it to these machines: an address in another subnet is another machine's.
    fn leads_to(&self, ports: &BTreeSet<u16>, members: &Members) -> bool {
        let machines = members.found.iter();
        let attachments = machines.flat_map(|machine| &machine.attachments);
        let here: BTreeSet<(String, Option<String>)> = attachments
            .flat_map(|attachment| {
                let (address, subnet) = (attachment.address.to_string(), &attachment.subnet);
                // By the address alone, where members do not say more.
                [None, Some(canonical_uuid(subnet))].map(|subnet| (address.clone(), subnet))
            })
            .collect();
        let is_here = |member: &Self::Member| {
            let (address, _) = member.target();
            here.contains(&(address.to_owned(), member.subnet().map(ToOwned::to_owned)))
        };
        let all: Vec<_> = self.members().map(|(_, member)| &member.spec).collect();
        all.iter().all(|member| ports.contains(&member.target().1)) && all.into_iter().any(is_here)
    }
    /// The exclusive resources that lead to it.
    fn exclusives(&self) -> &BTreeSet<String> {
        &NONE
    }
    /// An exclusive resource does not lead to it any more.
    fn loses(&mut self, _exclusive: &str) {}
    /// What there is once it was created, by the ID that the cloud gave it. `None`: it is another step, or a
    /// new one is read, since its parts have IDs that the answer to its creation does not tell.
    fn created(_step: &Self::Step, _id: &str) -> Option<Self> {
        None
    }
    /// Takes up what a step has changed. `made`: the ID of what it has made, if it makes something;
    /// `planned`: the IDs of the pools that the plan has made so far.
    fn take(&mut self, step: &Self::Step, made: &str, planned: &mut Vec<String>);
    /// What takes away all that is in the pool that a step deletes.
    fn emptying(&self, _step: &Self::Step) -> Vec<Self::Step> {
        Vec::new()
    }
}

/// A cloud's load balancers.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// What a Service asks for.
    type Options: Send + Sync;
    /// The load balancer that it is to have.
    type Desired: Desired<Observed = Self::Observed, Member = <Self::Observed as Observed>::Member>;
    /// The load balancer that it has.
    type Observed: Observed;

    /// Names and words.
    const WORDS: &'static Vocabulary;
    /// How many requests listing everything takes, beside what [`Observed::cost`] says.
    const LISTINGS: usize;
    /// Whether members follow [`LoadBalancerRequest::endpoints`]: the cloud can stop sending traffic to one
    /// without cutting the connections that it has.
    const FOLLOWS_ENDPOINTS: bool;

    /// The name of a load balancer whose Service gives it none.
    fn default_name(&self, service: &ServiceView) -> String {
        let prefix = Self::WORDS.name_prefix.unwrap_or_default();
        format!("{prefix}{}", service.uid)
    }

    /// For how long a member that leaves is kept without new connections.
    fn drain_period(&self) -> Duration {
        Duration::ZERO
    }

    /// Reads what a Service asks for, noting all that cannot be understood, or that no load balancer can do.
    fn read(&self, reader: &mut Reader<'_>) -> Self::Options;

    /// The names of the Secrets of a Service's own namespace that its load balancer presents
    /// ([`LoadBalancerRequest::secrets`]). What cannot be understood names none.
    fn secrets(_service: &ServiceView) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// Which Nodes carry the Service's traffic.
    fn selector(_options: &Self::Options) -> &Selector {
        &ALL_NODES
    }

    /// The subnets that members are taken from, by UUID; none: all.
    fn subnets(_options: &Self::Options) -> &BTreeSet<String> {
        &NONE
    }

    /// The addresses by which a Node's machine can be a member: by default all of its own.
    fn attachments(
        _options: &Self::Options,
        _node: &NodeView,
        own: Vec<Attachment>,
    ) -> Vec<Attachment> {
        own
    }

    /// The load balancer that a Service is to have, with all members enabled.
    fn desired(
        request: &LoadBalancerRequest,
        options: &Self::Options,
        members: &Members,
    ) -> Self::Desired;

    /// Completes what is wanted by what only the cloud, or the DNS, can tell; `since`: as it was then or later.
    ///
    /// # Errors
    /// [`ReconcileError::Refused`] if it cannot be had: why.
    async fn look_up(
        &self,
        _desired: &mut Self::Desired,
        _observed: Option<&Self::Observed>,
        _since: Instant,
    ) -> Result<(), ReconcileError> {
        Ok(())
    }

    /// What its Service has to wait for once all steps are taken. `None`: nothing.
    fn unready(_desired: &Self::Desired, _observed: &Self::Observed) -> Option<Unready> {
        None
    }

    /// The exclusive resources that a Service asks for; none where that cannot be read: it is for that
    /// Service to correct it.
    fn asked_exclusives(&self, _service: &ServiceView) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// What of this cloud's a person should know although it can be carried out.
    fn notices(
        request: &LoadBalancerRequest,
        options: &Self::Options,
        desired: &Self::Desired,
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
    fn status(listed: &ListedOf<Self>, options: &Self::Options) -> LoadBalancerStatus;

    /// What it takes to be rid of a load balancer that is provably a Service's own, whatever is wrong with
    /// the Service. Nothing: it is to be kept.
    fn removal(_request: &LoadBalancerRequest, listed: &ListedOf<Self>) -> Vec<StepOf<Self>> {
        Self::deletion(listed)
    }

    /// What it takes to delete a load balancer with all its parts, as far as that can be asked for now.
    fn deletion(listed: &ListedOf<Self>) -> Vec<StepOf<Self>>;

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

    /// The IDs of those members of these pools that serve now: they are enabled, and no health monitor says
    /// otherwise.
    async fn serving(&self, _pools: &[String]) -> Result<HashSet<String>, CloudError> {
        Ok(HashSet::new())
    }

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
        _since: Instant,
    ) -> Result<BTreeMap<String, Option<Holder>>, CloudError> {
        Ok(BTreeMap::new())
    }

    /// What one of them leads to now: by default, by a listing of all that is begun now.
    async fn exclusive(&self, name: &str) -> Result<Option<Holder>, CloudError> {
        let mut all = self.exclusives(Instant::now()).await?;
        all.remove(name).ok_or_else(|| {
            let words = format!("the {} {name} is not there", Self::WORDS.exclusive);
            CloudError::new(Self::WORDS.provider, ErrorKind::NotFound, words)
        })
    }

    /// What else bears marks of Services, as it was at `since` or later.
    async fn dependents(&self, _since: Instant) -> Result<Vec<Dependent>, CloudError> {
        Ok(Vec::new())
    }

    /// Deletes one of them, unless its marks or its use are not the same any more.
    async fn delete_dependent(&self, _dependent: &Dependent) -> Result<(), CloudError> {
        Ok(())
    }
}

/// What a provider's listings show.
pub type ListedOf<P> = <<P as Provider>::Observed as Observed>::Listed;
/// What a provider can do to a load balancer.
pub type StepOf<P> = <<P as Provider>::Observed as Observed>::Step;
