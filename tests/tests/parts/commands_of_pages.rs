//! The commands of the pages name what there is: recipes, files, programs with their commands and flags, and values of the
//! chart, whose blocks are rendered. What they do, `make test-install`, the demos and the suites of the guides see.

mod shell;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use std::thread;

use mooring_test_cluster::control_plane;
use mooring_test_support::program::Program;
use serde_json::Value;

use crate::deploy_manifests::helm::helm;
use crate::references::chart_values::{self, is_value};

/// Flags with a value that may stand before a command.
const BEFORE_COMMANDS: [&str; 4] = ["--namespace", "-n", "--kubeconfig", "--context"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// Where a program is that pages call by this name, if its flags can be asked for.
fn program(name: &str) -> Option<PathBuf> {
    Some(match name {
        "helm" => helm().to_owned(),
        "kubectl" => control_plane::program("kubectl").unwrap(),
        "mooring-central" => Program::Central.path().unwrap(),
        "mooring-node" => Program::Node.path().unwrap(),
        "kubectl mooring" => Program::Kubectl.path().unwrap(),
        _ => return None,
    })
}

/// What is wrong with a command of a page.
fn faults(page: &str, words: &[String]) -> Vec<String> {
    let (mut name, mut rest) = (words[0].as_str(), &words[1..]);
    if name == "kubectl" && rest.first().is_some_and(|word| word == "mooring") {
        (name, rest) = ("kubectl mooring", &rest[1..]);
    }
    let mut faults = missing_files(page, name, rest);
    if name == "make" {
        faults.extend(missing_recipes(rest));
    }
    if name == "helm" {
        faults.extend(unknown_values(rest));
    }
    if let Some(program) = program(name) {
        faults.extend(unknown_flags(name, &program, rest));
    }
    faults
}

fn missing_recipes(words: &[String]) -> Vec<String> {
    let makefile = read("Makefile");
    let recipes = words.iter().filter(|word| !word.contains('='));
    let missing = recipes.filter(|recipe| !makefile.contains(&format!("\n{recipe}:")));
    missing
        .map(|recipe| format!("no recipe {recipe}"))
        .collect()
}

/// Values of flags with one of these names, written with `=` or as the next word.
fn values_of<'a>(words: &'a [String], names: &[&str]) -> Vec<&'a str> {
    let pairs = words.iter().enumerate();
    let values = pairs.filter_map(|(at, word)| match word.split_once('=') {
        _ if names.contains(&word.as_str()) => words.get(at + 1).map(String::as_str),
        Some((name, value)) if names.contains(&name) => Some(value),
        _ => None,
    });
    values.collect()
}

/// Files that are neither in the repository nor spoken of anywhere else on the page, which then says what is in them.
fn missing_files(page: &str, program: &str, words: &[String]) -> Vec<String> {
    let mut named = values_of(words, &["-f", "--filename", "--values", "--cloud-config"]);
    let files = values_of(words, &["--set-file"]);
    named.extend(
        files
            .iter()
            .filter_map(|set| set.split_once('='))
            .map(|(_, file)| file),
    );
    if program != "kubectl" {
        let in_deploy = words.iter().filter(|word| word.starts_with("deploy/"));
        named.extend(in_deploy.map(String::as_str));
    }
    let missing = named.into_iter().filter(|file| {
        let is_elsewhere = *file == "-" || file.starts_with('/') || file.contains("://");
        let is_of_page = !file.contains('/') && page.matches(file).count() > 1;
        !is_elsewhere && !is_of_page && !root().join(file).exists()
    });
    missing.map(|file| format!("no file {file}")).collect()
}

fn unknown_values(words: &[String]) -> Vec<String> {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    let schema = SCHEMA.get_or_init(|| {
        let text = read("deploy/chart/mooring/values.schema.json");
        serde_json::from_str(&text).unwrap()
    });
    let set = ["--set", "--set-string", "--set-json", "--set-file"];
    let set = values_of(words, &set);
    // A comma that separates values is followed by a key.
    let keys = set.iter().flat_map(|set| {
        set.replace("\\,", "")
            .split(',')
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    let keys = keys.filter_map(|set| set.split_once('=').map(|(key, _)| key.to_owned()));
    let unknown = keys.filter(|key| !is_value(schema, key));
    unknown.map(|key| format!("no value {key}")).collect()
}

/// What a program says of a command and its flags; and what it fails with.
fn help(program: &Path, command: &[&str]) -> Result<String, String> {
    static KNOWN: Mutex<BTreeMap<String, Result<String, String>>> = Mutex::new(BTreeMap::new());
    let key = format!("{} {}", program.display(), command.join(" "));
    if let Some(known) = KNOWN.lock().unwrap().get(&key) {
        return known.clone();
    }
    let ask = |words: &[&str]| {
        let ran = Command::new(program).args(words).output().unwrap();
        let told = String::from_utf8_lossy(&ran.stdout).into_owned();
        let failed = String::from_utf8_lossy(&ran.stderr).into_owned();
        ran.status.success().then_some(told).ok_or(failed)
    };
    let mut told = ask(&[command, &["--help"]].concat());
    if program.ends_with("kubectl") {
        let of_all = ask(&["options"]).unwrap();
        told = told.map(|told| told + &of_all);
    }
    KNOWN.lock().unwrap().insert(key, told.clone());
    told
}

fn unknown_flags(name: &str, program: &Path, words: &[String]) -> Vec<String> {
    let mut command = Vec::new();
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        if BEFORE_COMMANDS.contains(&word) {
            rest.next();
        } else if word.starts_with('-') {
            if !command.is_empty() {
                break;
            }
        } else if command.len() < 3 && word.chars().all(|c| c.is_ascii_lowercase() || c == '-') {
            command.push(word);
        } else {
            break;
        }
    }
    let told = match help(program, &command) {
        Ok(told) => told,
        Err(told) => return vec![told],
    };
    let mut faults = Vec::new();
    let usage = command.first().map(|first| format!("{name} {first}"));
    if usage.is_some_and(|usage| !told.contains(&usage)) {
        faults.push(format!("no command {command:?}"));
    }
    let known: BTreeSet<_> = told
        .split(|c: char| c.is_whitespace() || "=,[(`".contains(c))
        .filter(|word| word.starts_with('-'))
        .collect();
    let flags = words.iter().filter(|word| {
        let named = word
            .strip_prefix('-')
            .map(|word| word.trim_start_matches('-'));
        named.is_some_and(|named| named.starts_with(|c: char| c.is_ascii_alphabetic()))
    });
    let flags = flags.map(|word| word.split_once('=').map_or(word.as_str(), |(flag, _)| flag));
    let unknown = flags.filter(|flag| !known.contains(flag) && *flag != "--version");
    faults.extend(unknown.map(|flag| format!("no flag {flag}")));
    faults
}

/// The pages with commands, by their paths.
fn pages() -> BTreeMap<PathBuf, String> {
    let others = [
        "README.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
        "deploy/README.md",
    ];
    let mut all: Vec<_> = others.map(PathBuf::from).into();
    chart_values::pages(&root().join("docs"), &mut all);
    let pages = all.into_iter().map(|path| {
        let text = std::fs::read_to_string(root().join(&path)).unwrap();
        (path, text)
    });
    pages.collect()
}

#[test]
fn the_commands_of_the_pages_name_what_there_is() {
    let pages = &pages();
    let commands: Vec<_> = pages
        .iter()
        .flat_map(|(path, text)| {
            let commands = shell::commands(text).into_iter();
            commands.map(move |words| (path, text, words))
        })
        .collect();
    assert!(commands.len() > 200, "{}", commands.len());
    let wrong = &Mutex::new(Vec::new());
    thread::scope(|scope| {
        for some in commands.chunks(commands.len().div_ceil(4)) {
            scope.spawn(move || {
                for (path, text, words) in some {
                    for fault in faults(text, words) {
                        let line = format!("{}: {}: {fault}", path.display(), words.join(" "));
                        wrong.lock().unwrap().push(line);
                    }
                }
            });
        }
    });
    let wrong = wrong.lock().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_command_that_names_what_is_not_there_is_found() {
    let page = "```sh\nmake nothing\nhelm install mooring deploy/chart/other --set central.replica=1 --nothing\n\
        helm upgrade mooring deploy/chart/mooring --set 'cloudProvider=linode\\,cloudlycke,nobody=1'\n\
        kubectl -n shop rollout status deploy/a --nothing=1\nkubectl nothing\nkubectl apply -f nothing.yaml\n\
        kubectl mooring nothing\nkubectl mooring doctor --nothing\nkubectl exec a -- mooring-central nothing\n\
        mooring-central plan --all --nothing\nmooring-node control-plane-manifest --nothing\n```\n";
    let found: Vec<_> = shell::commands(page)
        .iter()
        .map(|words| faults(page, words).join("; "))
        .collect();
    let expected = [
        "no recipe nothing",
        "no file deploy/chart/other; no value central.replica; no flag --nothing",
        "no value nobody",
        "no flag --nothing",
        "unknown command",
        "no file nothing.yaml",
        "no command \"nothing\"",
        "no flag --nothing",
        "",
        "no command [\"nothing\"]",
        "no flag --nothing",
        "no flag --nothing",
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        let is_so = if expected.is_empty() {
            found.is_empty()
        } else {
            found.contains(expected)
        };
        assert!(is_so, "{found} is not {expected}");
    }
}
