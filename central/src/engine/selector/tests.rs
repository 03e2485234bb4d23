use k8s_openapi::api::core::v1::Node;
use mooring_common::k8s::Slim;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn node(labels: &[(&str, &str)]) -> NodeView {
    let labels: std::collections::BTreeMap<_, _> = labels.iter().copied().collect();
    let node = json!({"metadata": {"name": "n", "labels": labels}});
    NodeView::slim(serde_json::from_value::<Node>(node).unwrap())
}

#[test]
fn parses_all_requirement_forms() {
    let node = node(&[
        ("env", "prod"),
        ("cores", "8"),
        ("spare", ""),
        ("a.b/in", "in"),
    ]);
    for (text, matches) in [
        ("", true),
        ("  ", true),
        ("env=prod", true),
        ("env==prod", true),
        ("env == test", false),
        ("env!=test", true),
        ("env!=prod", false),
        ("absent!=x", true),
        ("absent=x", false),
        ("env in (prod, test)", true),
        ("env in(test)", false),
        ("env notin (test)", true),
        ("env notin (prod)", false),
        ("absent notin (x)", true),
        ("absent in (x)", false),
        ("env", true),
        ("absent", false),
        ("!absent", true),
        ("! env", false),
        ("cores>7", true),
        ("cores > 8", false),
        ("cores<9", true),
        ("absent<9", false),
        ("env>1", false),
        ("spare=", true),
        ("spare in (,x)", true),
        ("a.b/in in (in)", true),
        ("env=prod,cores>4,!absent", true),
        ("env=prod,cores>4,absent", false),
        ("env=,cores", false),
    ] {
        let selector: Selector = text.parse().unwrap();
        assert_eq!(selector.matches(&node), matches, "{text:?}");
        assert_eq!(selector.to_string(), text);
    }
}

#[test]
fn rejects_invalid_selector_with_remedy() {
    for text in [
        "invalid===syntax",
        "a=b,",
        ",a=b",
        "a b",
        "a in",
        "a in x",
        "a in ()",
        "a in (x",
        "a in (x y)",
        "a>b",
        "a>",
        "!a=b",
        "!",
        "-a",
        "a=-b",
        "a=ü",
        "ü",
        "(",
    ] {
        let error = text.parse::<Selector>().unwrap_err().to_string();
        assert!(error.contains("unable to parse selector") && error.contains("write it like"));
    }
}

#[test]
fn shortens_long_values_in_errors() {
    let long = "x".repeat(100_000);
    for text in [
        long.clone(),
        format!("a={long}"),
        "[".repeat(100_000),
        format!("a>{long}"),
    ] {
        let error = text.parse::<Selector>().unwrap_err().to_string();
        assert!(error.len() < 500, "{} bytes", error.len());
    }
}

proptest! {
    #[test]
    fn selector_parser_never_panics(text in "[a-c=!<>(), \\t]{0,24}|\\PC{0,40}") {
        if let Ok(selector) = text.parse::<Selector>() {
            selector.matches(&node(&[]));
        }
    }
}
