//! The clouds that the flags ask for, opened.

use std::sync::Arc;

use anyhow::Context as _;
use prometheus_client::registry::Registry;

use crate::clouds::cloudlycke::Cloudlycke;
use crate::clouds::{Clouds, Instances};
use crate::flags::{Flags, Provider};

/// What was opened.
pub struct Opened {
    /// All clouds.
    pub clouds: Arc<Clouds>,
    /// The one whose machines a file describes, if it is among them.
    pub machines: Option<Arc<Cloudlycke>>,
}

/// Opens them, with the credentials in the environment.
///
/// # Errors
/// Whatever keeps one from being used, with what to do about it.
pub async fn open(flags: &Flags, registry: &mut Registry) -> anyhow::Result<Opened> {
    let mut clouds: Vec<Arc<dyn Instances>> = Vec::new();
    let mut machines = None;
    for provider in &flags.providers {
        match provider {
            Provider::Linode => {}
            Provider::Cloudscale => {}
            Provider::Cloudlycke => {
                let opened = Cloudlycke::open(flags.cloud_config.clone()).await?;
                let opened = Arc::new(opened);
                clouds.push(opened.clone());
                machines = Some(opened);
            }
        }
    }
    Ok(Opened {
        clouds: Arc::new(Clouds::new(clouds)),
        machines,
    })
}
