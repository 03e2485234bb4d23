//! `mooring-central plan`: what it prints is what is done, as far as the cloud need not answer before, and it
//! does nothing itself.

use crate::phoenixnap_services::cluster::{CloudCluster, assert_none};

#[tokio::test]
async fn a_plan_names_the_purchase_and_touches_nothing() {
    let cluster = CloudCluster::start().await;
    cluster.create("web").await;
    let since = cluster.now();
    let arguments = format!("{} --ip-block-sharing=false -o json", cluster.key("web"));
    let plan = cluster.plan(&arguments).await;
    assert_eq!(plan.code, 0, "{plan:?}");
    let steps = plan.of("web")["steps"].clone();
    let words = |n: usize| steps[n]["step"].as_str().unwrap_or_default().to_owned();
    assert!(words(0).starts_with("make sure that the tags"), "{steps}");
    let purchase = format!(
        "buy an IP block /29 in PHX for the Service {} alone",
        cluster.key("web")
    );
    assert_eq!((words(1), plan.steps("web")), (purchase, 2), "{steps}");
    let table = cluster.plan(&cluster.key("web")).await;
    assert!(table.text.contains("IMPACT"), "{table:?}");
    assert_none(&cluster.sim().writes());
    let audit = cluster.audit().await.since(since);
    let by_plan = audit.filter(|record| record.user_agent.starts_with("mooring-plan"));
    assert!(!by_plan.is_empty());
    assert!(by_plan.writes().is_empty(), "{}", by_plan.summary());

    let _central = cluster.central().await;
    cluster.provided("web").await;
    assert_eq!(cluster.purchases().len(), 1);
    let after = cluster.plan(&arguments).await;
    assert_eq!((after.code, after.steps("web")), (0, 0), "{after:?}");
    let nobody = cluster.plan(&cluster.key("nobody")).await;
    assert!(
        nobody.code == 1 && !nobody.complaint.is_empty(),
        "{nobody:?}"
    );
    cluster.finish().await;
}
