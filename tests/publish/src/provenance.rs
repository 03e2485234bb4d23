//! Where the files of a release come from: a statement of in-toto with the predicate of SLSA.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What a release was built from and with.
pub struct Build<'a> {
    /// Where the source is published.
    pub source: &'a str,
    /// The commit.
    pub commit: &'a str,
    /// The version that is released.
    pub version: &'a str,
    /// Who built it.
    pub builder: &'a str,
    /// What compiled each architecture's programs: the lines of `toolchain`.
    pub toolchains: &'a BTreeMap<String, Vec<String>>,
    /// The hashes of the files that decide what is built.
    pub inputs: &'a BTreeMap<String, String>,
}

/// The statement about files, by name, with their SHA-256.
#[must_use]
pub fn statement(build: &Build<'_>, files: &BTreeMap<String, String>) -> Value {
    let digest = |sha: &String| json!({"sha256": sha});
    let subjects = files
        .iter()
        .map(|(name, sha)| json!({"name": name, "digest": digest(sha)}));
    let source = json!({"uri": build.source, "digest": {"gitCommit": build.commit}});
    let inputs = build.inputs.iter();
    let inputs = inputs.map(|(name, sha)| json!({"uri": name, "digest": digest(sha)}));
    let tools = build.toolchains.iter();
    let tools = tools.map(|(architecture, lines)| {
        json!({"name": format!("toolchain of {architecture}"), "annotations": {"versions": lines}})
    });
    let dependencies = std::iter::once(source).chain(inputs).chain(tools);
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects.collect::<Vec<_>>(),
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{}#make-release", build.source),
                "externalParameters": {
                    "recipe": "make release",
                    "version": build.version,
                    "architectures": build.toolchains.keys().collect::<Vec<_>>(),
                },
                "resolvedDependencies": dependencies.collect::<Vec<_>>(),
            },
            "runDetails": {"builder": {"id": build.builder}},
        },
    })
}
