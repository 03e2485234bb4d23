use super::*;
use crate::cloud_api::KeyKind;

const KEYS: &[FileKey] = &[
    FileKey {
        name: "secret",
        variable: Some("SECRET"),
        kind: KeyKind::Secret,
    },
    FileKey {
        name: "base-url",
        variable: Some("BASE_URL"),
        kind: KeyKind::Text,
    },
];

/// What was read in `SECRET` and `BASE_URL`, and all faults.
fn read(set: &[(&str, &str)], file: Option<&str>) -> ([Option<String>; 2], String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    if let Some(text) = file {
        std::fs::write(&path, text).unwrap();
    }
    let variable = |name: &str| {
        let (_, value) = set.iter().find(|(variable, _)| *variable == name)?;
        Some((*value).to_owned())
    };
    let mut environment = Environment::with_file(&variable, file.is_some().then_some(&*path), KEYS);
    let secret = environment.required("SECRET");
    let url = environment.url_or("BASE_URL", "https://default.example/");
    let faults = environment.finish().err().unwrap_or_default();
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    ([secret, url.map(Into::into)], faults.join("\n"))
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn variable_overrides_file_unless_empty() {
    let file = Some(r#"{"secret": "f", "base-url": "https://f/"}"#);
    let set = [("SECRET", " e "), ("BASE_URL", "https://e/")];
    let empty = [("SECRET", " "), ("BASE_URL", "")];
    assert_eq!(
        read(&set, file),
        ([some("e"), some("https://e/")], String::new())
    );
    assert_eq!(
        read(&empty, file),
        ([some("f"), some("https://f/")], String::new())
    );
    let default = some("https://default.example/");
    assert_eq!(
        read(&[("SECRET", "e")], None),
        ([some("e"), default], String::new())
    );
}

#[test]
fn fault_names_place_of_value() {
    let file = Some(r#"{"base-url": "nonsense"}"#);
    let remedy = "is no address of an API; write it like https://default.example/";
    let missing = "SECRET: must be set in the environment (from a Secret), or secret in the file \
                   that --cloud-config names";
    let (_, faults) = read(&[], file);
    assert_eq!(
        faults,
        format!("{missing}\nbase-url in --cloud-config=nonsense: {remedy}")
    );
    let (_, faults) = read(&[("SECRET", "e"), ("BASE_URL", "other")], file);
    assert_eq!(faults, format!("BASE_URL=other: {remedy}"));
    let (_, faults) = read(&[("SECRET", "e")], Some(r#"{"base-url": "http://a:b@c"}"#));
    assert_eq!(
        faults,
        "base-url in --cloud-config: must have no credentials in it; take them out"
    );
}

#[test]
fn unreadable_file_lacks_nothing() {
    let (_, faults) = read(&[], Some("[]"));
    assert!(faults.contains("a.json: is no JSON object"), "{faults}");
    assert!(!faults.contains("must be set"), "{faults}");
}
