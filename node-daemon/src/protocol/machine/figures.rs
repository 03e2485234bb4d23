//! What is counted of a segment, as this node sees it.

use super::Machine;
use crate::protocol::view::Candidates;

/// A segment in figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Whether this node hears a majority of the voters, and they hear it.
    pub quorum: bool,
    /// How many voters there are.
    pub voters: usize,
    /// How many addresses somebody is to speak for.
    pub wanted: usize,
    /// Those of them for which nobody is known to speak.
    pub without_speaker: usize,
}

impl Machine {
    /// The segment in figures. An address that no node may have counts for nothing.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let keys = self.view.iter().flat_map(|view| &view.keys);
        let wanted = keys.filter(|(_, wanted)| match &wanted.candidates {
            Candidates::All => true,
            Candidates::Only(nodes) => !nodes.is_empty(),
        });
        let mut figures = Figures {
            quorum: self.hears_quorum(),
            voters: self.voter_sets.current.voters.len(),
            ..Figures::default()
        };
        for (key, _) in wanted {
            figures.wanted += 1;
            let own = self.held_keys.keys.get(key);
            let is_spoken_for =
                self.owners.contains_key(key) || own.is_some_and(|holding| holding.speaking);
            figures.without_speaker += usize::from(!is_spoken_for);
        }
        figures
    }
}
