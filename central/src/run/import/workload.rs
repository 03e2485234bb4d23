//! What a DaemonSet says of the program that it runs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use super::finding::Findings;
use super::objects::Object;

/// Every Node has it, with the value `linux` where Mooring runs.
const OPERATING_SYSTEM: &str = "kubernetes.io/os";

/// The container whose image has this in its name.
pub(super) fn container<'a>(object: &'a Object, image: &str) -> Option<&'a Value> {
    let containers = object.list("/spec/template/spec/containers");
    let named = |one: &&Value| {
        one.get("image")
            .and_then(Value::as_str)
            .is_some_and(|name| name.contains(image))
    };
    containers.iter().find(named)
}

/// Its command and arguments.
pub(super) fn arguments(container: &Value) -> Vec<String> {
    let all = ["command", "args"]
        .into_iter()
        .filter_map(|field| container.get(field)?.as_array());
    let texts = all.flatten().filter_map(Value::as_str);
    texts.map(ToOwned::to_owned).collect()
}

/// The Nodes that its Pods run on; absent: all.
pub(super) fn nodes(
    object: &Object,
    named: &str,
    findings: &mut Findings,
) -> Option<LabelSelector> {
    if object
        .0
        .pointer("/spec/template/spec/affinity/nodeAffinity")
        .is_some()
    {
        findings.cannot_say(
            format!("{named}: spec.template.spec.affinity.nodeAffinity"),
            "spec.nodeSelector of an L2Network says on which Nodes addresses are announced: write there what \
             this means",
        );
    }
    let mut labels = object.map("/spec/template/spec/nodeSelector");
    labels.remove(OPERATING_SYSTEM);
    (!labels.is_empty()).then_some(LabelSelector {
        match_labels: Some(labels),
        match_expressions: None,
    })
}

/// That Services of a class are served is said to central, not in an L2Network.
pub(super) fn told_of_class(named: &str, class: &str, findings: &mut Findings) {
    findings.elsewhere(
        format!("{named}: it serves Services of the class {class}, and no others"),
        format!("install with central.loadBalancers.class={class} and central.loadBalancers.serveClassless=false"),
    );
}
