//! VPCs: which are meant, and what Linodes have in them.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

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

/// The VPCs that are looked at.
#[derive(Debug)]
pub(super) struct Vpcs {
    client: Arc<Client>,
    choice: VpcChoice,
    /// The numbers of the chosen VPCs, and of the subnets in them.
    chosen: Remembered<(), Vec<(u64, Vec<u64>)>>,
    /// The numbers of subnets that Services name.
    named: Remembered<Subnet, u64>,
    /// The labels of subnets that flags number, by VPC and subnet.
    labels: Remembered<(u64, u64), String>,
}

impl Vpcs {
    pub(super) fn new(client: Arc<Client>, choice: VpcChoice) -> Self {
        Self {
            client,
            choice,
            chosen: Remembered::new(REMEMBERED),
            named: Remembered::new(REMEMBERED),
            labels: Remembered::new(REMEMBERED),
        }
    }

    /// All that Linodes have in the chosen subnets, in the order of the VPCs, and in each in that of the API.
    ///
    /// # Errors
    /// [`CloudError`], here and below, unless all of it could be read.
    pub(super) async fn rows(&self) -> Result<Vec<VpcRow>, CloudError> {
        let mut rows = Vec::new();
        for (vpc, subnets) in self.chosen().await? {
            if let Err(error) = self.collect(vpc, &subnets, &mut rows).await {
                // It may have been deleted and made again, with another number.
                self.chosen.forget().await;
                return Err(error);
            }
        }
        Ok(rows)
    }

    async fn collect(
        &self,
        vpc: u64,
        subnets: &[u64],
        all: &mut Vec<VpcRow>,
    ) -> Result<(), CloudError> {
        // Several subnets stand in one text, as Linode's controller wrote it.
        let numbers: Vec<String> = subnets.iter().map(ToString::to_string).collect();
        let filter = json!({ "subnet_id": numbers.join(",") });
        for (kind, is_ipv4) in [(&VPC_IPV4, true), (&VPC_IPV6, false)] {
            let request = api::filtered(kind, &[&vpc.to_string()], &filter);
            let rows: Vec<VpcRow> = self.client.all_pages(&request).await?;
            let is_chosen = |row: &VpcRow| {
                let is_in = row.subnet_id.is_none_or(|id| subnets.contains(&id));
                is_in && row.is_ipv4() == is_ipv4 && row.linode_id.is_some_and(|id| id != 0)
            };
            all.extend(rows.into_iter().filter(is_chosen));
        }
        Ok(())
    }

    /// The first of the chosen subnets, and its VPC. None: no VPC is chosen.
    pub(super) async fn first_subnet(&self) -> Result<Option<(u64, u64)>, CloudError> {
        let chosen = self.chosen().await?;
        let first = chosen.first();
        Ok(first.and_then(|(vpc, subnets)| Some((*vpc, *subnets.first()?))))
    }

    /// The number of a subnet.
    pub(super) async fn number(&self, subnet: &Subnet) -> Result<u64, CloudError> {
        let (vpc, label) = match subnet {
            Subnet::Id(id) => return Ok(*id),
            Subnet::Named { vpc, subnet } => (vpc, subnet.clone()),
            Subnet::NamedLike { vpc, other } => (vpc, self.label(*other).await?),
        };
        let find = async {
            let vpc = match vpc {
                Vpc::Id(id) => *id,
                Vpc::Label(label) => {
                    let all = self.list(&VPCS, &[]).await?;
                    number(&all, label).ok_or_else(|| missing(&format!("VPC {label}")))?
                }
            };
            let all = self.list(&SUBNETS, &[&vpc.to_string()]).await?;
            number(&all, &label).ok_or_else(|| missing(&format!("subnet {label} in VPC {vpc}")))
        };
        self.named.get(subnet.clone(), find).await
    }

    /// The label of a subnet of a VPC.
    async fn label(&self, (vpc, subnet): (u64, u64)) -> Result<String, CloudError> {
        let find = async {
            let all = self.list(&SUBNETS, &[&vpc.to_string()]).await?;
            let found = all.into_iter().find(|one| one.id == subnet);
            let label = found.and_then(|one| one.label);
            label.ok_or_else(|| missing(&format!("subnet {subnet} in VPC {vpc}")))
        };
        self.labels.get((vpc, subnet), find).await
    }

    async fn chosen(&self) -> Result<Vec<(u64, Vec<u64>)>, CloudError> {
        let find = async {
            match &self.choice {
                VpcChoice::None => Ok(Vec::new()),
                VpcChoice::Numbers { vpcs, subnets } => {
                    Ok(vpcs.iter().map(|vpc| (*vpc, subnets.clone())).collect())
                }
                VpcChoice::Names { vpcs, subnets } => self.by_name(vpcs, subnets).await,
            }
        };
        self.chosen.get((), find).await
    }

    async fn by_name(
        &self,
        names: &[String],
        subnet_names: &[String],
    ) -> Result<Vec<(u64, Vec<u64>)>, CloudError> {
        let correct = "; correct the flag, or create it";
        let all = self.list(&VPCS, &[]).await?;
        let mut found = Vec::new();
        for name in names {
            let missing = || invalid(format!("--vpc-names: there is no VPC {name}{correct}"));
            let vpc = number(&all, name).ok_or_else(missing)?;
            let subnets = self.list(&SUBNETS, &[&vpc.to_string()]).await?;
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

    async fn list(&self, kind: &Kind, of: &[&str]) -> Result<Vec<Labelled>, CloudError> {
        self.client.all_pages(&api::all(kind, of)).await
    }
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

/// What each Linode has, by its number.
pub(super) fn addresses(rows: &[VpcRow]) -> HashMap<u64, VpcAddresses> {
    let mut all: HashMap<u64, VpcAddresses> = HashMap::new();
    for row in rows {
        let own = all.entry(row.linode_id.unwrap_or_default()).or_default();
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
    all
}
