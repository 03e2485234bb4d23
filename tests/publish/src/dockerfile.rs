//! What the Dockerfile says of an image: the last stages, which copy one folder of the build stage. What that
//! folder has, `deploy/image-root.sh` lays out, for the Dockerfile and for releases.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// What a container of an image starts, as whom, and what its labels say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Config {
    user: String,
    entrypoint: Vec<String>,
    env: Vec<String>,
    labels: BTreeMap<String, String>,
}

impl Config {
    /// The stage of that name.
    pub fn read(dockerfile: &str, stage: &str, version: &str) -> Result<Self> {
        let joined = dockerfile.replace("\\\n", " ");
        let mut lines = joined.lines().map(str::trim);
        let end = format!(" AS {stage}");
        lines
            .find(|line| line.starts_with("FROM ") && line.ends_with(&end))
            .with_context(|| format!("the Dockerfile has no stage {stage}"))?;
        let mut config = Config::default();
        for line in lines.take_while(|line| !line.starts_with("FROM ")) {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "" | "#" | "ARG" => {}
                "COPY" => {
                    let expected = format!("--from=build /images/{stage} /");
                    ensure!(rest == expected, "the image {stage} has more in it: {line}");
                }
                "USER" => rest.clone_into(&mut config.user),
                "ENTRYPOINT" => config.entrypoint = serde_json::from_str(rest)?,
                "ENV" => config.env.push(rest.to_owned()),
                "LABEL" => config.labels.extend(pairs(rest, version)?),
                _ => bail!("this line of the Dockerfile is unknown to releases: {line}"),
            }
        }
        Ok(config)
    }

    /// As an image's configuration has it.
    #[must_use]
    pub fn as_json(&self) -> Value {
        json!({
            "User": self.user, "Entrypoint": self.entrypoint, "Env": self.env, "Labels": self.labels,
        })
    }

    /// The labels, which are the annotations of a release's image too.
    #[must_use]
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }
}

/// Reads `name="value" name="value"`.
fn pairs(mut text: &str, version: &str) -> Result<BTreeMap<String, String>> {
    let mut pairs = BTreeMap::new();
    while !text.trim().is_empty() {
        let (name, rest) = text
            .split_once("=\"")
            .with_context(|| format!("not a label: {text}"))?;
        let (value, rest) = rest
            .split_once('"')
            .with_context(|| format!("not a label: {text}"))?;
        let value = value.replace("${VERSION}", version);
        pairs.insert(name.trim().to_owned(), value);
        text = rest;
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCKERFILE: &str = include_str!("../../../Dockerfile");

    #[test]
    fn both_images_are_what_the_dockerfile_says() {
        let node = Config::read(DOCKERFILE, "node", "1.2.3").unwrap();
        assert_eq!(node.user, "0:0");
        assert_eq!(node.entrypoint, ["/usr/bin/mooring-node"]);
        assert_eq!(node.labels["org.opencontainers.image.version"], "1.2.3");
        let central = Config::read(DOCKERFILE, "central", "1.2.3").unwrap();
        assert_eq!(central.user, "65532:65532");
        assert_eq!(central.env, ["PATH=/usr/bin"]);
    }

    #[test]
    fn what_is_unknown_is_refused() {
        let more = DOCKERFILE.replace("\nUSER", "\nRUN something\nUSER");
        let error = Config::read(&more, "node", "1").unwrap_err().to_string();
        assert!(error.contains("RUN something"), "{error}");
        let more = DOCKERFILE.replace("/images/node /", "/images/node /usr");
        assert!(Config::read(&more, "node", "1").is_err());
    }
}
