//! Whose a block is, by its tags.
//!
//! The tags are those of the Go controller, so that what it has bought goes on being used; blocks
//! that several Services share bear [`tags::POOL`] instead of those of one Service.

use ipnet::Ipv4Net;
use mooring_common::k8s::ObjectKey;
use mooring_common::names::phoenixnap_tags as tags;

use super::super::api::Tag;
use super::super::api::ip_blocks::{Block, BlockStatus};
use crate::engine::address_blocks::Held;
use crate::engine::ip_allocation::BlockHolder;

/// Whose a block of this cluster is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::clouds::phoenixnap) enum Owner {
    /// One Service's.
    Service(ObjectKey),
    /// Those of several Services; bought for the public network of this id.
    Pool(String),
    /// Nobody's any more: it is to be detached and released.
    Marked,
    /// It bears this cluster's marks and yet does not say whose it is, or says it twice.
    Unclear,
}

/// A block of this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::clouds::phoenixnap) struct Owned {
    pub(super) block: Block,
    pub(super) owner: Owner,
}

impl Owned {
    /// The block, if its tags say that it is this cluster's. They are compared exactly, whatever was
    /// asked of the listing that it comes from.
    pub(super) fn of(block: Block, cluster: &str) -> Option<Self> {
        let is_ours = only(&block.tags, tags::USAGE) == Some(tags::USAGE_VALUE)
            && cluster_of(&block) == Some(cluster)
            && !cluster.is_empty();
        is_ours.then(|| Self {
            owner: owner(&block.tags),
            block,
        })
    }

    /// How it is counted: its id, its prefix length, unless it is being bought, and what it is in a word.
    pub(super) fn counted(&self) -> (&str, Option<u8>, &'static str) {
        let status = self.block.status;
        let state = match (status, &self.owner) {
            (status, _) if status.is_error() => "error",
            (BlockStatus::Creating, _) => "creating",
            (_, Owner::Marked) => "releasing",
            (_, Owner::Unclear) => "unclear",
            (BlockStatus::Assigned, _) => "assigned",
            _ => "unassigned",
        };
        let is_known = status != BlockStatus::Creating;
        let prefix = is_known.then(|| self.block.cidr.prefix_len());
        (&self.block.id, prefix, state)
    }
}

impl Held for Owned {
    type Owner = Owner;

    fn id(&self) -> &str {
        &self.block.id
    }

    fn cidr(&self) -> Ipv4Net {
        self.block.cidr
    }

    fn owner(&self) -> &Owner {
        &self.owner
    }

    fn holder(&self) -> BlockHolder<'_> {
        match &self.owner {
            Owner::Service(key) => BlockHolder::Service(key),
            Owner::Pool(_) => BlockHolder::Shared,
            Owner::Marked => BlockHolder::Released,
            Owner::Unclear => BlockHolder::Unclear,
        }
    }
}

/// The cluster that a block says it is of.
pub(super) fn cluster_of(block: &Block) -> Option<&str> {
    only(&block.tags, tags::CLUSTER)
}

/// The value of the only tag of this name.
fn only<'a>(all: &'a [Tag], name: &str) -> Option<&'a str> {
    let mut named = all.iter().filter(|tag| tag.name == name);
    match (named.next(), named.next()) {
        (Some(tag), None) => tag.value.as_deref(),
        _ => None,
    }
}

fn owner(all: &[Tag]) -> Owner {
    let has = |name: &str| all.iter().any(|tag| tag.name == name);
    let value = |name: &str| only(all, name).filter(|value| !value.is_empty());
    let of_service = has(tags::SERVICE_NAMESPACE) || has(tags::SERVICE_NAME);
    let clear = match (has(tags::DELETE), of_service, has(tags::POOL)) {
        (true, false, false) => Some(Owner::Marked),
        (false, true, false) => value(tags::SERVICE_NAMESPACE)
            .zip(value(tags::SERVICE_NAME))
            .map(|(namespace, name)| Owner::Service(ObjectKey::new(namespace, name))),
        (false, false, true) => value(tags::POOL).map(|network| Owner::Pool(network.to_owned())),
        // Whoever tags a block by hand that still serves does not take it from those whom it serves.
        _ => None,
    };
    clear.unwrap_or(Owner::Unclear)
}

/// The tags of a new block of this cluster.
pub(super) fn of_new(cluster: &str, owner: &Owner) -> Vec<Tag> {
    let mut all = vec![
        Tag::new(tags::USAGE, tags::USAGE_VALUE),
        Tag::new(tags::CLUSTER, cluster),
    ];
    match owner {
        Owner::Service(key) => {
            all.push(Tag::new(tags::SERVICE_NAMESPACE, &key.namespace));
            all.push(Tag::new(tags::SERVICE_NAME, &key.name));
        }
        Owner::Pool(network) => all.push(Tag::new(tags::POOL, network)),
        Owner::Marked | Owner::Unclear => {}
    }
    all
}

/// All tags of a block that is nobody's any more: those that it has, its owner's left out.
pub(super) fn marked(all: &[Tag]) -> Vec<Tag> {
    let of_owner = [
        tags::SERVICE_NAMESPACE,
        tags::SERVICE_NAME,
        tags::POOL,
        tags::DELETE,
    ];
    let kept = all
        .iter()
        .filter(|tag| !of_owner.contains(&tag.name.as_str()));
    let mut marked: Vec<Tag> = kept.cloned().collect();
    marked.push(Tag::new(tags::DELETE, tags::DELETE_VALUE));
    marked
}

/// The names of tags that must exist before a block can bear them.
pub(super) const fn names(is_shared: bool) -> &'static [&'static str] {
    if is_shared {
        &[tags::USAGE, tags::CLUSTER, tags::POOL, tags::DELETE]
    } else {
        &[
            tags::USAGE,
            tags::CLUSTER,
            tags::SERVICE_NAMESPACE,
            tags::SERVICE_NAME,
            tags::DELETE,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clouds::phoenixnap::ip_blocks::testing::block;

    fn tagged(tags: &[Tag]) -> Block {
        Block {
            tags: tags.to_vec(),
            ..block("b", "203.0.113.8/29")
        }
    }

    fn web() -> Owner {
        Owner::Service(ObjectKey::new("default", "web"))
    }

    #[test]
    fn finds_bought_block_by_tags() {
        for owner in [web(), Owner::Pool("net".to_owned())] {
            let block = tagged(&of_new("uid", &owner));
            let found = Owned::of(block.clone(), "uid").unwrap();
            assert_eq!(found.owner, owner);
            assert_eq!(Owned::of(block.clone(), "other"), None);
            let marked = tagged(&marked(&block.tags));
            assert_eq!(Owned::of(marked, "uid").unwrap().owner, Owner::Marked);
        }
    }

    #[test]
    fn block_of_other_or_unnamed_cluster_is_not_ours() {
        let other = tagged(&of_new("elsewhere", &web()));
        assert_eq!(Owned::of(other, "uid"), None);
        let nameless = tagged(&of_new("", &web()));
        assert_eq!(Owned::of(nameless, ""), None);
        let mut twice = of_new("uid", &web());
        twice.push(Tag::new(tags::CLUSTER, "elsewhere"));
        assert_eq!(Owned::of(tagged(&twice), "uid"), None);
        let mut foreign = of_new("uid", &web());
        foreign[0] = Tag::new(tags::USAGE, "somebody-elses");
        assert_eq!(Owned::of(tagged(&foreign), "uid"), None);
    }

    #[test]
    fn delete_tag_on_serving_block_is_ignored() {
        let mut contradicting = of_new("uid", &web());
        contradicting.push(Tag::new(tags::DELETE, "true"));
        let found = Owned::of(tagged(&contradicting), "uid").unwrap();
        assert_eq!(found.owner, Owner::Unclear);
        let half: Vec<Tag> = of_new("uid", &web()).into_iter().take(3).collect();
        assert_eq!(
            Owned::of(tagged(&half), "uid").unwrap().owner,
            Owner::Unclear
        );
    }

    #[test]
    fn blocks_are_counted_by_size_and_state() {
        let pool = || Owner::Pool("net".to_owned());
        for (status, owner, expected) in [
            (BlockStatus::Assigned, pool(), (Some(28), "assigned")),
            (BlockStatus::Unassigned, pool(), (Some(28), "unassigned")),
            (BlockStatus::Creating, pool(), (None, "creating")),
            (
                BlockStatus::Assigned,
                Owner::Marked,
                (Some(28), "releasing"),
            ),
            (BlockStatus::Assigned, Owner::Unclear, (Some(28), "unclear")),
            (BlockStatus::ErrorAssigning, pool(), (Some(28), "error")),
        ] {
            let mut block = block("a", "192.0.2.0/28");
            block.status = status;
            let (prefix, state) = expected;
            let owned = Owned { block, owner };
            assert_eq!(owned.counted(), ("a", prefix, state));
        }
    }

    #[test]
    fn marking_keeps_foreign_tags() {
        let mut all = of_new("uid", &web());
        all.push(Tag::new("cost-center", "7"));
        let names: Vec<String> = marked(&all).into_iter().map(|tag| tag.name).collect();
        assert_eq!(names, ["usage", "cluster", "cost-center", "delete"]);
    }
}
