//! Steps about interfaces.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

use mooring_common::engine::Plan;

use crate::protocol::mac::Mac;
use crate::vlan::observe::Observed;
use crate::vlan::reconcile_state::{GRACE, ReconcileState, is_marked};
use crate::vlan::step::{Device, IPV4, Step};
use crate::vlan::sysctl::Ipv6Settings;
use crate::vlan::wanted::{Wanted, WantedVlan};
use crate::vlan::{ALIAS, NAME_PREFIX};
use crate::wire::links::{Link, Vlan};

pub(super) fn plan(
    wanted: &Wanted,
    observed: &Observed,
    reconcile_state: &ReconcileState,
    now: Instant,
    plan: &mut Plan<Step>,
) {
    for want in wanted.vlans.values() {
        match find(observed, want.vlan) {
            None => plan.push(create(want, observed)),
            Some(link) if reconcile_state.ours.contains(&link.index) => {
                upkeep(want, link, observed, reconcile_state, plan);
            }
            Some(_) => {}
        }
    }
    for link in &observed.links {
        let due = reconcile_state
            .unwanted
            .get(&link.index)
            .is_some_and(|since| now.duration_since(*since) >= GRACE);
        // An interface whose mark somebody has wiped is no longer provably ours.
        if let Some(vlan) = link.stack.vlan
            && due
            && is_marked(link)
        {
            plan.push(Step::Delete(device(vlan, link)));
        }
    }
}

/// The interface of a VLAN.
pub(super) fn find(observed: &Observed, vlan: Vlan) -> Option<&Link> {
    let mut links = observed.links.iter();
    links.find(|link| link.stack.vlan == Some(vlan))
}

pub(super) fn device(vlan: Vlan, link: &Link) -> Device {
    Device {
        vlan,
        index: link.index,
        name: link.name.clone(),
    }
}

fn create(want: &WantedVlan, observed: &Observed) -> Step {
    let Vlan { parent, id } = want.vlan;
    let usual = format!("{NAME_PREFIX}{id}");
    // The same id on another parent, or a stranger.
    let taken = observed.links.iter().any(|link| link.name == usual);
    Step::Create {
        vlan: want.vlan,
        name: if taken {
            format!("{usual}p{parent}")
        } else {
            usual
        },
        mtu: want.mtu,
    }
}

fn upkeep(
    want: &WantedVlan,
    link: &Link,
    observed: &Observed,
    reconcile_state: &ReconcileState,
    plan: &mut Plan<Step>,
) {
    let device = || device(want.vlan, link);
    if link.stack.alias != ALIAS {
        plan.push(Step::Mark(device()));
    }
    if link.stack.mtu != want.mtu {
        plan.push(Step::SetMtu(device(), want.mtu));
    }
    if link.stack.ipv4.is_some_and(|settings| settings != IPV4) {
        plan.push(Step::SetIpv4(device()));
    }
    let is = observed.ipv6.get(&link.index).copied();
    if let Some(is) = is {
        let should = Ipv6Settings {
            accept_ra: 0,
            forwarding: 1,
            // Without IPv6 subnets it is left as somebody has set it.
            disable_ipv6: if want.ipv6 { 0 } else { is.disable_ipv6 },
        };
        if is != should && !reconcile_state.sysctl_refused {
            plan.push(Step::SetIpv6(device(), should));
        }
    }
    let parent = observed.links.iter().find(|l| l.index == want.vlan.parent);
    let parent_up = parent.is_some_and(|parent| parent.stack.set_up);
    if parent_up && !link.stack.set_up {
        plan.push(Step::SetUp(device()));
    }
    // The kernel gives one when the interface comes up; only then can one be missed.
    if let (true, Some(mac), Some(is)) = (link.up, link.mac, is)
        && is.disable_ipv6 == 0
        && !link.addresses.iter().any(|net| is_link_local(net.addr()))
    {
        plan.push(Step::AddLinkLocal(device(), link_local(mac)));
    }
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// The link-local address that the kernel gives to an interface with this MAC address (modified
/// EUI-64, RFC 4291).
fn link_local(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.octets();
    let pair = |high: u8, low: u8| u16::from_be_bytes([high, low]);
    Ipv6Addr::new(
        0xfe80,
        0,
        0,
        0,
        pair(a ^ 2, b),
        pair(c, 0xff),
        pair(0xfe, d),
        pair(e, f),
    )
}
