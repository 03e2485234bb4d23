//! Plans for people and for machines.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Planned;
use crate::cloud_api::with;
use crate::cloud_provider::load_balancers::{PlanSummary, PlannedStep};

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
            format!("{key}: nothing to do\n{}", notes(shown))
        }
        Ok(shown) => {
            let (count, impact) = (shown.steps.len(), shown.impact());
            let plural = if count == 1 { "" } else { "s" };
            format!(
                "{key}: {count} step{plural}, impact {impact}\n{}{}",
                steps(&shown.steps),
                notes(shown)
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

fn notes(shown: &PlanSummary) -> String {
    let notes = shown.notices.iter();
    let notes = notes.map(|notice| format!("  note: {}\n", notice.note));
    let refused = shown.refused.iter();
    let refused = refused.map(|why| format!("  refused: {why}\n"));
    notes.chain(refused).collect()
}

/// A list with an object for each Service: `service`, `impact`, `steps`, `notices`, and `refused` if not all can be
/// had; or `refused` alone.
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
        Ok(shown) => {
            let impact = shown.impact().to_string();
            with(json!({ "service": service, "impact": impact }), shown)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud_provider::load_balancers::Notice;
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
            refused: None,
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
    fn prints_what_is_refused_beside_steps_of_the_rest() {
        let shown = PlanSummary {
            refused: Some("not that".to_owned()),
            ..two_steps()
        };
        let plans = [planned(Ok(shown))];
        let text = table(&plans);
        assert!(
            text.ends_with("note: mind the gap\n  refused: not that\n"),
            "{text}"
        );
        let read: Value = serde_json::from_str(&json(&plans).unwrap()).unwrap();
        assert_eq!(read[0]["refused"], "not that");
        assert_eq!(read[0]["impact"], "brief");
        assert!(plans[0].is_refused());
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
