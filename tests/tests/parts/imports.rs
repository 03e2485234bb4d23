//! The picture at the top of each `lib.rs` is true: a module imports only modules further down in it. No files
//! import each other in a circle, but for a module and what is below it. And of the clouds, none is named
//! in central but in its own folder and in the list.
//!
//! Imports are read as text: `use` statements and paths that begin with `crate`, `self` or `super`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module's path below the crate: `["wire", "codec"]`.
type Module = Vec<String>;

/// The source without comments, strings and unit tests.
fn code(text: &str) -> String {
    let shipped = text.split("\n#[cfg(test)]\nmod tests").next();
    let lines = shipped.unwrap_or_default().lines();
    let bare = lines.map(|line| line.split("//").next().unwrap_or_default());
    let joined = bare.collect::<Vec<_>>().join("\n");
    let outside = joined.split('"').step_by(2);
    outside.collect::<Vec<_>>().join("\"\"")
}

/// All modules of the crate with their source; the unit tests are left out.
fn modules(folder: &Path, module: &Module, found: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let mut module = module.clone();
        module.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
        if module.last().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            modules(&path, &module, found);
        } else {
            found.insert(module, code(&fs::read_to_string(&path).unwrap()));
        }
    }
}

/// `a::{b, c::{d}}` as `a::b` and `a::c::d`.
fn spread(path: &str) -> Vec<String> {
    let Some((head, rest)) = path.split_once('{') else {
        return vec![path.trim().to_owned()];
    };
    let inside = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut start, mut items) = (0, 0, Vec::new());
    for (at, letter) in inside.char_indices().chain([(inside.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    let items = items.into_iter().filter(|item| !item.trim().is_empty());
    items
        .flat_map(|item| spread(&format!("{}{}", head.trim(), item.trim())))
        .collect()
}

/// What a source names: its `use` statements, and paths elsewhere in it.
fn paths(source: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for statement in source.split(';') {
        let is_word = |(at, _): &(usize, &str)| {
            let before = &statement[..*at];
            before.is_empty() || before.ends_with(char::is_whitespace)
        };
        let import = statement.match_indices("use ").find(is_word);
        let (before, import) = statement.split_at(import.map_or(statement.len(), |(at, _)| at));
        let words = before.split(|c: char| !(c.is_alphanumeric() || "_:".contains(c)));
        paths.extend(words.filter(|word| word.contains("::")).map(str::to_owned));
        paths.extend(import.strip_prefix("use ").into_iter().flat_map(spread));
    }
    paths
}

/// The module that a path leads to from `here`, if it is one of this crate.
fn target(path: &str, here: &Module, known: &BTreeMap<Module, String>) -> Option<Module> {
    let word = |word: &'_ str| {
        word.split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let mut words = path.split("::").map(word).peekable();
    let mut module = match words.peek()?.as_str() {
        "crate" => Module::new(),
        "self" | "super" => here.clone(),
        _ => return None,
    };
    while let Some(word) = words.next_if(|word| ["crate", "self", "super"].contains(&word.as_str()))
    {
        if word == "super" {
            module.pop();
        }
    }
    for word in words {
        module.push(word);
        if !known.contains_key(&module) {
            module.pop();
            break;
        }
    }
    (!module.is_empty() && module != *here).then_some(module)
}

/// Who imports whom in a program.
fn imports(program: &str) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut known = BTreeMap::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let source = source.join(program).join("src");
    modules(&source, &Module::new(), &mut known);
    for top in ["lib", "main"] {
        known.remove(&vec![top.to_owned()]);
    }
    let of = |(here, source): (&Module, &String)| {
        let targets = paths(source);
        let targets = targets.iter();
        let targets = targets.filter_map(|path| target(path, here, &known));
        (here.clone(), targets.collect())
    };
    known.iter().map(of).collect()
}

#[test]
fn modules_of_the_node_daemon_import_only_lower_modules() {
    import_only_lower_modules(
        "node-daemon",
        include_str!("../../../node-daemon/src/lib.rs"),
    );
}

#[test]
fn modules_of_central_import_only_lower_modules() {
    import_only_lower_modules("central", include_str!("../../../central/src/lib.rs"));
}

/// As the picture has them that a library opens with.
fn import_only_lower_modules(program: &str, library: &str) {
    let picture = library.split("```").nth(1).unwrap();
    let rows: Vec<&str> = picture
        .lines()
        .skip(1)
        .filter_map(|line| {
            line.split_whitespace()
                .find(|word| word.is_ascii() && *word != "//!")
        })
        .collect();
    assert!(rows.len() <= 10, "{rows:?}");
    let row = |module: &Module| rows.iter().position(|name| *name == module[0]);
    for (from, targets) in imports(program) {
        for to in targets {
            let (upper, lower) = (row(&from), row(&to));
            assert!(
                upper.is_some() && lower.is_some(),
                "{from:?} or {to:?} is not in the picture"
            );
            assert!(upper <= lower, "{from:?} imports {to:?}");
        }
    }
}

#[test]
fn no_import_circles_in_the_node_daemon() {
    no_import_circles("node-daemon");
}

#[test]
fn no_import_circles_in_central() {
    no_import_circles("central");
}

fn no_import_circles(program: &str) {
    let mut left = imports(program);
    for (from, targets) in &mut left {
        targets.retain(|to| !from.starts_with(to) && !to.starts_with(from));
    }
    // Files that import nothing that is left, or that nobody left imports, are taken away until all are
    // gone, or a circle remains.
    loop {
        let before = left.len();
        let names: BTreeSet<Module> = left.keys().cloned().collect();
        left.retain(|_, targets| targets.iter().any(|to| names.contains(to)));
        let imported: BTreeSet<Module> = left.values().flatten().cloned().collect();
        left.retain(|module, _| imported.contains(module));
        if left.len() == before {
            break;
        }
    }
    let edges = left.iter().flat_map(|(from, targets)| {
        let inside = targets.iter().filter(|to| left.contains_key(*to));
        inside.map(|to| format!("{} imports {}", from.join("/"), to.join("/")))
    });
    let circle: Vec<String> = edges.collect();
    assert!(circle.is_empty(), "in a circle:\n{}", circle.join("\n"));
}

#[test]
fn central_names_clouds_in_their_folders_and_the_list_only() {
    let names: Vec<&str> = mooring_central::clouds::CLOUDS
        .iter()
        .map(|cloud| cloud.name)
        .collect();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../central/src");
    let mut all = BTreeMap::new();
    modules(&source, &Module::new(), &mut all);
    let list = vec!["clouds".to_owned()];
    for (module, code) in all {
        let folder = module.get(1).filter(|_| module.starts_with(&list));
        if module == list || folder.is_some_and(|folder| names.contains(&folder.as_str())) {
            continue;
        }
        let code = code.to_lowercase();
        let named = names.iter().find(|name| code.contains(*name));
        assert_eq!(named, None, "{module:?}");
    }
}
