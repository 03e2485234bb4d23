//! The API server of a [`World`].

use super::*;

impl World {
    /// The API server is restored from a backup.
    pub(super) fn restore(&mut self, backup: VoterSet) {
        self.api_voters = backup;
        self.approvals.clear();
        self.show();
    }

    pub(super) fn approve(&mut self, by: u64, voters: &VoterSet) {
        self.approvals.insert(NodeId(by), voters.clone());
        self.show();
    }

    /// Whether enough approve a set that one of them wants to write.
    pub(super) fn suffices(&self, by: u64, consent: &Consent, voters: &VoterSet) -> bool {
        let approves = |node: &&NodeId| node.0 == by || self.approvals.get(node) == Some(voters);
        let most = |of: &BTreeSet<NodeId>| {
            of.is_empty() || of.iter().filter(approves).count() * 2 > of.len()
        };
        let all = voters.voters.iter().all(|node| approves(&node));
        match consent {
            Consent::Own => true,
            Consent::Most(served) => most(served) && (most(&self.api_voters.voters) || all),
            Consent::All => all,
        }
    }

    pub(super) fn answer(&mut self, by: u64, request: &Request) -> ApiAnswer {
        if !self.api_up {
            return ApiAnswer::Unreachable;
        }
        match request {
            Request::ReadVoters => ApiAnswer::Voters(self.api_voters.clone()),
            Request::Propose {
                replacing,
                voters,
                consent,
            } if *replacing == self.api_voters.generation => {
                if !self.suffices(by, consent, voters) {
                    self.approve(by, voters);
                    return ApiAnswer::Awaiting(voters.clone());
                }
                let known = self.written.insert(voters.generation, voters.clone());
                assert_eq!(known, None, "{voters:?} is another set of its generation");
                self.api_voters = voters.clone();
                self.approvals.clear();
                self.show();
                ApiAnswer::Written(voters.clone())
            }
            Request::Approve(voters) => {
                self.approve(by, voters);
                ApiAnswer::Approved
            }
            Request::Propose { .. } => ApiAnswer::Conflict(self.api_voters.clone()),
            Request::ReadLeases(nodes) => ApiAnswer::LeasesUnchanged(
                nodes
                    .iter()
                    .copied()
                    .filter(|node| self.leases_unchanged.contains(node))
                    .collect(),
            ),
        }
    }
}
