//! Steps about whole resources, where a Service has others besides the parts of a load balancer. Each is one request,
//! and says in one place what the cloud is asked for, what people are told, and what there is then.

use std::fmt;

use mooring_common::engine::{self, Impact};
use reqwest::Method;
use serde::Serialize;
use serde_json::{Value, json};

use super::change::merge;
use super::step::{self, Effect, PoolRef};
use crate::cloud_api::{Client, CloudError, ErrorKind, Kind, Request, Resource, with};

/// What is done about a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is made.
    Create,
    /// Fields of it are set.
    Change(PoolRef),
    /// Something is done to it by a request of its own, at this path below it. Metrics call that so.
    Act(PoolRef, [&'static str; 2]),
    /// It is deleted.
    Delete(PoolRef),
}

/// One request about a resource.
#[derive(Clone, Debug)]
pub struct ResourceStep {
    /// Its kind.
    pub kind: &'static Kind,
    /// What is done.
    pub operation: Operation,
    words: String,
    /// What the cloud is told; null: nothing.
    body: Value,
    /// The field of that which names another resource.
    names: Option<(&'static str, PoolRef)>,
    /// Whether the resource has then what the cloud is told.
    is_as_told: bool,
    /// What it has then besides.
    then: Value,
    impact: Impact,
    effect: Effect,
    /// The cloud may do it later; what the resource leads to then.
    later: Option<PoolRef>,
    /// All is well if the cloud refuses it: what is so then.
    if_refused: Option<&'static str>,
}

impl ResourceStep {
    fn new<T: Resource>(operation: Operation, words: String, body: Value) -> Self {
        let (is_as_told, effect) = match operation {
            Operation::Create => (true, Effect::Create),
            Operation::Change(_) => (true, Effect::Change),
            Operation::Act(..) => (false, Effect::Change),
            Operation::Delete(_) => (false, Effect::Delete),
        };
        Self {
            kind: T::KIND,
            operation,
            words,
            body,
            names: None,
            is_as_told,
            then: json!({}),
            impact: Impact::None,
            effect,
            later: None,
            if_refused: None,
        }
    }

    /// Makes one like this.
    #[must_use]
    pub fn create<T: Resource>(words: String, body: Value) -> Self {
        Self::new::<T>(Operation::Create, words, body)
    }

    /// Makes one of this name.
    #[must_use]
    pub fn create_named<T: Resource>(name: &str, body: Value) -> Self {
        let words = format!("create {} {name}", T::NAME);
        Self::create::<T>(words, with(body, json!({"name": name})))
    }

    /// Gives the one of this identifier these fields.
    #[must_use]
    pub fn change<T: Resource>(id: &str, words: String, body: Value) -> Self {
        let of = PoolRef::Known(id.to_owned());
        Self::new::<T>(Operation::Change(of), words, body)
    }

    /// Does something to one; `verb`: the path below it, and what metrics call that.
    #[must_use]
    pub fn act<T: Resource>(of: &PoolRef, verb: [&'static str; 2], words: String) -> Self {
        Self::new::<T>(Operation::Act(of.clone(), verb), words, Value::Null)
    }

    /// Deletes one.
    pub fn delete<T: Resource>(gone: &T, words: String) -> Self {
        let of = PoolRef::Known(gone.id().to_owned());
        Self::new::<T>(Operation::Delete(of), words, Value::Null)
    }

    /// Deletes one of this name.
    pub fn delete_named<T: Resource>(gone: &T, name: &str) -> Self {
        let words = format!("delete {} {name} ({})", T::NAME, gone.id());
        Self::delete(gone, words)
    }

    /// The cloud is told this.
    #[must_use]
    pub fn telling(self, body: Value) -> Self {
        Self { body, ..self }
    }

    /// The cloud is told in this field of another resource.
    #[must_use]
    pub fn naming(self, field: &'static str, other: &PoolRef) -> Self {
        Self {
            names: Some((field, other.clone())),
            ..self
        }
    }

    /// The resource has then what the cloud is told: so it is anyhow with those that are made or changed.
    #[must_use]
    pub fn as_told(self) -> Self {
        Self {
            is_as_told: true,
            ..self
        }
    }

    /// The resource has this then.
    #[must_use]
    pub fn then(self, then: Value) -> Self {
        Self { then, ..self }
    }

    /// What users notice of it.
    #[must_use]
    pub fn with_impact(self, impact: Impact) -> Self {
        Self { impact, ..self }
    }

    /// What it does, as far as the engine has to know.
    #[must_use]
    pub fn with_effect(self, effect: Effect) -> Self {
        Self { effect, ..self }
    }

    /// The cloud may do it later; what the resource leads to then.
    #[must_use]
    pub fn later(self, target: PoolRef) -> Self {
        Self {
            later: Some(target),
            ..self
        }
    }

    /// All is well if the cloud refuses it: what is so then.
    #[must_use]
    pub fn or_else(self, if_refused: &'static str) -> Self {
        Self {
            if_refused: Some(if_refused),
            ..self
        }
    }

    /// What the cloud is told; null: nothing. `planned`: what was made in this plan. None: it needs something that was
    /// not made.
    #[must_use]
    pub fn told(&self, planned: &[String]) -> Option<Value> {
        let Some((field, other)) = &self.names else {
            return Some(self.body.clone());
        };
        let named = json!({ *field: other.id(planned)? });
        Some(match &self.body {
            Value::Null => named,
            body => with(body, named),
        })
    }

    /// The request; `planned`, and None, as above.
    #[must_use]
    pub fn request(&self, planned: &[String]) -> Option<Request> {
        let (kind, told) = (self.kind, self.told(planned)?);
        Some(match &self.operation {
            Operation::Create => kind.create(&[], told),
            Operation::Change(of) => kind.change(&[], of.id(planned)?, told),
            Operation::Act(of, [verb, called]) => {
                let request = kind.act((&[], of.id(planned)?), (Method::POST, verb), called);
                match told {
                    Value::Null => request,
                    told => request.json(told),
                }
            }
            Operation::Delete(of) => kind.delete(&[], of.id(planned)?),
        })
    }

    /// Takes it. Gives the ID of what it has made, or nothing.
    ///
    /// # Errors
    /// [`CloudError`] if it may not have been done.
    pub async fn send(&self, client: &Client, planned: &[String]) -> Result<String, CloudError> {
        let request = self.request(planned).ok_or_else(|| {
            let what = format!("{self}: something that it needs was not made");
            CloudError::new(client.provider(), ErrorKind::Malformed, what)
        })?;
        match (self.effect.send(client, &request).await, self.if_refused) {
            (Err(error), Some(then))
                if matches!(error.kind, ErrorKind::Invalid | ErrorKind::Busy) =>
            {
                tracing::info!(step = %self, %error, "{then}");
                Ok(String::new())
            }
            (answer, _) => answer,
        }
    }

    /// What is told of a new one of this type, if it makes one.
    #[must_use]
    pub fn creates<T: Resource>(&self) -> Option<&Value> {
        let is_made = self.operation == Operation::Create && self.is_about::<T>();
        is_made.then_some(&self.body)
    }

    fn is_about<T: Resource>(&self) -> bool {
        self.kind.path == T::KIND.path
    }

    /// If the cloud may do it later: what it is about, and what that leads to then. `planned` as above.
    #[must_use]
    pub fn awaited(&self, planned: &[String]) -> Option<(String, Option<String>)> {
        let (Operation::Change(of) | Operation::Act(of, _) | Operation::Delete(of)) =
            &self.operation
        else {
            return None;
        };
        let target = self.later.as_ref()?.id(planned);
        Some((of.id(planned)?.to_owned(), target.map(ToOwned::to_owned)))
    }

    /// Takes up what it has changed about these. `made`: the ID of what it has made; `planned`: what was made
    /// before. Says whether it has made one of these.
    pub fn take<T: Resource + Serialize>(
        &self,
        all: &mut Vec<T>,
        made: &str,
        planned: &[String],
    ) -> bool {
        if !self.is_about::<T>() {
            return false;
        }
        let told = self.told(planned).filter(|_| self.is_as_told);
        let then = told.map_or_else(|| self.then.clone(), |told| with(told, &self.then));
        match &self.operation {
            Operation::Create => {
                let made = with(then, json!({"id": made}));
                all.extend(serde_json::from_value::<T>(made));
            }
            Operation::Change(of) | Operation::Act(of, _) => {
                if let Some(one) = of.among(all, planned) {
                    merge(one, &then);
                }
            }
            Operation::Delete(of) => {
                let gone = of.id(planned).unwrap_or_default();
                all.retain(|one| one.id() != gone);
            }
        }
        self.operation == Operation::Create
    }
}

impl engine::Step for ResourceStep {
    fn impact(&self) -> Impact {
        self.impact
    }
}

impl step::Step for ResourceStep {
    fn effect(&self, _planned: &[String]) -> Effect {
        self.effect.clone()
    }
}

impl fmt::Display for ResourceStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::resources;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Disk {
        id: String,
        name: String,
        #[serde(default)]
        server: Option<String>,
    }

    resources! {
        /// Disks.
        DISKS: Disk, "disk", "disk", "disks", "disks";
    }

    /// The disks after this step.
    fn after(step: &ResourceStep, planned: &[String]) -> Vec<(String, Option<String>)> {
        let disk = |id: &str| Disk {
            id: id.to_owned(),
            name: "old".to_owned(),
            server: None,
        };
        let mut all = vec![disk("a"), disk("b")];
        step.take(&mut all, "c", planned);
        let seen = all.into_iter().map(|disk| (disk.id, disk.server));
        seen.collect()
    }

    #[test]
    fn step_says_what_is_asked_for_and_what_there_is_then() {
        let (planned, nobody) = (["srv".to_owned()], None);
        let (server, disk) = (PoolRef::Planned(0), PoolRef::Known("b".to_owned()));
        let seen = |id: &str, server: Option<&str>| (id.to_owned(), server.map(ToOwned::to_owned));
        let make = ResourceStep::create_named::<Disk>("new", json!({})).naming("server", &server);
        assert_eq!(make.to_string(), "create disk new");
        assert!(make.request(&[]).is_none(), "the server is yet to be made");
        let told = json!({"name": "new", "server": "srv"});
        assert_eq!(make.told(&planned), Some(told));
        let made = [seen("a", None), seen("b", None), seen("c", Some("srv"))];
        assert_eq!(after(&make, &planned), made);

        let verb = ["attach", "attach_disk"];
        let attach = ResourceStep::act::<Disk>(&disk, verb, "attach it".to_owned());
        let later = attach.clone().naming("server", &server).later(server);
        assert_eq!(
            later.awaited(&planned),
            Some(("b".to_owned(), Some("srv".to_owned())))
        );
        assert_eq!(after(&later, &planned), [seen("a", None), seen("b", None)]);
        let at_once = attach.then(json!({"server": "srv"}));
        assert_eq!(at_once.awaited(&planned), nobody);
        let attached = [seen("a", None), seen("b", Some("srv"))];
        assert_eq!(after(&at_once, &planned), attached);

        let gone = Disk {
            id: "a".to_owned(),
            name: "old".to_owned(),
            server: None,
        };
        let delete = ResourceStep::delete_named(&gone, &gone.name);
        assert_eq!(delete.to_string(), "delete disk old (a)");
        assert_eq!(after(&delete, &planned), [seen("b", None)]);
    }
}
