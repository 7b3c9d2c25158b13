//! The simulated API server keeps the promises of a real one.

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, as it should"
)]

use bytes::Bytes;
use http::{Method, Request, Response};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use weir_world::cluster::server::ExpiredAs;
use weir_world::cluster::{ApiServer, Reply, Side, Target, WatchId};

const POOLS: &str = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/default/\
                     azuremachinepools";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

#[test]
fn an_update_from_a_stale_version_conflicts() {
    let mut client = Client::new();
    let old = client.ok(Method::POST, POOLS, &pool("a", 1));
    let fresh = json!({"spec": {"replicas": 2}});
    client.patch(&path("a"), MERGE, &fresh);
    let (code, status) = client.ask(Method::PUT, &path("a"), &old, "");
    assert_eq!((code, status["reason"].as_str()), (409, Some("Conflict")));
    let guarded = json!({"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]},
        "spec": {"replicas": 3}});
    let (code, _) = client.ask(Method::PATCH, &path("a"), &guarded, MERGE);
    assert_eq!(code, 409, "a version inside a patch is a precondition");
    assert_eq!(
        client.ok(Method::GET, &path("a"), &Value::Null)["spec"]["replicas"],
        2
    );
}

#[test]
fn creating_twice_is_refused_and_generated_names_differ() {
    let mut client = Client::new();
    client.ok(Method::POST, POOLS, &pool("a", 1));
    let (code, status) = client.ask(Method::POST, POOLS, &pool("a", 1), "");
    assert_eq!(
        (code, status["reason"].as_str()),
        (409, Some("AlreadyExists"))
    );
    let nameless = json!({"metadata": {"generateName": "p-"}, "spec": {}});
    let first = client.ok(Method::POST, POOLS, &nameless);
    let second = client.ok(Method::POST, POOLS, &nameless);
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
}

#[test]
fn status_and_specification_are_written_apart() {
    let mut client = Client::new();
    let mut object = pool("a", 1);
    object["status"] = json!({"ready": true});
    let created = client.ok(Method::POST, POOLS, &object);
    assert!(created.get("status").is_none(), "a create ignores status");
    let both = json!({"spec": {"replicas": 5}, "status": {"ready": true}});
    let status = client.patch(&format!("{}/status", path("a")), MERGE, &both);
    assert_eq!(status["spec"]["replicas"], 1);
    assert_eq!(status["status"]["ready"], true);
    assert_eq!(status["metadata"]["generation"], 1);
    let main = client.patch(
        &path("a"),
        MERGE,
        &json!({"spec": {"replicas": 5}, "status": null}),
    );
    assert_eq!(main["status"]["ready"], true);
    assert_eq!(
        main["metadata"]["generation"], 2,
        "only a new specification is a generation"
    );
}

#[test]
fn a_write_that_changes_nothing_makes_no_version_and_no_event() {
    let mut client = Client::new();
    client.ok(Method::POST, POOLS, &pool("a", 1));
    let before = client.server.revision();
    let watch = client.watch(POOLS, before);
    client.patch(&path("a"), MERGE, &json!({"spec": {"replicas": 1}}));
    assert_eq!(client.server.revision(), before);
    assert_eq!(client.events(watch), Some(vec![]));
}

#[test]
fn a_finalizer_holds_deletion_until_it_is_removed() {
    let mut client = Client::new();
    let mut object = pool("a", 1);
    object["metadata"]["finalizers"] = json!(["weir/test"]);
    client.ok(Method::POST, POOLS, &object);
    client.ok(Method::DELETE, &path("a"), &Value::Null);
    let held = client.ok(Method::GET, &path("a"), &Value::Null);
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    let more = json!({"metadata": {"finalizers": ["weir/test", "weir/late"]}});
    let (code, _) = client.ask(Method::PATCH, &path("a"), &more, MERGE);
    assert_eq!(
        code, 422,
        "no finalizer can be added to an object that leaves"
    );
    client.patch(
        &path("a"),
        MERGE,
        &json!({"metadata": {"finalizers": null}}),
    );
    let (code, _) = client.ask(Method::GET, &path("a"), &Value::Null, "");
    assert_eq!(code, 404);
}

#[test]
fn delete_preconditions_are_obeyed() {
    let mut client = Client::new();
    let created = client.ok(Method::POST, POOLS, &pool("a", 1));
    let wrong = json!({"preconditions": {"uid": "another"}});
    let (code, _) = client.ask(Method::DELETE, &path("a"), &wrong, "");
    assert_eq!(code, 409);
    let right = json!({"preconditions": {"uid": created["metadata"]["uid"]}});
    client.ok(Method::DELETE, &path("a"), &right);
}

#[test]
fn a_watch_replays_from_its_version_in_order() {
    let mut client = Client::new();
    let first = client.ok(Method::POST, POOLS, &pool("a", 1));
    let since = first["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    client.ok(Method::POST, POOLS, &pool("b", 1));
    client.patch(&path("a"), MERGE, &json!({"spec": {"replicas": 2}}));
    client.ok(Method::DELETE, &path("b"), &Value::Null);
    let watch = client.watch(POOLS, since);
    let seen = client.events(watch).unwrap();
    assert_eq!(words(&seen), ["ADDED b", "MODIFIED a", "DELETED b"]);
}

#[test]
fn a_watch_from_a_forgotten_version_is_told_410() {
    for expired_as in [ExpiredAs::Event, ExpiredAs::Response] {
        let mut client = Client::new();
        client.server.set_expired_as(expired_as);
        client.ok(Method::POST, POOLS, &pool("a", 1));
        client.ok(Method::POST, POOLS, &pool("b", 1));
        client.server.compact();
        let path = format!("{POOLS}?watch=true&resourceVersion=2");
        let reply = client
            .server
            .handle(&request(Method::GET, &path, &Value::Null, ""), at(0));
        match (expired_as, reply) {
            (ExpiredAs::Response, Reply::Response(response)) => {
                assert_eq!(response.status().as_u16(), 410);
            }
            (_, Reply::Watch(watch)) => {
                let events = client.events(watch).unwrap();
                assert_eq!(events[0]["type"], "ERROR");
                assert_eq!(events[0]["object"]["code"], 410);
                assert_eq!(
                    client.events(watch),
                    None,
                    "the stream ends after the error"
                );
            }
            (_, other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_label_change_moves_an_object_in_and_out_of_a_selecting_watch() {
    let mut client = Client::new();
    let created = client.ok(Method::POST, POOLS, &pool("a", 1));
    let since = created["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    let selecting = format!("{POOLS}?labelSelector=x%3D1");
    let watch = client.watch(&selecting, since.parse().unwrap());
    client.patch(
        &path("a"),
        MERGE,
        &json!({"metadata": {"labels": {"x": "1"}}}),
    );
    client.patch(
        &path("a"),
        MERGE,
        &json!({"metadata": {"labels": {"x": "2"}}}),
    );
    assert_eq!(
        words(&client.events(watch).unwrap()),
        ["ADDED a", "DELETED a"]
    );
}

#[test]
fn a_quiet_watch_gets_bookmarks_and_ends_at_its_timeout() {
    let mut client = Client::new();
    client.ok(Method::POST, POOLS, &pool("a", 1));
    let wanted = format!("{POOLS}?allowWatchBookmarks=true&timeoutSeconds=290");
    let watch = client.watch(&wanted, client.server.revision());
    client.now = at(61);
    let events = client.events(watch).unwrap();
    assert_eq!(events[0]["type"], "BOOKMARK");
    assert_eq!(events[0]["object"]["metadata"]["resourceVersion"], "2");
    client.now = at(291);
    client.events(watch);
    assert_eq!(client.events(watch), None);
}

#[test]
fn apply_removes_fields_no_longer_applied_and_conflicts_over_owned_ones() {
    let mut client = Client::new();
    let two = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"replicas": 1}});
    let one = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"replicas": 1}});
    let mine = format!("{}?fieldManager=mine", path("a"));
    client.patch(&mine, APPLY, &two);
    let after = client.patch(&mine, APPLY, &one);
    assert_eq!(after["metadata"]["labels"], json!({"a": "1"}));
    let theirs = format!("{}?fieldManager=theirs", path("a"));
    let other = json!({"spec": {"replicas": 7}});
    let (code, status) = client.ask(Method::PATCH, &theirs, &other, APPLY);
    assert_eq!((code, status["reason"].as_str()), (409, Some("Conflict")));
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains(".spec.replicas")
    );
    let forced = client.patch(&format!("{theirs}&force=true"), APPLY, &other);
    assert_eq!(forced["spec"]["replicas"], 7);
}

#[test]
fn what_a_deleted_owner_owned_goes_with_it_unless_another_owner_stays() {
    let mut client = Client::new();
    let first = client.ok(Method::POST, POOLS, &pool("first", 1));
    let second = client.ok(Method::POST, POOLS, &pool("second", 1));
    let owned = |name: &str, owners: &[&Value]| {
        let mut object = pool(name, 1);
        object["metadata"]["ownerReferences"] =
            owners.iter().map(|owner| owner_of(owner)).collect();
        object
    };
    client.ok(Method::POST, POOLS, &owned("alone", &[&first]));
    client.ok(Method::POST, POOLS, &owned("shared", &[&first, &second]));
    client.ok(Method::DELETE, &path("first"), &Value::Null);
    client.ok(Method::GET, &path("alone"), &Value::Null);
    client.server.advance(at(10));
    assert_eq!(
        client.ask(Method::GET, &path("alone"), &Value::Null, "").0,
        404
    );
    let shared = client.ok(Method::GET, &path("shared"), &Value::Null);
    assert_eq!(
        shared["metadata"]["ownerReferences"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[test]
fn foreground_deletion_keeps_the_owner_until_its_dependents_left() {
    let mut client = Client::new();
    let owner = client.ok(Method::POST, POOLS, &pool("owner", 1));
    let mut object = pool("owned", 1);
    object["metadata"]["ownerReferences"] = json!([owner_of(&owner)]);
    object["metadata"]["finalizers"] = json!(["weir/test"]);
    client.ok(Method::POST, POOLS, &object);
    client.ok(
        Method::DELETE,
        &path("owner"),
        &json!({"propagationPolicy": "Foreground"}),
    );
    client.server.advance(at(10));
    let owned = client.ok(Method::GET, &path("owned"), &Value::Null);
    assert!(owned["metadata"]["deletionTimestamp"].is_string());
    client.ok(Method::GET, &path("owner"), &Value::Null);
    client.patch(
        &path("owned"),
        MERGE,
        &json!({"metadata": {"finalizers": null}}),
    );
    for second in 11..20 {
        client.server.advance(at(second));
    }
    assert_eq!(
        client.ask(Method::GET, &path("owner"), &Value::Null, "").0,
        404
    );
}

#[test]
fn lists_are_cut_into_pages_and_select_by_label_and_field() {
    let mut client = Client::new();
    for (name, tier) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let mut object = pool(name, 1);
        object["metadata"]["labels"] = json!({"tier": tier});
        client.ok(Method::POST, POOLS, &object);
    }
    let first = client.ok(Method::GET, &format!("{POOLS}?limit=2"), &Value::Null);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest = client.ok(
        Method::GET,
        &format!("{POOLS}?limit=2&continue={token}"),
        &Value::Null,
    );
    assert_eq!((names(&first), names(&rest)), (vec!["a", "b"], vec!["c"]));
    let picked = client.ok(
        Method::GET,
        &format!("{POOLS}?labelSelector=tier%3Dx"),
        &Value::Null,
    );
    assert_eq!(names(&picked), ["a", "c"]);
    let field = format!("{POOLS}?fieldSelector=metadata.name%3Db");
    assert_eq!(names(&client.ok(Method::GET, &field, &Value::Null)), ["b"]);
}

#[test]
fn an_eviction_is_refused_while_the_budget_is_zero_and_allowed_after() {
    let mut client = Client::new();
    let user = weir_world::cluster::server::WriteOptions::controller("test");
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    client.server.create(at(0), budget, &user).unwrap();
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-1", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"nodeName": "n1"}, "status": {"phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}]}});
    client.server.create(at(0), pod, &user).unwrap();
    let evict = "/api/v1/namespaces/default/pods/web-1/eviction";
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": "web-1", "namespace": "default"}});
    let response = client.raw(Method::POST, evict, &eviction);
    assert_eq!(response.status().as_u16(), 429);
    assert_eq!(
        response.headers()["retry-after"],
        "10",
        "the budget was not computed yet"
    );
    let target = Target::new("poddisruptionbudgets.policy", "default", "web");
    let computed = |allowed: i64| {
        json!({"observedGeneration": 1, "disruptionsAllowed": allowed,
        "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1})
    };
    client
        .server
        .edit(at(0), &target, "test", |it| it["status"] = computed(0))
        .unwrap();
    let (code, status) = client.ask(Method::POST, evict, &eviction, "");
    assert_eq!(
        (code, status["reason"].as_str()),
        (429, Some("TooManyRequests"))
    );
    assert_eq!(status["details"]["causes"][0]["reason"], "DisruptionBudget");
    client
        .server
        .edit(at(0), &target, "test", |it| it["status"] = computed(1))
        .unwrap();
    let (code, _) = client.ask(Method::POST, evict, &eviction, "");
    assert_eq!(code, 201);
    let budget = client.server.get(&target).unwrap();
    assert_eq!(
        budget["status"]["disruptionsAllowed"], 0,
        "the eviction spent it"
    );
    let pod = client.ok(
        Method::GET,
        "/api/v1/namespaces/default/pods/web-1",
        &Value::Null,
    );
    assert!(
        pod["metadata"]["deletionTimestamp"].is_string(),
        "the pod stops gracefully"
    );
}

struct Client {
    server: ApiServer,
    now: Timestamp,
}

impl Client {
    fn new() -> Client {
        Client {
            server: ApiServer::new(Side::Management, 1),
            now: at(0),
        }
    }

    fn raw(&mut self, method: Method, path: &str, body: &Value) -> Response<Bytes> {
        match self
            .server
            .handle(&request(method, path, body, ""), self.now)
        {
            Reply::Response(response) => response,
            Reply::Watch(_) => panic!("an unexpected watch"),
        }
    }

    fn ask(&mut self, method: Method, path: &str, body: &Value, media: &str) -> (u16, Value) {
        match self
            .server
            .handle(&request(method, path, body, media), self.now)
        {
            Reply::Response(response) => {
                let body = serde_json::from_slice(response.body()).unwrap();
                (response.status().as_u16(), body)
            }
            Reply::Watch(_) => panic!("an unexpected watch"),
        }
    }

    fn ok(&mut self, method: Method, path: &str, body: &Value) -> Value {
        let (code, body) = self.ask(method, path, body, "application/json");
        assert!((200..300).contains(&code), "{path}: {body}");
        body
    }

    fn patch(&mut self, path: &str, media: &str, body: &Value) -> Value {
        let (code, body) = self.ask(Method::PATCH, path, body, media);
        assert!((200..300).contains(&code), "{path}: {body}");
        body
    }

    fn watch(&mut self, path: &str, since: u64) -> WatchId {
        let sign = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{sign}watch=1&resourceVersion={since}");
        match self
            .server
            .handle(&request(Method::GET, &path, &Value::Null, ""), self.now)
        {
            Reply::Watch(id) => id,
            Reply::Response(response) => panic!("{response:?}"),
        }
    }

    fn events(&mut self, id: WatchId) -> Option<Vec<Value>> {
        let frames = self.server.watch_poll(id, self.now)?;
        Some(
            frames
                .iter()
                .map(|line| serde_json::from_slice(line).unwrap())
                .collect(),
        )
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_000_000 + second)
}

fn request(method: Method, path: &str, body: &Value, media: &str) -> Request<Bytes> {
    let body = match body {
        Value::Null => Bytes::new(),
        body => Bytes::from(body.to_string()),
    };
    Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(body)
        .unwrap()
}

fn path(name: &str) -> String {
    format!("{POOLS}/{name}")
}

fn pool(name: &str, replicas: i64) -> Value {
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "AzureMachinePool",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"replicas": replicas}})
}

fn owner_of(owner: &Value) -> Value {
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": true})
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

fn words(events: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let word = |event: &Value| {
        format!(
            "{} {}",
            text(&event["type"]),
            text(&event["object"]["metadata"]["name"])
        )
    };
    events.iter().map(word).collect()
}
