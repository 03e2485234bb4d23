//! The picture of the lab.

use mooring_test_netlab::netlab::{Host, Netlab};
use mooring_test_netlab::netlab_cluster::Site;

/// How wide one host is drawn.
const WIDTH: usize = 19;

/// The lab, drawn with its real addresses.
pub(super) fn picture(site: &Site) -> String {
    let hosts: Vec<&Host> = std::iter::once(&site.client).chain(&site.nodes).collect();
    let row = |text: &dyn Fn(&Host) -> String| -> String {
        let cells: String = hosts
            .iter()
            .map(|host| format!("{:^WIDTH$}", text(host)))
            .collect();
        format!("  {}", cells.trim_end())
    };
    let is_node = |host: &Host| host.name() != site.client.name();
    let lines = [
        row(&|host| host.name().to_owned()),
        row(&|host| if is_node(host) { "mooring-node" } else { "" }.to_owned()),
        row(&|host| if is_node(host) { "kube-proxy" } else { "" }.to_owned()),
        row(&|host| host.ipv4().to_string()),
        row(&|host| host.ipv6().to_string()),
        row(&|host| host.mac().to_string()),
        row(&|_| "│".to_owned()),
        bus(hosts.len()),
        format!("{:>width$}", "│", width = 3 + hosts.len() * WIDTH / 2),
        format!(
            "      {}, {}: kube-apiserver, etcd, kube-controller-manager, mooring-central",
            Netlab::GATEWAY_V4,
            Netlab::GATEWAY_V6
        ),
    ];
    lines.join("\n")
}

fn bus(hosts: usize) -> String {
    let middle = hosts * WIDTH / 2;
    let line: String = (0..hosts * WIDTH)
        .map(|column| match column {
            _ if column % WIDTH == WIDTH / 2 => '┴',
            _ if column == middle => '┬',
            _ => '─',
        })
        .collect();
    format!("  {line} br0")
}
