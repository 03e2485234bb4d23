//! VPCs: which are meant, and what Linodes have in them.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::NAME;
use super::api::{self, Labelled, SUBNETS, VPC_IPV4, VPC_IPV6, VPCS, VpcRow};
use super::flags::VpcChoice;
use crate::cloud_api::{Client, CloudError, ErrorKind, Kind, Remembered};

/// For how long the numbers of VPCs and subnets are remembered: one may be deleted and made again under its
/// label.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);

/// A VPC.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub(super) enum Vpc {
    /// By number.
    Id(u64),
    /// By label.
    Label(String),
}

/// A subnet of a VPC.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub(super) enum Subnet {
    /// By number.
    Id(u64),
    /// By label, in a VPC.
    Named { vpc: Vpc, subnet: String },
    /// By the label that a subnet of another VPC has.
    NamedLike { vpc: Vpc, other: (u64, u64) },
}

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

/// All that Linodes have in the chosen subnets, in the order of the VPCs, and in each in that of the API.
#[derive(Debug)]
pub(super) struct VpcRows {
    /// When it was asked for: it shows nothing older.
    pub(super) begun: Instant,
    /// By the number of the Linode.
    pub(super) of_linodes: BTreeMap<u64, Vec<VpcRow>>,
}

/// The VPCs that are looked at.
#[derive(Debug)]
pub(super) struct Vpcs {
    choice: VpcChoice,
    /// The numbers of the chosen VPCs, and of the subnets in them.
    chosen: Remembered<(), Vec<(u64, Vec<u64>)>>,
    /// The numbers of subnets that Services name.
    named: Remembered<Subnet, u64>,
    /// The labels of subnets that flags number, by VPC and subnet.
    labels: Remembered<(u64, u64), String>,
    /// What was read last.
    last: Mutex<Option<Arc<VpcRows>>>,
}

impl Vpcs {
    pub(super) fn new(choice: VpcChoice) -> Self {
        Self {
            choice,
            chosen: Remembered::new(REMEMBERED),
            named: Remembered::new(REMEMBERED),
            labels: Remembered::new(REMEMBERED),
            last: Mutex::default(),
        }
    }

    /// Every address in them, from a reading that was begun at `since` or later, by the Linode's number.
    /// `None`: however old.
    ///
    /// # Errors
    /// [`CloudError`], here and below, unless all of it could be read.
    pub(super) async fn read(
        &self,
        client: &Client,
        since: Option<Instant>,
    ) -> Result<HashMap<u64, VpcAddresses>, CloudError> {
        let rows = self.rows(client, since).await?;
        let of_linodes = rows.of_linodes.iter();
        Ok(of_linodes
            .map(|(id, rows)| (*id, addresses(rows)))
            .collect())
    }

    /// All that is taken in them, from a listing that was begun at `since` or later. `None`: however old.
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
            of_linodes: BTreeMap::new(),
        };
        for (vpc, subnets) in self.chosen(client).await? {
            if let Err(error) = collect(client, vpc, &subnets, &mut rows.of_linodes).await {
                // It may have been deleted and made again, with another number.
                self.chosen.forget().await;
                return Err(error);
            }
        }
        let rows = Arc::new(rows);
        *last = Some(rows.clone());
        Ok(rows)
    }

    /// The first of the chosen subnets, and its VPC. None: no VPC is chosen.
    pub(super) async fn first_subnet(
        &self,
        client: &Client,
    ) -> Result<Option<(u64, u64)>, CloudError> {
        let chosen = self.chosen(client).await?;
        let first = chosen.first();
        Ok(first.and_then(|(vpc, subnets)| Some((*vpc, *subnets.first()?))))
    }

    /// The number of a subnet.
    pub(super) async fn number(&self, client: &Client, subnet: &Subnet) -> Result<u64, CloudError> {
        let (vpc, label) = match subnet {
            Subnet::Id(id) => return Ok(*id),
            Subnet::Named { vpc, subnet } => (vpc, subnet.clone()),
            Subnet::NamedLike { vpc, other } => (vpc, self.label(client, *other).await?),
        };
        let find = async {
            let vpc = match vpc {
                Vpc::Id(id) => *id,
                Vpc::Label(label) => {
                    let all = list(client, &VPCS, &[]).await?;
                    number(&all, label).ok_or_else(|| missing(&format!("VPC {label}")))?
                }
            };
            let all = list(client, &SUBNETS, &[&vpc.to_string()]).await?;
            number(&all, &label).ok_or_else(|| missing(&format!("subnet {label} in VPC {vpc}")))
        };
        self.named.get(subnet.clone(), find).await
    }

    /// The label of a subnet of a VPC.
    async fn label(
        &self,
        client: &Client,
        (vpc, subnet): (u64, u64),
    ) -> Result<String, CloudError> {
        let find = async {
            let all = list(client, &SUBNETS, &[&vpc.to_string()]).await?;
            let found = all.into_iter().find(|one| one.id == subnet);
            let label = found.and_then(|one| one.label);
            label.ok_or_else(|| missing(&format!("subnet {subnet} in VPC {vpc}")))
        };
        self.labels.get((vpc, subnet), find).await
    }

    async fn chosen(&self, client: &Client) -> Result<Vec<(u64, Vec<u64>)>, CloudError> {
        let find = async {
            match &self.choice {
                VpcChoice::None => Ok(Vec::new()),
                VpcChoice::Numbers { vpcs, subnets } => {
                    Ok(vpcs.iter().map(|vpc| (*vpc, subnets.clone())).collect())
                }
                VpcChoice::Names { vpcs, subnets } => by_name(client, vpcs, subnets).await,
            }
        };
        self.chosen.get((), find).await
    }
}

async fn by_name(
    client: &Client,
    names: &[String],
    subnet_names: &[String],
) -> Result<Vec<(u64, Vec<u64>)>, CloudError> {
    let correct = "; correct the flag, or create it";
    let all = list(client, &VPCS, &[]).await?;
    let mut found = Vec::new();
    for name in names {
        let missing = || invalid(format!("--vpc-names: there is no VPC {name}{correct}"));
        let vpc = number(&all, name).ok_or_else(missing)?;
        let subnets = list(client, &SUBNETS, &[&vpc.to_string()]).await?;
        // In the order of the flag: the first has a meaning of its own.
        let chosen = subnet_names.iter();
        let chosen: Vec<u64> = chosen.filter_map(|name| number(&subnets, name)).collect();
        if chosen.is_empty() {
            tracing::warn!(
                vpc = name,
                subnet_names = subnet_names.join(", "),
                "the VPC has none of these subnets"
            );
        } else {
            found.push((vpc, chosen));
        }
    }
    if found.is_empty() {
        return Err(invalid(format!(
            "--subnet-names={}: none of the VPCs has such a subnet{correct}",
            subnet_names.join(",")
        )));
    }
    Ok(found)
}

async fn list(client: &Client, kind: &Kind, of: &[&str]) -> Result<Vec<Labelled>, CloudError> {
    client.all_pages(&api::all(kind, of)).await
}

fn number(all: &[Labelled], label: &str) -> Option<u64> {
    let mut all = all.iter();
    let found = all.find(|one| one.label.as_deref() == Some(label));
    found.map(|one| one.id)
}

fn missing(what: &str) -> CloudError {
    invalid(format!(
        "there is no {what}; create it, or correct the annotations of the Service or the flags that name \
         VPCs and subnets"
    ))
}

fn invalid(problem: String) -> CloudError {
    CloudError::new(NAME, ErrorKind::Invalid, problem)
}

async fn collect(
    client: &Client,
    vpc: u64,
    subnets: &[u64],
    of_linodes: &mut BTreeMap<u64, Vec<VpcRow>>,
) -> Result<(), CloudError> {
    // Several subnets stand in one text, as Linode's controller wrote it.
    let numbers: Vec<String> = subnets.iter().map(ToString::to_string).collect();
    let filter = json!({ "subnet_id": numbers.join(",") });
    for (kind, is_ipv4) in [(&VPC_IPV4, true), (&VPC_IPV6, false)] {
        let request = api::filtered(kind, &[&vpc.to_string()], &filter);
        let rows: Vec<VpcRow> = client.all_pages(&request).await?;
        let is_chosen = |row: &VpcRow| {
            let is_in = row.subnet_id.is_none_or(|id| subnets.contains(&id));
            is_in && row.is_ipv4() == is_ipv4
        };
        for row in rows.into_iter().filter(is_chosen) {
            if let Some(linode) = row.linode_id.filter(|id| *id != 0) {
                of_linodes.entry(linode).or_default().push(row);
            }
        }
    }
    Ok(())
}

fn addresses(rows: &[VpcRow]) -> VpcAddresses {
    let mut own = VpcAddresses::default();
    for row in rows {
        match row.address.as_deref().map(str::parse) {
            None => {}
            Some(Ok(address)) if own.ipv4.contains(&address) => {}
            Some(Ok(address)) => own.ipv4.push(address),
            Some(Err(_)) => own.is_torn = true,
        }
        let is_public = row.ipv6_is_public.unwrap_or(false);
        for address in row.ipv6_addresses.iter().flatten() {
            match address.slaac_address.as_deref().map(str::parse) {
                Some(Ok(address)) => own.ipv6.push((address, is_public)),
                Some(Err(_)) | None => own.is_torn = true,
            }
        }
    }
    own
}
