//! What the rules of a firewall may be.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

use ipnet::{Ipv4Net, Ipv6Net};
use serde_json::{Map, Value, json};

use super::answers::Errors;
use super::strict::{self, Field, Is, May, Must};

const MOST_RULES: usize = 25;
const MOST_ADDRESSES: usize = 255;
/// How many ports and ranges of ports a rule may have.
const MOST_PORTS: usize = 15;
const LONGEST_DESCRIPTION: usize = 100;
const DIRECTIONS: [&str; 2] = ["inbound", "outbound"];
const POLICIES: Is = Is::OneOf(&["ACCEPT", "DROP"]);

/// The rules of a firewall.
pub(super) const FIELDS: &[Field] = &[
    Field("inbound", Is::Objects(RULE), May),
    Field("inbound_policy", POLICIES, Must),
    Field("outbound", Is::Objects(RULE), May),
    Field("outbound_policy", POLICIES, Must),
];
/// One of them. One that refers to a rule set has nothing but that.
const RULE: &[Field] = &[
    Field("ruleset", Is::Id, May),
    Field("action", POLICIES, May),
    Field(
        "protocol",
        Is::OneOf(&["TCP", "UDP", "ICMP", "IPENCAP"]),
        May,
    ),
    Field("label", Is::Text, May),
    Field("description", Is::Text, May),
    Field("ports", Is::Text, May),
    Field("addresses", Is::Object(&[]), May),
];

/// What is wrong with rules, apart from what their fields may hold.
pub(super) fn check(prefix: &str, rules: &Map<String, Value>, errors: &mut Errors) {
    let mut count = 0;
    for direction in DIRECTIONS {
        let name = format!("{prefix}{direction}");
        let rules = strict::objects(rules.get(direction), &name);
        count += rules.len();
        for (prefix, rule) in rules {
            if rule.get("ruleset").is_none_or(Value::is_null) {
                check_rule(&prefix, rule, errors);
            }
        }
    }
    if count > MOST_RULES {
        let reason = format!("A firewall has at most {MOST_RULES} rules");
        errors.add(format!("{prefix}inbound"), reason);
    }
}

fn check_rule(prefix: &str, rule: &Map<String, Value>, errors: &mut Errors) {
    let text = |field: &str| rule.get(field).and_then(Value::as_str);
    let length = |field: &str| text(field).map(|text| text.chars().count());
    let mut wrong = |field: &str, reason: String| errors.add(format!("{prefix}{field}"), reason);
    for field in ["action", "protocol"] {
        if rule.get(field).is_none_or(Value::is_null) {
            wrong(field, format!("{field} is required"));
        }
    }
    if length("label").is_some_and(|length| !(3..=32).contains(&length)) {
        wrong("label", "Length must be 3-32 characters".to_owned());
    }
    if length("description").is_some_and(|length| length > LONGEST_DESCRIPTION) {
        let reason = format!("Length must be 1-{LONGEST_DESCRIPTION} characters");
        wrong("description", reason);
    }
    let has_ports = matches!(text("protocol"), Some("TCP" | "UDP"));
    if let Some(reason) = text("ports").and_then(|ports| ports_error(ports, has_ports)) {
        wrong("ports", reason);
    }
    let (mut count, addresses) = (0, rule.get("addresses").unwrap_or(&Value::Null));
    for (family, is_good) in [
        ("ipv4", is_ipv4 as fn(&str) -> bool),
        ("ipv6", is_ipv6 as fn(&str) -> bool),
    ] {
        let all = addresses[family].as_array().into_iter().flatten();
        for (index, address) in all.enumerate() {
            count += 1;
            if !address.as_str().is_some_and(is_good) {
                let field = format!("addresses.{family}[{index}]");
                wrong(
                    &field,
                    format!("Must be an {family} range in CIDR notation"),
                );
            }
        }
    }
    if !(1..=MOST_ADDRESSES).contains(&count) {
        let reason = format!("A rule has 1-{MOST_ADDRESSES} addresses");
        wrong("addresses", reason);
    }
}

fn is_ipv4(text: &str) -> bool {
    text.parse::<Ipv4Net>().is_ok()
}

fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Net>().is_ok()
}

fn ports_error(ports: &str, has_ports: bool) -> Option<String> {
    if !has_ports {
        return Some("Only rules for TCP and UDP have ports".to_owned());
    }
    if pieces(ports).count() > MOST_PORTS {
        return Some(format!("A rule has at most {MOST_PORTS} ports or ranges"));
    }
    let is_good = |piece: &str| {
        let bounds: Vec<Option<u16>> = piece
            .split('-')
            .map(|port| port.parse().ok().filter(|port| *port > 0))
            .collect();
        match bounds[..] {
            [Some(_)] => true,
            [Some(first), Some(last)] => first < last,
            _ => false,
        }
    };
    let good = pieces(ports).all(is_good);
    (!good).then(|| "Must be ports or ranges of ports: 80, 443, 8000-8010".to_owned())
}

fn pieces(ports: &str) -> impl Iterator<Item = &str> {
    ports.split(',').map(str::trim)
}

/// Rules as the API shows them, with the number of this version and its fingerprint.
pub(super) fn shown(rules: &Map<String, Value>, version: u64) -> Value {
    let mut shown = json!({});
    for direction in DIRECTIONS {
        let all = strict::objects(rules.get(direction), direction);
        let all = all.into_iter().map(|(_, rule)| shown_rule(rule));
        shown[direction] = all.collect();
        let policy = format!("{direction}_policy");
        shown[&policy] = rules.get(&policy).cloned().unwrap_or_default();
    }
    let mut hasher = DefaultHasher::new();
    shown.to_string().hash(&mut hasher);
    shown["version"] = json!(version);
    shown["fingerprint"] = json!(format!("{:08x}", hasher.finish() & 0xffff_ffff));
    shown
}

fn shown_rule(rule: &Map<String, Value>) -> Value {
    let mut shown = Value::Object(strict::given(rule, RULE));
    if let Some(ports) = shown["ports"].as_str() {
        let ports: Vec<&str> = pieces(ports).collect();
        shown["ports"] = json!(ports.join(", "));
    }
    if let Some(addresses) = shown.get_mut("addresses").and_then(Value::as_object_mut) {
        // A family without addresses is not shown.
        addresses.retain(|_, addresses| addresses.as_array().is_some_and(|all| !all.is_empty()));
        let ipv6 = addresses.get_mut("ipv6").and_then(Value::as_array_mut);
        for address in ipv6.into_iter().flatten() {
            // It was recorded that `::0/0` is shown as `::/0`.
            if let Some(Ok(network)) = address.as_str().map(str::parse::<Ipv6Net>) {
                *address = json!(network);
            }
        }
    }
    shown
}
