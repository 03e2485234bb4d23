//! What a Service asks for, read from its annotations and fields.

use std::net::IpAddr;

use mooring_common::names::annotations;

use crate::controllers::address_pool::{Family, Request};
use crate::views::service_view::ServiceView;

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
    let pool = service.pool_request.as_deref().map(str::trim);
    let all_families = families.len() < 2 || service.requires_dual_stack;
    if faults.is_empty() {
        Ok(Request {
            families,
            all_families,
            network,
            pool: pool.map(ToOwned::to_owned),
            addresses,
            labels: service.labels.clone(),
            ..Request::default()
        })
    } else {
        Err(InvalidRequest { faults })
    }
}

/// How many addresses of a request are looked at. The rest of an annotation of 256 KiB is not.
const MOST_READ: usize = 8;

/// The annotation wins over the field, which has room for one family only.
fn addresses(service: &ServiceView, families: &[Family], faults: &mut Vec<String>) -> Vec<IpAddr> {
    let (place, text) = match (&service.addresses_request, &service.load_balancer_ip) {
        (Some(text), _) => (
            format!("annotation {}", annotations::ADDRESSES_REQUEST),
            text,
        ),
        (None, Some(text)) => ("spec.loadBalancerIP".to_owned(), text),
        (None, None) => return Vec::new(),
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
            let part: String = part.chars().take(80).collect();
            faults.push(format!(
                "{place}: {part:?} is no IP address; write one like 192.0.2.10"
            ));
            continue;
        };
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

    #[test]
    fn annotation_overrides_field() {
        let mut asking = service();
        asking.load_balancer_ip = Some("192.0.2.1".into());
        assert_eq!(
            request(&asking).unwrap().addresses[0].to_string(),
            "192.0.2.1"
        );
        asking.addresses_request = Some("192.0.2.2".into());
        assert_eq!(
            request(&asking).unwrap().addresses[0].to_string(),
            "192.0.2.2"
        );
    }

    #[test]
    fn reports_all_faults_of_a_service_together() {
        let mut wrong = service();
        wrong.addresses_request = Some("192.0.2.1,192.0.2.2,::1,x,".into());
        wrong.network_request = Some("No Such".into());
        let error = request(&wrong).unwrap_err();
        assert_eq!(error.faults.len(), 5, "{error}");
    }

    proptest! {
        #[test]
        fn parser_never_panics(addresses in "\\PC{0,300}", network in "\\PC{0,300}") {
            let mut any = service();
            any.addresses_request = Some(addresses);
            any.network_request = Some(network);
            let _ = request(&any);
        }
    }
}
