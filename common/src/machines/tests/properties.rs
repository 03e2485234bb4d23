use proptest::prelude::*;

use crate::label::{is_value, sanitize};
use crate::machines::{Capacity, Identity, parse, presence_of, resolve};

/// A line of a file, good or bad: enough of each that many files are accepted.
fn node() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        "[a-c]".prop_map(|s| format!("name: {s}")),
        "[1-3]".prop_map(|s| format!("systemUUID: 4c4c4544-0042-4810-8052-b4c04f4a313{s}")),
        "[1-3]".prop_map(|s| format!("mac: '08:00:27:00:00:0{s}'")),
        "[1-3]".prop_map(|s| format!("ip: 192.0.2.{s}")),
        "[a-c]".prop_map(|s| format!("providerID: cloudlycke://{s}")),
    ];
    let id = prop_oneof![
        Just(String::new()),
        "[a-c]".prop_map(|s| format!(", id: {s}"))
    ];
    let state = prop_oneof![
        Just(""),
        Just(", state: shutdown"),
        Just(", state: terminated")
    ];
    (key, id, state).prop_map(|(key, id, state)| format!("  - {{match: {{{key}}}{id}{state}}}\n"))
}

fn file() -> impl Strategy<Value = String> {
    let policy = prop_oneof![Just("error"), Just("derive"), Just("missing")];
    let rules = prop_oneof![
        Just(""),
        Just("rules: [{match: {cidr: 192.0.2.0/31}, set: {zone: z}}]\n"),
        Just("rules: [{match: {assetTag: x}, set: {zone: z}}]\n"),
    ];
    (policy, rules, prop::collection::vec(node(), 0..4)).prop_map(|(policy, rules, nodes)| {
        let list = if nodes.is_empty() {
            String::new()
        } else {
            format!("nodes:\n{}", nodes.concat())
        };
        format!("version: 1\npolicy: {{unknownNode: {policy}}}\n{rules}{list}")
    })
}

fn identity() -> impl Strategy<Value = Identity> {
    (
        "[a-d]|.{0,8}",
        prop::option::of("cloudlycke://[a-d]|aws://x|.{0,12}"),
        prop::option::of("4c4c4544-0042-4810-8052-b4c04f4a313[1-4]"),
        prop::option::of("08:00:27:00:00:0[1-4]"),
        prop::option::of("192\\.0\\.2\\.[1-4]"),
        prop::option::of((any::<u64>(), any::<u64>())),
    )
        .prop_map(|(name, provider_id, uuid, mac, ip, size)| Identity {
            name,
            provider_id,
            system_uuid: uuid.and_then(|text| text.parse().ok()),
            macs: mac.and_then(|text| text.parse().ok()).into_iter().collect(),
            ips: ip.and_then(|text| text.parse().ok()).into_iter().collect(),
            capacity: size.map(|(cpus, memory_bytes)| Capacity { cpus, memory_bytes }),
            ..Identity::default()
        })
}

proptest! {
    #[test]
    fn yaml_parser_never_panics(text in "(?s).{0,200}") {
        if let Err(error) = parse(&text) {
            prop_assert!(!error.faults.is_empty());
        }
    }

    #[test]
    fn damaged_file_never_panics(text in file(), cut in 0_usize..400, noise in ".{0,4}") {
        let cut = text.char_indices().map(|(i, _)| i).nth(cut).unwrap_or(text.len());
        let _ = parse(&format!("{}{noise}{}", &text[..cut], &text[cut..]));
        let _ = parse(&text[..cut]);
    }

    #[test]
    fn accepted_file_resolves_every_machine(text in file(), identity in identity()) {
        let Ok(machines) = parse(&text) else { return Ok(()) };
        let resolution = resolve(&machines, &identity);
        prop_assert_eq!(&resolution, &resolve(&machines, &identity));
        let foreign = identity.provider_id.as_deref()
            .is_some_and(|id| !id.is_empty() && !id.starts_with("cloudlycke://"));
        if foreign {
            prop_assert!(resolution.facts().is_none());
        }
        if resolution.presence() == crate::node_facts::Presence::Gone {
            prop_assert!(text.contains("terminated") || text.contains("missing"));
        }
        if let Some(id) = resolution.facts().and_then(|facts| facts.provider_id.as_ref()) {
            let _ = presence_of(&machines, id);
        }
    }

    #[test]
    fn sanitized_text_is_label_value(text in "(?s).{0,100}") {
        if let Some(value) = sanitize(&text) {
            prop_assert!(!value.is_empty() && is_value(&value), "{:?}", value);
            prop_assert_eq!(sanitize(&value), Some(value.clone()));
        }
    }
}
