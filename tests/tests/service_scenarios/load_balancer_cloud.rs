//! How a scenario talks to a cloud, whatever that calls the parts of its load balancers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::core::v1::Service;
use mooring_cloud_sim::cloud::{Cloud, CloudSim, Server};
use mooring_cloud_sim::{Calls, When};
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::objects::NodeBuilder;
use mooring_test_cluster::shipped::CentralFlags;

/// What a load balancer serves: `tcp/80` to `10.0.0.1:30080`.
pub(crate) type Served = BTreeMap<String, BTreeSet<String>>;

/// A load balancer, whatever its cloud calls its parts. Where a load balancer is an address and no more,
/// it has an id alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Balancer {
    /// The cloud's own name for it.
    pub(crate) id: String,
    /// The members behind each listener.
    pub(crate) served: Served,
    /// How members are checked: `tcp 30080`, `http 31000`.
    pub(crate) checks: BTreeSet<String>,
    /// Who may connect; empty: everybody.
    pub(crate) sources: BTreeSet<String>,
}

/// A simulated cloud whose load balancers the scenarios are about: one for each Service.
///
/// A suite names its own `SuiteCloud`, in its module `cloud`. What a cloud has that forwards connections
/// is in `ForwardingCloud`.
pub(crate) trait LoadBalancerCloud: Deref<Target = CloudSim> + Sized {
    /// Which cloud.
    const CLOUD: Cloud;

    /// The name under which the provider itself reports Events.
    const COMPONENT: &'static str;

    /// An annotation that cannot be done as it is written.
    const REFUSED_ANNOTATION: (&'static str, &'static str);

    /// Whether load balancers have listeners and members: whether it is a `ForwardingCloud`.
    const FORWARDS: bool;

    /// Whether a load balancer that is made anew has the address of the former one.
    const KEEPS_ADDRESS: bool = false;

    /// For how many Services at once there is room.
    const MANY: usize;

    /// An answer to a creation after which there surely is nothing.
    const PLAIN_FAILURE: StatusCode;

    /// Fields that answers can do without.
    const OPTIONAL_FIELDS: &'static [&'static str];

    /// The address of the n-th Node, counted from 1.
    fn address(n: usize) -> String {
        format!("10.0.{}.{}", n / 250, n % 250)
    }

    /// What the cloud needs to know of the n-th Node besides its provider ID.
    fn node(node: NodeBuilder, _n: usize) -> NodeBuilder {
        node
    }

    /// The one check of the members of a Service with the traffic policy Local: by HTTP whether they have
    /// endpoints, where the cloud can ask another port than the one that gets traffic.
    fn local_check(service: &Service) -> String {
        let spec = service.spec.as_ref();
        let port = spec.and_then(|spec| spec.health_check_node_port);
        format!("http {}", port.expect("a health check port"))
    }

    /// A cloud without load balancers, for this cluster.
    async fn start(cluster: &Cluster) -> Self;

    /// Central as a user starts it for this cloud, with a load balancer for each Service.
    fn flags(&self, flags: CentralFlags) -> CentralFlags {
        flags
    }

    /// The machine of the n-th Node.
    fn machine(&self, n: usize) -> Server {
        Server::named(&format!("n{n}")).private(&Self::address(n))
    }

    /// New load balancers take so long to be there, where that takes time.
    fn provision_in(&self, _length: Duration) {}

    /// Asserts that nothing was asked that no good client asks.
    fn assert_well_behaved(&self) {}

    /// Asserts that this load balancer has served without a gap, where it forwards.
    fn assert_served_all_along(&self, _id: &str) {}

    // --- requests -----------------------------------------------------------------------------

    /// Requests that make a load balancer.
    fn creation(&self) -> When;

    /// Requests that come after that, until it works.
    fn completion(&self) -> When;

    /// The first request that removes this load balancer.
    fn deletion(&self, id: &str) -> When;

    /// Requests that look for load balancers.
    fn balancer_lookups(&self) -> Vec<When>;

    /// What was asked to make load balancers, so far.
    fn creations(&self) -> Calls;

    /// What was asked so far to change this load balancer or its parts, of those that are still there.
    fn writes_on(&self, id: &str) -> Calls;

    /// How many load balancers these calls have looked at since a start.
    fn looked_at(&self, calls: &Calls) -> usize;

    /// How many requests a start may cost with so many load balancers.
    fn reads_at_start(&self, balancers: usize) -> usize;

    // --- load balancers -----------------------------------------------------------------------

    /// The load balancer of this Service, if there is one. Panics if there are two.
    fn balancer_of(&self, service: &Service) -> Option<Balancer>;

    /// All load balancers of this cluster.
    fn balancers(&self) -> Vec<Balancer>;

    /// What of this cluster's is left that costs anything, load balancers on their way out included.
    fn left(&self) -> Vec<String> {
        self.balancers().into_iter().map(|left| left.id).collect()
    }

    /// What Events call this load balancer.
    fn called(&self, id: &str) -> String {
        id.to_owned()
    }

    /// Whether this load balancer is there.
    fn has(&self, id: &str) -> bool;

    /// Somebody deletes a load balancer by hand.
    fn delete_by_hand(&self, id: &str);

    /// Somebody renames a load balancer by hand, where they have names.
    fn rename_by_hand(&self, _id: &str) {}

    /// Load balancers that look like this one and are not ours: another cluster's, and some that lack
    /// one mark or all of them. Gives their ids.
    fn lookalikes(&self, id: &str) -> Vec<String>;
}
