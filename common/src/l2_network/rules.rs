//! What the API server checks about an L2Network before it is stored, as CEL rules.
//!
//! A rule's text is put together from the small CEL fragments at the end of this file, each given
//! the CEL expressions that it is about. Every rule leaves what another rule refuses alone, so
//! that a user who makes two mistakes reads two messages, and none about CEL.
//!
//! The API server refuses a rule whose worst case it cannot bound. So all lists and texts have
//! greatest lengths in the schema, addresses are compared as numbers, and a message that takes
//! several ranges to see names the first one only: it knows no bound for joined texts.

use kube::core::{Message, Rule};
use schemars::{Schema, SchemaGenerator};

/// The schema of ranges that there need not be: a list of texts, with the rules that each must keep by itself.
pub(super) fn ranges(_: &mut SchemaGenerator) -> Schema {
    list_of_ranges(0, 32)
}

/// The schema of a pool's ranges.
pub(super) fn pool_ranges(_: &mut SchemaGenerator) -> Schema {
    list_of_ranges(1, 16)
}

/// The schema of what a pool leaves out.
pub(super) fn excluded_ranges(_: &mut SchemaGenerator) -> Schema {
    list_of_ranges(0, 16)
}

fn list_of_ranges(least: usize, most: usize) -> Schema {
    let rules = [
        range_can_be_read(),
        pair_is_in_order(),
        block_begins_with_its_first_address(),
    ];
    schemars::json_schema!({
        "type": "array",
        "minItems": least,
        "maxItems": most,
        "items": {
            "type": "string",
            "minLength": 3,
            "maxLength": 43,
            "x-kubernetes-validations": rules,
        },
    })
}

/// On the whole: there are addresses at all.
pub(super) fn has_addresses() -> Rule {
    rule(
        "self.ranges.size() > 0 || (has(self.pools) && self.pools.size() > 0)",
        r#""no addresses; write ranges, or pools with ranges""#,
    )
    .field_path(".ranges")
}

/// On the whole: one way only to say which interface it is on.
pub(super) fn parent_or_interfaces() -> Rule {
    rule(
        "!has(self.parent) || !has(self.interfaces) || self.interfaces.size() == 0",
        r#"self.parent + ": named beside interfaces; write it as the first of these, and leave parent out""#,
    )
    .field_path(".parent")
}

/// On a time for which connections are kept: it can be read, and is a day at most.
pub(super) fn keeps_connections_for_a_time() -> Rule {
    rule(
        r"self.matches('^([0-9]+(h|m|s|ms))+$') && duration(self) <= duration('24h')",
        r#"self + ": no time up to 24h; write it like 15m, or 0s to keep no connections""#,
    )
}

/// On an interface: some can have such a name, or match such a pattern.
pub(super) fn interface_can_be_read() -> Rule {
    rule(
        r"self.matches('^[^\\s/:]+$')",
        r#"self + ": no name of an interface; write one without spaces, slashes and colons, or a pattern such as bond*""#,
    )
}

/// On an address of the control plane: other hosts can reach it.
pub(super) fn address_of_one_host() -> Rule {
    rule(
        "isIP(self) && ip(self).isGlobalUnicast()",
        r#"self + ": no address of one host; write one such as 192.0.2.100""#,
    )
}

/// On the list of these: one of each family at most.
pub(super) fn one_of_each_family() -> Rule {
    rule(
        "self.size() < 2 || !self.all(a, isIP(a)) || ip(self[0]).family() != ip(self[1]).family()",
        r#"self[1] + ": a second address of its family; list at most one of each""#,
    )
}

/// On a range: it is a CIDR block or a pair of IPv4 addresses.
fn range_can_be_read() -> Rule {
    rule(
        &is_range("self"),
        r#"self + ": no range; write a CIDR block (192.0.2.16/28, 2001:db8::100/120) or the first and the last of several IPv4 addresses (192.0.2.10-192.0.2.20), without spaces""#,
    )
}

/// On a range: a pair's first address is not above its last.
fn pair_is_in_order() -> Rule {
    rule(
        &format!("!{} || {}", is_pair("self"), in_order("self.split('-')")),
        r#"self + ": the wrong way round; write the lower address first""#,
    )
}

/// On a range: a block is written with its first address.
///
/// Kubernetes 1.31 takes no rule that compares two blocks by `==`: it cannot tell how long that takes.
fn block_begins_with_its_first_address() -> Rule {
    rule(
        "!isCIDR(self) || cidr(self.split('/')[0] + (self.contains(':') ? '/128' : '/32'))\
         .containsIP(cidr(self).masked().ip())",
        r#"self + ": not the first address of the block; write that one""#,
    )
}

/// On the list of ranges: no address is in two of them.
///
/// Two ranges overlap exactly if one of them holds the first address of the other.
pub(super) fn ranges_do_not_overlap() -> Rule {
    let fault = format!(
        "!self.exists_one(o, o == r) || ({} && self.exists(o, o != r && {} && {}))",
        is_range("r"),
        is_range("o"),
        holds("r", &first("o"))
    );
    none(
        "self",
        &fault,
        "overlapping another range of this L2Network; let each address be in one range only",
    )
}

/// On the spec: each range lies within a subnet.
///
/// `containsCIDR` of Kubernetes 1.31 finds a block only in one that begins with the same address.
pub(super) fn ranges_lie_within_subnets() -> Rule {
    let fault = format!(
        "{} && !self.subnets.exists(s, isCIDR(s.cidr) && (isCIDR(r) ? \
         cidr(s.cidr).containsIP(cidr(r).ip()) && cidr(s.cidr).prefixLength() <= cidr(r).prefixLength() : \
         r.split('-').all(a, cidr(s.cidr).containsIP(a))))",
        is_range("r")
    );
    none(
        "self.ranges",
        &fault,
        "in none of the subnets; add its subnet, or correct the range",
    )
    .field_path(".ranges")
}

/// On a subnet's `cidr`: it can be read.
pub(super) fn cidr_can_be_read() -> Rule {
    rule(
        "isCIDR(self)",
        r#"self + ": no subnet; write it like 192.0.2.0/24 or 2001:db8::/64""#,
    )
}

/// On a subnet: its gateway is an address within it.
pub(super) fn gateway_in_subnet() -> Rule {
    rule(
        "!has(self.gateway) || !isCIDR(self.cidr) || \
         (isIP(self.gateway) && cidr(self.cidr).containsIP(self.gateway))",
        r#"self.gateway + ": no address within " + self.cidr + "; name the router's address there, or leave gateway out""#,
    )
    .field_path(".gateway")
}

/// What must hold, and the CEL expression of the message if it does not.
fn rule(condition: &str, message: &str) -> Rule {
    Rule::new(condition).message(Message::Expression(message.to_owned()))
}

/// None of the list, each called `r`, may have the fault.
fn none(list: &str, fault: &str, complaint: &str) -> Rule {
    rule(
        &format!("!{list}.exists(r, {fault})"),
        &format!(r#"{list}.filter(r, {fault})[0] + ": {complaint}""#),
    )
}

// --- fragments of CEL ---------------------------------------------------------------------------

/// The text is a pair of IPv4 addresses, in whatever order.
fn is_pair(range: &str) -> String {
    format!(
        "({range}.split('-').size() == 2 && {range}.split('-').all(a, isIP(a) && \
         ip(a).family() == 4))"
    )
}

/// The text is a pair or a block.
fn is_range(range: &str) -> String {
    format!("(isCIDR({range}) || {})", is_pair(range))
}

/// The first address of a range, as a text.
fn first(range: &str) -> String {
    format!("{range}.split('-')[0].split('/')[0]")
}

/// Whether a range holds an address, both given as texts.
fn holds(range: &str, address: &str) -> String {
    let between = in_order(&format!(
        "[{range}.split('-')[0], {address}, {range}.split('-')[1]]"
    ));
    format!(
        "(isCIDR({range}) ? cidr({range}).containsIP({address}) : ip({address}).family() == 4 && \
         {between})"
    )
}

/// Whether no IPv4 address of a list of texts is above the next.
fn in_order(addresses: &str) -> String {
    format!(
        "{addresses}.map(a, int(a.split('.')[0]) * 16777216 + int(a.split('.')[1]) * 65536 + \
         int(a.split('.')[2]) * 256 + int(a.split('.')[3])).isSorted()"
    )
}
