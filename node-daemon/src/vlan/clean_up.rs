//! Takes away all that Mooring has made on this machine, and nothing else.

use std::path::Path;

use futures::future::{Either, select};
use mooring_common::engine::Plan;
use rtnetlink::new_connection;

use super::apply::{ApplyError, apply};
use super::nft::Firewall;
use super::observe::{ObserveError, Observed, observe};
use super::reconcile_state::is_marked;
use super::step::{Device, Step};

/// Why something is left.
#[derive(Debug, thiserror::Error)]
pub enum CleanUpError {
    /// No netlink socket.
    #[error("cannot open a netlink socket")]
    Open(#[from] std::io::Error),
    /// The machine could not be looked at.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// Some steps failed; the others were taken.
    #[error("not all could be taken away: {}", .0.join("; "))]
    Left(Vec<String>),
}

/// The steps that take away what bears the marks of Mooring: pure.
#[must_use]
pub fn plan(observed: &Observed) -> Plan<Step> {
    let table = match &observed.firewall {
        // One that may not be read may be there: the step fails, and says so.
        Firewall::Table(_) | Firewall::Forbidden => Some(Step::DeleteTable),
        Firewall::Absent | Firewall::Unsupported => None,
    };
    let rules = observed.rules.iter().cloned().map(Step::DeleteRule);
    let routes = observed.routes.iter().cloned().map(Step::DeleteRoute);
    let devices = observed.links.iter().filter_map(|link| {
        let vlan = link.stack.vlan.filter(|_| is_marked(link))?;
        Some(Step::Delete(Device {
            vlan,
            index: link.index,
            name: link.name.clone(),
        }))
    });
    let steps = table.into_iter().chain(rules).chain(routes);
    steps.chain(devices).collect()
}

/// Takes it away, and says what it was.
///
/// # Errors
/// [`CleanUpError`] with everything that is left.
pub async fn clean_up() -> Result<Vec<String>, CleanUpError> {
    let (connection, handle, _messages) = new_connection()?;
    let nowhere = Path::new("/nonexistent");
    let work = async {
        let mut done = Vec::new();
        let mut left = Vec::new();
        for step in plan(&observe(&handle, nowhere).await?).steps() {
            match apply(&handle, nowhere, step).await {
                Ok(()) => done.push(step.to_string()),
                // Gone with the interface, or by another hand.
                Err(ApplyError::Raced) => {}
                Err(error) => left.push(format!("cannot {step}: {error}")),
            }
        }
        if left.is_empty() {
            Ok(done)
        } else {
            Err(CleanUpError::Left(left))
        }
    };
    match select(std::pin::pin!(connection), std::pin::pin!(work)).await {
        Either::Left(((), work)) => work.await,
        Either::Right((done, _)) => done,
    }
}
