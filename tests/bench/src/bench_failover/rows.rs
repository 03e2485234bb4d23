//! What is measured, what is wanted, and what was measured of others.

use std::time::Duration;

use anyhow::Result;
use futures::future::LocalBoxFuture;

use mooring_test_netlab::control_plane_nodes::{ControlPlaneNodes, Part};
use mooring_test_netlab::failover::{FailoverCluster, Seen};

/// How the nodes of a cluster are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Service addresses are on the network of the nodes.
    OneNetwork,
    /// They are on one of their own.
    TwoNetworks,
}

/// What a bound is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Packets that a client with a cached neighbour lost, as time.
    Outage,
    /// Time in which nobody answered a new neighbour.
    Dark,
}

impl Metric {
    /// Of one repetition.
    pub fn of(self, seen: &Seen) -> Duration {
        match self {
            Self::Outage => seen.outage,
            Self::Dark => seen.dark,
        }
    }

    /// A word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Outage => "outage",
            Self::Dark => "dark",
        }
    }
}

/// At most this, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Of what.
    pub metric: Metric,
    /// Half of all repetitions.
    pub p50: u64,
    /// All repetitions.
    pub max: u64,
}

/// Somebody else's figures: p50 and max in milliseconds, of the metric that is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Who.
    pub name: &'static str,
    /// Half of all repetitions.
    pub p50: u64,
    /// The worst, if it is known.
    pub max: Option<u64>,
    /// For how long two answered, and what else there is to say.
    pub two: &'static str,
}

/// Lets something fail; the time is that of the API server's outage.
pub type ClusterFault =
    for<'a> fn(&'a mut FailoverCluster, Duration) -> LocalBoxFuture<'a, Result<Seen>>;

/// Lets something befall the control-plane node of this name.
pub type ControlPlaneFault = fn(&mut ControlPlaneNodes, &str) -> Result<()>;

/// What fails, and whose address is watched.
#[derive(Clone, Copy)]
pub enum Fault {
    /// That of a Service.
    Cluster(Way, ClusterFault),
    /// That of the control plane, at the node that has it.
    ControlPlane(ControlPlaneFault),
}

/// One kind of fault.
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Lasts 10 s or more.
    pub is_long: bool,
    /// What is drawn, and compared with others.
    pub shown: Metric,
    /// What is wanted.
    pub bounds: &'static [Bound],
    /// Whether no established connection may break.
    pub keeps_connections: bool,
    /// Whether its healing is a row of its own: `PLUGGED`.
    pub leaves_damage: bool,
    /// Others' figures, if they were measured.
    pub peers: &'static [Peer],
    /// Lets it happen.
    pub fault: Fault,
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

const fn one_network(fault: ClusterFault) -> Fault {
    Fault::Cluster(Way::OneNetwork, fault)
}

const fn outage(p50: u64, max: u64) -> Bound {
    let metric = Metric::Outage;
    Bound { metric, p50, max }
}

const fn dark(p50: u64, max: u64) -> Bound {
    let metric = Metric::Dark;
    Bound { metric, p50, max }
}

const fn metallb(p50: u64, max: u64, two: &'static str) -> Peer {
    peer("MetalLB", p50, max, two)
}

const fn kube_vip(p50: u64, max: u64, two: &'static str) -> Peer {
    peer("kube-vip 15/10/2", p50, max, two)
}

const fn fast_kube_vip(p50: u64, max: u64, two: &'static str) -> Peer {
    peer("kube-vip 5/3/1", p50, max, two)
}

/// A maximum of 0 with a larger median is none.
const fn peer(name: &'static str, p50: u64, max: u64, two: &'static str) -> Peer {
    let max = if max < p50 { None } else { Some(max) };
    Peer {
        name,
        p50,
        max,
        two,
    }
}

/// What is measured when cables are plugged in again.
pub const PLUGGED: Row = Row {
    name: "cable plugged in again",
    bounds: &[dark(0, 20)],
    shown: Metric::Dark,
    peers: &[],
    fault: one_network(|cluster, _| Box::pin(cluster.suffer_plug())),
    ..CRASH
};

const CRASH: Row = Row {
    name: "node crash",
    is_long: false,
    shown: Metric::Outage,
    bounds: &[outage(500, 1000)],
    keeps_connections: false,
    leaves_damage: false,
    peers: &[
        metallb(5_743, 7_403, ""),
        kube_vip(18_196, 20_473, ""),
        fast_kube_vip(7_570, 9_116, ""),
    ],
    fault: one_network(|cluster, _| Box::pin(cluster.suffer_crash())),
};

/// All rows, in the order of the specification.
pub const ROWS: &[Row] = &[
    CRASH,
    Row {
        name: "cable pulled",
        leaves_damage: true,
        peers: &[
            metallb(5_638, 6_752, "3,980 / 32,920 after plugging in"),
            kube_vip(18_507, 21_520, "0 / 240 after plugging in"),
            fast_kube_vip(6_970, 8_896, ""),
        ],
        fault: one_network(|cluster, _| Box::pin(cluster.suffer_cable())),
        ..CRASH
    },
    Row {
        name: "daemon killed -9, stays dead",
        shown: Metric::Dark,
        bounds: &[outage(0, 0), dark(500, 1000)],
        keeps_connections: true,
        peers: &[
            metallb(5_603, 6_781, "40"),
            kube_vip(38, 0, "for ever"),
            fast_kube_vip(35, 0, "for ever"),
        ],
        fault: one_network(|cluster, _| Box::pin(cluster.suffer_kill())),
        ..CRASH
    },
    Row {
        name: "daemon killed -9, started again after 1 s",
        shown: Metric::Dark,
        bounds: &[outage(0, 0), dark(500, 500)],
        keeps_connections: true,
        peers: &[
            metallb(1_440, 2_417, ""),
            kube_vip(88, 0, ""),
            fast_kube_vip(64, 0, ""),
        ],
        fault: one_network(|cluster, _| Box::pin(cluster.suffer_kill_and_restart())),
        ..CRASH
    },
    Row {
        name: "daemon stopped for 10 s",
        is_long: true,
        shown: Metric::Dark,
        bounds: &[outage(0, 0), dark(500, 500)],
        keeps_connections: true,
        peers: &[
            metallb(5_481, 0, "60 / 140"),
            kube_vip(40, 0, "0"),
            fast_kube_vip(31, 0, "7,090 / 8,200"),
        ],
        fault: one_network(|cluster, _| Box::pin(cluster.suffer_pause())),
        ..CRASH
    },
    Row {
        name: "API server dead for 60 s",
        is_long: true,
        bounds: &[outage(0, 0), dark(0, 0)],
        keeps_connections: true,
        peers: &[
            metallb(0, 0, ""),
            kube_vip(23_040, 49_152, ""),
            fast_kube_vip(30_718, 43_009, ""),
        ],
        fault: one_network(|cluster, outage| Box::pin(cluster.suffer_api_outage(outage))),
        ..CRASH
    },
    Row {
        name: "daemon told to end (SIGTERM)",
        shown: Metric::Dark,
        bounds: &[outage(0, 0), dark(20, 20)],
        keeps_connections: true,
        peers: &[
            metallb(20, 0, "200 / 280"),
            kube_vip(1_023, 2_180, "0"),
            fast_kube_vip(322, 1_665, "0"),
        ],
        fault: one_network(|cluster, _| Box::pin(cluster.suffer_terminate())),
        ..CRASH
    },
    Row {
        name: "rolling restart of all",
        is_long: true,
        shown: Metric::Dark,
        bounds: &[outage(0, 0), dark(20, 20)],
        keeps_connections: true,
        peers: &[
            metallb(64, 0, "200"),
            kube_vip(1_161, 0, "0"),
            fast_kube_vip(668, 0, "0"),
        ],
        fault: one_network(|cluster, _| Box::pin(cluster.suffer_rolling_restart())),
        ..CRASH
    },
    Row {
        name: "upgrade beside the old daemon",
        shown: Metric::Dark,
        bounds: &[outage(0, 0), dark(20, 20)],
        keeps_connections: true,
        peers: &[],
        fault: one_network(|cluster, _| Box::pin(cluster.suffer_upgrade())),
        ..CRASH
    },
    Row {
        name: "node drained",
        shown: Metric::Dark,
        bounds: &[outage(0, 0), dark(20, 20)],
        peers: &[],
        fault: one_network(|cluster, _| Box::pin(cluster.suffer_drain())),
        ..CRASH
    },
    Row {
        name: "segment dead for the speaker, node network alive",
        bounds: &[outage(430, 1000)],
        peers: &[],
        fault: Fault::Cluster(Way::TwoNetworks, |cluster, _| {
            Box::pin(cluster.suffer_dead_segment())
        }),
        ..CRASH
    },
    // Others' figures of the control plane: for how long nobody could write, as `make test-kube-vip` measures it.
    Row {
        name: "control plane: node crash",
        peers: &[
            kube_vip(18_600, 22_100, ""),
            fast_kube_vip(7_100, 8_200, ""),
        ],
        fault: Fault::ControlPlane(|nodes, speaker| nodes.node_mut(speaker).crash()),
        ..CRASH
    },
    Row {
        name: "control plane: cable pulled",
        peers: &[
            kube_vip(21_400, 27_200, ""),
            fast_kube_vip(8_800, 10_100, ""),
        ],
        fault: Fault::ControlPlane(|nodes, speaker| nodes.node(speaker).host.pull_cable()),
        ..CRASH
    },
    // A node whose API server fails time and again is waited for longer each time: these take long.
    Row {
        name: "control plane: API server killed",
        is_long: true,
        peers: &[
            kube_vip(16_500, 18_000, ""),
            fast_kube_vip(6_500, 6_800, ""),
        ],
        fault: Fault::ControlPlane(|nodes, speaker| {
            nodes.node_mut(speaker).kill(Part::ApiServer);
            Ok(())
        }),
        ..CRASH
    },
    Row {
        name: "control plane: API server hangs",
        is_long: true,
        peers: &[
            kube_vip(19_100, 19_100, "4,400"),
            fast_kube_vip(7_900, 8_100, "1,180"),
        ],
        fault: Fault::ControlPlane(|nodes, speaker| {
            nodes.node(speaker).process(Part::ApiServer)?.freeze()
        }),
        ..CRASH
    },
    Row {
        name: "control plane: etcd member lost",
        is_long: true,
        peers: &[],
        fault: Fault::ControlPlane(|nodes, speaker| nodes.node(speaker).be_ready(false)),
        ..CRASH
    },
];
