//! What is found that a person has to know: said once, with what to do.

use std::fmt;

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// No L2Network says the same: the command ends with its own exit code.
    CannotBeSaid,
    /// It is said, on an assumption that a person has to confirm.
    Assumed,
    /// It is said elsewhere than in the L2Networks.
    Elsewhere,
}

/// One field of one object, and what comes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) weight: Weight,
    /// Whose it is: `IPAddressPool web, spec.addresses[1]: "x"`.
    pub(super) field: String,
    /// Why, and what to do instead.
    pub(super) remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = match self.weight {
            Weight::CannotBeSaid => "cannot be said",
            Weight::Assumed => "assumed",
            Weight::Elsewhere => "set elsewhere",
        };
        write!(f, "{weight}: {}: {}", self.field, self.remedy)
    }
}

/// All findings, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, weight: Weight, field: impl Into<String>, remedy: impl Into<String>) {
        let finding = Finding {
            weight,
            field: field.into(),
            remedy: remedy.into(),
        };
        if !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }

    /// No L2Network says this.
    pub(super) fn cannot_say(&mut self, field: impl Into<String>, remedy: impl Into<String>) {
        self.add(Weight::CannotBeSaid, field, remedy);
    }

    /// This is assumed.
    pub(super) fn assume(&mut self, field: impl Into<String>, remedy: impl Into<String>) {
        self.add(Weight::Assumed, field, remedy);
    }

    /// This is said elsewhere.
    pub(super) fn elsewhere(&mut self, field: impl Into<String>, remedy: impl Into<String>) {
        self.add(Weight::Elsewhere, field, remedy);
    }

    /// All, the heaviest first.
    pub(super) fn sorted(&self) -> Vec<&Finding> {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by_key(|finding| finding.weight);
        all
    }

    /// Whether there is something that no L2Network says.
    pub(super) fn is_complete(&self) -> bool {
        let mut weights = self.0.iter().map(|finding| finding.weight);
        !weights.any(|weight| weight == Weight::CannotBeSaid)
    }
}
