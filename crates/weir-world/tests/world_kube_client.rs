//! A real `kube::Client` works against the world, without a socket.

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, as it should"
)]

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::WatchParams;
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::WatchEvent;
use kube::runtime::watcher;
use serde_json::{Value, json};
use weir_world::cluster::Side;
use weir_world::serve::SharedWorld;
use weir_world::world::{Endpoint, World, WorldOptions};

#[tokio::test(start_paused = true)]
async fn a_kube_client_creates_watches_patches_and_deletes() {
    let world = SharedWorld::new(World::new(WorldOptions::default(), 7));
    let client = kube::Client::new(world.kube(Endpoint::Management), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let listed = maps.list(&ListParams::default()).await.unwrap();
    let since = listed.metadata.resource_version.unwrap();
    let mut events = maps
        .watch(&WatchParams::default(), &since)
        .await
        .unwrap()
        .boxed();
    let map: ConfigMap = from(json!({"metadata": {"name": "a"}, "data": {"k": "1"}}));
    maps.create(&PostParams::default(), &map).await.unwrap();
    assert!(matches!(
        events.try_next().await.unwrap(),
        Some(WatchEvent::Added(_))
    ));
    let change = json!({"data": {"k": "2"}});
    maps.patch("a", &PatchParams::default(), &Patch::Merge(&change))
        .await
        .unwrap();
    let Some(WatchEvent::Modified(seen)) = events.try_next().await.unwrap() else {
        panic!("the patch is an event")
    };
    assert_eq!(seen.data.unwrap()["k"], "2");
    let mut stale = map.clone();
    stale.metadata.resource_version = Some("1".into());
    let refused = maps
        .replace("a", &PostParams::default(), &stale)
        .await
        .unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.is_conflict()));
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(matches!(
        events.try_next().await.unwrap(),
        Some(WatchEvent::Deleted(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn a_kube_watcher_survives_a_forgotten_version() {
    let world = SharedWorld::new(World::new(WorldOptions::default(), 7));
    let client = kube::Client::new(world.kube(Endpoint::Management), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let mut events = watcher(maps.clone(), watcher::Config::default()).boxed();
    while !matches!(
        events.next().await.unwrap().unwrap(),
        watcher::Event::InitDone
    ) {}
    world.with(|world| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "default"}});
        world.create(Side::Management, map).unwrap();
        world.with_server(Side::Management, |server, _| server.compact());
    });
    let mut errors = 0;
    let found = loop {
        match events.next().await.unwrap() {
            Ok(watcher::Event::Apply(map) | watcher::Event::InitApply(map)) => break map,
            Ok(_) => {}
            Err(_) => errors += 1,
        }
    };
    assert_eq!(found.metadata.name.as_deref(), Some("a"));
    assert!(
        errors > 0,
        "the client was told that its version had expired"
    );
}

#[tokio::test(start_paused = true)]
async fn a_kube_client_evicts() {
    let world = SharedWorld::new(World::new(WorldOptions::default(), 7));
    world.with(|world| {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default"}, "spec": {"nodeName": "n"},
            "status": {"phase": "Running"}});
        world.create(Side::Workload, pod).unwrap();
    });
    let client = kube::Client::new(world.kube(Endpoint::Workload), "default");
    let pods: Api<Pod> = Api::default_namespaced(client);
    pods.evict("p", &EvictParams::default()).await.unwrap();
    let pod = pods.get("p").await.unwrap();
    let leaves_at = pod.metadata.deletion_timestamp.unwrap().0;
    let now = world.with(|world| world.now());
    assert_eq!(leaves_at.duration_since(now), SignedDuration::from_secs(30));
}

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}
