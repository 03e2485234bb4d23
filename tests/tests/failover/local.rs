//! `externalTrafficPolicy: Local`.

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, DeleteParams};
use mooring_tests::failover::{APP, Scene};
use mooring_tests::wait::eventually;

use crate::alone::{MS, SOON};
use crate::operations::assert_lossless;

const NUMBER: u8 = 110;

/// The Pod on one node ends in good order, serving until the last, while there is one on another.
pub async fn case_27_a_local_service_follows_its_endpoint_without_a_loss(scene: &mut Scene) {
    scene.backend("local", "n1", 6).await.unwrap();
    scene.service("local", NUMBER, true).await.unwrap();
    let mut watch = scene.watch_number(NUMBER).await.unwrap();
    let (first, second) = (scene.mac_of("n1"), scene.mac_of("n2"));
    assert_eq!(watch.speaker(200 * MS), Some(first));
    scene.backend("local", "n2", 6).await.unwrap();
    let answers = eventually("the second node serves it too", SOON, async || {
        let node = scene.cluster.node("n2");
        let service = Api::<Service>::namespaced(scene.cluster.admin(), APP);
        let port = service
            .get("local")
            .await
            .ok()?
            .spec?
            .health_check_node_port?;
        let url = format!("http://{}:{port}/", node.ipv4());
        let answer = scene.cluster.client.get(&url).await.ok()?;
        (answer.status == 200).then_some(())
    });
    answers.await;

    watch.begin();
    let pods = Api::<Pod>::namespaced(scene.cluster.admin(), APP);
    let in_good_order = DeleteParams::default().grace_period(30);
    pods.delete("local-n1", &in_good_order).await.unwrap();
    eventually("the second node speaks", SOON, async || {
        watch.speaker(200 * MS) == Some(second)
    })
    .await;
    let moved = watch.began().elapsed();
    println!("moved after {moved:?}");
    watch.settle(moved + 2500 * MS, SOON).await;
    let seen = watch.end(scene);
    println!("{seen}");
    seen.assert_safe();
    if seen.counts() {
        assert_lossless(&seen);
    }
    let at_once = DeleteParams::default().grace_period(0);
    for name in ["local-n1", "local-n2"] {
        pods.delete(name, &at_once).await.unwrap();
    }
    let services = Api::<Service>::namespaced(scene.cluster.admin(), APP);
    services
        .delete("local", &DeleteParams::default())
        .await
        .unwrap();
}
