//! `mooring-central`
fn main() {}
