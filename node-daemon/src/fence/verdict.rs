//! What the answers to all probes come to. Pure.

/// The API server's answer to one probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The policy that the probe is about has refused it.
    Refused,
    /// It was allowed: what was tried, as in "labelling a Node".
    Allowed(String),
    /// Neither, and why.
    Unknown(String),
}

/// What is to be thought of the fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything was refused.
    Enforced,
    /// These acts were allowed.
    Missing(Vec<String>),
    /// Nothing was allowed, but not everything was refused, for these reasons.
    Unknown(Vec<String>),
}

impl Verdict {
    /// Whether nothing could be found out, and this is one of the reasons.
    #[must_use]
    pub fn is_for(&self, fault: &str) -> bool {
        matches!(self, Self::Unknown(faults) if faults.iter().any(|f| f == fault))
    }
}

/// One act that is allowed is enough to know that there is no fence; that there is one takes a
/// refusal of every act.
#[must_use]
pub fn judge(answers: &[Answer]) -> Verdict {
    let mut allowed = Vec::new();
    let mut unknown = Vec::new();
    for answer in answers {
        match answer {
            Answer::Refused => {}
            Answer::Allowed(act) => allowed.push(act.clone()),
            Answer::Unknown(fault) => unknown.push(fault.clone()),
        }
    }
    if !allowed.is_empty() {
        Verdict::Missing(allowed)
    } else if !unknown.is_empty() || answers.is_empty() {
        Verdict::Unknown(unknown)
    } else {
        Verdict::Enforced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enforced_only_if_all_probes_are_refused() {
        let allowed = || Answer::Allowed("a".into());
        let unknown = || Answer::Unknown("u".into());
        let table = [
            (vec![Answer::Refused, Answer::Refused], Verdict::Enforced),
            (
                vec![Answer::Refused, allowed()],
                Verdict::Missing(vec!["a".into()]),
            ),
            (
                vec![unknown(), allowed(), allowed()],
                Verdict::Missing(vec!["a".into(), "a".into()]),
            ),
            (
                vec![unknown(), Answer::Refused],
                Verdict::Unknown(vec!["u".into()]),
            ),
            (Vec::new(), Verdict::Unknown(Vec::new())),
        ];
        for (answers, verdict) in table {
            assert_eq!(judge(&answers), verdict, "{answers:?}");
        }
    }
}
