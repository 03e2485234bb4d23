//! Digests as text.

/// The first so many hexadecimal digits.
#[must_use]
pub fn hex(digest: &[u8], digits: usize) -> String {
    let all: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    all.chars().take(digits).collect()
}
