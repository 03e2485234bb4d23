//! Nothing is taken from anybody: what bears the marks of another is left alone.

use super::*;

/// E15: what is remembered to be its own may be another's by now.
#[tokio::test]
async fn does_not_delete_what_bears_foreign_marks_by_now() {
    for given in [
        json!({"mooring-service-uid": uid(9), "mooring-cluster": "cluster"}),
        json!({"mooring-service-uid": uid(1), "mooring-cluster": "elsewhere"}),
    ] {
        let (project, cloud) = project(1).await;
        let balancers = balancers(&cloud);
        let uuid = made(&project, &balancers, &request(1, 1)).await;
        let prepared = balancers.prepare_removal(&request(1, 1)).await.unwrap();
        assert_eq!(prepared.summary().steps.len(), 1);
        // Between the observation and the deletion.
        project.set(&uuid, "tags", given.clone());
        let end = prepared.carry_out(&Open::default()).await;
        assert!(matches!(end, Ok(Progress::Wait { .. })), "{end:?}");
        let prepared = balancers.prepare_removal(&request(1, 1)).await.unwrap();
        let kept = &prepared.summary().notices;
        assert!(kept.len() == 1 && kept[0].note.contains(&uuid), "{kept:?}");
        let end = prepared.carry_out(&Open::default()).await;
        assert_eq!(end.unwrap(), Progress::Removed);
        assert!(!cloud.lines().iter().any(|line| line.starts_with("DELETE")));
        assert_eq!(project.of(BALANCERS)[0]["tags"], given);
    }
}

#[tokio::test]
async fn deletes_orphans_by_marks_only() {
    let (project, cloud) = project(1).await;
    let balancers = balancers(&cloud);
    let tags =
        |uid: &str, cluster: &str| json!({"mooring-service-uid": uid, "mooring-cluster": cluster});
    for (uuid, tags) in [
        (1, tags("dead", "cluster")),
        (2, tags("alive", "cluster")),
        (3, tags("dead", "elsewhere")),
        (4, json!({"mooring-service-uid": "dead"})),
    ] {
        project.put(
            BALANCERS,
            json!({"uuid": uid(uuid), "name": "x", "tags": tags}),
        );
    }
    let living = [ServiceView {
        uid: "alive".to_owned(),
        ..crate::views::service_view::tests::service()
    }];
    let orphans = balancers.orphans("cluster", &living).await.unwrap();
    let ids: Vec<_> = orphans.iter().map(|orphan| orphan.id.clone()).collect();
    assert_eq!(ids, [uid(1)]);
    let guard = Open::default();
    for given in [tags("alive", "cluster"), tags("dead", "elsewhere")] {
        project.set(&uid(1), "tags", given);
        let kept = balancers
            .remove_orphan("cluster", &orphans[0], &guard)
            .await;
        assert!(matches!(kept, Err(ReconcileError::Refused(_))));
    }
    project.set(&uid(1), "tags", tags("dead", "cluster"));
    balancers
        .remove_orphan("cluster", &orphans[0], &guard)
        .await
        .unwrap();
    assert_eq!(project.of(BALANCERS).len(), 3);
    project.clear();
    balancers
        .remove_orphan("cluster", &orphans[0], &guard)
        .await
        .unwrap();
}

#[tokio::test]
async fn does_not_take_floating_ip_of_another_service() {
    let (project, cloud) = project(1).await;
    project.put(
        "floating-ips",
        json!({"network": "203.0.113.9/32", "address": "203.0.113.9"}),
    );
    let balancers = balancers(&cloud);
    let asks = json!({keys::FLOATING_IPS: r#"["203.0.113.9/32"]"#});
    let (mut first, mut second) = (request(1, 1), request(2, 1));
    first.service = service(1, &asks);
    second.service = service(2, &asks);
    first.others = [second.service.clone()].into_iter().collect();
    second.others = [first.service.clone()].into_iter().collect();
    made(&project, &balancers, &first).await;
    let refused = ensure(&balancers, &second, &Open::default()).await;
    let Err(ReconcileError::Refused(why)) = refused else {
        panic!("{refused:?}")
    };
    assert!(why.contains("assigned to another service"), "{why}");
    assert!(why.contains("203.0.113.9->default/web-1"), "{why}");
    let lines = cloud.lines();
    assert!(lines.contains(&"PATCH /v1/floating-ips/203.0.113.9".to_owned()));
}
