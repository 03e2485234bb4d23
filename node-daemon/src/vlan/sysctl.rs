//! Settings of IPv6 on an interface, and of ARP on all, which no netlink message sets: files of `/proc/sys/net`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Settings of `net.ipv6.conf.<interface>`, with the kernel's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Settings {
    /// 0: router advertisements are not heeded.
    pub accept_ra: i32,
    /// 1 on a router.
    pub forwarding: i32,
    /// 1 where the interface has no IPv6.
    pub disable_ipv6: i32,
}

/// Reads them; `None` where the kernel has no IPv6 or the interface is gone.
#[must_use]
pub fn read(proc_sys_net: &Path, interface: &str) -> Option<Ipv6Settings> {
    let number = |name| {
        let text = fs::read_to_string(file(proc_sys_net, interface, name)).ok()?;
        text.trim().parse().ok()
    };
    Some(Ipv6Settings {
        accept_ra: number("accept_ra")?,
        forwarding: number("forwarding")?,
        disable_ipv6: number("disable_ipv6")?,
    })
}

/// Writes them.
///
/// # Errors
/// What the system says, for example that the mount is read-only.
pub fn write(proc_sys_net: &Path, interface: &str, settings: Ipv6Settings) -> io::Result<()> {
    for (name, value) in [
        ("accept_ra", settings.accept_ra),
        ("forwarding", settings.forwarding),
        ("disable_ipv6", settings.disable_ipv6),
    ] {
        fs::write(file(proc_sys_net, interface, name), value.to_string())?;
    }
    Ok(())
}

/// `net.ipv4.conf.all.arp_ignore` of this network namespace; 0, the kernel's default, where it cannot be read.
#[must_use]
pub fn arp_ignore_of_all() -> i32 {
    let text = fs::read_to_string("/proc/sys/net/ipv4/conf/all/arp_ignore");
    text.unwrap_or_default().trim().parse().unwrap_or_default()
}

/// Lets the kernel answer ARP on an interface only for addresses of that interface
/// (`net.ipv4.conf.<interface>.arp_ignore`), unless it is told to answer even less.
///
/// # Errors
/// What the system says, for example that the mount is read-only.
pub fn answer_only_for_own_interface(proc_sys_net: &Path, interface: &str) -> io::Result<()> {
    let file = proc_sys_net
        .join("ipv4/conf")
        .join(interface)
        .join("arp_ignore");
    let set = fs::read_to_string(&file)?.trim().parse().unwrap_or(0);
    if set == 0 && arp_ignore_of_all() == 0 {
        fs::write(file, "1")?;
    }
    Ok(())
}

fn file(proc_sys_net: &Path, interface: &str, name: &str) -> PathBuf {
    proc_sys_net.join("ipv6/conf").join(interface).join(name)
}
