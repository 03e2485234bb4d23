//! What the Go controller calls our calls of Linode, for the counter that it has.

/// The counter, without the `_total` at its end.
pub(super) const CALLS: &str = "ccm_linode_client_requests";

/// The name of a method of Linode's Go client: `list_vpc_ip_addresses` is `ListVPCIPAddresses`.
pub(super) fn method(operation: &str) -> String {
    operation.split('_').map(word).collect()
}

fn word(word: &str) -> String {
    match word {
        "ip" => "IP".to_owned(),
        "ipv6" => "IPv6".to_owned(),
        "vpc" => "VPC".to_owned(),
        "vpcs" => "VPCs".to_owned(),
        "nodebalancer" => "NodeBalancer".to_owned(),
        "nodebalancers" => "NodeBalancers".to_owned(),
        _ => {
            let (first, rest) = word.split_at(word.len().min(1));
            first.to_uppercase() + rest
        }
    }
}

#[cfg(test)]
mod tests {
    use super::method;

    /// What the Go controller counts, as far as something of it can be asked here.
    #[test]
    fn names_are_those_of_the_go_client() {
        for (operation, name) in [
            ("get_profile", "GetProfile"),
            ("get_instance", "GetInstance"),
            ("list_instances", "ListInstances"),
            ("list_instance_configs", "ListInstanceConfigs"),
            (
                "update_instance_config_interface",
                "UpdateInstanceConfigInterface",
            ),
            ("list_interfaces", "ListInterfaces"),
            ("update_interface", "UpdateInterface"),
            ("get_vpc", "GetVPC"),
            ("get_vpc_subnet", "GetVPCSubnet"),
            ("list_vpcs", "ListVPCs"),
            ("list_vpc_subnets", "ListVPCSubnets"),
            ("list_vpc_ip_addresses", "ListVPCIPAddresses"),
            ("list_vpc_ipv6_addresses", "ListVPCIPv6Addresses"),
            ("create_nodebalancer", "CreateNodeBalancer"),
            ("get_nodebalancer", "GetNodeBalancer"),
            ("update_nodebalancer", "UpdateNodeBalancer"),
            ("delete_nodebalancer", "DeleteNodeBalancer"),
            ("list_nodebalancers", "ListNodeBalancers"),
            ("list_nodebalancer_nodes", "ListNodeBalancerNodes"),
            ("create_nodebalancer_config", "CreateNodeBalancerConfig"),
            ("delete_nodebalancer_config", "DeleteNodeBalancerConfig"),
            ("list_nodebalancer_configs", "ListNodeBalancerConfigs"),
            ("rebuild_nodebalancer_config", "RebuildNodeBalancerConfig"),
            ("list_nodebalancer_firewalls", "ListNodeBalancerFirewalls"),
            ("list_firewall_devices", "ListFirewallDevices"),
            ("create_firewall_device", "CreateFirewallDevice"),
            ("delete_firewall_device", "DeleteFirewallDevice"),
            ("create_firewall", "CreateFirewall"),
            ("get_firewall", "GetFirewall"),
            ("delete_firewall", "DeleteFirewall"),
            ("update_firewall_rules", "UpdateFirewallRules"),
            ("reserve_ip_address", "ReserveIPAddress"),
            ("delete_reserved_ip_address", "DeleteReservedIPAddress"),
        ] {
            assert_eq!(method(operation), name);
        }
    }
}
