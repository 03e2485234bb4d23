//! Images as OCI archives, written without a container tool: one for each program, for all architectures.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};

use crate::archive::{Entries, Entry, gzip, sha256, tar};
use crate::dockerfile::Config;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// An image of a release.
pub struct Image<'a> {
    /// Its name, with registry and tag.
    pub name: &'a str,
    /// What it starts.
    pub config: &'a Config,
    /// The commit that it is built from.
    pub commit: &'a str,
    /// When that commit was made, in seconds.
    pub second: u64,
    /// The files for each architecture.
    pub roots: &'a BTreeMap<String, Entries>,
}

/// An image, packed.
pub struct Packed {
    /// The archive.
    pub archive: Vec<u8>,
    /// The digest that names the image for all architectures.
    pub digest: String,
}

/// What an OCI layout has, by digest.
#[derive(Default)]
struct Blobs(Entries);

impl Blobs {
    /// Adds bytes, and gives what refers to them.
    fn add(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let (digest, size) = (sha256(&bytes), bytes.len());
        let path = PathBuf::from("blobs/sha256").join(&digest);
        self.0.insert(path, Entry::File(bytes));
        json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size})
    }

    fn add_json(&mut self, media_type: &str, value: &Value) -> Value {
        self.add(media_type, value.to_string().into_bytes())
    }
}

impl Image<'_> {
    /// The image as an archive that runtimes import and tools copy to a registry.
    pub fn pack(&self) -> Result<Packed> {
        let mut blobs = Blobs::default();
        let mut manifests = Vec::new();
        for (architecture, root) in self.roots {
            manifests.push(self.manifest(architecture, root, &mut blobs)?);
        }
        let index = json!({
            "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests,
            "annotations": self.annotations(),
        });
        let mut index = blobs.add_json(INDEX, &index);
        let digest = index["digest"].as_str().unwrap_or_default().to_owned();
        let tag = self.name.rsplit_once(':').map_or("", |(_, tag)| tag);
        index["annotations"] = json!({
            "io.containerd.image.name": self.name, "org.opencontainers.image.ref.name": tag,
        });
        let top = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [index]});
        let mut entries = blobs.0;
        entries.insert("blobs".into(), Entry::Folder);
        entries.insert("blobs/sha256".into(), Entry::Folder);
        let file = |value: &Value| Entry::File(value.to_string().into_bytes());
        entries.insert("index.json".into(), file(&top));
        entries.insert(
            "oci-layout".into(),
            file(&json!({"imageLayoutVersion": "1.0.0"})),
        );
        let archive = tar(&entries, self.second)?;
        Ok(Packed { archive, digest })
    }

    fn manifest(&self, architecture: &str, root: &Entries, blobs: &mut Blobs) -> Result<Value> {
        let layer = tar(root, self.second)?;
        let diff = format!("sha256:{}", sha256(&layer));
        let layer = blobs.add(LAYER, gzip(&layer)?);
        let created = self.created()?;
        let config = json!({
            "created": created, "architecture": architecture, "os": "linux",
            "config": self.config.as_json(),
            "rootfs": {"type": "layers", "diff_ids": [diff]},
            "history": [{"created": created, "created_by": "make release"}],
        });
        let config = blobs.add_json(CONFIG, &config);
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
            "annotations": self.annotations(),
        });
        let mut manifest = blobs.add_json(MANIFEST, &manifest);
        manifest["platform"] = json!({"architecture": architecture, "os": "linux"});
        Ok(manifest)
    }

    fn created(&self) -> Result<String> {
        let second = i64::try_from(self.second)?;
        Ok(jiff::Timestamp::from_second(second)?.to_string())
    }

    fn annotations(&self) -> BTreeMap<String, String> {
        let mut annotations = self.config.labels().clone();
        annotations.insert(
            "org.opencontainers.image.revision".to_owned(),
            self.commit.to_owned(),
        );
        annotations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCKERFILE: &str = include_str!("../../../Dockerfile");

    /// Every file of an archive by its path.
    fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(archive);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
            (path, bytes)
        });
        entries.collect()
    }

    #[test]
    fn every_digest_names_what_is_there_and_the_times_are_the_commits() {
        let config = Config::read(DOCKERFILE, "node", "1.0.0").unwrap();
        let root = |text: &str| Entries::from([("a".into(), Entry::Program(text.into()))]);
        let roots = BTreeMap::from([
            ("amd64".to_owned(), root("one")),
            ("arm64".to_owned(), root("other")),
        ]);
        let image = Image {
            name: "registry.example/mooring-node:1.0.0",
            config: &config,
            commit: "abc",
            second: 1_700_000_000,
            roots: &roots,
        };
        let packed = image.pack().unwrap();
        assert_eq!(packed.archive, image.pack().unwrap().archive);

        let files = files(&packed.archive);
        let read = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap();
            let bytes = &files[&digest.replace("sha256:", "blobs/sha256/")];
            assert_eq!(digest, format!("sha256:{}", sha256(bytes)));
            assert_eq!(descriptor["size"], bytes.len());
            bytes.clone()
        };
        let parse = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
        let top = parse(&files["index.json"]);
        assert_eq!(top["manifests"][0]["digest"], packed.digest);
        let index = parse(&read(&top["manifests"][0]));
        let architectures = index["manifests"].as_array().unwrap();
        assert_eq!(architectures.len(), 2);
        for manifest in architectures {
            let platform = &manifest["platform"]["architecture"];
            let manifest = parse(&read(manifest));
            let config = parse(&read(&manifest["config"]));
            assert_eq!(&config["architecture"], platform);
            assert_eq!(config["created"], "2023-11-14T22:13:20Z");
            read(&manifest["layers"][0]);
        }
    }
}
