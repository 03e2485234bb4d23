//! The nftables table that marks connections by the VLAN they come in by, and their answers.
//!
//! It speaks to the kernel by netlink, for the image has no `nft`. The table is written whole, in
//! one transaction: no packet ever sees a part of it. What is there is known by the comments of its
//! rules, which name all that a rule says; whoever changes a rule by hand loses the comment.

mod messages;
mod socket;

use std::collections::BTreeMap;

use ipnet::IpNet;

use super::MarkMask;

pub use self::socket::{NftError, Watch};

/// What there is of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Firewall {
    /// The kernel has no nftables.
    Unsupported,
    /// It may not be read: the capability `NET_ADMIN` is missing.
    Forbidden,
    /// There is no table.
    #[default]
    Absent,
    /// The comments of its rules: by chain, in order.
    Table(Vec<String>),
}

/// Where a rule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Chain {
    /// What comes in, before its way is chosen.
    Prerouting,
    /// What this machine sends; its way is chosen anew if its mark changes.
    Output,
}

impl Chain {
    const ALL: [Self; 2] = [Self::Prerouting, Self::Output];

    const fn name(self) -> &'static str {
        match self {
            Self::Prerouting => "prerouting",
            Self::Output => "output",
        }
    }
}

/// One rule of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NftRule {
    /// Marks the connections that come in by an interface for an address of a subnet.
    Save {
        /// The interface's name.
        device: String,
        /// The subnet.
        subnet: IpNet,
        /// The mark.
        mark: u32,
        /// The bits of it that count.
        mask: MarkMask,
    },
    /// Gives answers the mark of their connection.
    Restore {
        /// The chain that it is in.
        chain: Chain,
        /// The mark.
        mark: u32,
        /// The bits of it that count.
        mask: MarkMask,
    },
}

impl NftRule {
    /// The chain that it is in.
    #[must_use]
    pub const fn chain(&self) -> Chain {
        match self {
            Self::Save { .. } => Chain::Prerouting,
            Self::Restore { chain, .. } => *chain,
        }
    }

    /// Its comment, with the chain: all that it says.
    #[must_use]
    pub fn comment(&self) -> String {
        match self {
            Self::Save {
                device,
                subnet,
                mark,
                mask,
            } => format!("prerouting: {device} {subnet} has mark {mark:#x}/{mask}"),
            Self::Restore { chain, mark, mask } => {
                format!("{}: answers have mark {mark:#x}/{mask}", chain.name())
            }
        }
    }
}

/// The rules of one path.
pub fn rules(
    device: &str,
    subnet: IpNet,
    mark: u32,
    mask: MarkMask,
) -> impl Iterator<Item = NftRule> {
    let save = NftRule::Save {
        device: device.to_owned(),
        subnet,
        mark,
        mask,
    };
    let restore = Chain::ALL.map(|chain| NftRule::Restore { chain, mark, mask });
    std::iter::once(save).chain(restore)
}

/// The numbers that paths have in a table that is there, by interface and subnet.
#[must_use]
pub fn numbers(comments: &[String], mask: MarkMask) -> BTreeMap<(String, IpNet), u32> {
    let read = |comment: &String| {
        let rest = comment.strip_prefix("prerouting: ")?;
        let (path, mark) = rest.split_once(" has mark 0x")?;
        let (device, subnet) = path.split_once(' ')?;
        let (mark, bits) = mark.split_once('/')?;
        let mark = u32::from_str_radix(mark, 16).ok()?;
        let number = mask.number(mark);
        let valid = bits == mask.to_string() && mask.mark(number) == mark && number > 0;
        valid.then_some(((device.to_owned(), subnet.parse().ok()?), number))
    };
    comments.iter().filter_map(read).collect()
}

/// Looks at the table.
///
/// # Errors
/// [`NftError`] if the kernel does not answer.
pub async fn observe() -> Result<Firewall, NftError> {
    let mut socket = match socket::Socket::open() {
        Ok(socket) => socket,
        Err(error) if error.is_unsupported() => return Ok(Firewall::Unsupported),
        Err(error) => return Err(error),
    };
    match socket.dump(messages::dump_rules()).await {
        // Newer kernels say the same of a table without rules as of none.
        Ok(found) if found.is_empty() && !socket.exists(messages::get_table()).await? => {
            Ok(Firewall::Absent)
        }
        Ok(found) => Ok(Firewall::Table(found)),
        Err(NftError::Refused(nix::errno::Errno::ENOENT)) => Ok(Firewall::Absent),
        Err(NftError::Refused(nix::errno::Errno::EPERM)) => Ok(Firewall::Forbidden),
        Err(error) if error.is_unsupported() => Ok(Firewall::Unsupported),
        Err(error) => Err(error),
    }
}

/// Writes the table anew, with these rules.
///
/// # Errors
/// [`NftError`] if the kernel refuses or does not answer.
pub async fn replace(rules: &[NftRule]) -> Result<(), NftError> {
    let mut socket = socket::Socket::open()?;
    socket
        .transact(|sequence| messages::replace_table(rules, sequence))
        .await
}

/// Does a transaction that is written elsewhere: all of it or nothing. `last` is the sequence number of the
/// message that the kernel acknowledges.
///
/// # Errors
/// [`NftError`] if the kernel refuses or does not answer.
pub async fn transact(bytes: Vec<u8>, last: u32) -> Result<(), NftError> {
    let mut socket = socket::Socket::open()?;
    socket
        .transact(|_| messages::Transaction { bytes, last })
        .await
}

/// Asks netfilter for a whole list, of whatever subsystem, and hands on each message of the answer.
///
/// # Errors
/// [`NftError`] if the kernel refuses or does not answer.
pub async fn list(kind: u16, payload: &[u8], take: impl FnMut(&[u8])) -> Result<(), NftError> {
    let mut socket = socket::Socket::open()?;
    let question = messages::Question {
        kind,
        flags: 0,
        payload: payload.to_vec(),
    };
    socket.list(question, take).await
}

/// Deletes the table.
///
/// # Errors
/// [`NftError`] if the kernel refuses or does not answer.
pub async fn delete() -> Result<(), NftError> {
    let mut socket = socket::Socket::open()?;
    socket.transact(messages::delete_table).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_numbers_back_from_comments() {
        let mask = MarkMask::default();
        let subnet: IpNet = "192.0.2.0/24".parse().unwrap();
        let comments: Vec<_> = rules("moor5", subnet, 0x30, mask)
            .map(|rule| rule.comment())
            .collect();
        assert_eq!(comments.len(), 3);
        let key = ("moor5".to_owned(), subnet);
        assert_eq!(numbers(&comments, mask), [(key, 3)].into());
        let other = "0xff00".parse().unwrap();
        assert_eq!(numbers(&comments, other), BTreeMap::new());
        let foreign = ["prerouting: nonsense".to_owned(), String::new()];
        assert_eq!(numbers(&foreign, mask), BTreeMap::new());
    }
}
