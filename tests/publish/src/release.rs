//! Puts the files of a release together from the programs that `deploy/release/build.sh` has built. The same
//! programs and commit give the same bytes.

mod chart;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::archive::{Entries, Entry, gzip, read_folder, sha256, tar};
use crate::crates::{self, Krate};
use crate::dockerfile::Config;
use crate::image::Image;
use crate::licences;
use crate::notes;
use crate::provenance::{self, Build};
use crate::sbom::{self, SystemPackage};

/// What decides how the programs are built, besides the commit.
const INPUTS: [&str; 3] = [
    "Cargo.lock",
    "rust-toolchain.toml",
    "deploy/release/rustc.sh",
];

/// The names of the images, as `deploy/image-root.sh` and the Dockerfile have them.
const IMAGES: [&str; 2] = ["central", "node"];

/// What is released, and from where.
pub struct Release {
    /// The root of the repository.
    pub workspace: PathBuf,
    /// Where the programs are, in a folder for each architecture.
    pub programs: PathBuf,
    /// The architectures.
    pub architectures: Vec<String>,
    /// Where the release goes.
    pub folder: PathBuf,
    /// The version.
    pub version: String,
    /// The commit.
    pub commit: String,
    /// When the commit was made, in seconds.
    pub second: u64,
    /// The registry and path below which images and chart are published.
    pub registry: String,
    /// Where the source is published.
    pub source: String,
    /// Who builds.
    pub builder: String,
    /// The program Helm.
    pub helm: PathBuf,
}

impl Release {
    /// Writes all files.
    pub fn write(&self) -> Result<()> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder)?;
        }
        fs::create_dir_all(&self.folder)?;
        let digests = self.images()?;
        chart::write(self, &digests)?;
        let licences = self.bills_and_licences()?;
        self.plugins(&licences)?;
        let section = notes::section(&self.text("RELEASE_NOTES.md")?, &self.version)?;
        self.put(
            &format!("RELEASE_NOTES-{}.md", self.version),
            section.as_bytes(),
        )?;
        self.sums_and_provenance()
    }

    /// The images for all architectures, and `images.txt` with their digests.
    fn images(&self) -> Result<BTreeMap<&'static str, String>> {
        let dockerfile = self.text("Dockerfile")?;
        let (mut digests, mut list) = (BTreeMap::new(), String::new());
        for image in IMAGES {
            let config = Config::read(&dockerfile, image, &self.version)?;
            let mut roots = BTreeMap::new();
            for architecture in &self.architectures {
                let root = self.programs.join(architecture).join("images").join(image);
                roots.insert(architecture.clone(), read_folder(&root)?);
            }
            let name = self.image_name(image);
            let packed = Image {
                name: &name,
                config: &config,
                commit: &self.commit,
                second: self.second,
                roots: &roots,
            }
            .pack()?;
            let file = format!("mooring-{image}-{}.oci.tar", self.version);
            self.put(&file, &packed.archive)?;
            list.push_str(&format!("{file} {name}@{}\n", packed.digest));
            digests.insert(image, packed.digest);
        }
        self.put("images.txt", list.as_bytes())?;
        Ok(digests)
    }

    fn image_name(&self, image: &str) -> String {
        format!("{}/mooring-{image}:{}", self.registry, self.version)
    }

    /// `kubectl-mooring` for each architecture, with its licences.
    fn plugins(&self, licences: &str) -> Result<()> {
        for architecture in &self.architectures {
            let program = self.programs.join(architecture).join("kubectl-mooring");
            let program =
                fs::read(&program).with_context(|| format!("reading {}", program.display()))?;
            let entries = Entries::from([
                ("kubectl-mooring".into(), Entry::Program(program)),
                ("LICENSE".into(), Entry::File(self.text("LICENSE")?.into())),
                ("THIRD-PARTY-LICENCES".into(), Entry::File(licences.into())),
            ]);
            let name = format!(
                "kubectl-mooring-{}-linux-{architecture}.tar.gz",
                self.version
            );
            self.put(&name, &gzip(&tar(&entries, self.second)?)?)?;
        }
        Ok(())
    }

    /// What each program is made of, and the licences of it all, which are returned.
    fn bills_and_licences(&self) -> Result<String> {
        let mut packages = BTreeSet::new();
        let mut others = BTreeMap::<String, Vec<PathBuf>>::new();
        for architecture in &self.architectures {
            let folder = self.programs.join(architecture);
            let lines = fs::read_to_string(folder.join("packages"))?;
            packages.extend(lines.lines().filter_map(SystemPackage::read));
            for line in fs::read_to_string(folder.join("licences"))?.lines() {
                let (name, file) = line.split_once('\t').context("a line of licences")?;
                others.insert(name.to_owned(), vec![file.into()]);
            }
        }
        let none = BTreeSet::new();
        let mut all = BTreeSet::<Krate>::new();
        for (program, crates) in crates::of_programs(&self.workspace)? {
            // The plugin is published without any library.
            let packages = if program == "kubectl-mooring" {
                &none
            } else {
                &packages
            };
            let bill = sbom::cyclonedx(program, &self.version, &crates, packages);
            let text = format!("{bill:#}\n");
            self.put(&format!("sbom.{program}.json"), text.as_bytes())?;
            all.extend(crates);
        }
        let text = licences::third_party(&all, &others, &self.workspace.join("LICENSE"))?;
        self.put("THIRD-PARTY-LICENCES", text.as_bytes())?;
        Ok(text)
    }

    /// The sums of all files, which are the same for everybody who builds, and who has built these.
    fn sums_and_provenance(&self) -> Result<()> {
        let mut sums = BTreeMap::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            sums.insert(name, sha256(&fs::read(entry.path())?));
        }
        let lines = sums.iter().map(|(name, sum)| format!("{sum}  {name}\n"));
        let lines = lines.collect::<String>();
        self.put("SHA256SUMS", lines.as_bytes())?;
        sums.insert("SHA256SUMS".to_owned(), sha256(lines.as_bytes()));

        let (mut toolchains, mut inputs) = (BTreeMap::new(), BTreeMap::new());
        for architecture in &self.architectures {
            let folder = self.programs.join(architecture);
            let lines = fs::read_to_string(folder.join("toolchain"))?;
            let lines = lines.lines().map(str::to_owned).collect();
            toolchains.insert(architecture.clone(), lines);
        }
        for name in INPUTS {
            inputs.insert(name.to_owned(), sha256(self.text(name)?.as_bytes()));
        }
        let build = Build {
            source: &self.source,
            commit: &self.commit,
            version: &self.version,
            builder: &self.builder,
            toolchains: &toolchains,
            inputs: &inputs,
        };
        let statement = format!("{:#}\n", provenance::statement(&build, &sums));
        self.put("provenance.json", statement.as_bytes())
    }

    fn text(&self, name: &str) -> Result<String> {
        fs::read_to_string(self.workspace.join(name)).with_context(|| format!("reading {name}"))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path: &Path = &self.folder.join(name);
        fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
    }
}
