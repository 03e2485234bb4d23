//! `mooring-node`
fn main() {}
