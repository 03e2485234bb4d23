//! The expressions of a rule.

use std::time::Duration;

use super::family::Family;
use super::{milliseconds, value};
use crate::announce::forwarding::attributes::Attributes;

/// The first 4-byte register; 16-byte ones begin at 1.
pub(super) const REG: u32 = 8;
pub(super) const LINK: u32 = 0;
pub(super) const NETWORK: u32 = 1;
pub(super) const TRANSPORT: u32 = 2;
pub(super) const EQUAL: u32 = 0;
const VERDICT: u32 = 0;

/// The expressions of one rule.
#[derive(Default)]
pub(super) struct Rule(pub(super) Attributes);

impl Rule {
    fn expression(self, name: &str, data: &Attributes) -> Self {
        let expression = Attributes::default().text(1, name).nested(2, data);
        Self(self.0.nested(1, &expression))
    }

    /// `meta protocol`
    pub(super) fn is(self, family: Family) -> Self {
        let meta = Attributes::default().number(1, REG).number(2, 1);
        self.expression("meta", &meta)
            .compare(EQUAL, &family.ethertype())
    }

    pub(super) fn load(self, base: u32, offset: u32, length: u32, register: u32) -> Self {
        let payload = Attributes::default()
            .number(1, register)
            .number(2, base)
            .number(3, offset)
            .number(4, length);
        self.expression("payload", &payload)
    }

    pub(super) fn compare(self, how: u32, with: &[u8]) -> Self {
        let compare = Attributes::default().number(1, REG).number(2, how);
        self.expression("cmp", &compare.nested(3, &value(with)))
    }

    pub(super) fn mask(self, mask: &[u8]) -> Self {
        let length = u32::try_from(mask.len()).unwrap_or(0);
        let bitwise = Attributes::default()
            .number(1, REG)
            .number(2, REG)
            .number(3, length)
            .nested(4, &value(mask))
            .nested(5, &value(&vec![0; mask.len()]));
        self.expression("bitwise", &bitwise)
    }

    pub(super) fn protocol(self, family: Family, protocol: u8) -> Self {
        let (_, _, offset) = family.offsets();
        self.load(NETWORK, offset, 1, REG)
            .compare(EQUAL, &[protocol])
    }

    /// Loads what tells a flow from others.
    pub(super) fn flow(self, family: Family) -> Self {
        let (source, destination, protocol) = family.offsets();
        let length = family.address_length();
        let registers = length / 4;
        self.load(NETWORK, source, length, REG)
            .load(NETWORK, destination, length, REG + registers)
            .load(NETWORK, protocol, 1, REG + 2 * registers)
            .load(TRANSPORT, 0, 2, REG + 2 * registers + 1)
            .load(TRANSPORT, 2, 2, REG + 2 * registers + 2)
    }

    pub(super) fn lookup(self, set: &str) -> Self {
        let lookup = Attributes::default().text(1, set).number(2, REG);
        self.expression("lookup", &lookup)
    }

    /// Puts what is loaded into a set. The rule does not match where the set is full.
    pub(super) fn remember(self, how: u32, set: &str, timeout: Duration) -> Self {
        let dynset = Attributes::default()
            .text(1, set)
            .number(3, how)
            .number(4, REG)
            .large(6, milliseconds(timeout));
        self.expression("dynset", &dynset)
    }

    pub(super) fn counter(self) -> Self {
        self.expression("counter", &Attributes::default())
    }

    pub(super) fn set(self, bytes: &[u8]) -> Self {
        let immediate = Attributes::default()
            .number(1, REG)
            .nested(2, &value(bytes));
        self.expression("immediate", &immediate)
    }

    /// Writes what was set, six bytes, into the Ethernet header.
    pub(super) fn write(self, offset: u32) -> Self {
        let payload = Attributes::default()
            .number(5, REG)
            .number(2, LINK)
            .number(3, offset)
            .number(4, 6);
        self.expression("payload", &payload)
    }

    /// Sends it by the interface that it came by, whose number is in the first register.
    pub(super) fn forward(self) -> Self {
        let meta = Attributes::default().number(1, REG).number(2, 4);
        let fwd = Attributes::default().number(1, REG);
        self.expression("meta", &meta).expression("fwd", &fwd)
    }

    pub(super) fn verdict(self, code: i32, chain: Option<&str>) -> Self {
        let mut verdict = Attributes::default().bytes(1, &code.to_be_bytes());
        if let Some(chain) = chain {
            verdict = verdict.text(2, chain);
        }
        let data = Attributes::default().nested(2, &verdict);
        let immediate = Attributes::default().number(1, VERDICT).nested(2, &data);
        self.expression("immediate", &immediate)
    }
}
