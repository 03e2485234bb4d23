//! The pages, whose commands are run as they stand there.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

/// The root of the repository.
pub(super) fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A page of the documentation.
#[derive(Debug)]
pub(super) struct Page {
    path: &'static str,
    text: String,
}

impl Page {
    /// Reads a page, named from the root of the repository.
    pub(super) fn read(path: &'static str) -> Result<Self> {
        let file = repository().join(path);
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("reading {}", file.display()))?;
        Ok(Self { path, text })
    }

    /// Whether the page says this.
    pub(super) fn has(&self, words: &str) -> bool {
        self.text.contains(words)
    }

    /// The first code block that contains `words`.
    pub(super) fn block(&self, words: &str) -> Result<String> {
        self.blocks()
            .into_iter()
            .find(|block| block.contains(words))
            .with_context(|| format!("{} has no code block with '{words}'", self.path))
    }

    /// The first command of a code block that contains `words`, with the lines that continue it.
    pub(super) fn command(&self, words: &str) -> Result<String> {
        let block = self.block(words)?.replace("\\\n", " ");
        let command = block.lines().find(|line| line.contains(words));
        let command = command.with_context(|| format!("'{words}' is cut in {}", self.path))?;
        Ok(command.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// All code blocks, without their indentation.
    fn blocks(&self) -> Vec<String> {
        let mut blocks = Vec::new();
        let mut open: Option<(usize, String)> = None;
        for line in self.text.lines() {
            let is_fence = line.trim_start().starts_with("```");
            match (&mut open, is_fence) {
                (None, true) => open = Some((line.len() - line.trim_start().len(), String::new())),
                (Some((indent, block)), false) => {
                    block.push_str(line.get(*indent..).unwrap_or_default());
                    block.push('\n');
                }
                (Some(_), true) => blocks.extend(open.take().map(|(_, block)| block)),
                (None, false) => {}
            }
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::Page;

    #[test]
    fn commands_are_found_in_indented_blocks() {
        let page = Page {
            path: "a page",
            text: "1. Do:\n\n   ```sh\n   one two \\\n       three    # why\n   four\n   ```\n"
                .to_owned(),
        };
        assert_eq!(page.command("one two").unwrap(), "one two three # why");
        assert_eq!(
            page.block("four").unwrap(),
            "one two \\\n    three    # why\nfour\n"
        );
        page.block("five").unwrap_err();
    }
}
