//! PhoenixNAP's own flags.

use std::time::Duration;

use mooring_common::flags::Reader;

/// What the command line says of PhoenixNAP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flags {
    /// `--ip-block-size`: the prefix length of blocks that are bought, 28 or 29.
    pub block_size: u8,
    /// `--ip-block-sharing`: whether several Services have addresses of one block.
    pub shares_blocks: bool,
    /// `--max-ip-blocks`: how many blocks the cluster may have altogether.
    pub max_blocks: usize,
    /// `--attach-nodes`: whether servers are brought into the public network.
    pub attaches_nodes: bool,
    /// `--creation-settle-time`: for how long the cloud may take to show what was bought.
    pub settle_time: Duration,
}

/// 13 addresses that Services can have.
const SHARED_SIZE: u8 = 28;
/// What the Go controller buys.
const OWN_SIZE: u8 = 29;
const SIZES: &str = "write /28 (13 addresses that Services can have) or /29 (5)";

impl Flags {
    /// Reads them; faults stay with the reader.
    pub fn read(reader: &mut Reader<'_>) -> Self {
        let shares_blocks = reader.bool("ip-block-sharing");
        Self {
            block_size: read_size(reader, shares_blocks),
            shares_blocks,
            max_blocks: reader.parsed("max-ip-blocks", "write a whole number"),
            attaches_nodes: reader.bool("attach-nodes"),
            settle_time: reader.duration("creation-settle-time"),
        }
    }
}

fn read_size(reader: &mut Reader<'_>, shares_blocks: bool) -> u8 {
    let mut size = SHARED_SIZE;
    if let Some(text) = reader.text("ip-block-size") {
        match text.strip_prefix('/').unwrap_or(&text).parse() {
            Ok(asked @ (SHARED_SIZE | OWN_SIZE)) => size = asked,
            _ => reader.fault("ip-block-size", &text, SIZES),
        }
    }
    if shares_blocks { size } else { OWN_SIZE }
}
