//! The clouds. Adding one is its folder and a line in [`CLOUDS`].

pub mod brightbox;
pub mod cloudlycke;
pub mod cloudscale;
pub mod linode;
pub mod phoenixnap;

use mooring_common::clouds;
use serde_json::Value;

use crate::cloud_provider::annotations::AnnotatedObject;
use crate::cloud_provider::registration::Registration;

/// All of them. Where several could be meant, it is the first.
pub const CLOUDS: &[&Registration] = &[
    &linode::REGISTRATION,
    &cloudscale::REGISTRATION,
    &phoenixnap::REGISTRATION,
    &brightbox::REGISTRATION,
    &cloudlycke::REGISTRATION,
];

/// What the chart's policies permit for all clouds together: `files/clouds.json`.
#[must_use]
pub fn for_the_chart() -> Value {
    let rows = CLOUDS.iter().flat_map(|cloud| cloud.annotations);
    let written: Vec<&str> = rows
        .filter(|row| row.by_central && row.on == AnnotatedObject::Service)
        .map(|row| row.key)
        .collect();
    clouds::for_the_chart(&written)
}

/// The cloud of this name, in whatever case: manifests in the field write capitals.
#[must_use]
pub fn named(name: &str) -> Option<&'static Registration> {
    let mut clouds = CLOUDS.iter().copied();
    clouds.find(|cloud| cloud.name.eq_ignore_ascii_case(name))
}
