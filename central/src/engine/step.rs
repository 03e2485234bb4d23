//! What can be done to a load balancer: each step is one request.

use std::fmt::{self, Display};

use mooring_common::engine::{self, Impact};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::change::Change;
use crate::cloud_api::{Client, CloudError, ErrorKind, Kind, Request, Resource, id_text};

/// What a step does, as far as the engine has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Creates the load balancer.
    CreateBalancer,
    /// Deletes one, by ID and name.
    DeleteBalancer(String, String),
    /// Lets the load balancer of this ID go, and leaves it.
    Release(String),
    /// Puts a member of this name into a pool, by its ID if that is known.
    CreateMember(Option<String>, String),
    /// Stops the member of this ID from getting new connections.
    DisableMember(String),
    /// Takes the member of this ID out of its pool.
    DeleteMember(String),
    /// Creates another part.
    Create,
    /// Creates another part of which the cloud makes more than the step says: it is observed anew.
    CreateUnseen,
    /// Changes something.
    Change,
    /// Changes something about parts whose IDs the answer does not tell: they are observed anew.
    ChangeUnseen,
    /// Deletes a pool, which must be empty in some clouds.
    DeletePool,
    /// Deletes another part.
    Delete,
    /// Lets an exclusive resource lead to the load balancer.
    Assign(String),
}

impl Effect {
    /// Sends the request of what has this effect. Gives the ID of what it has made, or nothing.
    ///
    /// # Errors
    /// [`CloudError`] if it may not have been done.
    pub async fn send(&self, client: &Client, request: &Request) -> Result<String, CloudError> {
        match self {
            Self::CreateBalancer | Self::CreateMember(..) | Self::Create | Self::CreateUnseen => {
                client.make(request).await
            }
            _ => client.call(request).await.map(|()| String::new()),
        }
    }
}

/// What can be done to a load balancer of a cloud.
pub trait Step: engine::Step + Clone + Display + Send + Sync + 'static {
    /// What it does. `planned`: the IDs of the pools that the plan has made so far.
    fn effect(&self, planned: &[String]) -> Effect;

    /// Whether it puts back what the step before it has taken away.
    fn puts_back(&self, _before: &Self) -> bool {
        false
    }
}

/// A part of a load balancer, as the cloud has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Part<T> {
    /// The cloud's own name for it.
    #[serde(deserialize_with = "id_text")]
    pub id: String,
    /// What it is.
    #[serde(flatten)]
    pub spec: T,
}

impl<T> Part<T> {
    /// How steps refer to it, where it is a pool.
    #[must_use]
    pub fn reference(&self) -> PoolRef {
        PoolRef::Known(self.id.clone())
    }
}

/// The pool that a part belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolRef {
    /// One that is there, by its ID.
    Known(String),
    /// The n-th that this plan makes, counted from 0.
    Planned(usize),
    /// None: it is a pool itself that is yet to be made, or belongs to none of the load balancer's own.
    None,
}

impl PoolRef {
    /// Its ID, where `planned` are those of the pools that the plan has made so far.
    #[must_use]
    pub fn id<'a>(&'a self, planned: &'a [String]) -> Option<&'a str> {
        match self {
            Self::Known(id) => Some(id),
            Self::Planned(index) => planned.get(*index).map(String::as_str),
            Self::None => None,
        }
    }

    /// It itself among these, `planned` as above.
    pub fn among<'a, T: Resource>(
        &self,
        all: &'a mut [T],
        planned: &[String],
    ) -> Option<&'a mut T> {
        let id = self.id(planned)?;
        all.iter_mut().find(|one| one.id() == id)
    }

    /// Its ID, for a request to the cloud of this provider.
    ///
    /// # Errors
    /// [`CloudError`] if it is none that is there or was made.
    pub fn made<'a>(
        &'a self,
        planned: &'a [String],
        provider: &'static str,
    ) -> Result<&'a str, CloudError> {
        self.id(planned).ok_or_else(|| {
            let what = format!("{self} was not made");
            CloudError::new(provider, ErrorKind::Malformed, what)
        })
    }
}

impl Display for PoolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(id) => write!(f, "pool {id}"),
            Self::Planned(index) => write!(f, "new pool {}", index + 1),
            Self::None => f.write_str("no pool"),
        }
    }
}

/// What is done about one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartStep<T> {
    /// The pool that it belongs to, or that it is.
    pub pool: PoolRef,
    /// What is done.
    pub action: Action<T>,
}

/// See [`PartStep`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<T> {
    /// It is made.
    Create(T),
    /// One thing about it is changed.
    Change(Part<T>, Change),
    /// It is taken away. The impact is what users notice until the next step is done.
    Delete(Part<T>, Impact),
}

impl<T: Clone + Serialize + DeserializeOwned> PartStep<T> {
    /// Makes one of this pool's.
    pub fn create(pool: &PoolRef, spec: &T) -> Self {
        Self {
            pool: pool.clone(),
            action: Action::Create(spec.clone()),
        }
    }

    /// Changes one thing.
    pub fn change(pool: &PoolRef, part: &Part<T>, change: Change) -> Self {
        Self {
            pool: pool.clone(),
            action: Action::Change(part.clone(), change),
        }
    }

    /// Takes one away.
    pub fn delete(pool: &PoolRef, part: &Part<T>, impact: Impact) -> Self {
        Self {
            pool: pool.clone(),
            action: Action::Delete(part.clone(), impact),
        }
    }

    /// The request. `of`: what such parts belong to; `body`: what the cloud is told of a new one.
    pub fn request(&self, kind: &Kind, of: &[&str], body: impl FnOnce(&T) -> Value) -> Request {
        match &self.action {
            Action::Create(spec) => kind.create(of, body(spec)),
            Action::Change(part, change) => kind.change(of, &part.id, change.body()),
            Action::Delete(part, _) => kind.delete(of, &part.id),
        }
    }

    /// What users notice of it.
    pub const fn impact(&self) -> Impact {
        match &self.action {
            Action::Delete(_, impact) => *impact,
            Action::Create(_) | Action::Change(..) => Impact::None,
        }
    }

    /// What it does, of a part that is neither a pool nor a member.
    pub const fn effect(&self) -> Effect {
        match &self.action {
            Action::Create(_) => Effect::Create,
            Action::Change(..) => Effect::Change,
            Action::Delete(..) => Effect::Delete,
        }
    }

    /// Whether it makes something just where the step before it has taken something away.
    pub const fn puts_back(&self, before: &Self) -> bool {
        matches!(
            (&before.action, &self.action),
            (Action::Delete(..), Action::Create(_))
        )
    }

    /// Takes up what it has changed about these. `made`: the ID of what it has made.
    pub fn take(&self, parts: &mut Vec<Part<T>>, made: &str) {
        match &self.action {
            Action::Create(spec) => parts.push(Part {
                id: made.to_owned(),
                spec: spec.clone(),
            }),
            Action::Change(changed, change) => {
                for part in parts.iter_mut().filter(|part| part.id == changed.id) {
                    change.take(&mut part.spec);
                }
            }
            Action::Delete(gone, _) => parts.retain(|part| part.id != gone.id),
        }
    }
}
