//! The machines of a cloud that lists its servers in one request and tells them apart by an identifier.

use async_trait::async_trait;
use mooring_common::provider_id::ProviderId;

use super::{Machine, MachineSource};
use crate::cloud_api::{Client, CloudError, ErrorKind, Resource};

/// What such a cloud says of its servers. It is a [`MachineSource`] by that.
pub(crate) trait Servers: AsRef<Client> + Send + Sync {
    /// A server as the API answers it.
    type Server: Resource + Send;

    /// The provider's name, which is the scheme of its IDs too.
    const NAME: &'static str;
    /// How an identifier is written, for errors.
    const EXAMPLE: &'static str;

    /// An identifier in the one form in which it is compared, and stands on Nodes. `None`: no server can have it.
    fn canonical_id(text: &str) -> Option<String>;

    /// Whether a server is a machine: some clouds show those for a while that were deleted.
    fn is_there(_server: &Self::Server) -> bool {
        true
    }

    /// The machine behind a server, which has this ID.
    fn machine(id: ProviderId, server: &Self::Server) -> Machine;
}

fn id<C: Servers>(text: &str) -> Option<ProviderId> {
    ProviderId::new(C::NAME, &C::canonical_id(text)?).ok()
}

/// [`MachineSource::parse_id`]: the scheme and an identifier, with or without space around them.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn parse_id<C: Servers>(provider_id: &str) -> Result<ProviderId, String> {
    let own = provider_id.split_once("://");
    let own = own.filter(|(scheme, _)| scheme.trim() == C::NAME);
    own.and_then(|(_, text)| id::<C>(text.trim()))
        .ok_or_else(|| {
            let (name, example) = (C::NAME, C::EXAMPLE);
            format!("{provider_id:?} names no server; write it like {name}://{example}")
        })
}

/// The machines behind these servers.
///
/// # Errors
/// What is wrong with an identifier, or that two machines have the same: nobody can tell which one it is.
pub(crate) fn machines<C: Servers>(servers: &[C::Server]) -> Result<Vec<Machine>, String> {
    let mut machines: Vec<Machine> = Vec::new();
    for server in servers.iter().filter(|server| C::is_there(server)) {
        let text = server.id();
        let id = id::<C>(text).ok_or_else(|| format!("{text:?} is the identifier of no server"))?;
        if machines.iter().any(|other| other.id == id) {
            return Err(format!("two servers have the identifier {text}"));
        }
        machines.push(C::machine(id, server));
    }
    Ok(machines)
}

fn readable<C: Servers>(servers: &[C::Server]) -> Result<Vec<Machine>, CloudError> {
    let malformed = |problem| CloudError::new(C::NAME, ErrorKind::Malformed, problem);
    machines::<C>(servers).map_err(malformed)
}

#[async_trait]
impl<C: Servers> MachineSource for C {
    fn provider(&self) -> &'static str {
        C::NAME
    }

    fn parse_id(&self, provider_id: &str) -> Result<ProviderId, String> {
        parse_id::<C>(provider_id)
    }

    fn credentials(&self) -> u64 {
        self.as_ref().credentials()
    }

    async fn list(&self) -> Result<Vec<Machine>, CloudError> {
        let request = C::Server::KIND.list(&[]);
        let servers: Vec<C::Server> = self.as_ref().fetch(&request).await?;
        readable::<C>(&servers)
    }

    async fn get(&self, id: &ProviderId) -> Result<Option<Machine>, CloudError> {
        let client = self.as_ref();
        let request = C::Server::KIND.get(&[], id.instance());
        let found = client.find::<C::Server>(&request).await?;
        let is_it = |server: &C::Server| self::id::<C>(server.id()).as_ref() == Some(id);
        if !found.iter().all(is_it) {
            return Err(client.malformed(&request, "another server was given"));
        }
        let machines = readable::<C>(found.as_slice());
        machines.map(|mut all| all.pop())
    }
}
