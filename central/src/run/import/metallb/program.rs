//! What the command line of MetalLB's speaker and its DaemonSet say.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::run::import::finding::Findings;
use crate::run::import::objects::Objects;
use crate::run::import::workload;

/// What of it L2Networks say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Program {
    /// The Nodes that a speaker runs on; absent: all.
    pub(super) nodes: Option<LabelSelector>,
    /// Whether speakers ignore that a Node is excluded from load balancers.
    pub(super) includes_excluded: bool,
}

/// Reads the speaker's DaemonSet; it is known by its image.
pub(super) fn read(objects: &Objects, findings: &mut Findings) -> Program {
    let mut program = Program::default();
    for object in objects.of("DaemonSet") {
        let Some(container) = workload::container(object, "metallb/speaker") else {
            continue;
        };
        let named = format!("DaemonSet {}/{}", object.namespace(), object.name());
        program.nodes = workload::nodes(object, &named, findings);
        for argument in workload::arguments(container) {
            let (name, value) = argument.split_once('=').unwrap_or((&argument, "true"));
            match name.trim_start_matches('-') {
                "ignore-exclude-lb" => program.includes_excluded = value != "false",
                "lb-class" => workload::told_of_class(&named, value, findings),
                _ => {}
            }
        }
    }
    program
}
