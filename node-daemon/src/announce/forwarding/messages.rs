//! The table as messages to nftables.
//!
//! Formats and numbers: `linux/netfilter/nf_tables.h`. For each group:
//!
//! ```text
//!   chain in_0 { type filter hook ingress device eth0 priority -300; ip daddr @a4_0 goto v4_0; ip6 daddr @a6_0 goto v6_0 }
//!   chain v4_0 {
//!     ether saddr @m_0 accept                                                          from a member
//!     ip frag-off & 0x3fff != 0 accept                                                 fragments have no ports
//!     ip protocol tcp tcp flags & (syn|ack) == syn add @own4 { flow timeout 30s } accept       new: ours
//!     flow @own4 update @own4 { flow timeout … } accept                                ours
//!     ip protocol tcp goto f_0                                                         the former speaker's
//!     ip protocol udp [flow @old4] update @old4 { flow timeout 2m } goto f_0             without [] at first
//!   }
//!   chain f_0 { ether saddr set … ether daddr set … fwd to eth0 }
//! ```
//!
//! Where `own4` is full, a SYN cannot be added, so it goes to the former speaker, as all later segments of its
//! connection will.
//!
//! The sets with flows stay when the table is written anew; all else is replaced, in one transaction.

mod batch;
mod family;
mod rule;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use self::batch::Batch;
pub use self::batch::Transaction;
use self::family::Family;
use self::rule::{EQUAL, LINK, NETWORK, REG, Rule, TRANSPORT};
use super::TABLE;
use super::attributes::Attributes;
use super::conntrack::{TCP, UDP};
use super::table::{Flow, Group, HALF_OPEN, MOST_FLOWS, Table, UDP_SILENCE};

const NEWTABLE: u16 = 0;
const DELTABLE: u16 = 2;
const NEWCHAIN: u16 = 3;
const DELCHAIN: u16 = 5;
const NEWRULE: u16 = 6;
const DELRULE: u16 = 8;
const NEWSET: u16 = 9;
const DELSET: u16 = 11;
const NEWSETELEM: u16 = 12;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_APPEND: u16 = 0x800;

/// Before everything else at ingress.
const PRIORITY: i32 = -300;
const ACCEPT: i32 = 1;
const GOTO: i32 = -4;
const UNEQUAL: u32 = 1;
const ADD: u32 = 0;
const UPDATE: u32 = 1;
const SET_TIMEOUT: u32 = 0x10;
const SET_EVAL: u32 = 0x20;
const TYPE_ETHER: u32 = 9;
/// As many elements in one message: its length is told in 16 bits.
const ELEMENTS: usize = 400;
/// As many flows in one transaction: it is sent at once, and a socket takes some 200 KB.
const FLOWS: usize = 2_000;
const SYN: u8 = 2;
const ACK: u8 = 16;

fn table() -> Attributes {
    Attributes::default().text(1, TABLE)
}

/// Writes the table in the place of `before`, in as many transactions as the flows need; with the last one it is in
/// force. `own`: connections that are known as this node's. `anew`: whatever is there goes first, flows
/// included.
#[must_use]
pub fn replace(
    before: &Table,
    wanted: &Table,
    own: &BTreeSet<Flow>,
    anew: bool,
) -> Vec<Transaction> {
    let own: Vec<Flow> = own.iter().copied().collect();
    let mut parts: Vec<&[Flow]> = own.chunks(FLOWS).collect();
    let last = parts.pop().unwrap_or_default();
    let mut transactions = Vec::new();
    let mut clears = anew;
    for part in parts {
        let batch = begin(wanted.known_for, part, clears);
        clears = false;
        transactions.push(batch.end());
    }
    let mut batch = begin(wanted.known_for, last, clears);
    if !anew {
        take_away(&mut batch, before);
    }
    for (index, group) in wanted.groups.iter().enumerate() {
        add_group(&mut batch, index, group, wanted.known_for);
    }
    transactions.push(batch.end());
    transactions
}

/// A transaction that has the sets with flows, and these flows in them.
fn begin(known_for: Duration, own: &[Flow], clears: bool) -> Batch {
    let mut batch = Batch::begin();
    batch.add(NEWTABLE, NLM_F_CREATE, &table());
    if clears {
        batch.add(DELTABLE, 0, &table());
        batch.add(NEWTABLE, NLM_F_CREATE, &table());
    }
    for family in Family::ALL {
        let digit = family.digit();
        add_flow_set(&mut batch, &format!("own{digit}"), family, known_for);
        add_flow_set(&mut batch, &format!("old{digit}"), family, UDP_SILENCE);
        add_flows(&mut batch, family, own, known_for);
    }
    batch
}

/// Deletes the table.
#[must_use]
pub fn delete() -> Transaction {
    let mut batch = Batch::begin();
    batch.add(DELTABLE, 0, &table());
    batch.end()
}

/// All but the sets with flows.
fn take_away(batch: &mut Batch, before: &Table) {
    if before.is_empty() {
        return;
    }
    batch.add(DELRULE, 0, &table());
    for index in 0..before.groups.len() {
        for chain in ["in", "v4", "v6", "f"] {
            let attributes = table().text(3, &format!("{chain}_{index}"));
            batch.add(DELCHAIN, 0, &attributes);
        }
        for set in ["m", "a4", "a6"] {
            let attributes = table().text(2, &format!("{set}_{index}"));
            batch.add(DELSET, 0, &attributes);
        }
    }
}

struct Set<'a> {
    name: &'a str,
    key_type: u32,
    key_length: u32,
    flags: u32,
    size: Option<u32>,
    timeout: Option<Duration>,
}

fn add_set(batch: &mut Batch, set: &Set<'_>) {
    let mut attributes = table()
        .text(2, set.name)
        .number(3, set.flags)
        .number(4, set.key_type)
        .number(5, set.key_length)
        .number(10, batch.sequence + 1);
    if let Some(size) = set.size {
        let description = Attributes::default().number(1, size);
        attributes = attributes.nested(9, &description);
    }
    if let Some(timeout) = set.timeout {
        attributes = attributes.large(11, milliseconds(timeout));
    }
    batch.add(NEWSET, NLM_F_CREATE, &attributes);
}

fn add_flow_set(batch: &mut Batch, name: &str, family: Family, timeout: Duration) {
    let set = Set {
        name,
        key_type: family.flow_type(),
        key_length: family.flow_length(),
        flags: SET_TIMEOUT | SET_EVAL,
        size: Some(MOST_FLOWS),
        timeout: Some(timeout),
    };
    add_set(batch, &set);
}

fn add_elements<'a>(batch: &mut Batch, set: &str, elements: impl Iterator<Item = Attributes> + 'a) {
    let elements: Vec<Attributes> = elements.collect();
    for elements in elements.chunks(ELEMENTS) {
        let list = elements
            .iter()
            .fold(Attributes::default(), |list, element| {
                list.nested(1, element)
            });
        let attributes = table().text(2, set).nested(3, &list);
        batch.add(NEWSETELEM, NLM_F_CREATE, &attributes);
    }
}

fn element(key: &[u8], timeout: Option<Duration>) -> Attributes {
    let element = Attributes::default().nested(1, &value(key));
    match timeout {
        Some(timeout) => element.large(4, milliseconds(timeout)),
        None => element,
    }
}

fn add_flows(batch: &mut Batch, family: Family, own: &[Flow], timeout: Duration) {
    let set = format!("own{}", family.digit());
    let these = own
        .iter()
        .filter(|flow| Family::of(flow.destination) == family);
    let elements = these.map(|flow| element(&key(flow), Some(timeout)));
    add_elements(batch, &set, elements);
}

fn key(flow: &Flow) -> Vec<u8> {
    let mut key = octets(flow.source);
    key.extend(octets(flow.destination));
    key.extend([flow.protocol, 0, 0, 0]);
    for port in [flow.source_port, flow.destination_port] {
        key.extend(port.to_be_bytes());
        key.extend([0, 0]);
    }
    key
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn add_group(batch: &mut Batch, index: usize, group: &Group, known_for: Duration) {
    let members = format!("m_{index}");
    let macs = Set {
        name: &members,
        key_type: TYPE_ETHER,
        key_length: 6,
        flags: 0,
        size: None,
        timeout: None,
    };
    add_set(batch, &macs);
    let never_from = group
        .never_from
        .iter()
        .map(|mac| element(&mac.octets(), None));
    add_elements(batch, &members, never_from);
    for family in Family::ALL {
        let name = format!("a{}_{index}", family.digit());
        let set = Set {
            name: &name,
            key_type: family.address_type(),
            key_length: family.address_length(),
            flags: SET_TIMEOUT,
            size: None,
            timeout: None,
        };
        add_set(batch, &set);
        let these = group.addresses.iter();
        let these = these.filter(|(address, _)| Family::of(**address) == family);
        let elements = these.map(|(address, left)| element(&octets(*address), Some(*left)));
        add_elements(batch, &name, elements);
    }
    for chain in ["f", "v4", "v6"] {
        batch.add(
            NEWCHAIN,
            NLM_F_CREATE,
            &table().text(3, &format!("{chain}_{index}")),
        );
    }
    let hook = Attributes::default()
        .number(1, 0)
        .bytes(2, &PRIORITY.to_be_bytes())
        .text(3, &group.device);
    let base = format!("in_{index}");
    let attributes = table().text(3, &base).nested(4, &hook).text(7, "filter");
    batch.add(NEWCHAIN, NLM_F_CREATE, &attributes);

    add_rule(batch, &format!("f_{index}"), &pass_on(group));
    for family in Family::ALL {
        for rule in family_rules(family, index, group.learns, known_for) {
            add_rule(batch, &format!("v{}_{index}", family.digit()), &rule);
        }
    }
    for family in Family::ALL {
        let (_, destination, _) = family.offsets();
        let rule = Rule::default()
            .is(family)
            .load(NETWORK, destination, family.address_length(), REG)
            .lookup(&format!("a{}_{index}", family.digit()))
            .verdict(GOTO, Some(&format!("v{}_{index}", family.digit())));
        add_rule(batch, &base, &rule);
    }
}

fn family_rules(family: Family, index: usize, learns: bool, known_for: Duration) -> Vec<Rule> {
    let (own, old) = (
        format!("own{}", family.digit()),
        format!("old{}", family.digit()),
    );
    let to_former = format!("f_{index}");
    let from_member = Rule::default()
        .load(LINK, 6, 6, REG)
        .lookup(&format!("m_{index}"))
        .verdict(ACCEPT, None);
    let fragment = Rule::default()
        .load(NETWORK, 6, 2, REG)
        .mask(&[0x3f, 0xff])
        .compare(UNEQUAL, &[0, 0])
        .verdict(ACCEPT, None);
    let new = Rule::default()
        .protocol(family, TCP)
        .load(TRANSPORT, 13, 1, REG)
        .mask(&[SYN | ACK])
        .compare(EQUAL, &[SYN])
        .flow(family)
        .remember(ADD, &own, HALF_OPEN)
        .verdict(ACCEPT, None);
    let known = Rule::default()
        .flow(family)
        .lookup(&own)
        .remember(UPDATE, &own, known_for)
        .verdict(ACCEPT, None);
    let tcp = Rule::default()
        .protocol(family, TCP)
        .verdict(GOTO, Some(&to_former));
    let udp = Rule::default().protocol(family, UDP).flow(family);
    let udp = if learns { udp } else { udp.lookup(&old) };
    let udp = udp
        .remember(UPDATE, &old, UDP_SILENCE)
        .verdict(GOTO, Some(&to_former));
    let fragment = (family == Family::V4).then_some(fragment);
    let first = [from_member].into_iter().chain(fragment);
    first.chain([new, known, tcp, udp]).collect()
}

fn pass_on(group: &Group) -> Rule {
    Rule::default()
        .counter()
        .set(&group.own.octets())
        .write(6)
        .set(&group.former.octets())
        .write(0)
        .forward()
}

fn add_rule(batch: &mut Batch, chain: &str, rule: &Rule) {
    let attributes = table().text(2, chain).nested(4, &rule.0);
    batch.add(NEWRULE, NLM_F_CREATE | NLM_F_APPEND, &attributes);
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn value(bytes: &[u8]) -> Attributes {
    Attributes::default().bytes(1, bytes)
}
