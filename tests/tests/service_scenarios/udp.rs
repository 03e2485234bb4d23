//! Clouds whose load balancers take UDP too (SV-…).

use mooring_test_cluster::objects::ServiceBuilder;

use super::cluster::CloudCluster;

#[tokio::test]
async fn sv_21_tcp_and_udp_on_one_port_number_have_both_listeners() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = ServiceBuilder::load_balancer(&cluster.namespace, "dns");
    let service = service.port(53, 5353).port_of("UDP", 53, 5353);
    cluster.make(service).await;
    cluster.provided("dns").await;
    let balancer = cluster.serves("dns", &[1, 2]).await;
    let listeners: Vec<_> = balancer.served.keys().collect();
    assert_eq!(listeners, ["tcp/53", "udp/53"]);
    cluster.finish().await;
}
