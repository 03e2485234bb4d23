//! The commands in the code blocks of a page, as far as the pages use the shell's language.

use std::iter::Peekable;
use std::str::Chars;

/// Words before a command that are not its own.
const KEYWORDS: [&str; 11] = [
    "do", "done", "then", "else", "if", "fi", "while", "!", "{", "sudo", "xargs",
];

/// The words of each command, in the order of the page. Quotes are gone; redirections and comments too.
pub fn commands(page: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for block in blocks(page, &["sh", "bash", "console"]) {
        let lines: Vec<_> = block.lines().map(typed).collect();
        let mut reader = Reader::default();
        reader.read(&lines.join("\n"));
        for words in reader.commands {
            found.extend(parts(&words));
        }
    }
    found
}

/// The blocks in one of these languages.
pub fn blocks(page: &str, languages: &[&str]) -> Vec<String> {
    let (mut found, mut block) = (Vec::new(), None::<(bool, String)>);
    for line in page.lines() {
        match (line.trim_start().strip_prefix("```"), &mut block) {
            (Some(_), Some(_)) => {
                let (is_one, text) = block.take().unwrap_or_default();
                found.extend(is_one.then_some(text));
            }
            (Some(language), None) => {
                block = Some((languages.contains(&language), String::new()));
            }
            (None, Some((_, text))) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    found
}

/// A line without a console's prompt.
fn typed(line: &str) -> &str {
    line.trim_start().strip_prefix("$ ").unwrap_or(line)
}

/// A command without what precedes it, and the one that it runs elsewhere.
fn parts(words: &[String]) -> Vec<Vec<String>> {
    let is_assignment = |word: &String| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
    };
    let begins = words
        .iter()
        .position(|word| !KEYWORDS.contains(&word.as_str()) && !is_assignment(word));
    let words = &words[begins.unwrap_or(words.len())..];
    let elsewhere = words.iter().position(|word| word == "--");
    let (own, inner) = words.split_at(elsewhere.unwrap_or(words.len()));
    let image = own
        .iter()
        .position(|word| word.starts_with("mooring-central:"));
    let (own, in_container) = match image {
        Some(at) if own[0] == "docker" && own[1] == "run" => {
            let mut command = own[at..].to_vec();
            "mooring-central".clone_into(&mut command[0]);
            (&own[..at], command)
        }
        _ => (own, Vec::new()),
    };
    let all = [
        own.to_vec(),
        in_container,
        inner.iter().skip(1).cloned().collect(),
    ];
    all.into_iter().filter(|words| !words.is_empty()).collect()
}

#[derive(Default)]
struct Reader {
    commands: Vec<Vec<String>>,
    words: Vec<String>,
    word: Option<String>,
    /// The next word is a redirection's: a file, or what ends a document.
    redirects: bool,
    document_ends: Option<String>,
    is_document: bool,
}

impl Reader {
    fn read(&mut self, text: &str) {
        let mut text = text.chars().peekable();
        while let Some(c) = text.next() {
            match c {
                '\\' => match text.next() {
                    Some('\n') | None => self.end_word(),
                    Some(c) => self.push(c),
                },
                '\'' => self.quoted(&mut text, '\''),
                '"' => self.quoted(&mut text, '"'),
                '#' if self.word.is_none() => while text.next_if(|c| *c != '\n').is_some() {},
                '\n' => {
                    self.end_command();
                    self.skip_document(&mut text);
                }
                ' ' => self.end_word(),
                ';' | '|' | '(' | ')' | '&' => self.end_command(),
                '>' | '<' => {
                    self.end_word();
                    self.is_document = text.peek() == Some(&'<');
                    while text.next_if(|c| "<>&".contains(*c)).is_some() {}
                    self.redirects = true;
                }
                c => self.push(c),
            }
        }
        self.end_command();
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn quoted(&mut self, text: &mut Peekable<Chars<'_>>, quote: char) {
        self.word.get_or_insert_default();
        while let Some(c) = text.next_if(|c| *c != quote) {
            match c {
                '\\' if quote == '"' => self.word.as_mut().map_or((), |w| w.extend(text.next())),
                c => self.push(c),
            }
        }
        text.next();
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else {
            return;
        };
        if !std::mem::take(&mut self.redirects) {
            self.words.push(word);
        } else if std::mem::take(&mut self.is_document) {
            self.document_ends = Some(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        let words = std::mem::take(&mut self.words);
        self.commands.extend((!words.is_empty()).then_some(words));
    }

    fn skip_document(&mut self, text: &mut Peekable<Chars<'_>>) {
        let Some(end) = self.document_ends.take() else {
            return;
        };
        loop {
            let mut line = String::new();
            while let Some(c) = text.next_if(|c| *c != '\n') {
                line.push(c);
            }
            if text.next().is_none() || line.trim() == end {
                return;
            }
        }
    }
}

#[test]
fn commands_are_found_in_blocks() {
    let page = "Text\n```sh\nA=1 kubectl get \"a b\" \\\n    -o 'c d' | sort > e    # why\nmake x && make y\n\
        kubectl apply -f - <<END\nmake nothing\nEND\nfor p in a b; do\n    ctr import $p.tar\ndone\n```\n\
        ```yaml\nmake: no\n```\n   ```sh\n   kubectl exec p -- mooring-central plan --all\n   ```\n\
        ```sh\ndocker run -v \"$HOME\" mooring-central:1 plan -f x\n```\n";
    let expected = [
        "kubectl get a b -o c d",
        "sort",
        "make x",
        "make y",
        "kubectl apply -f -",
        "for p in a b",
        "ctr import $p.tar",
        "kubectl exec p",
        "mooring-central plan --all",
        "docker run -v $HOME",
        "mooring-central plan -f x",
    ];
    let found: Vec<_> = commands(page).iter().map(|words| words.join(" ")).collect();
    assert_eq!(found, expected);
}
