//! The clouds. Adding one is its folder and a line in [`CLOUDS`].

pub mod cloudlycke;
pub mod cloudscale;
pub mod linode;
pub mod phoenixnap;

use crate::cloud_provider::registration::Registration;

/// All of them. Where several could be meant, it is the first.
pub const CLOUDS: &[&Registration] = &[
    &linode::REGISTRATION,
    &cloudscale::REGISTRATION,
    &phoenixnap::REGISTRATION,
    &cloudlycke::REGISTRATION,
];

/// The cloud of this name, in whatever case: manifests in the field write capitals.
#[must_use]
pub fn named(name: &str) -> Option<&'static Registration> {
    let mut clouds = CLOUDS.iter().copied();
    clouds.find(|cloud| cloud.name.eq_ignore_ascii_case(name))
}
