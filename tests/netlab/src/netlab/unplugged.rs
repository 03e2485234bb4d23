//! A host whose network manager takes the addresses off when the carrier is gone, as systemd-networkd
//! does by default, and puts them back.

use std::time::Instant;

use anyhow::Result;

use super::host::Host;

/// What was on a host's eth0 while it had a carrier.
#[derive(Debug)]
pub struct Unplugged {
    addresses: Vec<String>,
    routes: Vec<Route>,
}

#[derive(Debug)]
struct Route {
    family: &'static str,
    text: String,
}

impl Host {
    /// Pulls the cable. The addresses and routes of eth0 go with the carrier.
    pub fn unplug(&self) -> Result<Unplugged> {
        let addresses = [
            self.ipv4().to_string() + "/24",
            self.ipv6().to_string() + "/64",
        ];
        let mut routes = Vec::new();
        for family in ["-4", "-6"] {
            let listed = self.ip(&format!("{family} route show dev eth0"))?;
            // Those of the kernel come with the addresses.
            let added = listed.lines().filter(|line| !line.contains("proto kernel"));
            routes.extend(added.map(|line| Route {
                family,
                text: line.trim().to_owned(),
            }));
        }
        self.pull_cable()?;
        self.ip("address flush dev eth0 scope global")?;
        Ok(Unplugged {
            addresses: addresses.into(),
            routes,
        })
    }

    /// Plugs the cable in again: the addresses and routes come back with the carrier. Gives when the
    /// first address was back.
    pub fn plug_in(&self, unplugged: &Unplugged) -> Result<Instant> {
        self.plug_cable()?;
        let back = Instant::now();
        for address in &unplugged.addresses {
            let nodad = if address.contains(':') { "nodad" } else { "" };
            self.ip(&format!("address replace {address} dev eth0 {nodad}"))?;
        }
        for Route { family, text } in &unplugged.routes {
            self.ip(&format!("{family} route replace {text} dev eth0"))?;
        }
        Ok(back)
    }
}
