//! Every name that Mooring shares with Kubernetes, with its users, or between its two programs:
//! each with who writes it and who reads it.

/// The namespace in which both programs run when the shipped manifests are used.
pub const NAMESPACE: &str = "mooring-system";

/// Taints.
pub mod taints {
    /// Set by the kubelet when it runs with `--cloud-provider=external`; taken off by whichever of
    /// the two programs has initialised the Node.
    pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
    /// Set by central on a NotReady Node whose machine is stopped, and taken off once it is Ready.
    pub const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
    /// Set by the cluster autoscaler on a Node that it is about to remove; read by both programs.
    pub const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
    /// Set by a person on a Node whose machine is lost; read by the node daemon.
    pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
}

/// Labels.
pub mod labels {
    /// Written at initialisation, from the machine's type.
    pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
    /// The older form of [`INSTANCE_TYPE`], always written beside it.
    pub const INSTANCE_TYPE_BETA: &str = "beta.kubernetes.io/instance-type";
    /// Written at initialisation, from the machine's zone.
    pub const ZONE: &str = "topology.kubernetes.io/zone";
    /// The older form of [`ZONE`], always written beside it.
    pub const ZONE_BETA: &str = "failure-domain.beta.kubernetes.io/zone";
    /// Written at initialisation, from the machine's region.
    pub const REGION: &str = "topology.kubernetes.io/region";
    /// The older form of [`REGION`], always written beside it.
    pub const REGION_BETA: &str = "failure-domain.beta.kubernetes.io/region";
    /// Written by central on the L2Networks that it makes, and on the Secret of the heartbeats: who does.
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// Written on Nodes of Linode, as its Go controller does: the host that the machine runs on.
    pub const LINODE_HOST_UUID: &str = "node.k8s.linode.com/host-uuid";
    /// Set by a person on a Node that shall carry no load balancer traffic; read by both programs.
    pub const EXCLUDE_FROM_LOAD_BALANCERS: &str =
        "node.kubernetes.io/exclude-from-external-load-balancers";
    /// Set by installers on Nodes of the control plane; read by the node daemon.
    pub const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
    /// Set by Kubernetes on every EndpointSlice of a Service; read by both programs.
    pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
    /// Set by Kubernetes on the EndpointSlices of Services without a cluster IP, which no load balancer
    /// leads to; read by central.
    pub const HEADLESS: &str = "service.kubernetes.io/headless";
}

/// Annotations.
pub mod annotations {
    /// Written by the kubelet when it runs with `--node-ip`; read by both programs.
    pub const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";
    /// Written on a Node by whichever program has set its additional labels: those labels as
    /// `key=value`, separated by commas. A label that is not in it, or has another value by now, is
    /// somebody else's. Read by both programs.
    pub const OWNED_LABELS: &str = "mooring.dev/owned-labels";
    /// Written by a node daemon on its own uninitialised Node: what its metadata source does not
    /// know, in words. Read by central, which then initialises the Node without waiting any longer,
    /// and describes it from then on.
    pub const LEFT_TO_CENTRAL: &str = "mooring.dev/left-to-central";
    /// Written by central on a Node whose daemon contradicts the cloud: what was corrected, in
    /// words. Read by the daemon, which leaves addresses and labels to central from then on.
    pub const CORRECTED_BY_CENTRAL: &str = "mooring.dev/corrected-by-central";
    /// Written on a Node, at initialisation, where the cloud does not know every address: the
    /// InternalIPs that the kubelet had reported besides, separated by commas. They are kept. Read
    /// by both programs.
    pub const KUBELET_ADDRESSES: &str = "mooring.dev/kubelet-addresses";
    /// Written on Nodes of Linode, as its Go controller does: the machine's private IPv4 address.
    pub const LINODE_PRIVATE_IP: &str = "node.k8s.linode.com/private-ip";
    /// Written on Nodes of Linode, as its Go controller does: the machine's IPv6 address with its
    /// prefix length, as the cloud writes it.
    pub const LINODE_PUBLIC_IPV6: &str = "node.k8s.linode.com/public-ipv6";
    /// Written by a person on a Node, with any value but `false`: it is to speak for no address until
    /// it is taken off, or until the time of `until=2026-11-25T22:00:00Z` by the Node's own clock. Read by the
    /// node daemon ([`crate::maintenance`]).
    pub const MAINTENANCE: &str = "mooring.dev/maintenance";
    /// Those that are read on Nodes, beside the clouds' own ([`crate::clouds::CLOUDS`]).
    pub const ON_NODES: [&str; 6] = [
        MAINTENANCE,
        PROVIDED_NODE_IP,
        OWNED_LABELS,
        LEFT_TO_CENTRAL,
        CORRECTED_BY_CENTRAL,
        KUBELET_ADDRESSES,
    ];
    /// Written by a person on a Service, from before `spec.loadBalancerSourceRanges`, which wins:
    /// CIDRs of clients, separated by commas. Read by central.
    pub const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    /// Written by a person on a Service: the name of the L2Network that its addresses shall come
    /// from. Read by central.
    pub const L2_NETWORK_REQUEST: &str = "mooring.dev/l2-network";
    /// Written by a person on a Service: the pool of an L2Network that its addresses shall come from. Read by
    /// central.
    pub const ADDRESS_POOL_REQUEST: &str = "mooring.dev/address-pool";
    /// Written by a person on a Service: the addresses wanted, at most one of each family,
    /// separated by commas. Read by central; wins over `spec.loadBalancerIP`.
    pub const ADDRESSES_REQUEST: &str = "mooring.dev/load-balancer-ips";
    /// Written by a person on a Service: its sharing key. It may have an address of another Service that
    /// has the same. Read by central.
    pub const SHARING_KEY: &str = "mooring.dev/allow-shared-ip";
    /// All names of [`ADDRESSES_REQUEST`]: those of `MetalLB` and kube-vip are read as well.
    pub const ADDRESSES_REQUESTS: [&str; 4] = [
        ADDRESSES_REQUEST,
        "metallb.io/loadBalancerIPs",
        "metallb.universe.tf/loadBalancerIPs",
        "kube-vip.io/loadbalancerIPs",
    ];
    /// All names of [`ADDRESS_POOL_REQUEST`].
    pub const ADDRESS_POOL_REQUESTS: [&str; 3] = [
        ADDRESS_POOL_REQUEST,
        "metallb.io/address-pool",
        "metallb.universe.tf/address-pool",
    ];
    /// All names of [`SHARING_KEY`].
    pub const SHARING_KEYS: [&str; 3] = [
        SHARING_KEY,
        "metallb.io/allow-shared-ip",
        "metallb.universe.tf/allow-shared-ip",
    ];
    /// Written by central on a Service beside its status: the L2Network on which the addresses in
    /// the status live. Read by the node daemons, which announce them there, and by central after
    /// a restart. Whoever may write the Service may write it too where the policy
    /// [`super::policies::SERVICE_RECORDS`] is missing, so both check what they read.
    pub const ALLOCATED_NETWORK: &str = "mooring.dev/allocated-l2-network";
    /// Written by central on a Service: the addresses it holds, separated by commas. Read by both
    /// programs, and believed where the status says the same. Without that it is a wish: a Service
    /// whose status was wiped gets these addresses if it might ask for them.
    pub const ALLOCATED_ADDRESSES: &str = "mooring.dev/allocated-addresses";
    /// Written by central on a Service at phoenixNAP: the id of the public network that its addresses
    /// are in. Read by central, so that they follow when the configuration names another one.
    pub const PUBLIC_NETWORK: &str = "mooring.dev/public-network";
    /// Written by central on a Service before it asks a cloud to make its load balancer: when, and which cloud, in the
    /// form of RFC 9557 (`2026-11-28T10:00:00Z[cloud=linode]`); taken off when the Service says what it has of this cloud.
    /// Read by central: whoever leads next looks there for what was asked for until `--creation-settle-time` has
    /// passed, and makes no second one meanwhile.
    pub const CREATION_ASKED: &str = "mooring.dev/load-balancer-asked-for";
    /// On Services: which load balancer has all that was wanted, and what that was, as a fingerprint. Written
    /// by central, so that it need not look at each of them when it starts.
    pub const APPLIED: &str = "mooring.dev/load-balancer-applied";
    /// On Services: the milliseconds between two health checks at Brightbox, whose Go controller reads this
    /// key of another cloud.
    pub const AWS_HEALTH_CHECK_INTERVAL: &str =
        "service.beta.kubernetes.io/aws-load-balancer-healthcheck-interval";
    /// Written by central on the Service `default/kubernetes` while it buys an IP block: who does, and
    /// what. Read by central: whoever else believes to lead waits meanwhile.
    pub const IP_BLOCK_CLAIM: &str = "mooring.dev/ip-block-claim";
    /// Written by each node daemon on its own Lease: a JSON object from the name of each L2Network
    /// on which it can speak to the MAC address it speaks from. Read by people.
    pub const LEASE_SEGMENTS: &str = "mooring.dev/segments";
}

/// Annotations of Services whose load balancers are at cloudscale.ch: the Go controller's. Written by
/// a person and read by central, unless said otherwise. Where one has a default, that is part of what
/// the cloud is told, so that it can never change.
pub mod cloudscale_annotations {
    /// Written by central, as by the Go controller: the load balancer's UUID. Read by central, which
    /// finds it by that.
    pub const UUID: &str = "k8s.cloudscale.ch/loadbalancer-uuid";
    /// Written by central, as by the Go controller: [`CONFIG_VERSION_VALUE`]. Not read.
    pub const CONFIG_VERSION: &str = "k8s.cloudscale.ch/loadbalancer-config-version";
    /// What [`CONFIG_VERSION`] says.
    pub const CONFIG_VERSION_VALUE: &str = "1";
    /// The load balancer's name; `k8s-service-` and the Service's UID unless given.
    pub const NAME: &str = "k8s.cloudscale.ch/loadbalancer-name";
    /// Its flavor.
    pub const FLAVOR: &str = "k8s.cloudscale.ch/loadbalancer-flavor";
    /// Its zone. Written by central too, as by the Go controller, once it is known.
    pub const ZONE: &str = "k8s.cloudscale.ch/loadbalancer-zone";
    /// Its private addresses: a JSON list of objects with `subnet` and `address`.
    pub const VIP_ADDRESSES: &str = "k8s.cloudscale.ch/loadbalancer-vip-addresses";
    /// Networks of floating IPs that are to lead to it: a JSON list.
    pub const FLOATING_IPS: &str = "k8s.cloudscale.ch/loadbalancer-floating-ips";
    /// How its pools distribute.
    pub const POOL_ALGORITHM: &str = "k8s.cloudscale.ch/loadbalancer-pool-algorithm";
    /// What its pools of TCP ports speak to their members.
    pub const POOL_PROTOCOL: &str = "k8s.cloudscale.ch/loadbalancer-pool-protocol";
    /// A host name for the status, instead of addresses.
    pub const FORCE_HOSTNAME: &str = "k8s.cloudscale.ch/loadbalancer-force-hostname";
    /// `ipMode` of the addresses in the status.
    pub const IP_MODE: &str = "k8s.cloudscale.ch/loadbalancer-ip-mode";
    /// Seconds between two questions of the health monitors.
    pub const MONITOR_DELAY_S: &str = "k8s.cloudscale.ch/loadbalancer-health-monitor-delay-s";
    /// Seconds that an answer may take.
    pub const MONITOR_TIMEOUT_S: &str = "k8s.cloudscale.ch/loadbalancer-health-monitor-timeout-s";
    /// Good answers in a row that make a member healthy.
    pub const MONITOR_UP_THRESHOLD: &str =
        "k8s.cloudscale.ch/loadbalancer-health-monitor-up-threshold";
    /// Bad ones that make it unhealthy.
    pub const MONITOR_DOWN_THRESHOLD: &str =
        "k8s.cloudscale.ch/loadbalancer-health-monitor-down-threshold";
    /// How the health monitors ask.
    pub const MONITOR_TYPE: &str = "k8s.cloudscale.ch/loadbalancer-health-monitor-type";
    /// How they speak HTTP: a JSON object.
    pub const MONITOR_HTTP: &str = "k8s.cloudscale.ch/loadbalancer-health-monitor-http";
    /// What listeners of TCP ports speak.
    pub const LISTENER_PROTOCOL: &str = "k8s.cloudscale.ch/loadbalancer-listener-protocol";
    /// Who may connect: a JSON list of CIDRs. Wins over `spec.loadBalancerSourceRanges`.
    pub const ALLOWED_CIDRS: &str = "k8s.cloudscale.ch/loadbalancer-listener-allowed-cidrs";
    /// The subnets that members are taken from: a JSON list of UUIDs.
    pub const ALLOWED_SUBNETS: &str = "k8s.cloudscale.ch/loadbalancer-listener-allowed-subnets";
    /// Milliseconds that a client may be silent.
    pub const TIMEOUT_CLIENT_DATA_MS: &str =
        "k8s.cloudscale.ch/loadbalancer-timeout-client-data-ms";
    /// Milliseconds that connecting to a member may take.
    pub const TIMEOUT_MEMBER_CONNECT_MS: &str =
        "k8s.cloudscale.ch/loadbalancer-timeout-member-connect-ms";
    /// Milliseconds that a member may be silent.
    pub const TIMEOUT_MEMBER_DATA_MS: &str =
        "k8s.cloudscale.ch/loadbalancer-timeout-member-data-ms";
    /// Which Nodes carry the Service's traffic: a label selector.
    pub const NODE_SELECTOR: &str = "k8s.cloudscale.ch/loadbalancer-node-selector";
}

/// Tags of load balancers at cloudscale.ch, written and read by central.
pub mod cloudscale_tags {
    /// The UID of the Service that it was made for.
    pub const SERVICE_UID: &str = "mooring-service-uid";
    /// The cluster that it was made for, by the UID of the Service `default/kubernetes`.
    pub const CLUSTER: &str = "mooring-cluster";
}

/// How the tags begin that central gives NodeBalancers and Cloud Firewalls at Linode. With a UID they are as
/// long as a tag can be.
pub mod linode_tags {
    /// The UID of the Service that it was made for follows.
    pub const SERVICE: &str = "k8s-service-";
    /// The cluster that it was made for follows, by the UID of the Service `default/kubernetes`.
    pub const CLUSTER: &str = "k8s-cluster-";
    /// The number of a Cloud Firewall follows that was attached because the Service names it. On NodeBalancers
    /// alone, from before it is attached until it is detached.
    pub const FIREWALL: &str = "k8s-firewall-";
}

/// What central writes into the description of server groups at Brightbox, which has no tags:
/// `mooring.dev cluster=… service=…`.
pub mod brightbox_marks {
    /// How the description begins.
    pub const PREFIX: &str = "mooring.dev";
    /// The UID of the Service `default/kubernetes` of the cluster that it was made for.
    pub const CLUSTER: &str = "cluster";
    /// The UID of the Service that it was made for.
    pub const SERVICE: &str = "service";
}

/// Tags of public IP blocks at phoenixNAP, written and read by central: those of the Go controller, and
/// one more.
pub mod phoenixnap_tags {
    /// What made the block: [`USAGE_VALUE`].
    pub const USAGE: &str = "usage";
    /// What [`USAGE`] says.
    pub const USAGE_VALUE: &str = "cloud-provider-phoenixnap-auto";
    /// The cluster that it was bought for, by the UID of the namespace `kube-system`.
    pub const CLUSTER: &str = "cluster";
    /// The namespace of the Service that has it for itself.
    pub const SERVICE_NAMESPACE: &str = "serviceNamespace";
    /// The name of that Service.
    pub const SERVICE_NAME: &str = "serviceName";
    /// Nobody needs it any more: it is to be detached and released.
    pub const DELETE: &str = "delete";
    /// What [`DELETE`] says.
    pub const DELETE_VALUE: &str = "true";
    /// Several Services share it; the value is the id of the public network that it was bought for.
    /// Mooring's own.
    pub const POOL: &str = "pool";
}

/// Finalizers.
pub mod finalizers {
    /// Set by central on a Service before anything is allocated for it, and taken off when all of
    /// it has been released. The Go controllers use the same.
    pub const SERVICE: &str = "service.kubernetes.io/load-balancer-cleanup";
}

/// Conditions of Nodes, and the reasons in them.
pub mod node_conditions {
    /// Set by central where it makes routes to Pods, and by nobody else of Mooring. While it is True,
    /// kube-controller-manager keeps the taint `node.kubernetes.io/network-unavailable` on the Node.
    pub const NETWORK_UNAVAILABLE: &str = "NetworkUnavailable";
    /// The reason of False, as in the Go controllers.
    pub const ROUTE_CREATED: &str = "RouteCreated";
    /// The reason of True, as in the Go controllers.
    pub const NO_ROUTE_CREATED: &str = "NoRouteCreated";
}

/// The name under which each controller reports Events, as the Go controllers do.
pub mod components {
    /// Initialisation and addresses of Nodes.
    pub const NODE: &str = "cloud-node-controller";
    /// Shutdown taint and deletion of Nodes.
    pub const NODE_LIFECYCLE: &str = "cloud-node-lifecycle-controller";
    /// Services of type LoadBalancer.
    pub const SERVICE: &str = "service-controller";
    /// Routes to the Pods of Nodes.
    pub const ROUTE: &str = "route_controller";
    /// Pod CIDRs of Nodes.
    pub const NODE_IPAM: &str = "cidrAllocator";
    /// L2Networks and the addresses in them.
    pub const ADDRESS_POOL: &str = "l2network-controller";
    /// Central, where it owns fields or objects.
    pub const CENTRAL: &str = "mooring-central";
    /// The node daemon.
    pub const NODE_DAEMON: &str = "mooring-node";
}

/// Reasons of Events. The names that the Go controllers use are kept, since alerts match on them.
pub mod reasons {
    /// Node, Warning: one of its pod CIDRs has no route; the note says why.
    pub const FAILED_TO_CREATE_ROUTE: &str = "FailedToCreateRoute";
    /// Node, Warning: there is no pod CIDR for it; the note says why.
    pub const CIDR_NOT_AVAILABLE: &str = "CIDRNotAvailable";
    /// Node, Warning: its pod CIDR could not be written, or is another Node's too.
    pub const CIDR_ASSIGNMENT_FAILED: &str = "CIDRAssignmentFailed";
    /// Node, Normal: initialised. By whichever program did it.
    pub const SYNCED: &str = "Synced";
    /// Node, Warning: it cannot be initialised as things are; the note says what to do.
    pub const INITIALIZATION_REFUSED: &str = "InitializationRefused";
    /// Node, Warning: two machines match it, so that none is chosen.
    pub const AMBIGUOUS_INSTANCE: &str = "AmbiguousInstance";
    /// Node, Warning: its provider ID belongs to another provider, or contradicts ours.
    pub const UNKNOWN_PROVIDER_ID: &str = "UnknownProviderIDPrefix";
    /// Node, Warning: somebody else keeps changing its addresses back.
    pub const ADDRESSES_CONTESTED: &str = "AddressesContested";
    /// Node, Warning: what its daemon wrote contradicted the cloud, and was corrected.
    pub const FACTS_CORRECTED: &str = "NodeFactsCorrected";
    /// Node, Warning: an admission policy refuses additional labels of its machine; the note names
    /// their keys, and the value of the chart that permits them.
    pub const LABELS_REFUSED: &str = "LabelsRefused";
    /// Node, Warning: another Node has the same provider ID.
    pub const DUPLICATE_PROVIDER_ID: &str = "DuplicateProviderID";
    /// Node, Warning: its annotation `mooring.dev/maintenance` is to name an end, and does not. By its daemon.
    pub const MAINTENANCE_UNREADABLE: &str = "MaintenanceUnreadable";
    /// Node, Normal: about to be deleted, since its machine is gone.
    pub const DELETING_NODE: &str = "DeletingNode";
    /// Node, Warning: the deletion was refused by the API server.
    pub const DELETING_NODE_FAILED: &str = "DeletingNodeFailed";
    /// Node, Warning: its machine seems gone, but too many would be deleted at once.
    pub const NODE_DELETION_HELD: &str = "NodeDeletionHeld";
    /// Service, Normal: before every attempt to provide a load balancer.
    pub const ENSURING_LOAD_BALANCER: &str = "EnsuringLoadBalancer";
    /// Service, Normal: the load balancer is as wanted.
    pub const ENSURED_LOAD_BALANCER: &str = "EnsuredLoadBalancer";
    /// Service, Warning: the attempt failed; the note says why and what to do.
    pub const SYNC_LOAD_BALANCER_FAILED: &str = "SyncLoadBalancerFailed";
    /// Service, Warning: no Node can carry its traffic.
    pub const UNAVAILABLE_LOAD_BALANCER: &str = "UnAvailableLoadBalancer";
    /// Service, Normal: its load balancer is about to be deleted.
    pub const DELETING_LOAD_BALANCER: &str = "DeletingLoadBalancer";
    /// Service, Normal: its load balancer is gone.
    pub const DELETED_LOAD_BALANCER: &str = "DeletedLoadBalancer";
    /// Service, Normal: its load balancer follows the Nodes again.
    pub const UPDATED_LOAD_BALANCER: &str = "UpdatedLoadBalancer";
    /// Service, Warning: its load balancer does not follow the Nodes; the note says why.
    pub const UPDATE_LOAD_BALANCER_FAILED: &str = "UpdateLoadBalancerFailed";
    /// Service, Warning: users will notice what is about to be done to its load balancer; the note
    /// names the steps.
    pub const DISRUPTIVE_CHANGE: &str = "DisruptiveChange";
    /// Service `default/kubernetes`, Warning: a load balancer bears the marks of a Service that is no
    /// more.
    pub const ORPHANED_LOAD_BALANCER: &str = "OrphanedLoadBalancer";
    /// Service `default/kubernetes`, Normal: such a load balancer was deleted.
    pub const DELETED_ORPHAN: &str = "DeletedOrphanedLoadBalancer";
    /// L2Network, Warning: part of its ranges belongs to an older L2Network.
    pub const RANGE_CONFLICT: &str = "RangeConflict";
    /// L2Network, Warning: it cannot be read.
    pub const NETWORK_INVALID: &str = "Invalid";
    /// L2Network, Normal: what hindered it is gone.
    pub const READY: &str = "Ready";
    /// L2Network, Warning: a node that it selects cannot speak on it; the note says which, why, and
    /// what to do.
    pub const SEGMENT_UNAVAILABLE: &str = "SegmentUnavailable";
    /// L2Network, Warning: the kernel of a node answers for addresses that another node may announce; the
    /// note says which, why, and what to do. By the node's daemon.
    pub const KERNEL_ANSWERS: &str = "KernelAnswers";
    /// L2Network, Warning: `spec.controlPlane` and the control plane file of a node differ, or there is none and a range
    /// has the address; the note says how, and what to do. By the node's daemon.
    pub const CONTROL_PLANE_FILE_DIFFERS: &str = "ControlPlaneFileDiffers";
    /// Node, Warning: its daemon found no admission policy that keeps it to this Node, and writes
    /// nothing; the note says what to do.
    pub const FENCE_MISSING: &str = "FenceMissing";
    /// L2Network, Warning: too few of its voters hear each other, so that addresses fall silent.
    pub const QUORUM_LOST: &str = "QuorumLost";
    /// L2Network, Warning: none of its voters renews its Lease.
    pub const NO_VOTER_LEFT: &str = "NoVoterLeft";
    /// L2Network, Normal: a majority of its voters hear each other again.
    pub const QUORUM_HELD: &str = "QuorumHeld";
    /// L2Network, Warning: it has two voters, so that a third Node would make fail-over faster.
    pub const TWO_VOTERS: &str = "TwoVoters";
    /// L2Network, Warning: its daemons have no secret to know each other by.
    pub const HEARTBEATS_UNSIGNED: &str = "HeartbeatsUnsigned";
    /// L2Network, Warning: daemons that live are not heard on the segment itself.
    pub const SEGMENT_FILTERED: &str = "SegmentFiltered";
    /// Service, Normal: a node has begun to announce one of its addresses; the note says why, and
    /// who did before.
    pub const ADDRESS_ANNOUNCED: &str = "AddressAnnounced";
    /// Service, Warning: one of its addresses is a router's, a Node's or the end of a subnet. By
    /// central.
    pub const ADDRESS_RESERVED: &str = "AddressReserved";
    /// Service, Warning: its status has addresses of Nodes, which another load balancer writes. By central.
    pub const OTHER_LOAD_BALANCER: &str = "OtherLoadBalancer";
    /// Service, Warning: it shares an address against the rules, and keeps it or has lost it; the note
    /// says which rule, and what to do. By central.
    pub const SHARING_CONFLICT: &str = "SharingConflict";
    /// Service, Warning: its status has an address that the daemons do not announce, and why. By the
    /// daemon of the first voter.
    pub const ADDRESS_REFUSED: &str = "AddressRefused";
    /// Service, Warning: a machine that is none of ours answers for one of its addresses, or did so before any
    /// Node announced it.
    pub const ADDRESS_CONFLICT: &str = "AddressConflict";
    /// Service, Warning: Nodes that are to carry its traffic have no machine in the cloud of its load
    /// balancer, or one that the token may not see.
    pub const NODE_WITHOUT_SERVER: &str = "NodeWithoutServer";
    /// Service, Warning: a load balancer that might be its own stays when it goes.
    pub const LOAD_BALANCER_KEPT: &str = "LoadBalancerKept";
    /// Service, Warning: its node selector selects no Node. By the provider, as the Go controller of
    /// cloudscale.ch does.
    pub const NO_VALID_NODES: &str = "NoValidNodes";
    /// Service, Warning: Nodes that are to carry its traffic have no address that the load balancer
    /// could reach.
    pub const NO_MEMBER_ADDRESS: &str = "NoMemberAddress";
    /// Service, Warning: its health monitors will take good members for bad ones, or the other way round.
    pub const HEALTH_MONITOR_UNFIT: &str = "HealthMonitorUnfit";
    /// Service, Warning: the IP block of its address is not there any more.
    pub const IP_BLOCK_LOST: &str = "IPBlockLost";
    /// Service, Warning: somebody has taken the IP block of its address from the public network.
    pub const IP_BLOCK_DETACHED: &str = "IPBlockDetached";
    /// Service, Warning: the cloud has failed to assign its IP block.
    pub const IP_BLOCK_FAILED: &str = "IPBlockFailed";
    /// Service, Warning: its IP block moves to another public network.
    pub const IP_BLOCK_MOVED: &str = "IPBlockMoved";
    /// Service, Warning: its IP block does not bear our tags any more.
    pub const IP_BLOCK_UNTAGGED: &str = "IPBlockUntagged";
    /// Service, Warning: the address that it asks for is its user's own affair.
    pub const ADDRESS_NOT_OURS: &str = "AddressNotOurs";
    /// Service `default/kubernetes`, Warning: an IP block that nobody needs cannot be given back, or one is on its way for
    /// more than a quarter of an hour.
    pub const IP_BLOCK_STUCK: &str = "IPBlockStuck";
    /// Service `default/kubernetes`, Warning: servers of Nodes are not in the public network.
    pub const NODE_NOT_IN_NETWORK: &str = "NodeNotInNetwork";
    /// Service `default/kubernetes`, Warning: there is no BGP peer group that Nodes could be told of.
    pub const NO_PEER_GROUP: &str = "NoPeerGroup";
    /// Service `default/kubernetes`, Warning: an IP block is one too many, and is given back.
    pub const IP_BLOCK_SURPLUS: &str = "IPBlockSurplus";
    /// Service, Warning: one of its annotations has a value that the Go controller of its cloud took and
    /// that means little; the note says what becomes of it, and what to write.
    pub const QUESTIONABLE_ANNOTATION: &str = "QuestionableAnnotation";
    /// Service, Warning: the address that it asks for now is not that of its NodeBalancer, and cannot be.
    pub const NODE_BALANCER_IP_CHANGE_IGNORED: &str = "NodeBalancerIPChangeIgnored";
    /// Service, Warning: a Secret that it names cannot be used, and its load balancer keeps the certificate
    /// that it has.
    pub const TLS_SECRET_UNUSABLE: &str = "TLSSecretUnusable";
    /// Service, Warning: the cloud does not take Nodes that are to carry its traffic as members.
    pub const MEMBER_REFUSED: &str = "MemberRefused";
    /// Service, Normal: as by the Go controllers of before Kubernetes 1.30, with old and new value.
    pub const CHANGED_SOURCE_RANGES: &str = "LoadBalancerSourceRanges";
    /// The same of `spec.loadBalancerIP`.
    pub const CHANGED_ADDRESS: &str = "LoadbalancerIP";
    /// The same of `spec.externalTrafficPolicy`.
    pub const CHANGED_TRAFFIC_POLICY: &str = "ExternalTrafficPolicy";
    /// The same of `spec.healthCheckNodePort`.
    pub const CHANGED_HEALTH_CHECK_PORT: &str = "HealthCheckNodePort";
    /// The same of `spec.ipFamilies`.
    pub const CHANGED_IP_FAMILIES: &str = "IPFamilies";
    /// Service, Warning: it asks for something that its cloud's load balancers do not have.
    pub const UNSUPPORTED_FIELD: &str = "UnsupportedField";
}

/// What the `spec.loadBalancerClass` begins with by which a Service names its cloud; the provider's name
/// follows: `mooring.dev/cloudscale`. Written by people, read by central.
pub const CLASS_PREFIX: &str = "mooring.dev/";

/// What follows in the class of Services that get addresses of L2Networks: `mooring.dev/l2`. No provider has
/// this name.
pub const L2_CLASS: &str = "l2";

/// Admission policies of the chart. The node daemon makes sure at its start that they refuse it what
/// is not its own.
pub mod policies {
    /// Keeps each daemon to its own Node.
    pub const OWN_NODE: &str = "mooring-node-own-node";
    /// Keeps each daemon to its own Lease.
    pub const OWN_LEASE: &str = "mooring-node-own-lease";
    /// Keeps each daemon to its own entry in the status of L2Networks.
    pub const OWN_SEGMENT_ENTRY: &str = "mooring-node-own-segment-entry";
    /// Keeps everybody but central from writing what central notes on Services.
    pub const SERVICE_RECORDS: &str = "mooring-service-records";
}

/// Why a Node can speak on a segment or not: `status.nodes[].reason` of an L2Network. Written by the
/// node daemons.
pub mod segment_reasons {
    /// It can.
    pub const READY: &str = "Ready";
    /// It could, but is being deleted, excluded or drained.
    pub const DRAINING: &str = "Draining";
    /// It has no interface for the segment.
    pub const NO_INTERFACE: &str = "NoInterface";
    /// It has one, which is down or has no MAC address.
    pub const INTERFACE_DOWN: &str = "InterfaceDown";
    /// It has one, on which it cannot speak.
    pub const CANNOT_SPEAK: &str = "CannotSpeak";
    /// Its daemon has no key to sign heartbeats with, and takes no part.
    pub const NO_HEARTBEAT_KEY: &str = "NoHeartbeatKey";
    /// It could, but does not hear a majority of the voters.
    pub const QUORUM_LOST: &str = "QuorumLost";
    /// It is not on the segment, and only votes.
    pub const WITNESS: &str = "Witness";
    /// Its daemon has ended.
    pub const STOPPED: &str = "Stopped";
}

/// Why a Node began to speak for an address: `status.nodes[].addresses[].reason` of an L2Network, and
/// in Events. Written by the node daemons.
pub mod speaking_reasons {
    /// Nobody spoke for it.
    pub const UNCLAIMED: &str = "Unclaimed";
    /// Its speaker fell silent.
    pub const TAKEN_OVER: &str = "TakenOver";
    /// Its speaker handed it over.
    pub const HANDED_OVER: &str = "HandedOver";
    /// It was only lent to another Node while the daemon here was away.
    pub const GIVEN_BACK: &str = "GivenBack";
    /// The process before this one, on the same Node, spoke for it.
    pub const INHERITED: &str = "Inherited";
}

/// What else a Node says of itself on a segment: `status.nodes[].notices` of an L2Network. Written by
/// the node daemons, read by central, which makes conditions of them.
pub mod segment_notices {
    /// Other stations have addresses that are to be announced: they are left to those.
    pub const ADDRESS_CONFLICT: &str = "AddressConflict";
    /// Its daemon has no key to sign heartbeats with: it is silent, or permitted to go without.
    pub const HEARTBEATS_UNSIGNED: &str = "HeartbeatsUnsigned";
    /// It hears nobody on the segment itself, although others live.
    pub const SEGMENT_FILTERED: &str = "SegmentFiltered";
    /// It does not hear a majority of the voters.
    pub const QUORUM_LOST: &str = "QuorumLost";
    /// Within the last minute others refused its heartbeats as old, or it theirs; it has begun anew.
    pub const BEGUN_ANEW: &str = "BegunAnew";
    /// `spec.keepConnections` has no effect there: its kernel cannot pass connections on. The log says why.
    pub const CONNECTIONS_NOT_KEPT: &str = "ConnectionsNotKept";
    /// Its service proxy says that it does not work, so that it takes no address.
    pub const SERVICE_PROXY_UNHEALTHY: &str = "ServiceProxyUnhealthy";
    /// A Service claims an address there that this daemon does not announce: an Event tells of it.
    pub const ADDRESS_REFUSED: &str = "AddressRefused";
    /// Its kernel answers for addresses there, whichever node speaks for them: an Event tells why.
    pub const KERNEL_ANSWERS: &str = "KernelAnswers";
    /// Its control plane file has another address or port than `spec.controlPlane`: an Event tells which.
    pub const CONTROL_PLANE_FILE_DIFFERS: &str = "ControlPlaneFileDiffers";
}

/// How a Node does with the address of the control plane: `status.nodes[].controlPlane.state` of an L2Network.
/// Written by the node daemons.
pub mod control_plane_states {
    /// It has the address.
    pub const ANNOUNCING: &str = "Announcing";
    /// Its API server is ready, and another node has the address.
    pub const STANDBY: &str = "Standby";
    /// Its API server is not ready.
    pub const NOT_READY: &str = "NotReady";
    /// It only votes.
    pub const WITNESS: &str = "Witness";
    /// Its control plane file does not name it.
    pub const NOT_MEMBER: &str = "NotMember";
    /// Nothing announces the address there.
    pub const NOT_RUNNING: &str = "NotRunning";
}

/// The types of an L2Network's conditions. Written by central.
pub mod segment_conditions {
    /// Whether addresses are allocated from it.
    pub const READY: &str = "Ready";
    /// Whether a majority of its voters hear each other.
    pub const QUORUM: &str = "Quorum";
    /// Whether all daemons sign their heartbeats.
    pub const HEARTBEATS_SIGNED: &str = "HeartbeatsSigned";
    /// Whether daemons that live are not heard on the segment itself.
    pub const SEGMENT_FILTERED: &str = "SegmentFiltered";
}

/// The Lease that central's replicas compete for: the one that the Go controllers use, in
/// [`LEADER_LEASE_NAMESPACE`], so that an old controller and Mooring never both act.
pub const LEADER_LEASE: &str = "cloud-controller-manager";
/// The same with `--cloud-provider=none`.
pub const CLOUDLESS_LEADER_LEASE: &str = "mooring-central";
/// Where the Lease lives.
pub const LEADER_LEASE_NAMESPACE: &str = "kube-system";

/// The Lease of one node daemon, in the namespace that the daemon runs in.
#[must_use]
pub fn node_lease(node_name: &str) -> String {
    format!("node-{node_name}")
}
