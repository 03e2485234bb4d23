//! The nftables table in a network namespace of its own: the kernel is the judge.

use mooring_node::vlan::MarkMask;
use mooring_node::vlan::nft::{Firewall, NftRule, delete, observe, replace, rules};

use super::netns::in_netns;

#[test]
fn empty_table_differs_from_none() {
    in_netns("empty_table_differs_from_none", || {
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
    in_netns("reads_rules_as_written", || {
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
