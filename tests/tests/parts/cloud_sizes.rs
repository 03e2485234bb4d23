//! The folder of each cloud stays as small as it is: what two clouds need, or what knows nothing of a cloud, is the
//! engine's.

use std::fs;
use std::path::{Path, PathBuf};

/// How many lines each has at most, without tests; comments and blank lines count.
const MOST: [(&str, usize); 4] = [
    ("brightbox", 2_496),
    ("cloudscale", 2_962),
    ("linode", 4_608),
    ("phoenixnap", 3_715),
];

/// All sources in a folder but those that only tests need.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        match stem {
            "tests" | "testing" => {}
            _ if path.is_dir() => sources(&path, found),
            _ => found.push(path),
        }
    }
}

/// The lines of a source without the tests at its end.
fn lines(source: &Path) -> usize {
    let text = fs::read_to_string(source).unwrap();
    let shipped = text.split("\n#[cfg(test)]\nmod tests {").next();
    shipped.unwrap_or_default().lines().count()
}

#[test]
fn folders_of_clouds_do_not_grow() {
    let clouds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../central/src/clouds");
    for (cloud, most) in MOST {
        let mut all = vec![clouds.join(format!("{cloud}.rs"))];
        sources(&clouds.join(cloud), &mut all);
        let there: usize = all.iter().map(|source| lines(source)).sum();
        assert!(
            there <= most,
            "clouds/{cloud} has {there} lines without tests, and {most} at most: move what knows nothing of the \
             cloud, or what another one needs too, into the engine; where it is the cloud's own, raise the limit here"
        );
    }
}
