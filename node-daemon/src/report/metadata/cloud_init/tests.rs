use std::fs;

use proptest::prelude::{any, prop, prop_assert, proptest};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::report::metadata::Completeness;

const UUID: &str = "47cec963-fcd2-482f-bdb6-24461b2d47b1";

fn answer(document: &Value) -> Result<SourceAnswer, MetadataError> {
    describe(&Document::read("here", document.to_string().as_bytes())?)
}

/// As cloud-init writes it, both spellings of the cloud's name included.
fn v1(cloud: &str, id: &str, zone: &str, region: &str) -> Value {
    let or_null = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "_beta_keys": ["subplatform"], "cloud_name": cloud, "cloud-name": cloud, "platform": cloud,
        "instance_id": id, "instance-id": id, "local_hostname": "n1",
        "availability_zone": or_null(zone), "region": or_null(region),
    })
}

fn facts(of: &Value) -> (Option<String>, NodeFacts) {
    let answer = answer(of).unwrap();
    let Completeness::Partial { missing } = &answer.completeness else {
        panic!("never whole: {answer:?}");
    };
    assert!(missing.contains(&missing::ADDRESSES));
    let id = answer.facts.provider_id.as_ref().map(ToString::to_string);
    (id, answer.facts)
}

#[test]
fn known_cloud_gives_provider_id() {
    let linode = json!({
        "v1": v1("akamai", "12345", "", ""),
        "ds": {"meta_data": {"id": 12345, "region": "us-east", "type": "g6-standard-2"}},
    });
    let (id, linode) = facts(&linode);
    assert_eq!(id.as_deref(), Some("linode://12345"));
    assert_eq!(linode.region.as_deref(), Some("us-east"));
    assert_eq!(linode.instance_type.as_deref(), Some("g6-standard-2"));

    let cloudscale = json!({
        "v1": v1("openstack", "another", "rma1", ""),
        "ds": {"meta_data": {"meta": {"cloudscale_uuid": UUID}}},
    });
    let (id, cloudscale) = facts(&cloudscale);
    assert_eq!(id, Some(format!("cloudscale://{UUID}")));
    assert_eq!(cloudscale.zone.as_deref(), Some("rma1"));
    assert_eq!(cloudscale.region.as_deref(), Some("rma"));

    let brightbox = json!({
        "v1": v1("brightbox", "srv-sz59x", "gb1-a", "gb1-"),
        "ds": {"meta_data": {"instance-type": "1gb.ssd"}},
    });
    let (id, brightbox) = facts(&brightbox);
    assert_eq!(id.as_deref(), Some("brightbox://srv-sz59x"));
    assert_eq!(brightbox.region.as_deref(), Some("gb1"));
    assert_eq!(brightbox.instance_type.as_deref(), Some("1gb.ssd"));
}

#[test]
fn unknown_cloud_gives_no_provider_id() {
    for (cloud, id) in [
        ("openstack", UUID),
        ("nocloud", "srv-sz59x"),
        ("aws", "12345"),
    ] {
        let document = json!({"v1": v1(cloud, id, "z 1", "r/1")});
        let (id, facts) = facts(&document);
        assert_eq!(id, None, "{cloud}");
        assert_eq!(facts.zone.as_deref(), Some("z-1"));
        assert_eq!(facts.region.as_deref(), Some("r-1"));
    }
    let (id, nothing) = facts(&json!({"v1": {}}));
    assert_eq!((id, nothing), (None, NodeFacts::default()));
}

#[test]
fn names_invalid_value() {
    let ds = json!({"meta_data": {"meta": {"cloudscale_uuid": UUID}}});
    let server = json!({"meta_data": {"meta": {"cloudscale_uuid": "no"}}});
    for (document, key) in [
        (json!({"v1": v1("akamai", "0", "", "")}), ID_KEY),
        (json!({"v1": v1("akamai", "i-1", "", "")}), ID_KEY),
        (json!({"v1": v1("brightbox", "i-1", "", "")}), ID_KEY),
        (json!({"v1": v1("brightbox", "srv-1", "gb1", "")}), ZONE_KEY),
        (
            json!({"v1": v1("brightbox", "srv-1", "gb1-a", "us1")}),
            REGION_KEY,
        ),
        (
            json!({"v1": v1("openstack", "x", "rma1", "lpg"), "ds": ds}),
            REGION_KEY,
        ),
        (
            json!({"v1": v1("openstack", "x", "", ""), "ds": server}),
            OPENSTACK_KEY,
        ),
        (json!({"v1": {"region": 7}}), REGION_KEY),
    ] {
        let error = answer(&document).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(&format!("{key} of here is ")), "{text}");
        assert!(!error.is_retryable(), "{text}");
    }
}

#[tokio::test]
async fn reads_file_below_host_run() {
    let run = TempDir::new().unwrap();
    let source = CloudInitSource::new(run.path());
    assert!(!source.recognises().await.unwrap());
    assert!(
        source
            .facts(&Identity::default())
            .await
            .unwrap_err()
            .is_retryable()
    );
    let path = run.path().join(FILE);
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(&path, "{}").unwrap();
    assert!(!source.recognises().await.unwrap());
    fs::write(&path, r#"{"v1": {"region": "r1"}}"#).unwrap();
    assert!(source.recognises().await.unwrap());
    let answer = source.facts(&Identity::default()).await.unwrap();
    assert_eq!(answer.facts.region.as_deref(), Some("r1"));
    for wrong in ["", "<html>", r#"{"v1": {"#, "[]"] {
        fs::write(&path, wrong).unwrap();
        source.recognises().await.unwrap_err();
    }
    let long = format!(
        "{{\"v1\": {{}}, \"x\": \"{}\"}}",
        "x".repeat(LONGEST.try_into().unwrap())
    );
    fs::write(&path, long).unwrap();
    source.recognises().await.unwrap_err();
}

proptest! {
    #[test]
    fn arbitrary_bytes_fail_or_are_partial(bytes: Vec<u8>) {
        if let Ok(document) = Document::read("x", &bytes)
            && let Ok(answer) = describe(&document)
        {
            prop_assert!(answer.completeness != Completeness::Whole);
        }
    }

    #[test]
    fn truncated_document_is_error(cut in any::<prop::sample::Index>()) {
        let mut text = json!({"v1": v1("akamai", "1", "z", "r")}).to_string();
        text.truncate(cut.index(text.len()));
        prop_assert!(Document::read("x", text.as_bytes()).is_err());
    }
}
