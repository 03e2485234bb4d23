//! What Linodes have in the VPCs that are configured.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
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
    /// What was read last.
    last: Mutex<Option<Arc<VpcRows>>>,
}

/// All that is taken in the chosen subnets, in the order of the VPCs, and in each in that of the API.
#[derive(Debug)]
pub(super) struct VpcRows {
    /// When it was asked for: it shows nothing older.
    pub(super) begun: Instant,
    ipv4: OfLinodes,
    ipv6: OfLinodes,
}

/// Rows by the number of their Linode.
type OfLinodes = BTreeMap<u64, Vec<VpcRow>>;

impl VpcRows {
    /// The Linodes that have something there.
    pub(super) fn linodes(&self) -> BTreeSet<u64> {
        self.ipv4.keys().chain(self.ipv6.keys()).copied().collect()
    }

    /// What a Linode has of IPv4.
    pub(super) fn ipv4_of(&self, linode: u64) -> impl Iterator<Item = &VpcRow> {
        self.ipv4.get(&linode).into_iter().flatten()
    }

    /// What a Linode has of IPv6.
    pub(super) fn ipv6_of(&self, linode: u64) -> impl Iterator<Item = &VpcRow> {
        self.ipv6.get(&linode).into_iter().flatten()
    }
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
            last: Mutex::new(None),
        }
    }

    /// Every address in them, read afresh, by the Linode's number. None: no VPC is configured.
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
        let rows = self.rows(client, Some(Instant::now())).await?;
        Ok(Some(addresses(&rows)))
    }

    /// All that is taken in them, from a listing that was begun at `since` or later. `None`: however old.
    ///
    /// # Errors
    /// [`CloudError`] unless all of it could be read.
    pub(super) async fn rows(
        &self,
        client: &Client,
        since: Option<Instant>,
    ) -> Result<Arc<VpcRows>, CloudError> {
        let mut last = self.last.lock().await;
        let is_recent = |rows: &&Arc<VpcRows>| since.is_none_or(|since| rows.begun >= since);
        if let Some(rows) = last.as_ref().filter(is_recent) {
            return Ok(rows.clone());
        }
        let mut rows = VpcRows {
            begun: Instant::now(),
            ipv4: OfLinodes::new(),
            ipv6: OfLinodes::new(),
        };
        for (vpc, subnets) in self.find(client).await? {
            if let Err(error) = collect(client, vpc, &subnets, &mut rows).await {
                // It may have been deleted and made again, with another number.
                *self.found.lock().await = None;
                return Err(error);
            }
        }
        let rows = Arc::new(rows);
        *last = Some(rows.clone());
        Ok(rows)
    }

    /// The first of the subnets, and its VPC. None: no VPC is configured.
    ///
    /// # Errors
    /// [`CloudError`] unless it could be found.
    pub(super) async fn first_subnet(
        &self,
        client: &Client,
    ) -> Result<Option<(u64, u64)>, CloudError> {
        let found = self.find(client).await?;
        let first = found.first();
        Ok(first.and_then(|(vpc, subnets)| Some((*vpc, *subnets.first()?))))
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
    rows: &mut VpcRows,
) -> Result<(), CloudError> {
    let ipv4: Vec<VpcRow> = client.all_pages(&api::vpc_ipv4(vpc, subnets)).await?;
    let ipv6: Vec<VpcRow> = client.all_pages(&api::vpc_ipv6(vpc, subnets)).await?;
    for (rows, of_linodes) in [(ipv4, &mut rows.ipv4), (ipv6, &mut rows.ipv6)] {
        let is_chosen = |row: &VpcRow| row.subnet_id.is_none_or(|id| subnets.contains(&id));
        for row in rows.into_iter().filter(is_chosen) {
            if let Some(linode) = row.linode_id.filter(|id| *id != 0) {
                of_linodes.entry(linode).or_default().push(row);
            }
        }
    }
    Ok(())
}

fn addresses(rows: &VpcRows) -> HashMap<u64, VpcAddresses> {
    let of_linode = |linode| {
        let mut own = VpcAddresses::default();
        for address in rows.ipv4_of(linode).filter_map(|row| row.address.as_ref()) {
            match address.parse() {
                Ok(address) if own.ipv4.contains(&address) => {}
                Ok(address) => own.ipv4.push(address),
                Err(_) => own.is_torn = true,
            }
        }
        for row in rows.ipv6_of(linode) {
            let is_public = row.ipv6_is_public.unwrap_or(false);
            for address in row.ipv6_addresses.iter().flatten() {
                match address.slaac_address.as_deref().map(str::parse) {
                    Some(Ok(address)) => own.ipv6.push((address, is_public)),
                    Some(Err(_)) | None => own.is_torn = true,
                }
            }
        }
        (linode, own)
    };
    rows.linodes().into_iter().map(of_linode).collect()
}
