use serde_json::json;

use super::*;

const PARTS: (&str, &str) = ("configs", "nodes");

#[test]
fn parts_that_a_refusal_names_are_left_out_as_long_as_each_whole_has_others() {
    let configs = || [json!({"nodes": [0, 1, 2]}), json!({"nodes": [0, 1]})];
    let invalid = |words: &str| CloudError {
        words: Some(words.to_owned()),
        ..CloudError::new("cloud", ErrorKind::Invalid, "")
    };
    for (words, left) in [
        (
            "[400] [configs[0].nodes[2].address] no; [configs[0].nodes[0].address] no; \
             [configs[1].nodes[1].address] no",
            Some([json!([1]), json!([0])]),
        ),
        (
            "[configs[0].port] no; [configs[0].nodes[1].label] no; [configs[0].nodes[1].address] no",
            Some([json!([0, 2]), json!([0, 1])]),
        ),
        ("[configs[1].nodes[0]] no; [configs[1].nodes[1]] no", None),
        ("[configs[2].nodes[0].address] no", None),
        ("[configs[0].nodes[7].address] no", None),
        ("[configs[0].nodes[x].address] no", None),
        ("[ipv4] IPv4 address is not reserved", None),
    ] {
        let mut all = configs();
        let is_less = leaves_out_refused(&mut all, PARTS, &invalid(words));
        assert_eq!(is_less, left.is_some(), "{words}");
        let nodes = all.map(|config| config["nodes"].clone());
        let before = configs().map(|config| config["nodes"].clone());
        assert_eq!(nodes, left.unwrap_or(before), "{words}");
    }
    let unclear = CloudError {
        kind: ErrorKind::Malformed,
        ..invalid("[configs[0].nodes[0].address] no")
    };
    assert!(!leaves_out_refused(&mut configs(), PARTS, &unclear));
}
