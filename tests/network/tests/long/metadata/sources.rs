//! What becomes of a Node in each cloud.

use std::net::SocketAddr;

use mooring_common::names::annotations::{LINODE_PRIVATE_IP, LINODE_PUBLIC_IPV6};
use mooring_common::names::labels::LINODE_HOST_UUID;
use mooring_test_cluster::cluster::{addresses, label, provider_id};
use mooring_test_netlab::metadata_sim::{CLOUDSCALE, LINODE_TOKEN, Machine, MetadataSim};
use mooring_test_netlab::netlab::{Netlab, in_netlab};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::metadata::cluster::{MetadataCluster, annotation};

const UUID: &str = "47cec963-fcd2-482f-bdb6-24461b2d47b1";
const TYPE: &str = "node.kubernetes.io/instance-type";
const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";

#[test]
fn ni_02_a_linode_is_initialised_by_its_own_word() {
    in_netlab(async || {
        let cluster = MetadataCluster::start(&["whole", "vpc", "sparse", "other"]).await;
        let machine = Machine::linode(12345, "whole")
            .with("/instance/type", json!("g6 standard/2"))
            .with("/instance/unheard_of", json!({"a": [null]}));
        let whole = cluster.service("whole", machine).await;
        let interfaces = json!([{"purpose": "vpc", "label": "", "ipam_address": null}]);
        let machine = Machine::linode(12346, "vpc").with("/network/interfaces", interfaces);
        let _vpc = cluster.service("vpc", machine).await;
        let machine = Machine::linode(12347, "sparse")
            .with("/instance/host_uuid", Value::Null)
            .with("/instance/specs", Value::Null)
            .with("/network/ipv4/shared", Value::Null)
            .with("/network/ipv6", json!({"slaac": null}));
        let _sparse = cluster.service("sparse", machine).await;
        let _other = cluster
            .service("other", Machine::linode(12348, "label"))
            .await;
        let daemon = cluster.daemon("whole", &[]).await;
        let _others = [
            cluster.daemon("vpc", &[]).await,
            cluster.daemon("sparse", &[]).await,
            cluster.daemon("other", &[]).await,
        ];

        let node = cluster.initialized("whole").await;
        assert_eq!(provider_id(&node), Some("linode://12345"));
        assert_eq!(label(&node, TYPE), Some("g6-standard-2"));
        assert_eq!(
            label(&node, "beta.kubernetes.io/instance-type"),
            Some("g6-standard-2")
        );
        assert_eq!(
            (label(&node, REGION), label(&node, ZONE)),
            (Some("us-east"), None)
        );
        let expected = [
            "Hostname whole",
            "ExternalIP 203.0.62.146",
            "InternalIP 192.168.190.146",
            "ExternalIP 2001:db8::f03c:3039",
        ];
        assert_eq!(addresses(&node), expected);
        let uuid = label(&node, LINODE_HOST_UUID).unwrap_or_default();
        assert!(uuid.starts_with("a631b16d"), "{uuid:?}");
        assert_eq!(
            annotation(&node, LINODE_PRIVATE_IP),
            Some("192.168.190.146")
        );
        assert_eq!(
            annotation(&node, LINODE_PUBLIC_IPV6),
            Some("2001:db8::f03c:3039/128")
        );
        let first: Vec<_> = whole.lines().into_iter().take(4).collect();
        let expected = [
            "PUT /v1/token 200",
            "GET /v1/instance 200",
            "GET /v1/network 200",
            "GET /v1/instance 200",
        ];
        assert_eq!(first, expected);
        let log = daemon.log();
        assert_eq!(log.matches("metadata source found").count(), 1, "{log}");
        for token in whole.tokens() {
            assert!(!log.contains(&token), "a token is in the log");
        }

        let (node, left) = cluster.left("vpc").await;
        assert_eq!(left, "the VPC addresses");
        assert_eq!(provider_id(&node), Some("linode://12346"));
        assert_eq!(label(&node, REGION), Some("us-east"));
        assert!(
            addresses(&node).is_empty(),
            "a part of them would pass for all"
        );

        let (node, left) = cluster.left("other").await;
        assert_eq!(left, "the host name, which is not the Node's name");
        assert_eq!(provider_id(&node), Some("linode://12348"));

        let node = cluster.initialized("sparse").await;
        let expected = [
            "Hostname sparse",
            "ExternalIP 203.0.62.148",
            "InternalIP 192.168.190.148",
        ];
        assert_eq!(addresses(&node), expected);
        cluster.netlab.assert_nothing_refused().await;
    });
}

#[test]
fn ni_16_what_a_cloud_does_not_tell_is_left_to_central() {
    in_netlab(async || {
        let cluster = MetadataCluster::start(&["scale", "box", "init", "bare"]).await;
        let scale = cluster
            .service("scale", Machine::cloudscale(UUID, "display name"))
            .await;
        let brightbox = cluster
            .service("box", Machine::brightbox("srv-sz59x"))
            .await;
        let stranger = cluster.service("init", Machine::Stranger).await;
        let run = cluster.netlab.lab.folder().join("run-of-init");
        std::fs::create_dir_all(run.join("cloud-init")).unwrap();
        let written = json!({
            "v1": {"cloud_name": "akamai", "instance_id": "777", "region": "eu-west"},
            "ds": {"meta_data": {"type": "g6-nanode-1"}},
        });
        let file = run.join("cloud-init/instance-data.json");
        std::fs::write(file, written.to_string()).unwrap();
        let run = format!("--host-run={}", run.display());
        let _daemons = [
            cluster.daemon("scale", &[]).await,
            cluster.daemon("box", &[]).await,
            cluster.daemon("init", &[&run]).await,
        ];
        // Nobody is at the link-local address here.
        let bare = cluster.daemon("bare", &[]).await;

        let (node, left) = cluster.left("scale").await;
        assert_eq!(left, "the instance type and the addresses");
        assert_eq!(provider_id(&node), Some(&*format!("cloudscale://{UUID}")));
        assert_eq!(
            (label(&node, ZONE), label(&node, REGION)),
            (Some("rma1"), Some("rma"))
        );
        let first: Vec<_> = scale.lines().into_iter().take(2).collect();
        assert_eq!(
            first,
            [
                format!("PUT {LINODE_TOKEN} 404"),
                format!("GET {CLOUDSCALE} 200")
            ]
        );

        let (node, left) = cluster.left("box").await;
        assert_eq!(left, "the IPv6 address and the Cloud IPs and their names");
        assert_eq!(provider_id(&node), Some("brightbox://srv-sz59x"));
        assert_eq!(
            (label(&node, ZONE), label(&node, REGION)),
            (Some("gb1-a"), Some("gb1"))
        );
        assert_eq!(label(&node, TYPE), Some("1gb.ssd"));
        let order = [
            "PUT /v1/token 404",
            "GET /openstack/2017-02-22/meta_data.json 404",
            "GET /openstack/latest/meta_data.json 404",
            "GET /latest/meta-data/instance-id 200",
        ];
        let first: Vec<_> = brightbox.lines().into_iter().take(4).collect();
        assert_eq!(first, order);

        let (node, left) = cluster.left("init").await;
        assert_eq!(left, "the addresses");
        assert_eq!(provider_id(&node), Some("linode://777"));
        assert_eq!(label(&node, REGION), Some("eu-west"));
        assert_eq!(label(&node, TYPE), Some("g6-nanode-1"));
        let asked = stranger.asked();
        assert!(asked.iter().all(|asked| asked.status == 404), "{asked:?}");
        assert_eq!(
            asked.len(),
            4,
            "asked again although all was clear: {asked:?}"
        );

        let (node, left) = cluster.left("bare").await;
        assert_eq!(left, "a provider ID and an IP address");
        assert_eq!(provider_id(&node), None);
        assert_eq!(bare.log().matches("described without a service").count(), 1);
        for node in ["scale", "box", "init", "bare"] {
            assert_eq!(
                cluster.written_on(node).await.len(),
                1,
                "{node} is written more than once"
            );
        }
        cluster.netlab.assert_nothing_refused().await;
    });
}

#[test]
fn md_01_one_service_may_stand_for_many_machines() {
    in_netlab(async || {
        let cluster = MetadataCluster::start(&["n1", "n2"]).await;
        let listener = TcpListener::bind(SocketAddr::from((Netlab::GATEWAY_V4, 0))).await;
        let machines = [("m1", 1001, "n1"), ("m2", 1002, "n2")]
            .map(|(key, id, node)| (key.to_owned(), Machine::linode(id, node)));
        let sim = MetadataSim::serve(listener.unwrap(), machines).unwrap();
        let mut daemons = Vec::new();
        for (node, machine) in [("n1", "m1"), ("n2", "m2")] {
            let endpoint = format!("--metadata-endpoint={}", sim.endpoint(machine));
            let flags = ["--metadata-source=linode", &endpoint];
            daemons.push(cluster.daemon(node, &flags).await);
        }
        for (node, id) in [("n1", "linode://1001"), ("n2", "linode://1002")] {
            assert_eq!(provider_id(&cluster.initialized(node).await), Some(id));
        }
        let asked = sim.asked();
        for machine in ["m1", "m2"] {
            assert!(
                asked.iter().any(|asked| asked.machine == machine),
                "{asked:?}"
            );
        }
    });
}
