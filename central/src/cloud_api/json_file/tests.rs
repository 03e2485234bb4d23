use super::*;

const KEYS: &[FileKey] = &[
    FileKey {
        name: "clientID",
        variable: Some("CLIENT_ID"),
        kind: KeyKind::Secret,
    },
    FileKey {
        name: "clientSecret",
        variable: Some("CLIENT_SECRET"),
        kind: KeyKind::Secret,
    },
    FileKey {
        name: "port",
        variable: None,
        kind: KeyKind::Integer,
    },
    FileKey {
        name: "base-url",
        variable: Some("BASE_URL"),
        kind: KeyKind::Text,
    },
];

fn parse(text: &str) -> Result<JsonFile, Vec<String>> {
    JsonFile::parse(Path::new("/etc/a.json"), KEYS, text.as_bytes())
}

#[test]
fn reads_keys_like_go() {
    let file = parse(
        r#"{"CLIENTid": "first", "clientSecret": " b ", "extra": {"clientID": "no"},
            "clientID": "last", "clientId": null, "base-url": "x", "BASE-URL": "", "port": 6443}"#,
    )
    .unwrap();
    assert_eq!(file.text("clientID"), Some("last"));
    assert_eq!(file.text("clientSecret"), Some("b"));
    assert_eq!(file.text("base-url"), None, "the last one is empty");
    assert_eq!(file.text("port"), Some("6443"));
    assert_eq!(
        file.notices(),
        ["/etc/a.json: the key \"extra\" means nothing here"]
    );
    assert_eq!(file.key_of("CLIENT_SECRET"), Some("clientSecret"));
    assert_eq!(file.key_of("clientSecret"), None);
    assert_eq!(parse(r#"{"port": 0}"#).unwrap().text("port"), None);
    assert_eq!(parse("null").unwrap().notices(), [""; 0]);
}

#[test]
fn rejects_file_that_is_no_object() {
    for text in ["", " ", "{]", "[]", "7", "{} {}", r#"{"clientID": "a""#] {
        let faults = parse(text).unwrap_err();
        let remedy = r#"; write it like {"clientID": "…", "clientSecret": "…"}"#;
        let [fault] = &*faults else {
            panic!("{text}: {faults:?}")
        };
        assert!(fault.starts_with("is no JSON object ("), "{text}: {fault}");
        assert!(fault.ends_with(remedy), "{text}: {fault}");
    }
    let faults = JsonFile::read(Path::new("/nowhere/a.json"), KEYS).unwrap_err();
    let remedy = "or leave the flag away and set CLIENT_ID and CLIENT_SECRET";
    assert!(
        faults[0].starts_with("cannot be read (") && faults[0].ends_with(remedy),
        "{faults:?}"
    );
}

#[test]
fn reports_every_wrong_type_and_no_secret() {
    let text = r#"{"ClientSecret": 1234567, "base-url": ["a"], "port": "6443"}"#;
    assert_eq!(
        parse(text).unwrap_err(),
        [
            "ClientSecret: the value is not a text in quotes; write a text in quotes",
            r#"base-url: ["a"] is not a text in quotes; write a text in quotes"#,
            "port: \"6443\" is not a whole number without quotes; write a whole number without \
             quotes",
        ]
    );
    for port in ["6443.0", "4294967296", "true", "{}"] {
        let faults = parse(&format!(r#"{{"port": {port}}}"#)).unwrap_err();
        assert!(faults[0].contains("is not a whole number"), "{faults:?}");
    }
}

#[test]
fn accepts_and_reports_extra_comma() {
    let file = parse("{\"clientID\": \"a,}\\\",}\",\n}\n").unwrap();
    let id = file.text("clientID");
    assert_eq!(id, Some("a,}\",}"), "nothing within quotes is touched");
    assert_eq!(
        file.notices(),
        [
            "/etc/a.json has a comma after its last entry, which is no JSON; it is taken all the \
             same"
        ]
    );
    let two = parse(r#"{"clientID": "a",,}"#).unwrap_err();
    assert!(two[0].contains("is no JSON object"), "{two:?}");
}

#[test]
fn debug_shows_no_value() {
    let file = parse(r#"{"clientSecret": "s3cr3t"}"#).unwrap();
    let shown = format!("{file:?}");
    assert!(
        shown.contains("/etc/a.json") && !shown.contains("s3cr3t"),
        "{shown}"
    );
}
