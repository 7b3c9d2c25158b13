//! The API server misbehaves as told, and only then.

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, as it should"
)]

use bytes::Bytes;
use http::{Method, Request};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use weir_world::cluster::draw::Latency;
use weir_world::cluster::server::Faults;
use weir_world::cluster::{ApiServer, Reply, Side, WatchId};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn without_faults_nothing_fails() {
    let mut server = ApiServer::new(Side::Workload, 3);
    for index in 0..200 {
        assert_eq!(create(&mut server, index), 201);
    }
}

#[test]
fn a_500_may_come_before_or_after_the_effect() {
    let faults = Faults {
        error_500: 0.5,
        ..Faults::default()
    };
    let mut server = server_with(faults);
    let (mut kept, mut lost) = (0, 0);
    for index in 0..200 {
        if create(&mut server, index) == 500 {
            match server
                .list("configmaps")
                .any(|map| map["metadata"]["name"] == name(index))
            {
                true => kept += 1,
                false => lost += 1,
            }
        }
    }
    assert!(kept > 20 && lost > 20, "{kept} took effect, {lost} did not");
}

#[test]
fn a_conflict_is_invented_for_updates_only_and_changes_nothing() {
    let mut server = server_with(Faults {
        conflict: 1.0,
        ..Faults::default()
    });
    assert_eq!(create(&mut server, 0), 201);
    let before = server.revision();
    let path = format!("{MAPS}/{}", name(0));
    let change = json!({"data": {"k": "v"}});
    assert_eq!(ask(&mut server, Method::PATCH, &path, &change), 409);
    assert_eq!(server.revision(), before);
}

#[test]
fn a_dropped_watch_ends_after_what_it_had_seen() {
    let mut server = server_with(Faults {
        watch_drop: 1.0,
        ..Faults::default()
    });
    let watch = watch(&mut server);
    create(&mut server, 0);
    while let Some(frames) = server.watch_poll(watch, at(0)) {
        assert!(
            !frames.is_empty(),
            "a broken watch does not stay open without a word"
        );
    }
    assert_eq!(server.watch_count(), 0);
}

#[test]
fn late_events_come_late_and_in_order() {
    let by = Latency::from_secs(20, 15);
    let mut server = server_with(Faults {
        late_watch: 0.5,
        late_watch_by: Some(by),
        ..Faults::default()
    });
    let watch = watch(&mut server);
    for index in 0..20 {
        create(&mut server, index);
    }
    let first = server.watch_poll(watch, at(0)).unwrap();
    assert!(first.len() < 20, "some are late");
    let due = server
        .next_due(at(0))
        .expect("the server says when the next can be seen");
    assert!(due > at(0));
    let mut frames = first;
    frames.extend(server.watch_poll(watch, at(60)).unwrap());
    let seen: Vec<String> = frames
        .iter()
        .map(|frame| serde_json::from_slice::<Value>(frame).unwrap())
        .map(|event| {
            event["object"]["metadata"]["name"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(seen, (0..20).map(name).collect::<Vec<_>>());
}

fn server_with(faults: Faults) -> ApiServer {
    let mut server = ApiServer::new(Side::Workload, 3);
    server.set_faults(faults);
    server
}

fn name(index: usize) -> String {
    format!("map-{index}")
}

fn create(server: &mut ApiServer, index: usize) -> u16 {
    let map = json!({"metadata": {"name": name(index)}});
    ask(server, Method::POST, MAPS, &map)
}

fn ask(server: &mut ApiServer, method: Method, path: &str, body: &Value) -> u16 {
    let media = "application/merge-patch+json";
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media);
    let request = request.body(Bytes::from(body.to_string())).unwrap();
    match server.handle(&request, at(0)) {
        Reply::Response(response) => response.status().as_u16(),
        Reply::Watch(_) => panic!("an unexpected watch"),
    }
}

fn watch(server: &mut ApiServer) -> WatchId {
    let path = format!("{MAPS}?watch=1&resourceVersion=1");
    let request = Request::get(path).body(Bytes::new()).unwrap();
    match server.handle(&request, at(0)) {
        Reply::Watch(id) => id,
        Reply::Response(response) => panic!("{response:?}"),
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}
