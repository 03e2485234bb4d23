//! `PNAP_LOAD_BALANCER`: how the addresses of Services are announced, and on which network.

use std::fmt;
use std::str::FromStr;

use super::Flags;
use super::api::public_networks::Network;

/// What `PNAP_LOAD_BALANCER` says, unless it is empty: how the addresses of Services are announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// By kube-vip, which the user runs, on the VLAN of the public network of this identifier: addresses are
    /// handed over in the Service's own fields.
    KubeVip(String),
    /// By `mooring-node`, on the VLAN of the public network of this identifier.
    L2(String),
    /// By BGP, from the Nodes to the routers of the peer group of this identifier. `None`: that of the
    /// location.
    Bgp(Option<String>),
}

/// What the configuration and the flags say of the addresses of Services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How addresses are announced, and in which public network.
    pub setting: Setting,
    /// Where blocks are bought, in capitals. `None`: where the public network is.
    pub location: Option<String>,
    /// The annotation by which a Service may say where its block is to be bought.
    pub location_annotation: String,
    /// What the command line says.
    pub flags: Flags,
}

impl Settings {
    /// Why no block that is bought can be assigned to this public network, and what to do. `None`: it can.
    pub(super) fn misplaced(&self, network: &Network) -> Option<String> {
        let location = self.location.as_ref()?;
        let (id, actual) = (&network.id, &network.location);
        (!location.eq_ignore_ascii_case(actual)).then(|| {
            format!(
                "PNAP_LOCATION={location}: the public network {id} is in {actual}, and an IP block of \
                 another location cannot be assigned to it; write {actual}, or leave the location away"
            )
        })
    }
}

impl Setting {
    /// The public network, where there is one.
    #[must_use]
    pub fn network(&self) -> Option<&str> {
        match self {
            Self::KubeVip(network) | Self::L2(network) => Some(network),
            Self::Bgp(_) => None,
        }
    }
}

impl FromStr for Setting {
    /// What is wrong with it, and what to write.
    type Err = String;

    /// Reads `<type>://<identifier>`, or with a third slash, as the Go controller's README writes
    /// it. What follows the identifier is not looked at, as there.
    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| format!("has no <type>:// in front; {FORMS}"))?;
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        let id = rest.split(['/', '?', '#']).next().unwrap_or_default();
        // Go takes a user in front of a host for granted, and leaves it out.
        let id = id.rsplit_once('@').map_or(id, |(_, id)| id);
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !id.chars().all(is_word) {
            return Err(format!("names {id:?}, which is no identifier; {FORMS}"));
        }
        let id = Some(id.to_owned()).filter(|id| !id.is_empty());
        let on_network: fn(String) -> Self = match scheme.to_ascii_lowercase().as_str() {
            "kube-vip" => Self::KubeVip,
            "l2" => Self::L2,
            "bgp" => return Ok(Self::Bgp(id)),
            other => {
                return Err(format!(
                    "asks for {other}, which this version does not know; {FORMS}"
                ));
            }
        };
        id.map(on_network)
            .ok_or_else(|| format!("names no public network; {FORMS}"))
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KubeVip(network) => write!(f, "kube-vip://{network}"),
            Self::L2(network) => write!(f, "l2://{network}"),
            Self::Bgp(group) => write!(f, "bgp://{}", group.as_deref().unwrap_or_default()),
        }
    }
}

const FORMS: &str = "write kube-vip://NETWORK if you run kube-vip, l2://NETWORK for mooring-node, \
                     each with the identifier of a public network, bgp:// for BGP, or nothing for \
                     no load balancers";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_forms_of_setting() {
        let read = |text: &str| text.parse::<Setting>().map(|setting| setting.to_string());
        for (text, expected) in [
            ("kube-vip://60473c25", "kube-vip://60473c25"),
            ("kube-vip:///60473c25", "kube-vip://60473c25"),
            ("KUBE-VIP://60473C25", "kube-vip://60473C25"),
            ("kube-vip://60473c25/anything?a=b", "kube-vip://60473c25"),
            ("kube-vip://me@60473c25", "kube-vip://60473c25"),
            ("l2://60473c25", "l2://60473c25"),
            ("l2:///60473c25/", "l2://60473c25"),
            ("bgp://", "bgp://"),
            ("bgp://60473c25", "bgp://60473c25"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn invalid_setting_error_says_what_to_write() {
        for (text, why) in [
            ("kube-vip://", "no public network"),
            ("kube-vip:///", "no public network"),
            ("kube-vip", "no <type>://"),
            ("kube-vip:60473c25", "no <type>://"),
            ("kube-vip://60473c25:80", "60473c25:80"),
            ("metallb://60473c25", "metallb"),
            ("empty://", "empty"),
            ("kube_vip://60473c25", "kube_vip"),
        ] {
            let told = text.parse::<Setting>().unwrap_err();
            assert!(
                told.contains(why) && told.contains("l2://NETWORK"),
                "{text}: {told}"
            );
        }
    }
}
