//! Whole resources, each described once: its kind beside the shape of what the cloud answers.

use serde::de::DeserializeOwned;

use super::{Client, CloudError, ErrorKind, Kind};

/// What a cloud answers of one resource.
pub trait Resource: DeserializeOwned {
    /// Where such resources are, and what requests about them are called.
    const KIND: &'static Kind;
    /// What people call one.
    const NAME: &'static str;

    /// The cloud's own name for it.
    fn id(&self) -> &str;
}

/// Defines kinds as [`resource_kinds`](crate::resource_kinds) does, each with the type of what is answered, which
/// has a field `id`, and with what people call one.
#[macro_export]
macro_rules! resources {
    ($($(#[$doc:meta])* $visible:vis $name:ident: $type:ty, $called:literal, $one:literal, $all:literal, $path:literal;)*) => {
        $crate::resource_kinds! {
            $($(#[$doc])* $visible $name: $one, $all, $path;)*
        }

        $(impl $crate::cloud_api::Resource for $type {
            const KIND: &'static $crate::cloud_api::Kind = &$name;
            const NAME: &'static str = $called;

            fn id(&self) -> &str {
                &self.id
            }
        })*
    };
}

impl Client {
    /// All of a kind. One without an identifier makes the whole answer worthless.
    ///
    /// # Errors
    /// [`CloudError`] unless the answer is complete.
    pub async fn all<T: Resource>(&self) -> Result<Vec<T>, CloudError> {
        let all: Vec<T> = self.fetch(&T::KIND.list(&[])).await?;
        if all.iter().any(|one| one.id().is_empty()) {
            let list = T::KIND.list;
            let problem = format!("{list}: something listed has no identifier");
            return Err(CloudError::new(
                self.provider(),
                ErrorKind::Malformed,
                problem,
            ));
        }
        Ok(all)
    }

    /// The one of this identifier.
    ///
    /// # Errors
    /// [`CloudError`] unless it is there.
    pub async fn one<T: Resource>(&self, id: &str) -> Result<T, CloudError> {
        self.fetch(&T::KIND.get(&[], id)).await
    }
}
