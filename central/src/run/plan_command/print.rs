//! Plans for people and for machines.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Planned;
use crate::cloud_provider::load_balancers::{Notice, PlanSummary, PlannedStep};

/// One block per Service:
///
/// ```text
/// shop/web: 2 steps, impact brief
///   STEP                                  IMPACT
///   take listener tcp/80 away             brief
///   put up listener tcp/80 before …       none
///   note: …
/// ```
pub(in crate::run) fn table(all: &[Planned]) -> String {
    let blocks: Vec<String> = all.iter().map(block).collect();
    blocks.join("\n")
}

fn block(planned: &Planned) -> String {
    let key = &planned.service.key;
    match &planned.plan {
        Err(why) => format!("{key}: refused\n  {why}\n"),
        Ok(shown) if shown.steps.is_empty() => {
            format!("{key}: nothing to do\n{}", notes(&shown.notices))
        }
        Ok(shown) => {
            let (count, impact) = (shown.steps.len(), shown.impact());
            let plural = if count == 1 { "" } else { "s" };
            format!(
                "{key}: {count} step{plural}, impact {impact}\n{}{}",
                steps(&shown.steps),
                notes(&shown.notices)
            )
        }
    }
}

fn steps(steps: &[PlannedStep]) -> String {
    let longest = steps.iter().map(|step| step.step.chars().count()).max();
    let width = longest.unwrap_or_default().max("STEP".len());
    let mut text = format!("  {:width$}  IMPACT\n", "STEP");
    for step in steps {
        let _ = writeln!(text, "  {:width$}  {}", step.step, step.impact);
    }
    text
}

fn notes(notices: &[Notice]) -> String {
    let lines = notices
        .iter()
        .map(|notice| format!("  note: {}\n", notice.note));
    lines.collect()
}

/// A list with an object for each Service: `service`, `impact`, `steps`, `notices`, or `refused`.
///
/// # Errors
/// If it cannot be written as JSON.
pub(super) fn json(all: &[Planned]) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&values(all))
}

/// The same, for whatever form.
pub(in crate::run) fn values(all: &[Planned]) -> Vec<Value> {
    all.iter().map(object).collect()
}

fn object(planned: &Planned) -> Value {
    let service = planned.service.key.to_string();
    match &planned.plan {
        Err(why) => json!({ "service": service, "refused": why }),
        Ok(PlanSummary { steps, notices }) => json!({
            "service": service,
            "impact": planned.plan.as_ref().map(PlanSummary::impact).unwrap_or_default().to_string(),
            "steps": steps,
            "notices": notices,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::service_view::tests::service;
    use mooring_common::engine::Impact;
    use std::sync::Arc;

    fn planned(plan: Result<PlanSummary, String>) -> Planned {
        Planned {
            service: Arc::new(service()),
            plan,
        }
    }

    fn two_steps() -> PlanSummary {
        let step = |step: &str, impact| PlannedStep {
            step: step.to_owned(),
            impact,
        };
        PlanSummary {
            steps: vec![
                step("take a away", Impact::Brief),
                step("make b", Impact::None),
            ],
            notices: vec![Notice {
                reason: "Reason",
                note: "mind the gap".to_owned(),
                by_provider: false,
            }],
        }
    }

    #[test]
    fn prints_readable_table() {
        let text = table(&[planned(Ok(two_steps())), planned(Err("no".to_owned()))]);
        assert_eq!(
            text,
            "default/web: 2 steps, impact brief\n  STEP         IMPACT\n  take a away  brief\n  \
             make b       none\n  note: mind the gap\n\ndefault/web: refused\n  no\n"
        );
        let idle = table(&[planned(Ok(PlanSummary::default()))]);
        assert_eq!(idle, "default/web: nothing to do\n");
    }

    #[test]
    fn json_has_same_content() {
        let text = json(&[planned(Ok(two_steps())), planned(Err("no".to_owned()))]).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read[0]["impact"], "brief");
        assert_eq!(
            read[0]["steps"][1],
            json!({"step": "make b", "impact": "none"})
        );
        assert_eq!(read[1]["refused"], "no");
    }
}
