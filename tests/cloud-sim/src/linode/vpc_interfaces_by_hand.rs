//! What a test does to interfaces in VPCs without a request.

use super::{Linode, vpc_interfaces};

impl Linode {
    /// An instance gets an interface in a subnet, of its own generation.
    ///
    /// # Panics
    /// If there is no such subnet.
    pub fn attach(&self, instance: u64, subnet: u64, address: &str) -> u64 {
        vpc_interfaces::attach(&mut self.state(), instance, subnet, address)
    }

    /// Puts these ranges on the interface of an instance, whatever the API would say of them.
    ///
    /// # Panics
    /// If it has none.
    pub fn set_ranges(&self, instance: u64, ranges: &[&str]) {
        vpc_interfaces::set_ranges(&mut self.state(), instance, ranges);
    }

    /// Gives the interface of an instance an IPv6 range.
    ///
    /// # Panics
    /// If it has none.
    pub fn set_ipv6_range(&self, instance: u64, range: &str) {
        vpc_interfaces::set_ipv6_range(&mut self.state(), instance, range);
    }

    /// The IPv4 ranges on the interfaces of an instance.
    pub fn ranges(&self, instance: u64) -> Vec<String> {
        vpc_interfaces::ranges(&self.state(), instance)
    }
}
