//! What Linodes have in the VPCs that are configured.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::NAME;
use super::api::{self, Subnet, Vpc, VpcRow};
use super::flags::VpcChoice;
use crate::cloud_api::{Client, CloudError, ErrorKind};

/// For how long the numbers of VPCs and subnets are remembered.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);

/// What one Linode has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VpcAddresses {
    /// Its IPv4 addresses, in the order of the VPCs, and in each in the order of the API.
    pub(super) ipv4: Vec<Ipv4Addr>,
    /// Its IPv6 addresses, likewise, and whether the outside reaches them.
    pub(super) ipv6: Vec<(Ipv6Addr, bool)>,
    /// Whether an address could not be read, so that the list is not whole.
    pub(super) is_torn: bool,
}

/// The VPCs that are looked at.
#[derive(Debug)]
pub(super) struct Vpcs {
    choice: VpcChoice,
    found: Mutex<Option<Found>>,
}

/// The numbers of VPCs, and of the subnets in them.
#[derive(Clone, Debug)]
struct Found {
    at: Instant,
    vpcs: Vec<(u64, Vec<u64>)>,
}

impl Vpcs {
    pub(super) fn new(choice: VpcChoice) -> Self {
        Self {
            choice,
            found: Mutex::new(None),
        }
    }

    /// Every address in them, by the Linode's number. None: no VPC is configured.
    ///
    /// # Errors
    /// [`CloudError`] unless all of it could be read.
    pub(super) async fn read(
        &self,
        client: &Client,
    ) -> Result<Option<HashMap<u64, VpcAddresses>>, CloudError> {
        if self.choice == VpcChoice::None {
            return Ok(None);
        }
        let mut all = HashMap::new();
        for (vpc, subnets) in self.find(client).await? {
            if let Err(error) = collect(client, vpc, &subnets, &mut all).await {
                // It may have been deleted and made again, with another number.
                *self.found.lock().await = None;
                return Err(error);
            }
        }
        Ok(Some(all))
    }

    async fn find(&self, client: &Client) -> Result<Vec<(u64, Vec<u64>)>, CloudError> {
        let mut found = self.found.lock().await;
        if let Some(found) = found.as_ref().filter(|f| f.at.elapsed() < REMEMBERED) {
            return Ok(found.vpcs.clone());
        }
        let vpcs = match &self.choice {
            VpcChoice::None => Vec::new(),
            VpcChoice::Numbers { vpcs, subnets } => {
                vpcs.iter().map(|vpc| (*vpc, subnets.clone())).collect()
            }
            VpcChoice::Names { vpcs, subnets } => by_name(client, vpcs, subnets).await?,
        };
        *found = Some(Found {
            at: Instant::now(),
            vpcs: vpcs.clone(),
        });
        Ok(vpcs)
    }
}

async fn by_name(
    client: &Client,
    names: &[String],
    subnet_names: &[String],
) -> Result<Vec<(u64, Vec<u64>)>, CloudError> {
    let all: Vec<Vpc> = client.all_pages(&api::vpcs()).await?;
    let numbers: BTreeMap<&str, u64> = all
        .iter()
        .filter_map(|vpc| Some((vpc.label.as_deref()?, vpc.id)))
        .collect();
    let mut found = Vec::new();
    for name in names {
        let Some(vpc) = numbers.get(name.as_str()) else {
            return Err(misnamed(&format!("--vpc-names: there is no VPC {name}")));
        };
        let subnets: Vec<Subnet> = client.all_pages(&api::subnets(*vpc)).await?;
        let chosen: Vec<u64> = subnets
            .iter()
            .filter(|s| s.label.as_ref().is_some_and(|l| subnet_names.contains(l)))
            .map(|subnet| subnet.id)
            .collect();
        if chosen.is_empty() {
            tracing::warn!(
                vpc = name,
                subnet_names = subnet_names.join(", "),
                "the VPC has none of these subnets"
            );
        } else {
            found.push((*vpc, chosen));
        }
    }
    if found.is_empty() {
        let names = subnet_names.join(",");
        return Err(misnamed(&format!(
            "--subnet-names={names}: none of the VPCs has such a subnet"
        )));
    }
    Ok(found)
}

fn misnamed(problem: &str) -> CloudError {
    let message = format!("{problem}; correct the flag, or create it");
    CloudError::new(NAME, ErrorKind::Invalid, message)
}

async fn collect(
    client: &Client,
    vpc: u64,
    subnets: &[u64],
    all: &mut HashMap<u64, VpcAddresses>,
) -> Result<(), CloudError> {
    let ipv4: Vec<VpcRow> = client.all_pages(&api::vpc_ipv4(vpc, subnets)).await?;
    let ipv6: Vec<VpcRow> = client.all_pages(&api::vpc_ipv6(vpc, subnets)).await?;
    let chosen = |row: &&VpcRow| row.subnet_id.is_none_or(|id| subnets.contains(&id));
    for row in ipv4.iter().filter(chosen) {
        let (Some(linode), Some(address)) = (row.linode_id.filter(|id| *id != 0), &row.address)
        else {
            continue;
        };
        let own = all.entry(linode).or_default();
        match address.parse() {
            Ok(address) if own.ipv4.contains(&address) => {}
            Ok(address) => own.ipv4.push(address),
            Err(_) => own.is_torn = true,
        }
    }
    for row in ipv6.iter().filter(chosen) {
        let Some(linode) = row.linode_id.filter(|id| *id != 0) else {
            continue;
        };
        let own = all.entry(linode).or_default();
        let is_public = row.ipv6_is_public.unwrap_or(false);
        for address in row.ipv6_addresses.iter().flatten() {
            match address.slaac_address.as_deref().map(str::parse) {
                Some(Ok(address)) => own.ipv6.push((address, is_public)),
                Some(Err(_)) | None => own.is_torn = true,
            }
        }
    }
    Ok(())
}
