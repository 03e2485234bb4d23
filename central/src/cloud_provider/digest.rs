//! Digests as text, and names with one.

use sha2::{Digest as _, Sha256};

/// The first so many hexadecimal digits.
#[must_use]
pub fn hex(digest: &[u8], digits: usize) -> String {
    let all: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    all.chars().take(digits).collect()
}

/// A name as it is, if it has no more than so many characters; else as many of it as leave room for a
/// fingerprint of the whole behind them.
#[must_use]
pub fn shortened(name: &str, most: usize) -> String {
    const DIGITS: usize = 8;
    if name.len() <= most {
        return name.to_owned();
    }
    let kept: String = name.chars().take(most.saturating_sub(DIGITS + 1)).collect();
    let kept = kept.trim_end_matches(['-', '.']);
    format!("{kept}-{}", hex(&Sha256::digest(name), DIGITS))
}
