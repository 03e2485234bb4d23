//! What a Service says of a load balancer that was asked for.

use mooring_common::names::annotations;

use super::*;
use crate::views::creation_asked::asked;

/// Lets everything through, and keeps what is written on the Service.
#[derive(Default)]
struct Noting(std::sync::Mutex<Vec<(&'static str, String)>>);

#[async_trait]
impl WriteGuard for Noting {
    fn before_write(&self) -> Result<(), Stop> {
        Ok(())
    }

    async fn before_creation(&self) -> Result<(), Stop> {
        Ok(())
    }

    async fn note(&self, annotations: &[(&'static str, String)]) -> Result<(), Stop> {
        self.0.lock().unwrap().extend(annotations.iter().cloned());
        Ok(())
    }

    fn written(&self) {}
}

/// Of a Service of which this cloud was asked for a load balancer a moment ago.
fn noted(provider: &str) -> LoadBalancerRequest {
    let mut noted = request(1, 1);
    let service = Arc::make_mut(&mut noted.service);
    service.creation_asked = Some(asked(jiff::Timestamp::now(), provider));
    noted
}

#[tokio::test]
async fn note_names_its_cloud() {
    let (_project, cloud) = project(1).await;
    let guard = Noting::default();
    let made = ensure(&balancers(&cloud), &request(1, 1), &guard).await;
    assert!(matches!(made, Ok(Progress::Wait { .. })), "{made:?}");
    let notes = guard.0.into_inner().unwrap();
    let (key, text) = &notes[0];
    assert_eq!(*key, annotations::CREATION_ASKED);
    assert!(text.ends_with("Z[cloud=cloudscale]"), "{text}");
}

#[tokio::test]
async fn only_what_was_asked_of_this_cloud_is_waited_for() {
    let (project, cloud) = project(1).await;
    for (provider, waits) in [("cloudscale", true), ("linode", false)] {
        let balancers = balancers(&cloud);
        let gone = remove(&balancers, &noted(provider)).await.unwrap();
        assert_eq!(gone != Progress::Removed, waits, "{provider}: {gone:?}");
        ensure(&balancers, &noted(provider), &Open::default())
            .await
            .unwrap();
        assert_eq!(project.of(BALANCERS).is_empty(), waits, "{provider}");
    }
}
