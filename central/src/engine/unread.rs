//! What of a listing cannot be read: each is told once as long as it holds.

/// What is wrong with what is left out of the last listing.
#[derive(Debug, Default)]
pub struct Unread(Vec<String>);

impl Unread {
    /// A listing was made, of which this was left out.
    pub fn listed(&mut self, now: Vec<String>) {
        for why in now.iter().filter(|why| !self.0.contains(why)) {
            tracing::warn!(
                why,
                "it is left out, and nothing counts as missing meanwhile"
            );
        }
        self.0 = now;
    }

    /// Whether all could be read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is wrong, in words. `None`: nothing.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.join("; "))
    }
}
