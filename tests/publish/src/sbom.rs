//! What a program and its image are made of, in the form of CycloneDX.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::crates::Krate;

/// A package of the system of which files are in an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SystemPackage {
    /// For which architecture its files are.
    pub architecture: String,
    /// Whose package it is.
    pub distribution: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl SystemPackage {
    /// Reads a line `architecture distribution name version`.
    #[must_use]
    pub fn read(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some(SystemPackage {
            architecture: words.next()?,
            distribution: words.next()?,
            name: words.next()?,
            version: words.next()?,
        })
    }
}

/// The bill of materials of a program. Times and serial numbers, which would differ each time, are left out.
#[must_use]
pub fn cyclonedx(
    program: &str,
    version: &str,
    crates: &BTreeSet<Krate>,
    packages: &BTreeSet<SystemPackage>,
) -> Value {
    let of_crates = crates
        .iter()
        .filter(|krate| krate.name != program)
        .map(component);
    let of_system = packages.iter().map(|package| {
        let (name, version) = (&package.name, &package.version);
        let (from, architecture) = (&package.distribution, &package.architecture);
        let url = format!("pkg:deb/{from}/{name}@{version}?arch={architecture}");
        json!({"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url})
    });
    json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {
            "type": "application", "bom-ref": program, "name": program, "version": version,
            "licenses": [{"expression": "Apache-2.0"}],
        }},
        "components": of_crates.chain(of_system).collect::<Vec<_>>(),
    })
}

fn component(krate: &Krate) -> Value {
    let reference = format!("pkg:cargo/{}@{}", krate.name, krate.version);
    let mut component = json!({
        "type": "library", "bom-ref": reference, "name": krate.name, "version": krate.version,
        "licenses": [{"expression": krate.licence}],
    });
    // Mooring's own crates are in no registry.
    if let Some(checksum) = &krate.checksum {
        component["purl"] = json!(reference);
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_have_their_hash_and_packages_their_architecture() {
        let krate = Krate {
            name: "serde".to_owned(),
            version: "1.0.0".to_owned(),
            licence: "MIT OR Apache-2.0".to_owned(),
            folder: "/".into(),
            licence_file: None,
            checksum: Some("abc".to_owned()),
        };
        let package = SystemPackage::read("arm64 debian libc6-arm64-cross 2.36-8").unwrap();
        let bom = cyclonedx("a", "1", &[krate].into(), &[package].into());
        let components = &bom["components"];
        assert_eq!(components[0]["purl"], "pkg:cargo/serde@1.0.0");
        assert_eq!(components[0]["hashes"][0]["content"], "abc");
        let url = "pkg:deb/debian/libc6-arm64-cross@2.36-8?arch=arm64";
        assert_eq!(components[1]["purl"], url);
    }
}
