//! The values of the chart that pages show are taken, and lead to flags that the programs have.

use std::io::Write as _;

use serde_json::Value;

use super::{pages, program, shell, unknown_flags};
use crate::deploy_manifests::helm::{objects, run};

/// The blocks of a page that are values of the chart.
fn blocks(page: &str, schema: &Value) -> Vec<String> {
    let is_values = |block: &String| {
        let values = serde_norway::from_str::<Value>(block).unwrap_or_default();
        let mut keys = values.as_object().into_iter().flat_map(|map| map.keys());
        keys.any(|key| !schema["properties"][key].is_null())
    };
    let blocks = shell::blocks(page, &["yaml"]).into_iter();
    blocks.filter(is_values).collect()
}

/// What is wrong with values.
fn faults(values: &str) -> Vec<String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(values.as_bytes()).unwrap();
    let rendered = match run("template", &["--values", file.path().to_str().unwrap()]) {
        Ok(rendered) => rendered,
        Err(told) => return vec![told],
    };
    let mut faults = Vec::new();
    for object in objects(&rendered) {
        let containers = object["spec"]["template"]["spec"]["containers"].as_array();
        for container in containers.into_iter().flatten() {
            let Some(name) = container["name"].as_str() else {
                continue;
            };
            let Some(program) = program(name) else {
                continue;
            };
            let flags = container["args"].as_array().into_iter().flatten();
            let flags: Vec<_> = flags.filter_map(Value::as_str).map(str::to_owned).collect();
            faults.extend(unknown_flags(name, &program, &flags));
        }
    }
    faults
}

#[test]
fn the_values_of_the_pages_are_taken_and_lead_to_flags_that_there_are() {
    let schema = super::read("deploy/chart/mooring/values.schema.json");
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let (mut count, mut wrong) = (0, Vec::new());
    for (path, text) in pages() {
        for block in blocks(&text, &schema) {
            count += 1;
            let found = faults(&block).into_iter();
            wrong.extend(found.map(|fault| format!("{}: {fault}\n{block}", path.display())));
        }
    }
    assert!(count > 12, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (values, words) in [
        ("central: {replica: 1}", "'replica' not allowed"),
        ("central: {extraArgs: [--nothing=1]}", "no flag --nothing"),
        ("nodeDaemon: {extraArgs: [--nothing]}", "no flag --nothing"),
    ] {
        let found = faults(values).join("; ");
        assert!(found.contains(words), "{values}: {found}");
    }
}
