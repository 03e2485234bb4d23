//! Whether the domains of a certificate lead to the Cloud IP, since the certificate authority asks there.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use async_trait::async_trait;

use super::super::api::cloud_ips::CloudIp;

/// Who is asked.
#[async_trait]
pub(super) trait Resolve: Send + Sync {
    /// The addresses of this name.
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Whoever the system asks.
pub(super) struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// Which of these domains do not lead to a Cloud IP, each with what leads where. Nothing: all do.
pub(super) async fn astray(
    resolver: &dyn Resolve,
    domains: &BTreeSet<String>,
    ip: &CloudIp,
) -> Vec<String> {
    let own: BTreeSet<IpAddr> = ip.addresses().collect();
    let mut astray = Vec::new();
    for domain in domains {
        match resolver.addresses(domain).await {
            Ok(found) if found.iter().any(|address| own.contains(address)) => {}
            Ok(found) => {
                let found: Vec<String> = found.iter().map(ToString::to_string).collect();
                astray.push(format!("{domain} leads to {}", found.join(", ")));
            }
            Err(error) => astray.push(format!("{domain} cannot be resolved ({error})")),
        }
    }
    astray
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    struct Names(HashMap<&'static str, &'static str>);

    #[async_trait]
    impl Resolve for Names {
        async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            let found = self.0.get(name).ok_or(io::ErrorKind::NotFound)?;
            Ok(vec![found.parse().unwrap()])
        }
    }

    #[tokio::test]
    async fn every_domain_must_lead_to_an_address_of_the_cloud_ip() {
        let ip = CloudIp {
            public_ipv4: "109.107.39.92".parse().ok(),
            public_ipv6: "2a02:1348:ffff:ffff::6d6b:275c".parse().ok(),
            ..CloudIp::default()
        };
        let names = Names(HashMap::from([
            ("v4.example.com", "109.107.39.92"),
            ("v6.example.com", "2a02:1348:ffff:ffff::6d6b:275c"),
            ("archive.example.com", "192.0.2.1"),
        ]));
        for (domains, expected) in [
            (&["v4.example.com", "v6.example.com"][..], &[][..]),
            (
                &["v4.example.com", "archive.example.com"],
                &["archive.example.com leads to 192.0.2.1"],
            ),
            (
                &["nowhere.example.com"],
                &["nowhere.example.com cannot be resolved (entity not found)"],
            ),
        ] {
            let domains = domains.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(astray(&names, &domains, &ip).await, expected);
        }
    }
}
