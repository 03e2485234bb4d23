//! The nftables table in a network namespace of its own: the kernel is the judge.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    dead_code,
    unreachable_pub,
    reason = "a test states what must hold by panicking; clippy knows only functions marked as tests"
)]

#[path = "support/world.rs"]
mod world;

use mooring_node::vlan::MarkMask;
use mooring_node::vlan::nft::{Firewall, NftRule, delete, observe, replace, rules};

use self::world::in_a_world;

#[test]
fn empty_table_differs_from_none() {
    in_a_world("empty_table_differs_from_none", || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            assert_eq!(observe().await.unwrap(), Firewall::Absent);
            replace(&[]).await.unwrap();
            assert_eq!(observe().await.unwrap(), Firewall::Table(Vec::new()));
            delete().await.unwrap();
            assert_eq!(observe().await.unwrap(), Firewall::Absent);
        });
    });
}

#[test]
fn reads_rules_as_written() {
    in_a_world("reads_rules_as_written", || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let subnet = "192.0.2.0/24".parse().unwrap();
            let rules: Vec<_> = rules("moor5", subnet, 0x30, MarkMask::default()).collect();
            replace(&rules).await.unwrap();
            let mut comments: Vec<_> = rules.iter().map(NftRule::comment).collect();
            let Firewall::Table(mut found) = observe().await.unwrap() else {
                panic!("no table");
            };
            comments.sort();
            found.sort();
            assert_eq!(found, comments);
        });
    });
}
