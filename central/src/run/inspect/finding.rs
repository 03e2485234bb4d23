//! What is right and what is wrong, each with evidence and remedy.

use std::fmt::Write as _;

use serde::Serialize;

use super::print::{Style, Tone, heading};
use super::rights::MissingRight;
use super::snapshot::Snapshot;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// All is well.
    Ok,
    /// Somebody should know.
    Warning,
    /// Something does not work.
    Error,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    /// What it is about: `node n1`, `service shop/web`.
    pub(super) subject: String,
    /// One word for programs.
    pub(super) check: &'static str,
    pub(super) severity: Severity,
    /// What is so.
    pub(super) message: String,
    /// What shows it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) evidence: Vec<String>,
    /// What to do.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) remedy: String,
    /// The page with more about it.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) see: &'static str,
}

impl Finding {
    pub(super) fn ok(
        subject: impl Into<String>,
        check: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            subject: subject.into(),
            check,
            severity: Severity::Ok,
            message: message.into(),
            evidence: Vec::new(),
            remedy: String::new(),
            see: "",
        }
    }

    pub(super) fn warning(
        subject: impl Into<String>,
        check: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::ok(subject, check, message)
        }
    }

    pub(super) fn error(
        subject: impl Into<String>,
        check: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Error,
            ..Self::ok(subject, check, message)
        }
    }

    #[must_use]
    pub(super) fn evidence(mut self, line: impl Into<String>) -> Self {
        self.evidence.push(line.into());
        self
    }

    #[must_use]
    pub(super) fn remedy(mut self, text: impl Into<String>) -> Self {
        self.remedy = text.into();
        self
    }

    #[must_use]
    pub(super) fn see(mut self, page: &'static str) -> Self {
        self.see = page;
        self
    }
}

/// All that was looked at.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) errors: usize,
    pub(super) warnings: usize,
    pub(super) findings: Vec<Finding>,
    /// What could not be looked at.
    pub(super) missing_rights: Vec<MissingRight>,
}

impl Report {
    pub(super) fn new(findings: Vec<Finding>, snapshot: &Snapshot) -> Self {
        let count = |severity| {
            let all = findings.iter();
            all.filter(|finding| finding.severity == severity).count()
        };
        Self {
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            findings,
            missing_rights: snapshot.missing.clone(),
        }
    }
}

/// For people: the findings by what they are about.
pub(super) fn text(report: &Report, style: Style) -> String {
    let mut text = String::new();
    let mut last = "";
    for finding in &report.findings {
        if finding.subject != last {
            heading(&mut text, style, &finding.subject);
            last = &finding.subject;
        }
        let (sign, tone) = match finding.severity {
            Severity::Ok => ("√", Tone::Good),
            Severity::Warning => ("‼", Tone::Warning),
            Severity::Error => ("×", Tone::Bad),
        };
        let _ = writeln!(text, "{} {}", style.paint(tone, sign), finding.message);
        for line in &finding.evidence {
            let _ = writeln!(text, "    seen: {line}");
        }
        if !finding.remedy.is_empty() {
            let _ = writeln!(text, "    do:   {}", finding.remedy);
        }
        if !finding.see.is_empty() {
            let _ = writeln!(text, "    see:  {}", finding.see);
        }
    }
    missing(&mut text, style, &report.missing_rights);
    let (errors, warnings) = (report.errors, report.warnings);
    let tone = match (errors, warnings) {
        (0, 0) => Tone::Good,
        (0, _) => Tone::Warning,
        _ => Tone::Bad,
    };
    let total = format!("errors: {errors}, warnings: {warnings}");
    let _ = write!(text, "\n{}", style.paint(tone, &total));
    text
}

/// The rights that the user lacks.
pub(super) fn missing(text: &mut String, style: Style, rights: &[MissingRight]) {
    if rights.is_empty() {
        return;
    }
    heading(text, style, "missing rights");
    for right in rights {
        let _ = writeln!(text, "{} {right}", style.paint(Tone::Warning, "‼"));
    }
}
