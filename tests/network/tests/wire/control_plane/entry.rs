//! An L2Network that has the address of the control plane, beside the control plane files of its nodes: whether they
//! are the same, who announces, and that no Service is given the address.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, Patch, PatchParams};
use mooring_common::l2_network::{ControlPlaneNode, L2Network, SegmentNode};
use mooring_common::names::{annotations, reasons};
use mooring_test_cluster::objects::{ServiceBuilder, create_namespace, events_for};
use mooring_test_netlab::netlab::in_netlab;
use mooring_test_netlab::netlab_cluster::{Kubelet, NETWORK, NetlabCluster, Network};
use mooring_test_support::process::Process;
use mooring_test_support::program::Program;
use mooring_test_support::wait::eventually;
use serde_json::json;

use super::SOON;

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const APP: &str = "app";
const V4: &str = "10.77.0.100";
const V6: &str = "fd77::100";
const DIFFERS: &str = "ControlPlaneFileDiffers";

/// What runs on one node beside its daemon.
struct Beside {
    api_server: Process,
    announcer: Process,
}

struct World {
    cluster: NetlabCluster,
    beside: Vec<(&'static str, Beside)>,
    _daemons: Vec<Process>,
    _kubelets: BTreeMap<String, Kubelet>,
    _central: Process,
}

impl World {
    /// The nodes with their daemons, and an L2Network with the address of both families.
    async fn start() -> Self {
        let cluster = NetlabCluster::start(&NODES).await.unwrap();
        let kubelets = cluster.register().await.unwrap();
        let central = cluster.start_central(&[]).await.unwrap();
        let mut daemons = Vec::new();
        for node in &cluster.nodes {
            let folder = run_folder(&cluster, node.name());
            let flag = format!("--state-dir={}", folder.display());
            daemons.push(cluster.start_daemon(node, &[&flag]).await.unwrap());
        }
        create_namespace(&cluster.admin, APP).await.unwrap();
        Network::of_the_bridge().create(&cluster).await.unwrap();
        let entry = json!({"spec": {"controlPlane": {"addresses": [V4, V6]}}});
        let params = PatchParams::default();
        networks(&cluster)
            .patch(NETWORK, &params, &Patch::Merge(entry))
            .await
            .unwrap();
        Self {
            cluster,
            beside: Vec::new(),
            _daemons: daemons,
            _kubelets: kubelets,
            _central: central,
        }
    }

    /// Starts the control plane's process on each node, by a file with these addresses.
    fn announce(&mut self, addresses: &[&str]) {
        self.write_files(addresses);
        for name in NODES {
            let host = self.cluster.node(name);
            let folder = self.folder(name);
            let unready = folder.join("unready");
            let stand_in = ["serve-readyz".to_owned(), flag("unready-while", &unready)];
            let announcer = [
                "control-plane".to_owned(),
                format!("--node-name={name}"),
                flag("file", &folder.join("control-plane.yaml")),
                flag("state-dir", &folder.join("state")),
                flag("status-dir", &run_folder(&self.cluster, name)),
            ];
            let beside = Beside {
                api_server: host.start_program(Program::NetlabTool, stand_in).unwrap(),
                announcer: host.start_program(Program::Node, announcer).unwrap(),
            };
            self.beside.push((name, beside));
        }
    }

    fn write_files(&self, addresses: &[&str]) {
        let members = self.cluster.nodes.iter();
        let members = members.map(|node| json!({"name": node.name(), "address": node.ipv4()}));
        let file = json!({
            "version": 1,
            "revision": 1,
            "addresses": addresses,
            "interface": "eth0",
            "members": members.collect::<Vec<_>>(),
            "keyFile": self.cluster.heartbeat_keys().unwrap(),
        });
        for name in NODES {
            let folder = self.folder(name);
            fs::create_dir_all(&folder).unwrap();
            let draft = folder.join(".control-plane.yaml");
            fs::write(&draft, file.to_string()).unwrap();
            fs::rename(draft, folder.join("control-plane.yaml")).unwrap();
        }
    }

    fn folder(&self, node: &str) -> PathBuf {
        self.cluster.lab.folder().join(format!("control-{node}"))
    }

    fn beside(&mut self, node: &str) -> &mut Beside {
        let mut all = self.beside.iter_mut();
        let found = all.find(|(name, _)| *name == node);
        &mut found.expect("a node").1
    }

    /// Waits until the entries of all nodes are like this.
    async fn says<T>(&self, what: &str, look: impl Fn(&[SegmentNode]) -> Option<T>) -> T {
        eventually(what, SOON * 2, async || {
            let status = networks(&self.cluster).get(NETWORK).await?.status;
            let nodes = status.unwrap_or_default().nodes;
            look(&nodes).ok_or_else(|| anyhow::anyhow!("{nodes:#?}"))
        })
        .await
    }

    /// Waits until one node announces these addresses, and the others are as told; gives the one.
    async fn announced(&self, addresses: &[&str], others: &[&str]) -> String {
        self.says("one node announces the address", |nodes| {
            let all: Vec<(&str, &ControlPlaneNode)> = nodes
                .iter()
                .filter_map(|node| Some((node.name.as_str(), node.control_plane.as_ref()?)))
                .collect();
            let (speaking, rest): (Vec<_>, Vec<_>) = all
                .into_iter()
                .partition(|(_, one)| one.state == "Announcing");
            let [(speaker, one)] = speaking.as_slice() else {
                return None;
            };
            let told: Vec<&str> = one.addresses.iter().map(|at| at.address.as_str()).collect();
            let mut states: Vec<&str> = rest.iter().map(|(_, one)| one.state.as_str()).collect();
            states.sort_unstable();
            let is_so = told == addresses && states == others && one.revision == Some(1);
            is_so.then(|| (*speaker).to_owned())
        })
        .await
    }

    /// Waits until `kubectl get l2networks` shows this.
    async fn speakers_are(&self, words: &str) {
        eventually(&format!("SPEAKERS has {words:?}"), SOON * 2, async || {
            let status = networks(&self.cluster).get(NETWORK).await?.status;
            let speakers = status.unwrap_or_default().speakers.unwrap_or_default();
            anyhow::ensure!(speakers.contains(words), "{speakers}");
            Ok(())
        })
        .await;
    }
}

fn networks(cluster: &NetlabCluster) -> Api<L2Network> {
    Api::all(cluster.admin.clone())
}

fn run_folder(cluster: &NetlabCluster, node: &str) -> PathBuf {
    cluster.lab.folder().join(format!("run-{node}"))
}

fn flag(name: &str, path: &std::path::Path) -> String {
    format!("--{name}={}", path.display())
}

fn differs(node: &SegmentNode) -> bool {
    node.notices.iter().any(|notice| notice == DIFFERS)
}

#[test]
fn l2_network_says_whether_the_file_is_the_same_and_who_announces() {
    in_netlab(async || {
        let mut world = World::start().await;
        world.announce(&[V4]);

        // The file of each node lacks an address that the entry has. It counts: that is not announced.
        world
            .says("all nodes say that they differ", |nodes| {
                (nodes.len() == NODES.len() && nodes.iter().all(differs)).then_some(())
            })
            .await;
        let first = world.announced(&[V4], &["Standby", "Standby"]).await;
        world
            .says("the status says in what", |nodes| {
                let words = "spec.controlPlane.addresses is [10.77.0.100, fd77::100], and addresses of the file [10.77.0.100]";
                let own = |node: &SegmentNode| node.control_plane.clone().unwrap_or_default();
                nodes.iter().all(|node| own(node).message.contains(words)).then_some(())
            })
            .await;
        let admin = world.cluster.admin.clone();
        for name in NODES {
            eventually(&format!("an Event tells of {name}"), SOON, async || {
                let events = events_for(&admin, "L2Network", None, NETWORK).await?;
                let told = events.iter().any(|event| {
                    event.reason == reasons::CONTROL_PLANE_FILE_DIFFERS
                        && event.note.contains(&format!("Node {name} differ"))
                        && event
                            .note
                            .contains("The file counts: correct spec.controlPlane")
                });
                anyhow::ensure!(told, "{events:?}");
                Ok(())
            })
            .await;
        }
        world
            .speakers_are(&format!("{V4} (control plane) {first} since "))
            .await;

        world.write_files(&[V4, V6]);
        world
            .says("no node says that they differ", |nodes| {
                let is_well = |node: &SegmentNode| {
                    let own = node.control_plane.as_ref();
                    !differs(node) && own.is_some_and(|own| own.message.is_empty())
                };
                (nodes.len() == NODES.len() && nodes.iter().all(is_well)).then_some(())
            })
            .await;
        let first = world.announced(&[V4, V6], &["Standby", "Standby"]).await;

        world.beside(&first).api_server.kill();
        let second = world.announced(&[V4, V6], &["NotReady", "Standby"]).await;
        assert_ne!(second, first, "its API server is dead");
        world
            .speakers_are(&format!("{V4} (control plane) {second} since "))
            .await;

        // Whoever is killed cannot say so itself.
        world.beside(&second).announcer.kill();
        let third = world
            .announced(&[V4, V6], &["NotReady", "NotRunning"])
            .await;
        assert!(third != first && third != second, "{third}");
        world.cluster.assert_nothing_refused().await;
    });
}

#[test]
fn no_service_is_given_the_address_of_the_control_plane() {
    in_netlab(async || {
        let world = World::start().await;
        let admin = world.cluster.admin.clone();
        let services = Api::<Service>::namespaced(admin.clone(), APP);
        let network = networks(&world.cluster);
        eventually(
            "central says that a range has the address",
            SOON,
            async || {
                let status = network.get(NETWORK).await?.status.unwrap_or_default();
                let mut conditions = status.conditions.iter();
                let ready = conditions.find(|one| one.type_ == "Ready");
                let words =
                    "but for 10.77.0.100 and fd77::100, of the control plane (spec.controlPlane)";
                let is_told = ready.is_some_and(|one| one.message.contains(words));
                anyhow::ensure!(is_told, "{ready:?}");
                Ok(())
            },
        )
        .await;
        let asks = ServiceBuilder::load_balancer(APP, "asks")
            .port(80, 8080)
            .annotation(annotations::ADDRESSES_REQUEST, V4);
        asks.create(&admin).await.unwrap();
        eventually("its request is refused", SOON, async || {
            let events = events_for(&admin, "Service", Some(APP), "asks").await?;
            let words = "the address of the control plane in L2Network lab";
            let told = events.iter().any(|event| event.note.contains(words));
            anyhow::ensure!(told, "{events:?}");
            Ok(())
        })
        .await;
        // Nine of the ten addresses are left, and the last Service of ten shows that all were looked at.
        for number in 0..10 {
            let name = format!("any-{number}");
            let any = ServiceBuilder::load_balancer(APP, &name).port(80, 8080);
            any.create(&admin).await.unwrap();
        }
        let given = eventually("nine have an address, and one is told", SOON, async || {
            let all = services.list(&Default::default()).await?;
            let ingress = all.into_iter().filter_map(|service| {
                let first = service.status?.load_balancer?.ingress?.into_iter().next()?;
                first.ip
            });
            let given: Vec<String> = ingress.collect();
            anyhow::ensure!(given.len() == 9, "{given:?}");
            let mut told = 0;
            for number in 0..10 {
                let name = format!("any-{number}");
                let events = events_for(&admin, "Service", Some(APP), &name).await?;
                let reason = reasons::SYNC_LOAD_BALANCER_FAILED;
                told += usize::from(events.iter().any(|event| event.reason == reason));
            }
            anyhow::ensure!(told > 0, "nobody was told that no address is left");
            Ok(given)
        })
        .await;
        assert!(!given.iter().any(|address| address == V4), "{given:?}");
    });
}
