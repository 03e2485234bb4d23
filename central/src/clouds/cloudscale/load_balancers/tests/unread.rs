//! Servers of which the cloud does not say the addresses now.

use super::*;

/// This server's Node says its address.
fn known(number: usize) -> Arc<NodeView> {
    let mut node = (*node(number)).clone();
    node.addresses = vec![mooring_common::node_addresses::NodeAddress::new(
        mooring_common::node_addresses::AddressType::InternalIP,
        format!("10.0.0.{number}"),
    )];
    Arc::new(node)
}

fn among(numbers: &[usize], with: &impl Fn(usize) -> Arc<NodeView>) -> LoadBalancerRequest {
    LoadBalancerRequest {
        nodes: numbers.iter().map(|number| with(*number)).collect(),
        ..request(1, 0)
    }
}

fn members(project: &Project) -> Vec<Vec<String>> {
    let of_pool = |pool: &Value| {
        let pool = pool["uuid"].as_str().unwrap();
        let members = project.of(&format!("{POOLS}/{pool}/members"));
        let address = |member: &Value| member["address"].as_str().unwrap().to_owned();
        members.iter().map(address).collect()
    };
    project.of(POOLS).iter().map(of_pool).collect()
}

/// It stays where it is; another one leaves, and one joins.
#[tokio::test]
async fn one_of_them_keeps_no_other_member() {
    let (project, cloud) = project(4).await;
    made(&project, &balancers(&cloud), &among(&[1, 2, 3], &known)).await;
    project.set(&uid(902), "interfaces", Value::Null);
    let end = ensure(
        &balancers(&cloud),
        &among(&[1, 2, 4], &known),
        &Open::default(),
    )
    .await;
    assert!(matches!(end, Ok(Progress::Ensured(_))), "{end:?}");
    assert_eq!(members(&project), [["10.0.0.1", "10.0.0.2", "10.0.0.4"]; 2]);
}

/// Where nothing tells which members are its own, none goes; nor does one where no other tells the pools.
#[tokio::test]
async fn members_that_may_be_its_own_stay() {
    for (others, with) in [
        ([1, 2].as_slice(), &node as &dyn Fn(usize) -> Arc<NodeView>),
        ([2].as_slice(), &known),
    ] {
        let (project, cloud) = project(3).await;
        made(&project, &balancers(&cloud), &among(&[1, 2, 3], &known)).await;
        project.set(&uid(902), "interfaces", Value::Null);
        let request = among(others, &with);
        let end = ensure(&balancers(&cloud), &request, &Open::default()).await;
        assert!(matches!(end, Ok(Progress::Ensured(_))), "{end:?}");
        assert_eq!(members(&project), [["10.0.0.1", "10.0.0.2", "10.0.0.3"]; 2]);
    }
}

/// The listing lacks it, and the token may not ask for it: another one leaves, and one joins.
#[tokio::test]
async fn server_that_token_may_not_see_keeps_no_other_member() {
    let (project, cloud) = project(4).await;
    made(&project, &balancers(&cloud), &among(&[1, 2, 3], &known)).await;
    project.remove(&uid(902));
    let refusal = Reply::json(json!({"detail": "No."})).status(403);
    project.fail_once(&format!("GET /v1/servers/{}", uid(902)), refusal);
    let request = among(&[1, 2, 4], &known);
    let balancers = balancers(&cloud);
    let prepared = balancers.prepare(&request).await.unwrap();
    let notices = prepared.summary().notices.clone();
    assert!(
        matches!(&*notices, [told] if told.note.contains(": node-2. ")),
        "{notices:?}"
    );
    let end = prepared.carry_out(&Open::default()).await;
    assert!(
        project.has_failed() && matches!(end, Ok(Progress::Ensured(_))),
        "{end:?}"
    );
    assert_eq!(members(&project), [["10.0.0.1", "10.0.0.2", "10.0.0.4"]; 2]);
}
