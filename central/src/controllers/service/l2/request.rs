//! What a Service asks for, read from its annotations and fields.

use std::collections::BTreeSet;
use std::net::IpAddr;

use mooring_common::names::annotations;

use crate::controllers::address_pool::{Backends, Family, Port, Request, SharingTerms};
use crate::views::service_view::{Asked, ServiceView};

/// Everything about a Service that cannot be read: each with key, value and remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", faults.join("; "))]
pub(super) struct InvalidRequest {
    pub(super) faults: Vec<String>,
}

pub(super) fn request(service: &ServiceView) -> Result<Request, InvalidRequest> {
    let mut faults = Vec::new();
    let families: Vec<Family> = match service.ip_families.as_slice() {
        [] => vec![Family::V4],
        named => named
            .iter()
            .map(|n| if n == "IPv6" { Family::V6 } else { Family::V4 })
            .collect(),
    };
    let addresses = addresses(service, &families, &mut faults);
    let network = match service.network_request.as_deref() {
        Some(name) if !is_object_name(name) => {
            faults.push(format!(
                "annotation {}: {name:?} is no name of an L2Network; kubectl get l2networks lists \
                 them",
                annotations::L2_NETWORK_REQUEST
            ));
            None
        }
        name => name.map(ToOwned::to_owned),
    };
    let pool = the_one(&service.pool_requests, same_text, &mut faults);
    the_one(&service.sharing_keys, same_text, &mut faults);
    let all_families = families.len() < 2 || service.requires_dual_stack;
    if faults.is_empty() {
        Ok(Request {
            families,
            all_families,
            network,
            pool: pool.map(|asked| asked.value.trim().to_owned()),
            pool_annotation: pool.map(|asked| asked.key),
            addresses,
            labels: service.labels.clone(),
            ..Request::default()
        })
    } else {
        Err(InvalidRequest { faults })
    }
}

/// With whom a Service can share addresses. Annotations that differ are no key.
pub(super) fn terms(service: &ServiceView) -> SharingTerms {
    let key = the_one(&service.sharing_keys, same_text, &mut Vec::new());
    let ports = service.ports.iter().map(|port| Port {
        protocol: port.protocol.clone(),
        number: port.port,
    });
    SharingTerms {
        key: key.map(|asked| asked.value.trim().to_owned()),
        ports: ports.collect(),
        backends: if service.is_local {
            Backends::NodesOf(service.selector.clone())
        } else {
            Backends::AnyNode
        },
    }
}

/// What several annotations of one meaning ask for; that they differ is a fault.
fn the_one<'a>(
    asked: &'a [Asked],
    is_same: impl Fn(&str, &str) -> bool,
    faults: &mut Vec<String>,
) -> Option<&'a Asked> {
    let first = asked.first()?;
    let mut others = asked
        .iter()
        .filter(|other| !is_same(&first.value, &other.value))
        .peekable();
    if others.peek().is_none() {
        return Some(first);
    }
    for other in others {
        faults.push(format!(
            "the annotations {} and {} ask for different things, {:?} and {:?}; take one of them off",
            first.key,
            other.key,
            shortened(&first.value),
            shortened(&other.value)
        ));
    }
    None
}

fn same_text(one: &str, other: &str) -> bool {
    one.trim() == other.trim()
}

/// In whatever order, and form of IPv6 addresses.
fn same_addresses(one: &str, other: &str) -> bool {
    let read = |text: &str| -> BTreeSet<String> {
        let parts = text.split(',').take(MOST_READ + 1).map(str::trim);
        let forms = parts.map(|part| {
            part.parse::<IpAddr>()
                .map_or_else(|_| part.to_owned(), |address| address.to_string())
        });
        forms.collect()
    };
    read(one) == read(other)
}

/// The longest text of a user that a fault shows.
const LONGEST_SHOWN: usize = 80;

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_SHOWN).collect()
}

/// How many addresses of a request are looked at. The rest of an annotation of 256 KiB is not.
const MOST_READ: usize = 8;

/// The annotation wins over the field, which has room for one family only.
fn addresses(service: &ServiceView, families: &[Family], faults: &mut Vec<String>) -> Vec<IpAddr> {
    let asked = &service.addresses_requests;
    let (place, text) = match (
        the_one(asked, same_addresses, faults),
        &service.load_balancer_ip,
    ) {
        (Some(asked), _) => (format!("annotation {}", asked.key), &asked.value),
        (None, Some(text)) if asked.is_empty() => ("spec.loadBalancerIP".to_owned(), text),
        (None, _) => return Vec::new(),
    };
    let mut addresses: Vec<IpAddr> = Vec::new();
    for (index, part) in text.split(',').map(str::trim).enumerate() {
        if index == MOST_READ {
            let more = text.split(',').count() - MOST_READ;
            faults.push(format!(
                "{place}: {more} more are not read; at most two make sense"
            ));
            break;
        }
        let Ok(address) = part.parse::<IpAddr>() else {
            let part = shortened(part);
            faults.push(format!(
                "{place}: {part:?} is no IP address; write one like 192.0.2.10"
            ));
            continue;
        };
        if address.is_unspecified() {
            faults.push(format!(
                "{place}: {address} asks for an address by DHCP, as with kube-vip, and L2Networks have \
                 none; ask for an address of their ranges, or for none"
            ));
            continue;
        }
        let family = Family::of(address);
        if !families.contains(&family) {
            faults.push(format!(
                "{place}: {address} is of a family that is not in spec.ipFamilies; add the family, \
                 or ask for another address"
            ));
        } else if addresses.iter().any(|other| Family::of(*other) == family) {
            faults.push(format!(
                "{place}: {address} is the second of its family; ask for one"
            ));
        } else {
            addresses.push(address);
        }
    }
    addresses
}

/// RFC 1123 subdomain, as Kubernetes has it.
fn is_object_name(name: &str) -> bool {
    let label = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::service_view::tests::service;
    use proptest::prelude::*;

    fn asked(key: &'static str, value: &str) -> Asked {
        let value = value.to_owned();
        Asked { key, value }
    }

    fn own(value: &str) -> Vec<Asked> {
        vec![asked(annotations::ADDRESSES_REQUEST, value)]
    }

    #[test]
    fn annotation_overrides_field() {
        let mut asking = service();
        asking.load_balancer_ip = Some("192.0.2.1".into());
        assert_eq!(
            request(&asking).unwrap().addresses[0].to_string(),
            "192.0.2.1"
        );
        asking.addresses_requests = own("192.0.2.2");
        assert_eq!(
            request(&asking).unwrap().addresses[0].to_string(),
            "192.0.2.2"
        );
    }

    #[test]
    fn reports_all_faults_of_a_service_together() {
        let mut wrong = service();
        wrong.addresses_requests = own("192.0.2.1,192.0.2.2,::1,x,,0.0.0.0");
        wrong.network_request = Some("No Such".into());
        wrong.pool_requests = vec![
            asked("mooring.dev/address-pool", "a"),
            asked("metallb.io/address-pool", "b"),
        ];
        wrong.sharing_keys = vec![
            asked("metallb.io/allow-shared-ip", "a"),
            asked("metallb.universe.tf/allow-shared-ip", "b"),
        ];
        let error = request(&wrong).unwrap_err();
        assert_eq!(error.faults.len(), 8, "{error}");
        assert!(error.to_string().contains("by DHCP"), "{error}");
        assert_eq!(terms(&wrong).key, None);
    }

    #[test]
    fn names_of_other_implementations_are_read_where_they_agree() {
        let [metallb, old, kube_vip] = [1, 2, 3].map(|at| annotations::ADDRESSES_REQUESTS[at]);
        let mut asking = service();
        asking.ip_families = vec!["IPv4".into(), "IPv6".into()];
        asking.load_balancer_ip = Some("192.0.2.9".into());
        asking.addresses_requests = vec![
            asked(metallb, "192.0.2.1, 2001:db8::1"),
            asked(old, "2001:db8:0::1,192.0.2.1"),
            asked(kube_vip, "192.0.2.1,2001:db8::1"),
        ];
        assert_eq!(request(&asking).unwrap().addresses.len(), 2);
        asking.addresses_requests[2].value = "192.0.2.3".into();
        let error = request(&asking).unwrap_err();
        let expected = format!(
            "the annotations {metallb} and {kube_vip} ask for different things, \
             \"192.0.2.1, 2001:db8::1\" and \"192.0.2.3\"; take one of them off"
        );
        assert_eq!(error.faults, [expected]);
        asking.addresses_requests.truncate(1);
        asking.addresses_requests[0].value = "nonsense".into();
        let error = request(&asking).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("annotation {metallb}: ")),
            "{error}"
        );
    }

    #[test]
    fn terms_are_read_of_a_service() {
        let mut sharing = service();
        sharing.sharing_keys = vec![asked("metallb.io/allow-shared-ip", " dns ")];
        sharing.selector = [("app".to_owned(), "dns".to_owned())].into();
        assert_eq!(terms(&sharing).backends, Backends::AnyNode);
        sharing.is_local = true;
        let terms = terms(&sharing);
        assert_eq!(terms.key.as_deref(), Some("dns"));
        assert_eq!(terms.backends, Backends::NodesOf(sharing.selector));
    }

    proptest! {
        #[test]
        fn parser_never_panics(addresses in "\\PC{0,300}", network in "\\PC{0,300}") {
            let mut any = service();
            any.addresses_requests = vec![
                asked(annotations::ADDRESSES_REQUEST, &addresses),
                asked("metallb.io/loadBalancerIPs", &network),
            ];
            any.network_request = Some(network);
            let _ = request(&any);
        }
    }
}
