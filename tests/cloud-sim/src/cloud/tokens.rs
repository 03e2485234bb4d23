//! What clients prove who they are with.

use std::time::Duration;

use super::{CloudSim, Sim};
use crate::{Calls, TOKEN, brightbox, phoenixnap};

const NO_TOKENS: &str = "the token of this cloud is given by hand";

impl CloudSim {
    /// The token is revoked, or valid again.
    pub fn revoke_token(&self, revoked: bool) {
        let token = if revoked { "another" } else { TOKEN };
        match &self.sim {
            Sim::Linode(linode) => linode.set_token(token),
            Sim::Cloudscale(cloudscale) => cloudscale.set_token(token),
            Sim::Phoenixnap(phoenixnap) => {
                phoenixnap.change_secret(revoked);
                phoenixnap.revoke_tokens();
            }
            Sim::Brightbox(brightbox) => {
                brightbox.change_secret(revoked);
                brightbox.revoke_tokens();
            }
        }
    }

    /// All tokens are revoked; others can be got.
    ///
    /// # Panics
    /// If this cloud has none that are got; here and below.
    pub fn revoke_tokens(&self) {
        match &self.sim {
            Sim::Phoenixnap(phoenixnap) => phoenixnap.revoke_tokens(),
            Sim::Brightbox(brightbox) => brightbox.revoke_tokens(),
            Sim::Linode(_) | Sim::Cloudscale(_) => panic!("{NO_TOKENS}"),
        }
    }

    /// Tokens end after so long.
    pub fn tokens_last(&self, token_lifetime: Duration) {
        match &self.sim {
            Sim::Phoenixnap(sim) => sim.adjust(|all| all.token_lifetime = token_lifetime),
            Sim::Brightbox(sim) => sim.adjust(|all| all.token_lifetime = token_lifetime),
            Sim::Linode(_) | Sim::Cloudscale(_) => panic!("{NO_TOKENS}"),
        }
    }

    /// The variable that has the secret of its API client, and the secret.
    pub fn secret(&self) -> (&'static str, String) {
        let variable = match &self.sim {
            Sim::Phoenixnap(_) => "PNAP_CLIENT_SECRET",
            Sim::Brightbox(_) => "BRIGHTBOX_CLIENT_SECRET",
            Sim::Linode(_) | Sim::Cloudscale(_) => panic!("{NO_TOKENS}"),
        };
        let mut all = self.environment().into_iter();
        all.find(|(name, _)| *name == variable)
            .expect("it is among them")
    }

    /// Requests for tokens so far.
    pub fn token_requests(&self) -> Calls {
        let path = match &self.sim {
            Sim::Phoenixnap(_) => phoenixnap::TOKEN_PATH,
            Sim::Brightbox(_) => brightbox::TOKEN_PATH,
            Sim::Linode(_) | Sim::Cloudscale(_) => panic!("{NO_TOKENS}"),
        };
        self.calls().to(path)
    }
}
