//! Which Services somebody has touched since all was as they wanted it.
//!
//! Whoever touches a Service may have a reason to: what is remembered of the cloud is not good enough
//! for it then, and a listing that is begun afterwards is to say the same. Those that are touched
//! together share one.

use std::collections::HashMap;

use tokio::time::Instant;

use crate::views::service_view::ServiceView;

/// The Services as they were last looked at, by UID.
#[derive(Debug, Default)]
pub struct TouchedServices(HashMap<String, Seen>);

#[derive(Debug)]
struct Seen {
    /// `metadata.resourceVersion`.
    version: String,
    /// Whether it said all that it was to say.
    is_written: bool,
    /// When it was seen that somebody had touched it, and no listing has been begun since.
    touched: Option<Instant>,
}

impl TouchedServices {
    /// It is looked at. `is_written`: whether it says all that it is to say, as far as is known.
    pub fn looks_at(&mut self, service: &ServiceView, is_written: bool) {
        let before = self.0.get(&service.uid);
        let is_touched = before
            .is_some_and(|before| before.is_written && before.version != service.resource_version);
        let touched = match is_touched {
            true => Some(Instant::now()),
            false => before.and_then(|before| before.touched),
        };
        let seen = Seen {
            version: service.resource_version.clone(),
            is_written,
            touched,
        };
        self.0.insert(service.uid.clone(), seen);
    }

    /// This process has written it, which has made it this version.
    pub fn wrote(&mut self, uid: &str, version: String) {
        if let Some(seen) = self.0.get_mut(uid) {
            (seen.version, seen.is_written) = (version, true);
        }
    }

    /// Whether somebody has touched it since the last listing.
    pub fn is_touched(&self, uid: &str) -> bool {
        let seen = self.0.get(uid);
        seen.is_some_and(|seen| seen.touched.is_some())
    }

    /// A complete listing, begun then.
    pub fn listed(&mut self, begun: Instant) {
        for seen in self.0.values_mut() {
            seen.touched = seen.touched.filter(|touched| *touched > begun);
        }
    }

    /// It is no more.
    pub fn forget(&mut self, uid: &str) {
        self.0.remove(uid);
    }
}
