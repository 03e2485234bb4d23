//! Whether the domains of a certificate lead to a load balancer, since the certificate authority asks there.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use async_trait::async_trait;

/// Who is asked.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// The addresses of this name.
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Whoever the system asks.
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// Which of these domains lead to none of a load balancer's own addresses, each with what leads where.
pub async fn astray(
    resolver: &dyn Resolve,
    domains: &BTreeSet<String>,
    own: &BTreeSet<IpAddr>,
) -> Vec<String> {
    let mut astray = Vec::new();
    for domain in domains {
        match resolver.addresses(domain).await {
            Ok(found) if found.iter().any(|address| own.contains(address)) => {}
            Ok(found) => {
                // In one order, whatever the resolver's: the same is no news.
                let found: BTreeSet<IpAddr> = found.into_iter().collect();
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
    async fn every_domain_must_lead_to_an_address_of_the_load_balancer() {
        let own = ["109.107.39.92", "2a02:1348:ffff:ffff::6d6b:275c"];
        let own = own.map(|text| text.parse().unwrap()).into();
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
            assert_eq!(astray(&names, &domains, &own).await, expected);
        }
    }
}
