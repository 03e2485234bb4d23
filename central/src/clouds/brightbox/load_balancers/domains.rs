//! The domains of a certificate: those that a Service asks for, and the names of its Cloud IP.

use super::super::NAME;
use super::super::annotations as keys;
use super::super::api::Balancer;
use super::bundle::Bundle;
use super::desired::Desired;
use crate::cloud_api::{CloudError, ErrorKind};
use crate::engine::dns::{Resolve, astray};

/// Says which domains a load balancer with HTTPS is to have. New ones must lead to the Cloud IP before: the
/// certificate authority asks there. One that serves keeps until then those that it has, and follows the Nodes.
///
/// # Errors
/// [`CloudError`], to be tried again, if they do not: a name may lead there later although nobody changes the
/// Service.
pub(super) async fn look_up(
    desired: &mut Desired,
    observed: Option<&Bundle>,
    resolver: &dyn Resolve,
) -> Result<(), CloudError> {
    let is_https = desired.is_https();
    let Some(ip) = desired.chosen.as_ref().filter(|_| is_https) else {
        return Ok(());
    };
    desired.domains.extend(ip.names().cloned());
    let balancer = observed.and_then(Bundle::balancer);
    let actual = balancer.map(Balancer::names).unwrap_or_default();
    if actual == desired.domains {
        return Ok(());
    }
    let astray = astray(resolver, &desired.domains, &ip.addresses().collect()).await;
    if astray.is_empty() {
        return Ok(());
    }
    let why = format!(
        "the certificate needs domains that lead to the Cloud IP {}: {}; correct the DNS, or the annotation {}",
        ip.shown(),
        astray.join("; "),
        keys::SSL_DOMAINS.key
    );
    let serves = balancer.is_some_and(|balancer| balancer.is_at(ip)) && !actual.is_empty();
    if !serves {
        return Err(CloudError::new(NAME, ErrorKind::Busy, why));
    }
    desired.domains = actual;
    desired.astray = Some(why);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::IpAddr;

    use async_trait::async_trait;
    use serde_json::json;

    use super::super::super::api::CloudIp;
    use super::super::super::api::balancers::{Acme, Domain};
    use super::super::bundle::Account;
    use super::super::desired::tests::wanted;
    use super::super::options::tests::NAME as SERVICE;
    use super::*;

    /// Knows no name.
    struct Nobody;

    #[async_trait]
    impl Resolve for Nobody {
        async fn addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    /// A load balancer with a certificate for this domain, to which these Cloud IPs lead.
    fn serving(domain: &str, ips: &[CloudIp]) -> Bundle {
        let domain = Domain {
            identifier: domain.to_owned(),
            ..Domain::default()
        };
        let account = Account {
            balancers: vec![Balancer {
                id: "lba-aaaaa".to_owned(),
                name: SERVICE.to_owned(),
                acme: Some(Acme {
                    domains: vec![domain],
                }),
                cloud_ips: ips.to_vec(),
                ..Balancer::default()
            }],
            groups: Vec::new(),
            policies: Vec::new(),
            cloud_ips: Vec::new(),
        };
        Bundle::all(&account).remove(0)
    }

    #[tokio::test]
    async fn domain_that_leads_nowhere_is_tried_again_and_takes_nothing_from_who_serves() {
        let ip = CloudIp {
            id: "cip-aaaaa".to_owned(),
            ..CloudIp::default()
        };
        let domains = [("ssl-domains", "new.example.com")];
        let mut asked = wanted("443", &domains, &json!({}), &["srv-aaaaa"]);
        asked.chosen = Some(ip.clone());
        // The last one moves to another Cloud IP: the former one stays until the names lead to that.
        for observed in [None, Some(serving("old.example.com", &[]))] {
            let mut desired = asked.clone();
            let error = look_up(&mut desired, observed.as_ref(), &Nobody).await;
            let error = error.unwrap_err();
            assert!(error.is_retryable(), "{error}");
            assert!(error.to_string().contains("new.example.com"), "{error}");
        }
        let mut desired = asked.clone();
        let observed = serving("old.example.com", &[ip]);
        look_up(&mut desired, Some(&observed), &Nobody)
            .await
            .unwrap();
        assert_eq!(desired.domains, ["old.example.com".to_owned()].into());
        let astray = desired.astray.expect("it is told");
        assert!(astray.contains("new.example.com"), "{astray}");
    }
}
