//! Load balancers of which the cloud does not say the addresses.

use super::*;

/// How a load balancer may be listed that has addresses.
fn unsaid() -> [Value; 4] {
    [
        json!(null),
        json!([]),
        json!("soon"),
        json!([{"address": null, "subnet": null}]),
    ]
}

/// The others are served, its members are kept right, and its Service keeps the status that it has.
#[tokio::test]
async fn waits_for_unsaid_addresses_alone() {
    for vips in unsaid() {
        let (project, cloud) = project(2).await;
        let before = balancers(&cloud);
        let uuid = made(&project, &before, &request(1, 1)).await;
        made(&project, &before, &request(2, 1)).await;
        project.set(&uuid, "vip_addresses", vips.clone());
        for balancers in [balancers(&cloud), before] {
            balancers.observe_anew();
            let other = ensure(&balancers, &request(2, 2), &Open::default()).await;
            assert!(
                matches!(other, Ok(Progress::Ensured(_))),
                "{vips}: {other:?}"
            );
            let waits = ensure(&balancers, &request(1, 2), &Open::default()).await;
            assert!(
                matches!(waits, Ok(Progress::Wait { .. })),
                "{vips}: {waits:?}"
            );
            let pools = project.of(POOLS);
            let of_pool = |pool: &Value| {
                let pool = pool["uuid"].as_str().unwrap();
                project.of(&format!("{POOLS}/{pool}/members")).len()
            };
            let members: Vec<_> = pools.iter().map(of_pool).collect();
            assert_eq!(members, [2; 4], "{vips}");
            let lines = cloud.lines().len();
            let waits = ensure(&balancers, &request(1, 2), &Open::default()).await;
            assert!(matches!(waits, Ok(Progress::Wait { .. })), "{waits:?}");
            assert!(since(&cloud, lines).len() <= 1, "it alone is looked up");
        }
        let balancers = balancers(&cloud);
        project.set(
            &uuid,
            "vip_addresses",
            json!([{"address": "203.0.113.7", "subnet": null}]),
        );
        let end = ensure(&balancers, &request(1, 2), &Open::default()).await;
        let Ok(Progress::Ensured(provided)) = end else {
            panic!("{vips}: {end:?}")
        };
        assert_eq!(provided.ingress[0].ip.as_deref(), Some("203.0.113.7"));
    }
}

/// What bears no mark is told by its address alone: it is neither left behind nor given up without.
#[tokio::test]
async fn nothing_follows_for_unmarked_one_from_unsaid_addresses() {
    for vips in unsaid() {
        let (project, cloud) = project(1).await;
        let uuid = uid(5);
        project.put(
            BALANCERS,
            json!({"uuid": uuid, "name": "mine", "status": "running", "vip_addresses": vips}),
        );
        let mut request = request(1, 1);
        let annotations = json!({keys::UUID: uuid, keys::ZONE: "rma1"});
        request.service = service(1, &annotations);
        Arc::make_mut(&mut request.service).status = vec!["203.0.113.7".parse().unwrap()];
        let balancers = balancers(&cloud);
        let ensured = ensure(&balancers, &request, &Open::default()).await;
        let removed = remove(&balancers, &request).await;
        for end in [ensured, removed] {
            let Err(ReconcileError::Cloud(error)) = end else {
                panic!("{vips}: {end:?}")
            };
            assert!(error.to_string().contains(&uuid), "{error}");
        }
        assert!(cloud.lines().iter().all(|line| line.starts_with("GET")));
        project.set(
            &uuid,
            "vip_addresses",
            json!([{"address": "203.0.113.7", "subnet": null}]),
        );
        let removed = remove(&balancers, &request).await;
        assert!(matches!(removed, Ok(Progress::Wait { .. })), "{removed:?}");
        assert!(project.of(BALANCERS).is_empty());
    }
}
