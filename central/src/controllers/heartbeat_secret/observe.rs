//! Whether the Secret is there. What is in it is not asked for.

use super::Controller;
use super::failure::Failure;

/// What a pass goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    pub(super) exists: bool,
}

impl Controller {
    pub(super) async fn observe(&self) -> Result<Observed, Failure> {
        let found = self.secrets.get_metadata_opt(&self.name.name).await;
        found
            .map(|found| Observed {
                exists: found.is_some(),
            })
            .map_err(|source| Failure::Look { source })
    }
}
