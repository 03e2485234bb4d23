//! The lab itself: hosts reach each other, cables can be pulled, frames are seen, and a real
//! kube-proxy carries an HTTP request to a real backend.

use std::net::IpAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, Patch, PatchParams};
use mooring_test_cluster::objects::{NodeBuilder, PodBuilder, ServiceBuilder, create_namespace};
use mooring_test_netlab::netlab::{Netlab, in_netlab};
use mooring_test_support::program::Program;
use mooring_test_support::wait::eventually;
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn hosts_meet_on_the_bridge_until_a_cable_is_pulled() {
    in_netlab(async || {
        let start = Instant::now();
        let lab = Netlab::new().unwrap();
        let (node, client) = (lab.node("n1").unwrap(), lab.client("client").unwrap());
        println!("lab ready after {:?}", start.elapsed());
        let capture = lab.capture().unwrap();
        let (pod_v4, pod_v6) = node.add_pod(5).unwrap();
        let _server = node.serve(8080, "hello").await.unwrap();

        let addresses: [IpAddr; 4] = [
            node.ipv4().into(),
            node.ipv6().into(),
            pod_v4.into(),
            pod_v6.into(),
        ];
        for address in addresses {
            let url = format!("http://{}/", std::net::SocketAddr::new(address, 8080));
            assert_eq!(client.get(&url).await.unwrap().body, "hello");
        }
        assert_eq!(client.mac_of(node.ipv4()).unwrap(), Some(node.mac()));
        assert_eq!(client.mac_of(node.ipv6()).unwrap(), Some(node.mac()));

        eventually("the client's question was captured", LIMIT, async || {
            let questions = capture.pick(|frame| {
                let arp = frame.arp()?;
                (arp.is_request && arp.sender_mac == client.mac() && arp.target == node.ipv4())
                    .then_some(())
            });
            questions.len() == 1
        })
        .await;
        eventually("the node's advertisement was captured", LIMIT, async || {
            let told = capture.pick(|frame| {
                frame
                    .neighbour_advertisement()
                    .filter(|told| told.target == node.ipv6())
            });
            told.iter()
                .any(|(_, told)| told.mac == Some(node.mac()) && told.solicited)
        })
        .await;
        let pcap = lab.folder().join("frames.pcap");
        capture.write_pcap(&pcap).unwrap();
        assert!(pcap.metadata().unwrap().len() > 24);

        let url = format!("http://{}:8080/", node.ipv4());
        let brief = Duration::from_millis(300);
        node.pull_cable().unwrap();
        assert!(node.ip("link show eth0").unwrap().contains("NO-CARRIER"));
        client
            .get_within(&url, brief)
            .await
            .expect_err("the cable is out");
        node.plug_cable().unwrap();
        eventually("the node answers again", LIMIT, async || {
            client.get(&url).await
        })
        .await;
        node.silence().unwrap();
        assert!(!node.ip("link show eth0").unwrap().contains("NO-CARRIER"));
        client
            .get_within(&url, brief)
            .await
            .expect_err("the switch drops its frames");
        node.unsilence().unwrap();
        eventually("the node answers again", LIMIT, async || {
            client.get(&url).await
        })
        .await;
    });
}

#[test]
fn kube_proxy_carries_a_request_to_a_real_backend() {
    in_netlab(async || {
        let lab = Netlab::new().unwrap();
        let (n1, n2, client) = (
            lab.node("n1").unwrap(),
            lab.node("n2").unwrap(),
            lab.client("client").unwrap(),
        );
        let control_plane = lab.control_plane().await.unwrap();
        println!(
            "control plane ready after {:?}",
            control_plane.ready_after()
        );
        let admin = control_plane.admin();
        for node in [&n1, &n2] {
            let address = node.ipv4().to_string();
            NodeBuilder::new(node.name())
                .ready()
                .address("InternalIP", &address)
                .create(&admin)
                .await
                .unwrap();
        }
        create_namespace(&admin, "app").await.unwrap();
        let (pod, _) = n2.add_pod(5).unwrap();
        let _backend = n2.serve(8080, "from n2").await.unwrap();
        let pod = pod.to_string();
        PodBuilder::new("app", "web-1")
            .node("n2")
            .label("app", "web")
            .running(&[&pod])
            .create(&admin)
            .await
            .unwrap();
        ServiceBuilder::load_balancer("app", "web")
            .port(80, 8080)
            .selector("app", "web")
            .create(&admin)
            .await
            .unwrap();
        let status =
            json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "10.77.0.200" }] } } });
        Api::<Service>::namespaced(admin.clone(), "app")
            .patch_status("web", &PatchParams::default(), &Patch::Merge(status))
            .await
            .unwrap();

        let _proxy = n1.kube_proxy(&control_plane).await.unwrap();
        // Nobody announces the address here: the client is told where it is.
        client
            .ip(&format!(
                "neighbour add 10.77.0.200 lladdr {} dev eth0",
                n1.mac()
            ))
            .unwrap();
        let answer = eventually("the address answers", LIMIT, async || {
            client.get("http://10.77.0.200/").await
        })
        .await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "from n2"));
    });
}

#[test]
fn a_program_gets_a_netlab_of_its_own_and_its_exit_code_comes_back() {
    let tool = Program::NetlabTool.path().unwrap();
    let inside_of = |command: &[&str]| {
        Command::new(&tool)
            .arg("inside")
            .args(command)
            .output()
            .unwrap()
    };
    let inside = inside_of(&["readlink", "/proc/self/ns/net"]).stdout;
    let outside = std::fs::read_link("/proc/self/ns/net").unwrap();
    assert_ne!(
        String::from_utf8_lossy(&inside).trim(),
        outside.to_str().unwrap()
    );
    let failed = inside_of(&["sh", "-c", "exit 7"]);
    assert_eq!(failed.status.code(), Some(7));
}
