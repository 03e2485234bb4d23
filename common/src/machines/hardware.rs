//! What identifies a piece of hardware, and the placeholders that only seem to.

use std::fmt;
use std::str::FromStr;

/// Why a text identifies no machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} {problem}; {remedy}")]
pub struct HardwareIdError {
    /// What was written.
    pub text: String,
    /// What is wrong with it.
    pub problem: &'static str,
    /// What to write instead.
    pub remedy: &'static str,
}

impl HardwareIdError {
    fn new(text: &str, problem: &'static str, remedy: &'static str) -> Self {
        Self {
            text: text.to_owned(),
            problem,
            remedy,
        }
    }
}

const PLACEHOLDER: &str = "is a placeholder that many machines share";

/// What vendors write where a serial number, a tag or a UUID should stand, in lower case.
const PLACEHOLDERS: &[&str] = &[
    "to be filled by o.e.m.",
    "to be filled by oem",
    "not applicable",
    "not specified",
    "not available",
    "system serial number",
    "chassis serial number",
    "system product name",
    "system manufacturer",
    "default string",
    "chassis asset tag",
    "no asset tag",
    "asset tag",
    "asset-1234567890",
    "no enclosure",
    "uninitialized",
    "unspecified",
    "unknown",
    "default",
    "invalid",
    "oem",
    "o.e.m.",
    "none",
    "null",
    "n/a",
    "na",
    "123456789",
    "1234567890",
    "0123456789",
    "03000200-0400-0500-0006-000700080009",
    "12345678-1234-5678-90ab-cddeefaabbcc",
];

/// Whether a text from a machine's firmware says nothing: it is empty, a vendor's stock phrase, or
/// one sign repeated (all zero, all `f`, all dots).
#[must_use]
pub fn is_placeholder(text: &str) -> bool {
    let text = text.trim().to_ascii_lowercase();
    let signs: Vec<char> = text.chars().filter(|c| !"-:. ".contains(*c)).collect();
    let all = |sign| signs.iter().all(|c| *c == sign);
    let repeated = all('0') || (signs.len() >= 4 && (all('f') || all('x')));
    repeated || PLACEHOLDERS.contains(&text.as_str())
}

fn is_hex(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_hexdigit())
}

/// A machine's UUID or serial number as its kubelet reports it, in lower case: mostly a UUID from
/// DMI, on boards without DMI whatever their firmware offers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SystemUuid(String);

impl SystemUuid {
    /// The text, in lower case.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SystemUuid {
    type Err = HardwareIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const REMEDY: &str =
            "copy status.nodeInfo.systemUUID of the Node, or match by name or machineID instead";
        let id = text.trim().to_ascii_lowercase();
        if is_placeholder(&id) {
            return Err(HardwareIdError::new(text, PLACEHOLDER, REMEDY));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !id.chars().all(plain) || id.len() > 128 {
            return Err(HardwareIdError::new(text, "is no system UUID", REMEDY));
        }
        // A serial number may be anything, but what looks like a UUID must be a whole one.
        let groups: Vec<usize> = id.split('-').map(str::len).collect();
        if groups.len() > 1 && is_hex(&id.replace('-', "")) && groups != [8, 4, 4, 4, 12] {
            return Err(HardwareIdError::new(text, "is no whole UUID", REMEDY));
        }
        Ok(Self(id))
    }
}

impl fmt::Display for SystemUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The content of `/etc/machine-id`: 32 hexadecimal digits in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(String);

impl FromStr for MachineId {
    type Err = HardwareIdError;

    /// Reads 32 hexadecimal digits, with or without the dashes of a UUID.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const REMEDY: &str =
            "copy status.nodeInfo.machineID of the Node, or match by name or systemUUID instead";
        let id = text.trim().to_ascii_lowercase().replace('-', "");
        if is_placeholder(text) {
            return Err(HardwareIdError::new(text, PLACEHOLDER, REMEDY));
        }
        if id.len() != 32 || !is_hex(&id) {
            return Err(HardwareIdError::new(
                text,
                "is not 32 hexadecimal digits",
                REMEDY,
            ));
        }
        Ok(Self(id))
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The address of a network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress([u8; 6]);

impl FromStr for MacAddress {
    type Err = HardwareIdError;

    /// Reads six pairs of hexadecimal digits with colons or dashes between them.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const REMEDY: &str = "write the address of one card, such as 08:00:27:12:34:56";
        let error = |problem| HardwareIdError::new(text, problem, REMEDY);
        let trimmed = text.trim();
        let separator = if trimmed.contains(':') { ':' } else { '-' };
        let mut octets = [0_u8; 6];
        let mut parts = trimmed.split(separator);
        for octet in &mut octets {
            let part = parts.next().filter(|p| p.len() == 2 && is_hex(p));
            *octet = part
                .and_then(|p| u8::from_str_radix(p, 16).ok())
                .ok_or_else(|| error("is no MAC address"))?;
        }
        if parts.next().is_some() {
            return Err(error("is no MAC address"));
        }
        let [first, ..] = octets;
        if octets == [0; 6] || first & 1 == 1 {
            return Err(error("is the address of no single card"));
        }
        Ok(Self(octets))
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}
