//! Takes the steps.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use ipnet::IpNet;
use netlink_packet_route::link::{
    AfSpecInet, AfSpecUnspec, InetDevConf, LinkAttribute, LinkMessage,
};
use netlink_packet_route::route::{RouteMessage, RouteProtocol, RouteScope};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, route::RouteHeader};
use nix::errno::Errno;
use rtnetlink::{
    Handle, LinkMessageBuilder, LinkUnspec, LinkVlan, QosMapping, RouteMessageBuilder,
};

use super::nft::{self, NftError};
use super::observe::{Route, Rule, errno};
use super::step::{IPV4, Step};
use super::{ALIAS, FORBIDDEN, GROUP, PROTOCOL, sysctl};
use crate::wire::links::Vlan;
use crate::wire::packet_socket::PRIORITY;

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The kernel was built without VLANs, or the module is not there.
    #[error(
        "the kernel has no VLANs (8021q); load the module on the node (modprobe 8021q), and name it \
         in /etc/modules-load.d"
    )]
    NoVlans,
    /// The container lacks a capability.
    #[error("{FORBIDDEN}")]
    Forbidden,
    /// The interface below does not take VLANs.
    #[error(
        "interface number {0} takes no VLANs; name another in spec.parent or spec.interfaces of the L2Network"
    )]
    NotOnThis(u32),
    /// `/proc/sys/net` cannot be written.
    #[error(
        "{path} cannot be written ({error}); mount the host's /proc/sys/net writable and name the \
         place in --host-proc-sys-net, as the chart does"
    )]
    Sysctl {
        /// The folder.
        path: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// Something else changed at the same time: the next look shows it.
    #[error("the machine changed meanwhile")]
    Raced,
    /// The kernel refused for another reason.
    #[error("the kernel refused")]
    Refused(#[source] rtnetlink::Error),
    /// nftables.
    #[error("cannot write the nftables table")]
    Nft(#[source] NftError),
}

fn classify(error: rtnetlink::Error) -> ApplyError {
    match errno(&error).map(Errno::from_raw) {
        Some(Errno::EEXIST | Errno::ENOENT | Errno::ENODEV | Errno::ESRCH | Errno::ENETDOWN) => {
            ApplyError::Raced
        }
        Some(Errno::EPERM | Errno::EACCES) => ApplyError::Forbidden,
        _ => ApplyError::Refused(error),
    }
}

/// Takes one step.
///
/// # Errors
/// [`ApplyError`]; after [`ApplyError::Raced`] a new look is due at once.
pub async fn apply(handle: &Handle, proc_sys_net: &Path, step: &Step) -> Result<(), ApplyError> {
    let done = match step {
        Step::Create { vlan, name, mtu } => return create(handle, *vlan, name, *mtu).await,
        Step::SetIpv6(device, settings) => {
            return match sysctl::write(proc_sys_net, &device.name, *settings) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    Err(ApplyError::Raced)
                }
                written => written.map_err(|error| ApplyError::Sysctl {
                    path: proc_sys_net.display().to_string(),
                    error,
                }),
            };
        }
        Step::ReplaceTable(rules) => return nft::replace(rules).await.map_err(classify_nft),
        Step::DeleteTable => return nft::delete().await.map_err(classify_nft),
        Step::Mark(device) => {
            let message = mark(LinkUnspec::new_with_index(device.index));
            handle.link().set(message).execute().await
        }
        Step::SetMtu(device, mtu) => {
            let message = LinkUnspec::new_with_index(device.index).mtu(*mtu);
            handle.link().set(message.build()).execute().await
        }
        Step::SetIpv4(device) => handle.link().set(ipv4(device.index)).execute().await,
        Step::SetUp(device) => {
            let message = LinkUnspec::new_with_index(device.index).up();
            handle.link().set(message.build()).execute().await
        }
        Step::AddLinkLocal(device, address) => {
            let address = IpAddr::V6(*address);
            handle
                .address()
                .add(device.index, address, 64)
                .execute()
                .await
        }
        Step::Delete(device) => handle.link().del(device.index).execute().await,
        Step::AddRoute(_, route) => {
            handle
                .route()
                .add(route_message(route))
                .replace()
                .execute()
                .await
        }
        Step::DeleteRoute(route) => handle.route().del(route_message(route)).execute().await,
        Step::AddRule(rule) => {
            let mut request = handle.rule().add();
            *request.message_mut() = rule_message(rule);
            request.execute().await
        }
        Step::DeleteRule(rule) => handle.rule().del(rule_message(rule)).execute().await,
    };
    done.map_err(classify)
}

fn classify_nft(error: NftError) -> ApplyError {
    match error {
        NftError::Refused(Errno::ENOENT | Errno::EEXIST | Errno::ERESTART) => ApplyError::Raced,
        NftError::Refused(Errno::EPERM) => ApplyError::Forbidden,
        error => ApplyError::Nft(error),
    }
}

async fn create(handle: &Handle, vlan: Vlan, name: &str, mtu: u32) -> Result<(), ApplyError> {
    // A VLAN has no priority (IEEE 802.1Q, PCP) but what it is told to make of that of a frame.
    let control = QosMapping {
        from: PRIORITY,
        to: PRIORITY,
    };
    let message = LinkVlan::new(name, vlan.parent, vlan.id).mtu(mtu);
    let message = message.qos([], [control]);
    // An alias would be passed over: the kernel takes one only for an interface that is there.
    let message = message.append_extra_attribute(LinkAttribute::Group(GROUP));
    let message = message.build();
    let made = handle.link().add(message).execute().await;
    made.map_err(|error| match errno(&error).map(Errno::from_raw) {
        Some(Errno::EOPNOTSUPP) if !knows_vlans() => ApplyError::NoVlans,
        Some(Errno::EOPNOTSUPP) => ApplyError::NotOnThis(vlan.parent),
        _ => classify(error),
    })?;
    // Found by its name: nobody has told its number yet.
    let message = mark(LinkUnspec::new_with_name(name));
    handle.link().set(message).execute().await.map_err(classify)
}

fn mark(link: LinkMessageBuilder<LinkUnspec>) -> LinkMessage {
    let link = link.alias(ALIAS);
    let link = link.append_extra_attribute(LinkAttribute::Group(0));
    link.build()
}

/// Whether the kernel has VLANs at this moment: it then has this folder.
fn knows_vlans() -> bool {
    Path::new("/proc/net/vlan").is_dir()
}

fn ipv4(index: u32) -> LinkMessage {
    let mut settings = InetDevConf::default();
    settings.forwarding = IPV4.forwarding;
    settings.rp_filter = IPV4.rp_filter;
    settings.arp_ignore = IPV4.arp_ignore;
    settings.arp_announce = IPV4.arp_announce;
    settings.src_vmark = IPV4.src_valid_mark;
    let request = AfSpecUnspec::Inet(vec![AfSpecInet::DevConfRequest(settings)]);
    LinkUnspec::new_with_index(index)
        .append_extra_attribute(LinkAttribute::AfSpecUnspec(vec![request]))
        .build()
}

fn route_message(route: &Route) -> RouteMessage {
    match (route.destination, route.router) {
        (IpNet::V4(destination), router) => {
            let mut builder = RouteMessageBuilder::<Ipv4Addr>::new()
                .destination_prefix(destination.network(), destination.prefix_len())
                .output_interface(route.device)
                .table_id(route.table)
                .protocol(RouteProtocol::Other(PROTOCOL));
            if let Some(IpAddr::V4(router)) = router {
                builder = builder.gateway(router).onlink();
            } else {
                builder = builder.scope(RouteScope::Link);
            }
            builder.build()
        }
        (IpNet::V6(destination), router) => {
            let mut builder = RouteMessageBuilder::<Ipv6Addr>::new()
                .destination_prefix(destination.network(), destination.prefix_len())
                .output_interface(route.device)
                .table_id(route.table)
                .protocol(RouteProtocol::Other(PROTOCOL));
            if let Some(IpAddr::V6(router)) = router {
                builder = builder.gateway(router).onlink();
            }
            builder.build()
        }
    }
}

fn rule_message(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = if rule.v6 {
        AddressFamily::Inet6
    } else {
        AddressFamily::Inet
    };
    message.header.table = RouteHeader::RT_TABLE_UNSPEC;
    message.header.action = RuleAction::ToTable;
    message.attributes = vec![
        RuleAttribute::Priority(rule.priority),
        RuleAttribute::FwMark(rule.mark),
        RuleAttribute::FwMask(rule.mask),
        RuleAttribute::Table(rule.table),
        RuleAttribute::Protocol(RouteProtocol::Other(PROTOCOL)),
    ];
    let device = rule.comes_in_by.iter().cloned();
    let device = device.map(RuleAttribute::Iifname);
    message.attributes.extend(device);
    message
}
