//! What people monitor by: alerts, their pages, their tests, and dashboards. All of it names metrics that there are.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use mooring_central::cloud_api::ErrorKind;
use serde_json::Value;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// All alerts: name, query, and where its page is.
fn alerts() -> Vec<(String, String, String)> {
    let rules: Value = serde_norway::from_str(&read("deploy/monitoring/alerts.yaml")).unwrap();
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all = rules.iter().map(|rule| {
        let page = &rule["annotations"]["runbook_url"];
        (text(&rule["alert"]), text(&rule["expr"]), text(page))
    });
    all.collect()
}

/// All queries of all dashboards, each with its panel.
fn queries() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for file in std::fs::read_dir(path("deploy/monitoring/dashboards")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let dashboard: Value = serde_json::from_str(&text).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let title = format!("{}: {}", dashboard["title"], panel["title"]);
                found.push((title, target["expr"].as_str().unwrap().to_owned()));
            }
        }
    }
    found
}

/// The names in a text that look like those of metrics.
fn names(text: &str) -> BTreeSet<&str> {
    const FAMILIES: [&str; 6] = [
        "mooring_",
        "workqueue_",
        "process_",
        "service_controller_",
        "leader_election_",
        "node_controller_",
    ];
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| FAMILIES.iter().any(|family| word.starts_with(family)))
        .collect()
}

/// The metrics that the reference describes, and what else a histogram gives.
fn described() -> BTreeSet<String> {
    let page = read("docs/reference/endpoints.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let mut all = BTreeSet::new();
    for row in rows {
        let first = row.split('|').nth(1).unwrap_or_default();
        for name in names(first) {
            all.insert(name.to_owned());
            if row.contains("(histogram)") {
                for part in ["bucket", "sum", "count"] {
                    all.insert(format!("{name}_{part}"));
                }
            }
        }
    }
    all
}

#[test]
fn every_query_names_metrics_that_there_are() {
    let described = described();
    assert!(described.len() > 60, "{described:?}");
    let alerts = alerts().into_iter().map(|(name, query, _)| (name, query));
    let all: Vec<_> = alerts.chain(queries()).collect();
    assert!(all.len() > 60, "{}", all.len());
    for (of, query) in all {
        for name in names(&query) {
            assert!(
                described.contains(name),
                "{of}: docs/reference/endpoints.md has no {name}"
            );
        }
    }
}

/// The words in backticks in the first column of the table of a page that begins with this line.
fn first_column(page: &str, head: &str) -> BTreeSet<String> {
    let text = read(page);
    let (_, rows) = text.split_once(head).expect(head);
    let rows = rows.lines().skip(1).take_while(|row| row.starts_with('|'));
    let words = rows.flat_map(|row| {
        let cell = row.split('|').nth(1).unwrap_or_default();
        cell.split('`').skip(1).step_by(2).map(str::to_owned)
    });
    words.collect()
}

#[test]
fn every_result_of_a_request_that_is_named_is_one_that_there_is() {
    let there_are = ErrorKind::ALL.map(ErrorKind::label);
    let there_are: BTreeSet<_> = there_are.into_iter().chain(["ok", "held_back"]).collect();
    let described = first_column("docs/reference/endpoints.md", "| `result` | Meaning |");
    assert!(described.iter().eq(&there_are), "{described:?}");
    let remedies = first_column("docs/how-to/a-node-stays-tainted.md", "| `result` | Do |");
    let mut named: BTreeSet<_> = remedies.into_iter().collect();
    assert!(named.len() > 6, "{named:?}");
    let alerts = alerts().into_iter().map(|(_, query, _)| query);
    for query in alerts.chain(queries().into_iter().map(|(_, query)| query)) {
        for selector in query.split("mooring_cloud_requests_total{").skip(1) {
            let selector = selector.split('}').next().unwrap_or_default();
            let value = selector
                .split(',')
                .find_map(|label| label.strip_prefix("result"));
            let value = value
                .unwrap_or_default()
                .trim_matches(|c| "=!~\"".contains(c));
            let words = value.split('|').filter(|word| !word.is_empty());
            named.extend(words.map(str::to_owned));
        }
    }
    assert!(named.contains("held_back"), "{named:?}");
    let unknown: Vec<_> = named
        .iter()
        .filter(|word| !there_are.contains(word.as_str()))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// While a Node's Pod is replaced, two Pods of it are scraped. A join with two of a kind is an error, and the alert is
/// silent.
#[test]
fn no_query_joins_with_what_two_pods_could_both_have() {
    let alerts = alerts().into_iter().map(|(name, query, _)| (name, query));
    let mut joins = 0;
    for (of, query) in alerts.chain(queries()) {
        let to_right = query.split("group_right").skip(1);
        for rest in query.split("group_left").skip(1).chain(to_right) {
            let labels = rest.trim_start().strip_prefix('(');
            let with = labels.and_then(|rest| rest.split_once(')'));
            let with = with.map_or(rest, |(_, with)| with).trim_start();
            assert!(!with.starts_with("mooring_"), "{of}: {query}");
            joins += 1;
        }
    }
    assert!(joins > 0);
}

#[test]
fn every_alert_has_a_page_and_a_test_and_every_page_an_alert() {
    let tests = read("deploy/monitoring/alerts-test.yaml");
    let index = read("docs/how-to/alerts/README.md");
    let mut pages = BTreeSet::from(["docs/how-to/alerts/README.md".to_owned()]);
    for (name, query, page) in alerts() {
        let text = read(&page);
        assert!(text.starts_with(&format!("# {name}\n")), "{page}");
        assert!(text.contains(&query), "{page} has another query");
        assert!(index.contains(&format!("[{name}]")), "{name} in the list");
        assert!(
            tests.contains(&format!("name: {name}\n")),
            "no test of {name}"
        );
        pages.insert(page);
    }
    let folder = std::fs::read_dir(path("docs/how-to/alerts")).unwrap();
    let there = folder.map(|file| {
        let name = file.unwrap().file_name().into_string().unwrap();
        format!("docs/how-to/alerts/{name}")
    });
    assert_eq!(there.collect::<BTreeSet<_>>(), pages);
}

/// With the promtool that operators have.
#[test]
fn every_alert_fires_and_clears() {
    let promtool = |arguments: &[&str]| {
        let ran = Command::new("promtool")
            .args(arguments)
            .current_dir(path("deploy/monitoring"))
            .output()
            .expect("promtool, of the package prometheus: bash tests/install-packages.sh");
        let told = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{arguments:?}: {told}");
    };
    promtool(&["check", "rules", "alerts.yaml"]);
    promtool(&["test", "rules", "alerts-test.yaml"]);
}
