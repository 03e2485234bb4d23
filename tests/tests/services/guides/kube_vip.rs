//! docs/how-to/move-from-kube-vip.md, with the steps of move-from-metallb.md that it names, on what a real kube-vip has
//! left. That clients are served meanwhile is shown where there are daemons and a segment.

use mooring_common::names::finalizers;

use super::{AT_LAST, Desk};
use crate::moving::fixture::Fixture;
use crate::moving::is_recorded;
use mooring_test_support::wait::eventually;

/// The controller of its addresses, which the fixture has not.
const CONTROLLER: &str = "# controller.yaml
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: kube-vip-cloud-provider, namespace: kube-system}
spec:
  selector: {matchLabels: {app: kube-vip-cloud-provider}}
  template:
    metadata: {labels: {app: kube-vip-cloud-provider}}
    spec: {containers: [{name: controller, image: kube-vip-cloud-provider}]}
";

/// What the table of the page has of a step.
const STOP: &str =
    "kubectl --namespace kube-system scale statefulset kube-vip-cloud-provider --replicas 0";
const REMOVE: &str = "kubectl --namespace kube-system delete daemonset kube-vip-ds";

#[tokio::test]
async fn services_of_kube_vip_keep_their_addresses_with_the_commands_of_the_guide_there_and_back() {
    let page = include_str!("../../../../docs/how-to/move-from-kube-vip.md");
    let steps = include_str!("../../../../docs/how-to/move-from-metallb.md");
    assert!(page.contains(STOP) && page.contains("the DaemonSet `kube-vip-ds`"));
    let desk = Desk::start(&[]).await;
    let fixture = Fixture::read("kube-vip");
    fixture.install(&desk.cp).await;
    let seen = fixture.watch(&desk.cp).await;
    let (page, steps) = (desk.open(page, &[]), desk.open(steps, &[]));
    page.reader.save(CONTROLLER);
    page.reader.run("kubectl apply -f controller.yaml").await;

    steps.follow("1. Install Mooring, idle", &[]).await;
    let rolled_out = "kubectl --namespace mooring-system rollout status deployment/mooring-central";
    page.reader.run(rolled_out).await;
    page.follow_silently("", &[]).await;
    steps.follow("3. Apply the L2Networks", &[]).await;
    steps.follow_silently("4. Note what there is", &[]).await;
    page.reader.run(STOP).await;
    steps.follow("6. Let Mooring serve them", &[]).await;
    for service in &fixture.services {
        eventually(
            &format!("{} is adopted", service.key()),
            AT_LAST,
            async || {
                let now = service.api(&desk.cp).get(&service.name).await.unwrap();
                is_recorded(&now)
            },
        )
        .await;
    }
    page.reader.run(REMOVE).await;
    steps
        .follow("8. Look whether all is well", &["metallb"])
        .await;
    seen.assert_unchanged(&desk.cp, &fixture).await;

    let uninstall = "helm uninstall mooring --namespace mooring-system";
    page.reader.run(uninstall).await;
    steps.follow("The way back", &[]).await;
    for service in &fixture.services {
        let now = service.api(&desk.cp).get(&service.name).await.unwrap();
        let kept = now.metadata.finalizers.unwrap_or_default();
        assert!(!kept.contains(&finalizers::SERVICE.to_owned()), "{kept:?}");
    }
}
