//! The programs' client and the connections that it opens.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::runtime::watcher;
use mooring_common::k8s::{ClientOptions, Connections, client, watch};
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::objects::{create_namespace, unique};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
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

#[tokio::test]
async fn requests_that_begin_together_share_one_connection() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let (master, opened) = counted(control_plane.url()).await.unwrap();
    let client = client(&ClientOptions {
        kubeconfig: Some(control_plane.admin_kubeconfig().to_owned()),
        master: Some(master),
        ..ClientOptions::default()
    })
    .await
    .unwrap();
    let namespaces = Api::<Namespace>::all(client);
    try_join_all((0..20).map(|_| namespaces.get("default")))
        .await
        .unwrap();
    assert_eq!(opened.load(Ordering::Relaxed), 1);
}

/// Another address of the server at this one, and how many connections were opened to it.
async fn counted(url: &str) -> Result<(String, Arc<AtomicUsize>)> {
    let server = url.strip_prefix("https://").context("no https")?.to_owned();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = format!("https://{}", listener.local_addr()?);
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut from, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            let server = server.clone();
            connections.spawn(async move {
                let mut to = TcpStream::connect(server).await?;
                copy_bidirectional(&mut from, &mut to).await
            });
        }
    });
    Ok((address, opened))
}
