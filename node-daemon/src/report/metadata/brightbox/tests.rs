use proptest::prelude::{prop_assert, proptest};

use super::*;
use crate::report::metadata::Completeness;
use crate::report::metadata::scripted::{Scripted, ok, status};

/// A service with these values for ID, zone and type; the ID may differ each time.
async fn ask(values: [&'static str; 4]) -> Result<SourceAnswer, MetadataError> {
    let [first, second, zone, kind] = values;
    let service = Scripted::start(move |head, before| {
        let value = match head.split(' ').nth(1).unwrap() {
            "/m1/latest/meta-data/instance-id" if before == 0 => first,
            "/m1/latest/meta-data/instance-id" => second,
            "/m1/latest/meta-data/placement/availability-zone" => zone,
            "/m1/latest/meta-data/instance-type" => kind,
            _ => "",
        };
        if value.is_empty() {
            status("404 Not Found")
        } else {
            ok(value)
        }
    })
    .await;
    BrightboxSource::new(service.endpoint.clone())
        .facts(&Identity::default())
        .await
}

#[tokio::test]
async fn reports_type_and_zone_but_no_addresses() {
    let answer = ask(["srv-sz59x\n", "srv-sz59x", "gb1-a\n", "1gb.ssd"])
        .await
        .unwrap();
    let expected = NodeFacts {
        provider_id: Some("brightbox://srv-sz59x".parse().unwrap()),
        instance_type: Some("1gb.ssd".to_owned()),
        zone: Some("gb1-a".to_owned()),
        region: Some("gb1".to_owned()),
        ..NodeFacts::default()
    };
    assert_eq!(answer.facts, expected);
    let missing = vec![missing::IPV6, missing::CLOUD_IPS];
    assert_eq!(answer.completeness, Completeness::Partial { missing });
}

#[tokio::test]
async fn missing_values_stay_missing() {
    let answer = ask(["srv-sz59x", "srv-sz59x", "", ""]).await.unwrap();
    assert_eq!(
        (
            answer.facts.zone,
            answer.facts.region,
            answer.facts.instance_type
        ),
        (None, None, None)
    );
    let missing = NEEDED.into_iter().skip(1).collect();
    assert_eq!(answer.completeness, Completeness::Partial { missing });
}

#[tokio::test]
async fn names_invalid_value() {
    for (values, key) in [
        (["i-0123456789", "i-0123456789", "gb1-a", "1gb.ssd"], ID_KEY),
        (["srv-sz59x", "srv-other", "gb1-a", "1gb.ssd"], ID_KEY),
        (["srv-sz59x", "srv-sz59x", "gb1", "1gb.ssd"], ZONE_KEY),
        (["srv-sz59x", "srv-sz59x", "-a", "1gb.ssd"], ZONE_KEY),
        (
            ["srv-sz59x", "srv-sz59x", "gb1-a", "<html>no</html>"],
            "instance-type",
        ),
        (
            ["srv-sz59x", "srv-sz59x", "gb1-a", "two\nlines"],
            "instance-type",
        ),
    ] {
        let error = ask(values).await.unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(&format!("{key} of http://")), "{text}");
        assert!(
            text.contains("--metadata-source") && !error.is_retryable(),
            "{text}"
        );
    }
    let error = ask(["", "", "", ""]).await.unwrap_err();
    assert!(matches!(error, MetadataError::NotServed { .. }), "{error}");
}

#[tokio::test]
async fn recognises_only_own_servers() {
    for (reply, expected) in [
        (ok("srv-sz59"), Some(true)),
        (ok("i-0123456789"), Some(false)),
        (ok("srv-"), Some(false)),
        (status("404 Not Found"), Some(false)),
        (ok("<html></html>"), None),
        (status("503 Later"), None),
    ] {
        let scripted = reply.clone();
        let service = Scripted::start(move |_, _| scripted.clone()).await;
        let source = BrightboxSource::new(service.endpoint.clone());
        assert_eq!(source.recognises().await.ok(), expected, "{reply}");
    }
}

proptest! {
    #[test]
    fn any_text_parses_or_fails(text in ".*") {
        let answer = Answer {
            url: "x".to_owned(),
            status: http::StatusCode::OK,
            body: text,
        };
        if let Ok(value) = plain(&answer, ID_KEY)
            && let Ok(id) = server("x", ID_KEY, value)
        {
            prop_assert!(id.instance().starts_with("srv-"));
        }
        if let Ok(region) = region_of("x", ZONE_KEY, &answer.body) {
            prop_assert!(!region.is_empty());
        }
    }
}
