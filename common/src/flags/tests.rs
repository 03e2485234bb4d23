use std::time::Duration;

use super::*;

const fn flag(name: &'static str, kind: Kind, default: &'static str) -> Flag {
    Flag {
        name,
        kind,
        default,
        action: Action::Act,
        group: "G",
        help: "Helps.",
        env: None,
    }
}

const TABLE: FlagTable = FlagTable {
    program: "test",
    about: "Tests.",
    flags: &[
        flag("leader-elect", Kind::Bool, "true"),
        flag("node-monitor-period", Kind::Duration, "5s"),
        flag("concurrent-node-syncs", Kind::Integer, "1"),
        flag("controllers", Kind::List, "*"),
        Flag {
            env: Some("NODE_NAME"),
            ..flag("node-name", Kind::Text, "")
        },
        Flag {
            action: Action::Accept,
            ..flag("profiling", Kind::Bool, "true")
        },
        flag("v", Kind::Integer, "2"),
    ],
    operand: "",
};

fn parse(line: &str) -> Result<Parsed, FlagFaults> {
    let arguments = line
        .split(' ')
        .filter(|a| !a.is_empty())
        .map(ToOwned::to_owned);
    TABLE.parse(arguments, |name| {
        (name == "NODE_NAME").then(|| "from-env".to_owned())
    })
}

fn values(line: &str) -> Values {
    match parse(line) {
        Ok(Parsed::Run(values)) => values,
        other => panic!("{other:?}"),
    }
}

#[test]
fn reads_all_forms_of_manifests() {
    for (line, elect, period) in [
        (
            "--leader_elect=false --node-monitor-period 1m30s",
            false,
            90,
        ),
        ("--leader-elect --node_monitor_period=7s", true, 7),
        ("--leader-elect=true --node-monitor-period=", true, 5),
        ("-v 4 --leader-elect=0", false, 5),
    ] {
        let values = values(line);
        let mut reader = Reader::new(&TABLE, &values);
        assert_eq!(reader.bool("leader-elect"), elect, "{line}");
        assert_eq!(
            reader.duration("node-monitor-period"),
            Duration::from_secs(period),
            "{line}"
        );
        reader.finish().unwrap();
    }
}

#[test]
fn lists_repeat_and_environment_fills_gaps() {
    let values = values("--controllers=*,-service --controllers -route");
    let reader = Reader::new(&TABLE, &values);
    assert_eq!(reader.list("controllers"), ["*", "-service", "-route"]);
    assert_eq!(reader.text("node-name").as_deref(), Some("from-env"));
}

#[test]
fn reports_all_faults_with_closest_name() {
    let error = parse("--leader-elct --nonsense=1 stray --node-monitor-period").unwrap_err();
    assert_eq!(error.faults.len(), 4, "{error}");
    assert!(
        error.to_string().contains("did you mean --leader-elect?"),
        "{error}"
    );

    let values =
        values("--leader-elect=maybe --node-monitor-period=soon --concurrent-node-syncs=x");
    let mut reader = Reader::new(&TABLE, &values);
    reader.bool("leader-elect");
    reader.duration("node-monitor-period");
    reader.parsed::<usize>("concurrent-node-syncs", "write a whole number");
    assert_eq!(reader.finish().unwrap_err().faults.len(), 3);
}

#[test]
fn knows_flags_without_effect() {
    let (values, unchanged) = (values("--profiling=false"), values("--profiling"));
    assert_eq!(Reader::new(&TABLE, &values).without_effect(), ["profiling"]);
    assert!(Reader::new(&TABLE, &unchanged).without_effect().is_empty());
}

#[test]
fn help_and_reference_list_every_flag() {
    let Ok(Parsed::Print(help)) = parse("--help") else {
        panic!()
    };
    for flag in TABLE.flags {
        assert!(help.contains(&format!("--{}", flag.name)), "{help}");
        assert!(TABLE.reference().contains(&format!("`--{}`", flag.name)));
    }
}

#[test]
fn reads_operands_where_allowed() {
    let arguments = ["default/web", "--v=3", "default/api"].map(ToOwned::to_owned);
    let table = FlagTable {
        operand: "SERVICE",
        ..TABLE
    };
    let Ok(Parsed::Run(values)) = table.parse(arguments.clone(), |_| None) else {
        panic!()
    };
    let operands = Reader::new(&table, &values).operands().to_vec();
    assert_eq!(operands, ["default/web", "default/api"]);
    assert!(table.help().contains("[SERVICE]"));
    assert!(TABLE.parse(arguments, |_| None).is_err());
}
