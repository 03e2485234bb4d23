//! The numbers of subnets that are known by label.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::super::NAME;
use super::super::api::{self, Subnet as ListedSubnet, Vpc as ListedVpc};
use super::model::{Subnet, Vpc};
use crate::cloud_api::{Client, CloudError, ErrorKind};

/// For how long a number is remembered: a VPC may be deleted and made again under its label.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);

/// Numbers by the labels of VPC and subnet.
#[derive(Debug, Default)]
pub(super) struct SubnetNumbers {
    known: Mutex<HashMap<Subnet, (u64, Instant)>>,
}

impl SubnetNumbers {
    /// The number of a subnet.
    ///
    /// # Errors
    /// [`CloudError`] if it cannot be looked up, or is not there.
    pub(super) async fn get(&self, client: &Client, subnet: &Subnet) -> Result<u64, CloudError> {
        let (vpc, label) = match subnet {
            Subnet::Id(id) => return Ok(*id),
            Subnet::Named { vpc, subnet } => (vpc, subnet),
        };
        let mut known = self.known.lock().await;
        known.retain(|_, (_, at)| at.elapsed() < REMEMBERED);
        if let Some((number, _)) = known.get(subnet) {
            return Ok(*number);
        }
        let vpc = match vpc {
            Vpc::Id(id) => *id,
            Vpc::Label(label) => {
                let vpcs: Vec<ListedVpc> = client.all_pages(&api::vpcs()).await?;
                let found = vpcs.iter().find(|one| one.label.as_ref() == Some(label));
                found.ok_or_else(|| missing(&format!("VPC {label}")))?.id
            }
        };
        let subnets: Vec<ListedSubnet> = client.all_pages(&api::subnets(vpc)).await?;
        let found = subnets.iter().find(|one| one.label.as_ref() == Some(label));
        let found = found.ok_or_else(|| missing(&format!("subnet {label} in VPC {vpc}")))?;
        known.insert(subnet.clone(), (found.id, Instant::now()));
        Ok(found.id)
    }
}

fn missing(what: &str) -> CloudError {
    let text = format!(
        "there is no {what}; create it, or correct the annotations of the Service or --vpc-names and \
         --subnet-names"
    );
    CloudError::new(NAME, ErrorKind::Invalid, text)
}
