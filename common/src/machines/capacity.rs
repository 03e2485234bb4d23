//! A machine's size, and the type that is named after it.

use std::fmt::Write as _;

use super::schema::DEFAULT_SCHEME;

const MIB: u64 = 1 << 20;
/// MiB in a GiB.
const GIB: u64 = 1 << 10;

/// What a Node has to offer (`status.capacity`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Whole processors.
    pub cpus: u64,
    /// Memory in bytes. The kernel keeps some for itself, so this is below what the machine has.
    pub memory_bytes: u64,
}

impl Capacity {
    /// Reads two Kubernetes quantities, such as `2` and `1008632Ki`. None if one of them is no
    /// quantity or is zero.
    #[must_use]
    pub fn from_quantities(cpu: &str, memory: &str) -> Option<Self> {
        let cpus = match cpu.trim().strip_suffix('m') {
            Some(milli) => milli.parse::<u64>().ok()?.div_ceil(1000),
            None => quantity(cpu)?,
        };
        let memory_bytes = quantity(memory)?;
        (cpus > 0 && memory_bytes > 0).then_some(Self { cpus, memory_bytes })
    }

    /// A type named after the size: `vbox.vm.1g.2cpu` as Cloudlycke names them, and
    /// `machine.1g.2cpu` with any other scheme.
    #[must_use]
    pub fn instance_type(self, scheme: &str) -> String {
        let family = if scheme == DEFAULT_SCHEME {
            "vbox.vm"
        } else {
            "machine"
        };
        let mib = nominal_mib(self.memory_bytes);
        let mut name = format!("{family}.");
        // Writing to a String cannot fail.
        let _ = if mib.is_multiple_of(GIB) {
            write!(name, "{}g", mib / GIB)
        } else {
            write!(name, "{mib}mb")
        };
        let _ = write!(name, ".{}cpu", self.cpus);
        name
    }
}

/// The memory a machine was sold with, in MiB: what is reported, rounded up to a size that
/// machines come in. Below 1 GiB two sizes to each doubling (384, 512, 768, 1024), above it whole
/// GiB and four to each doubling (8, 10, 12, 14, 16).
fn nominal_mib(bytes: u64) -> u64 {
    let mib = bytes.div_ceil(MIB).max(1);
    // The greatest power of two below it.
    let power = 1_u64 << (mib - 1).max(1).ilog2();
    let step = if mib <= GIB {
        (power / 2).max(128)
    } else {
        (power / 4).max(GIB)
    };
    mib.div_ceil(step).saturating_mul(step)
}

/// A whole Kubernetes quantity in its unit of one. None for fractions, which no kubelet reports.
fn quantity(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text.get(digits.len()..)? {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}
