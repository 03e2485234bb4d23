//! The pages of `docs/reference` that are generated say what the programs do, and the chart permits
//! what the clouds write.
//!
//! `make references` writes them anew.

pub mod chart_values;

use std::path::PathBuf;

fn check(page: &str, generated: &str) {
    check_file(&format!("docs/reference/{page}"), generated);
}

/// A file of the repository.
fn path_of(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(name)
}

fn check_file(name: &str, generated: &str) {
    let path = path_of(name);
    if std::env::var_os("WRITE_REFERENCES").is_some() {
        std::fs::write(&path, generated).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == generated,
        "{name} is not up to date: make references"
    );
}

#[test]
fn flags_of_central() {
    check(
        "flags-mooring-central.md",
        &mooring_central::flags::TABLE.reference(),
    );
}

#[test]
fn flags_of_the_import() {
    check(
        "flags-mooring-central-import.md",
        &mooring_central::run::import::TABLE.reference(),
    );
}

#[test]
fn commands_of_the_kubectl_plugin() {
    check(
        "kubectl-mooring.md",
        &mooring_central::run::inspect::reference(),
    );
}

#[test]
fn flags_of_the_node_daemon() {
    check(
        "flags-mooring-node.md",
        &mooring_node::run::flags::TABLE.reference(),
    );
}

#[test]
fn flags_of_the_control_plane() {
    check(
        "flags-mooring-node-control-plane.md",
        &mooring_node::announce::control_plane::flags::TABLE.reference(),
    );
    check(
        "flags-mooring-node-control-plane-manifest.md",
        &mooring_node::announce::control_plane::manifest::TABLE.reference(),
    );
}

#[test]
fn clouds_of_the_chart() {
    let clouds = serde_json::to_string_pretty(&mooring_central::clouds::for_the_chart()).unwrap();
    check_file(
        "deploy/chart/mooring/files/clouds.json",
        &format!("{clouds}\n"),
    );
}

/// The table of annotations stands between two marks of a page that people write.
#[test]
fn annotations_of_clouds() {
    use mooring_central::cloud_provider::annotations::reference;
    use mooring_central::clouds::{CLOUDS, brightbox, cloudscale, linode};
    for cloud in CLOUDS.iter().filter(|cloud| !cloud.annotations.is_empty()) {
        let prefix = match cloud.name {
            cloudscale::NAME => cloudscale::annotations::PREFIX,
            linode::NAME => linode::annotations::PREFIX,
            brightbox::NAME => brightbox::annotations::PREFIX,
            _ => "",
        };
        let table = reference(cloud.annotations, prefix);
        check_part(&format!("{}.md", cloud.name), "annotations", &table);
    }
}

fn check_part(page: &str, name: &str, generated: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../docs/reference")
        .join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let marks = [
        format!("<!-- {name}: written by make references -->\n"),
        format!("<!-- end of {name} -->\n"),
    ];
    let (before, rest) = text.split_once(&marks[0]).expect("the first mark");
    let (_, after) = rest.split_once(&marks[1]).expect("the last mark");
    let [first, last] = marks;
    check(page, &format!("{before}{first}{generated}{last}{after}"));
}
