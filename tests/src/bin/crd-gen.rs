//! Prints the CRD of L2Network as the chart ships it:
//! `cargo run -p mooring-tests --bin crd-gen > deploy/chart/mooring/crds/l2networks.yaml`.

use kube::CustomResourceExt;
use mooring_common::l2_network::L2Network;

const HEADER: &str = "\
# The layer-2 segments on which service addresses live.
# Generated from common/src/l2_network.rs; do not edit it here, but run
#   cargo run -p mooring-tests --bin crd-gen > deploy/chart/mooring/crds/l2networks.yaml
";

fn main() -> anyhow::Result<()> {
    print!("{HEADER}{}", serde_norway::to_string(&L2Network::crd())?);
    Ok(())
}
