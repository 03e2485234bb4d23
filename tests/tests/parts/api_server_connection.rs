//! The programs' client where HTTP/2 is switched off.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::runtime::watcher;
use mooring_common::k8s::{ClientOptions, Connections, client, watch};
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::objects::{create_namespace, unique};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn an_api_server_without_http_2_is_watched_all_the_same() {
    let options = Options::default().api_server_flag("--disable-http2-serving=true");
    let control_plane = ControlPlane::start(options).await.unwrap();
    for connections in [Connections::Shared, Connections::PerRequest] {
        let client = client(&ClientOptions {
            kubeconfig: Some(control_plane.admin_kubeconfig().to_owned()),
            connections,
            ..ClientOptions::default()
        })
        .await
        .unwrap();
        let namespaces = Api::<Namespace>::all(client.clone());
        let mut events = watch(namespaces, watcher::Config::default()).boxed();
        let mut next = async || timeout(LIMIT, events.next()).await.unwrap().unwrap();
        while !matches!(next().await, watcher::Event::InitDone) {}
        // Asked while the watch holds a connection.
        let name = unique("watched");
        create_namespace(&client, &name).await.unwrap();
        let mut seen = async || match next().await {
            watcher::Event::Apply(namespace) => namespace.metadata.name,
            other => panic!("{other:?}"),
        };
        assert_eq!(seen().await, Some(name));
    }
}
