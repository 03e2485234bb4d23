//! What flags say of Brightbox.

use mooring_common::flags::Reader;

/// The name of a cluster that gives itself none.
const CLUSTER: &str = "kubernetes";

/// What flags say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flags {
    /// `--cluster-name`: what the names of all that is made end with.
    pub cluster_name: String,
}

impl Flags {
    /// Reads them.
    #[must_use]
    pub fn read(reader: &mut Reader<'_>) -> Self {
        let name = reader.text("cluster-name");
        Self {
            cluster_name: name.unwrap_or_else(|| CLUSTER.to_owned()),
        }
    }
}
