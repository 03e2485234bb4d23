use super::*;
use crate::views::service_view::tests::service;

fn notice() -> Notice {
    Notice {
        reason: "Odd",
        note: "odd".to_owned(),
        by_provider: false,
    }
}

fn annotated(key: &str) -> Arc<ServiceView> {
    let mut service = service();
    service.annotations.insert(key.to_owned(), "x".to_owned());
    Arc::new(service)
}

fn ensured(service: &Arc<ServiceView>) -> Ensured {
    Ensured {
        service: service.clone(),
        node_changes: 0,
        endpoints: None,
    }
}

#[test]
fn endpoint_change_is_lowest_cause() {
    let service_states = ServiceStates::default();
    let service = Arc::new(service());
    let on = |node: &str| Endpoints {
        ready: [node.to_owned()].into(),
        ..Endpoints::default()
    };
    let before = Ensured {
        endpoints: Some(on("a")),
        ..ensured(&service)
    };
    service_states.ensured(before, &[]);
    assert_eq!(
        service_states.cause(&service, 0, Some(&on("a"))),
        Cause::Drift
    );
    assert_eq!(
        service_states.cause(&service, 0, Some(&on("b"))),
        Cause::Endpoints
    );
    assert_eq!(
        service_states.cause(&service, 1, Some(&on("b"))),
        Cause::Nodes
    );
    assert!(Cause::Endpoints < Cause::Nodes);
}

#[test]
fn own_write_is_no_change() {
    let service_states = ServiceStates::default();
    let before = Arc::new(service());
    assert_eq!(service_states.cause(&before, 0, None), Cause::Service);
    let written = [("k8s.cloudscale.ch/ours", "x".to_owned())];
    service_states.ensured(ensured(&before), &written);
    assert_eq!(service_states.cause(&before, 0, None), Cause::Drift);
    assert_eq!(service_states.cause(&before, 1, None), Cause::Nodes);
    let ours = annotated("k8s.cloudscale.ch/ours");
    assert_eq!(service_states.cause(&ours, 0, None), Cause::Drift);
    let theirs = annotated("k8s.cloudscale.ch/theirs");
    assert_eq!(service_states.cause(&theirs, 1, None), Cause::Service);
}

/// E24: a zone in our own annotation that somebody changes, and an `appProtocol`, are wishes.
#[test]
fn foreign_write_and_app_protocol_are_changes() {
    let service_states = ServiceStates::default();
    let before = annotated("k8s.cloudscale.ch/ours");
    let written = [("k8s.cloudscale.ch/ours", "x".to_owned())];
    service_states.ensured(ensured(&before), &written);
    let mut changed = (*before).clone();
    let key = "k8s.cloudscale.ch/ours".to_owned();
    changed.annotations.insert(key, "y".to_owned());
    assert_eq!(service_states.cause(&changed, 0, None), Cause::Service);

    let with = |protocol: Option<&str>| {
        let mut service = (*before).clone();
        service.ports.push(crate::views::service_view::ServicePort {
            app_protocol: protocol.map(ToOwned::to_owned),
            name: None,
            protocol: "TCP".to_owned(),
            port: 80,
            node_port: Some(30080),
        });
        Arc::new(service)
    };
    service_states.ensured(ensured(&with(None)), &written);
    assert_eq!(service_states.cause(&with(None), 0, None), Cause::Drift);
    assert_eq!(
        service_states.cause(&with(Some("http")), 0, None),
        Cause::Service
    );
}

#[test]
fn begins_once_unless_cause_grows() {
    let service_states = ServiceStates::default();
    let wanted = Arc::new(service());
    assert!(service_states.begin(&wanted, Cause::Nodes));
    assert!(!service_states.begin(&wanted, Cause::Nodes));
    assert!(service_states.begin(&wanted, Cause::Service));
    assert!(!service_states.begin(&wanted, Cause::Nodes));
    assert_eq!(service_states.begun(&wanted), Some(Cause::Service));
    let changed = annotated("k8s.cloudscale.ch/theirs");
    assert!(service_states.begin(&changed, Cause::Service));
}

#[tokio::test(start_paused = true)]
async fn reports_notice_when_new_and_hourly() {
    let service_states = ServiceStates::default();
    let service = service();
    assert_eq!(service_states.news(&service, &[notice()]).len(), 1);
    assert!(service_states.news(&service, &[notice()]).is_empty());
    tokio::time::advance(NOTICE_AGAIN).await;
    assert_eq!(service_states.news(&service, &[notice()]).len(), 1);
    assert!(service_states.news(&service, &[]).is_empty());
    assert!(service_states.news(&service, &[notice()]).is_empty());
    service_states.hold(&service, &[&[], &[notice()]]);
    assert!(service_states.news(&service, &[notice()]).is_empty());
    service_states.hold(&service, &[&[], &[]]);
    assert_eq!(service_states.news(&service, &[notice()]).len(), 1);
}

#[test]
fn forgets_deleted_service() {
    let service_states = ServiceStates::default();
    let service = Arc::new(service());
    assert_eq!(service_states.looks_at(&service, true), None);
    service_states.ensured(ensured(&service), &[]);
    let gone = service_states.gone(&service.key).unwrap();
    assert!(gone.left_something);
    assert!(service_states.lock().by_uid.is_empty() && service_states.lock().uids.is_empty());
    service_states.looks_at(&service, true);
    service_states.removed(&service);
    assert!(!service_states.gone(&service.key).unwrap().left_something);
}

#[test]
fn tells_apart_services_of_one_name_by_uid() {
    let service_states = ServiceStates::default();
    let before = Arc::new(service());
    service_states.looks_at(&before, true);
    service_states.ensured(ensured(&before), &[]);
    let again = ServiceView {
        uid: "v".to_owned(),
        ..service()
    };
    let gone = service_states.looks_at(&again, true).unwrap();
    assert_eq!((gone.uid.as_str(), gone.left_something), ("u", true));
    assert_eq!(service_states.cause(&again, 0, None), Cause::Service);
}
