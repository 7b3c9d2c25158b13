//! What does an HTTP request ask of an API server?

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use bytes::Bytes;
use http::{Method, Request, Response};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::apply::Force;
use super::collect::DeleteOptions;
use super::fields;
use super::kinds::{Kind, Scope, StatusPart};
use super::patch;
use super::refusal::{Refusal, json_response};
use super::selector::Selector;
use super::server::{ApiServer, DryRun, ObjectName, Reach, Target, What, WriteOptions};
use super::watch::{WatchId, WatchRequest};
use crate::tally::Fault;

/// The answer to a request.
#[derive(Debug)]
pub enum Reply {
    /// A whole answer.
    Response(Response<Bytes>),
    /// A stream, to be read with `watch_poll`. Its status is 200.
    Watch(WatchId),
}

/// How much of an object the client wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// All of it.
    Whole,
    /// `PartialObjectMetadata`.
    Metadata,
}

/// Returns the object the way the client wants to see it.
pub(super) fn shown(object: &Value, view: View) -> Value {
    match view {
        View::Whole => object.clone(),
        View::Metadata => json!({"apiVersion": "meta.k8s.io/v1",
            "kind": "PartialObjectMetadata", "metadata": object["metadata"]}),
    }
}

/// The parameters after the question mark.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    fn parse(text: &str) -> Query {
        let pairs = text.split('&').filter(|part| !part.is_empty()).map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (decoded(key), decoded(value))
        });
        Query(pairs.collect())
    }

    pub(super) fn get(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    pub(super) fn is_true(&self, key: &str) -> bool {
        matches!(self.get(key), "true" | "1")
    }

    pub(super) fn number(&self, key: &str) -> Option<i64> {
        self.get(key).parse().ok()
    }

    pub(super) fn selector(&self) -> Result<Selector, Refusal> {
        Selector::parse(self.get("labelSelector"), self.get("fieldSelector"))
            .map_err(Refusal::bad_request)
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let hex = |digit: Option<u8>| digit.and_then(|digit| char::from(digit).to_digit(16));
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => match (hex(rest.next()), hex(rest.next())) {
                (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
                _ => bytes.push(b'%'),
            },
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What a path leads to.
struct Place {
    kind: Kind,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
}

impl Place {
    fn target(&self, name: &str) -> Target {
        Target::new(
            &self.kind.resource(),
            self.namespace.as_deref().unwrap_or(""),
            name,
        )
    }

    fn reach(&self) -> Result<Reach, Refusal> {
        match self.subresource.as_deref() {
            None => Ok(Reach::Main),
            Some("status") if self.kind.status == StatusPart::Subresource => Ok(Reach::Status),
            Some(_) => Err(Refusal::no_such_path()),
        }
    }
}

/// One request, taken apart.
struct Asked<'a> {
    now: Timestamp,
    method: &'a Method,
    query: Query,
    view: View,
    content_type: &'a str,
    manager: String,
    body: &'a [u8],
}

impl Asked<'_> {
    fn json(&self) -> Result<Value, Refusal> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(self.body)
            .map_err(|error| Refusal::bad_request(format!("the body is not JSON: {error}")))
    }

    fn write(&self, reach: Reach) -> WriteOptions {
        let dry_run = match self.query.get("dryRun") {
            "" => DryRun::No,
            _ => DryRun::Yes,
        };
        WriteOptions {
            manager: self.manager.clone(),
            reach,
            dry_run,
        }
    }
}

impl ApiServer {
    /// Answers a request.
    pub fn handle(&mut self, request: &Request<Bytes>, now: Timestamp) -> Reply {
        let path = request.uri().path();
        let asked = read(request, now);
        let line = format!("{} {path}", request.method());
        if self.chance.happens(self.faults.error_500) {
            let is_lost = self.chance.below(2) == 0;
            self.tally.count(if is_lost {
                Fault::ApiError
            } else {
                Fault::ApiLostAnswer
            });
            if !is_lost {
                // The request takes effect and only its answer is lost.
                if let Ok(Reply::Watch(id)) = self.answer(path, &asked) {
                    self.watch_close(id);
                }
            }
            let refusal = Refusal::internal("an error on the server has prevented the request");
            self.say(now, format!("{line} -> 500 (fault)"));
            return Reply::Response(refusal.to_response());
        }
        let is_update = matches!(*request.method(), Method::PUT | Method::PATCH);
        if is_update && self.chance.happens(self.faults.conflict) {
            self.tally.count(Fault::ApiConflict);
            self.say(now, format!("{line} -> 409 (fault)"));
            return Reply::Response(Refusal::stale("objects", path).to_response());
        }
        let reply = self
            .answer(path, &asked)
            .unwrap_or_else(|refusal| Reply::Response(refusal.to_response()));
        match &reply {
            Reply::Response(response) => {
                self.say(now, format!("{line} -> {}", response.status().as_u16()));
            }
            Reply::Watch(_) => self.say(now, format!("{line} -> watch")),
        }
        reply
    }

    fn answer(&mut self, path: &str, asked: &Asked<'_>) -> Result<Reply, Refusal> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["version" | "healthz" | "readyz" | "livez" | "api" | "apis"]
            | ["api", _]
            | ["apis", _]
            | ["apis", _, _] => return self.discover(&parts).map(Reply::Response),
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Err(Refusal::no_such_path()),
        };
        let place = self.place(group, version, rest)?;
        let is_named = place.name.is_some();
        match (asked.method.as_str(), is_named) {
            ("GET", _) if asked.query.is_true("watch") => self.open(&place, asked),
            ("GET", true) => self.read_one(&place, asked),
            ("GET", false) => self.read_list(&place, asked),
            ("POST", false) => self.post(&place, asked),
            ("POST", true) if place.subresource.as_deref() == Some("eviction") => {
                self.post_eviction(&place, asked)
            }
            ("PUT", true) => self.put_one(&place, asked),
            ("PATCH", true) => self.patch_one(&place, asked),
            ("DELETE", true) => self.delete_one(&place, asked),
            ("DELETE", false) => self.delete_many(&place, asked),
            _ => Err(Refusal::method_not_allowed()),
        }
    }

    fn place(&self, group: &str, version: &str, rest: &[&str]) -> Result<Place, Refusal> {
        let (namespace, rest) = match rest {
            ["namespaces", namespace, plural, rest @ ..]
                if !matches!(*plural, "status" | "finalize") =>
            {
                (Some((*namespace).to_owned()), [&[*plural], rest].concat())
            }
            all => (None, all.to_vec()),
        };
        let (plural, name, subresource) = match rest.as_slice() {
            [plural] => (*plural, None, None),
            [plural, name] => (*plural, Some(*name), None),
            [plural, name, subresource] => (*plural, Some(*name), Some(*subresource)),
            _ => return Err(Refusal::no_such_path()),
        };
        let key = match group {
            "" => plural.to_owned(),
            group => format!("{plural}.{group}"),
        };
        let kind = self.kind(&key)?;
        if kind.version != version {
            return Err(Refusal::no_such_path());
        }
        if kind.scope == Scope::Namespaced && namespace.is_none() && name.is_some() {
            return Err(Refusal::no_such_path());
        }
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Ok(Place {
            kind,
            namespace,
            name: owned(name),
            subresource: owned(subresource),
        })
    }

    fn open(&mut self, place: &Place, asked: &Asked<'_>) -> Result<Reply, Refusal> {
        let request = WatchRequest {
            resource: &place.kind.resource(),
            namespace: place.namespace.as_deref(),
            name: place.name.as_deref(),
            query: &asked.query,
            view: asked.view,
        };
        self.open_watch(asked.now, &request).map(Reply::Watch)
    }

    fn read_one(&self, place: &Place, asked: &Asked<'_>) -> Result<Reply, Refusal> {
        place.reach()?;
        let name = place.name.as_deref().unwrap_or("");
        let stored = self.stored(&place.target(name))?;
        Ok(body(200, &shown(&stored.object, asked.view)))
    }

    fn read_list(&self, place: &Place, asked: &Asked<'_>) -> Result<Reply, Refusal> {
        let selector = asked.query.selector()?;
        let resource = place.kind.resource();
        let after = self.read_continue(asked.query.get("continue"))?;
        let limit = asked.query.number("limit").filter(|limit| *limit > 0);
        let limit = limit.map_or(usize::MAX, |limit| limit as usize);
        let picked = |id: &ObjectName, object: &Value| {
            after.as_ref().is_none_or(|after| id > after)
                && place
                    .namespace
                    .as_ref()
                    .is_none_or(|wanted| *wanted == id.namespace)
                && selector.matches(object)
        };
        let all = self.objects.get(&resource).into_iter().flatten();
        let mut found = all
            .filter(|(id, stored)| picked(id, &stored.object))
            .peekable();
        let mut items = Vec::new();
        let mut last = None;
        while items.len() < limit
            && let Some((id, stored)) = found.next()
        {
            items.push(shown(&stored.object, asked.view));
            last = Some(id);
        }
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if let (Some(last), true) = (last, found.peek().is_some()) {
            metadata["continue"] = json!(self.write_continue(last));
            if selector == Selector::default() {
                metadata["remainingItemCount"] = json!(found.count());
            }
        }
        let (version, kind) = match asked.view {
            View::Whole => (place.kind.api_version(), format!("{}List", place.kind.kind)),
            View::Metadata => ("meta.k8s.io/v1".into(), "PartialObjectMetadataList".into()),
        };
        let list = json!({"apiVersion": version, "kind": kind, "metadata": metadata,
            "items": items});
        Ok(body(200, &list))
    }

    fn write_continue(&self, last: &ObjectName) -> String {
        let token = json!({"rv": self.revision, "ns": last.namespace, "name": last.name});
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token.to_string())
    }

    fn read_continue(&self, token: &str) -> Result<Option<ObjectName>, Refusal> {
        if token.is_empty() {
            return Ok(None);
        }
        let invalid = || Refusal::bad_request("continue key is not valid");
        let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
            .decode(token)
            .map_err(|_| invalid())?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|_| invalid())?;
        let revision = token["rv"].as_u64().ok_or_else(invalid)?;
        if revision < self.compacted {
            return Err(Refusal::expired(revision, self.compacted));
        }
        let text = |field: &str| token[field].as_str().unwrap_or("").to_owned();
        Ok(Some(ObjectName {
            namespace: text("ns"),
            name: text("name"),
        }))
    }

    fn post(&mut self, place: &Place, asked: &Asked<'_>) -> Result<Reply, Refusal> {
        let object = located(place, asked.json()?)?;
        let created = self.create(asked.now, object, &asked.write(Reach::Main))?;
        Ok(body(201, &shown(&created, asked.view)))
    }

    fn post_eviction(&mut self, place: &Place, asked: &Asked<'_>) -> Result<Reply, Refusal> {
        let eviction = asked.json()?;
        let name = place.name.as_deref().unwrap_or("");
        let written = fields::name(&eviction);
        if !written.is_empty() && written != name {
            let message = "name in URL does not match name in Eviction object";
            return Err(Refusal::bad_request(message));
        }
        let given = eviction
            .get("deleteOptions")
            .cloned()
            .unwrap_or(Value::Null);
        let options = DeleteOptions::read(&given, "", &asked.manager);
        let namespace = place.namespace.as_deref().unwrap_or("");
        self.evict(asked.now, namespace, name, &options)?;
        let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Success", "code": 201});
        Ok(body(201, &success))
    }

    fn put_one(&mut self, place: &Place, asked: &Asked<'_>) -> Result<Reply, Refusal> {
        let reach = place.reach()?;
        let object = located(place, asked.json()?)?;
        let target = place.target(place.name.as_deref().unwrap_or(""));
        self.stored(&target)?;
        // Only built-in kinds may be updated without saying from which version.
        let is_custom = place.kind.group.contains("cluster.x-k8s.io");
        if is_custom && fields::text(&object, "/metadata/resourceVersion").is_empty() {
            let why = "metadata.resourceVersion: Invalid value: 0: must be specified for an \
                       update";
            return Err(Refusal::invalid(&target.resource, &target.id.name, why));
        }
        let written = self.rewrite(asked.now, &target, &asked.write(reach), object)?;
        Ok(body(200, &shown(&written, asked.view)))
    }

    fn patch_one(&mut self, place: &Place, asked: &Asked<'_>) -> Result<Reply, Refusal> {
        let reach = place.reach()?;
        let target = place.target(place.name.as_deref().unwrap_or(""));
        let change = asked.json()?;
        let options = asked.write(reach);
        let media = asked.content_type.split(';').next().unwrap_or("").trim();
        if media == "application/apply-patch+yaml" {
            return self.apply_one(place, asked, &target, change);
        }
        let live = self.stored(&target)?.object;
        let proposed = match media {
            "application/merge-patch+json" => patch::merge(&live, &change),
            "application/strategic-merge-patch+json" => patch::strategic(&live, &change),
            "application/json-patch+json" => {
                let operations = change.as_array().map_or(&[][..], Vec::as_slice);
                patch::json(&live, operations)
                    .map_err(|why| Refusal::invalid(&target.resource, &target.id.name, &why))?
            }
            other => return Err(Refusal::unsupported_media(other)),
        };
        let written = self.rewrite(asked.now, &target, &options, proposed)?;
        Ok(body(200, &shown(&written, asked.view)))
    }

    fn apply_one(
        &mut self,
        place: &Place,
        asked: &Asked<'_>,
        target: &Target,
        wanted: Value,
    ) -> Result<Reply, Refusal> {
        if asked.query.get("fieldManager").is_empty() {
            return Err(Refusal::bad_request(
                "fieldManager is required for apply patch",
            ));
        }
        if fields::at(&wanted, "/metadata/managedFields").is_some_and(|value| !value.is_null()) {
            return Err(Refusal::bad_request("metadata.managedFields must be nil"));
        }
        let mut wanted = located(place, wanted)?;
        fields::set(&mut wanted, "/metadata/name", json!(target.id.name));
        let force = match asked.query.is_true("force") {
            true => Force::Yes,
            false => Force::No,
        };
        let options = asked.write(place.reach()?);
        let (written, what) = self.apply(asked.now, target, &options, wanted, force)?;
        let code = if what == What::Added { 201 } else { 200 };
        Ok(body(code, &shown(&written, asked.view)))
    }

    fn delete_one(&mut self, place: &Place, asked: &Asked<'_>) -> Result<Reply, Refusal> {
        if place.reach()? == Reach::Status {
            return Err(Refusal::method_not_allowed());
        }
        let target = place.target(place.name.as_deref().unwrap_or(""));
        let options = self.delete_options(asked)?;
        let last = self.delete(asked.now, &target, &options)?;
        if self.get(&target).is_some() || target.resource == "pods" {
            return Ok(body(200, &shown(&last, asked.view)));
        }
        let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Success", "details": {"name": target.id.name, "group": place.kind.group,
            "kind": place.kind.plural, "uid": fields::uid(&last)}});
        Ok(body(200, &success))
    }

    fn delete_many(&mut self, place: &Place, asked: &Asked<'_>) -> Result<Reply, Refusal> {
        let selector = asked.query.selector()?;
        let resource = place.kind.resource();
        let wanted = |object: &&Arc<Value>| {
            place
                .namespace
                .as_deref()
                .is_none_or(|wanted| wanted == fields::namespace(object))
                && selector.matches(object)
        };
        let found: Vec<Arc<Value>> = self.list(&resource).filter(wanted).cloned().collect();
        let options = self.delete_options(asked)?;
        for object in &found {
            self.delete(asked.now, &Target::of(&resource, object), &options)?;
        }
        let list = json!({"apiVersion": place.kind.api_version(),
            "kind": format!("{}List", place.kind.kind),
            "metadata": {"resourceVersion": self.revision.to_string()},
            "items": found.iter().map(|object| (**object).clone()).collect::<Vec<Value>>()});
        Ok(body(200, &list))
    }

    fn delete_options(&self, asked: &Asked<'_>) -> Result<DeleteOptions, Refusal> {
        let propagation = asked.query.get("propagationPolicy");
        let mut options = DeleteOptions::read(&asked.json()?, propagation, &asked.manager);
        if let Some(seconds) = asked.query.number("gracePeriodSeconds") {
            options.grace_period_seconds = Some(seconds);
        }
        if !asked.query.get("dryRun").is_empty() {
            options.dry_run = DryRun::Yes;
        }
        Ok(options)
    }

    fn discover(&self, parts: &[&str]) -> Result<Response<Bytes>, Refusal> {
        match parts {
            ["version"] => Ok(json_response(
                200,
                &json!({"major": "1", "minor": "37",
                "gitVersion": "v1.37.0", "platform": "linux/amd64"}),
            )),
            ["healthz" | "readyz" | "livez"] => Ok(Response::new(Bytes::from_static(b"ok"))),
            ["api"] => Ok(json_response(
                200,
                &json!({"kind": "APIVersions",
                "versions": ["v1"], "serverAddressByClientCIDRs": []}),
            )),
            ["api", version] => self.resources("", version),
            ["apis"] => Ok(json_response(200, &self.groups())),
            ["apis", group] => {
                let groups = self.groups();
                let groups = fields::list(&groups, "/groups");
                let found = groups
                    .iter()
                    .find(|one| fields::text(one, "/name") == *group);
                let mut found = found.cloned().ok_or_else(Refusal::no_such_path)?;
                fields::set(&mut found, "/kind", json!("APIGroup"));
                fields::set(&mut found, "/apiVersion", json!("v1"));
                Ok(json_response(200, &found))
            }
            ["apis", group, version] => self.resources(group, version),
            _ => Err(Refusal::no_such_path()),
        }
    }

    fn groups(&self) -> Value {
        let mut versions = BTreeMap::new();
        for kind in self.kinds.values().filter(|kind| !kind.group.is_empty()) {
            versions.insert(kind.group.clone(), kind.version.clone());
        }
        let group = |(name, version): (&String, &String)| {
            let version = json!({"groupVersion": format!("{name}/{version}"),
                "version": version});
            json!({"name": name, "versions": [version], "preferredVersion": version})
        };
        let groups: Vec<Value> = versions.iter().map(group).collect();
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    }

    fn resources(&self, group: &str, version: &str) -> Result<Response<Bytes>, Refusal> {
        let verbs = [
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ];
        let mut resources = Vec::new();
        let kinds = self.kinds.values();
        for kind in kinds.filter(|kind| kind.group == group && kind.version == version) {
            let is_namespaced = kind.scope == Scope::Namespaced;
            let singular = kind.kind.to_lowercase();
            resources.push(json!({"name": kind.plural, "singularName": singular,
                "namespaced": is_namespaced, "kind": kind.kind, "verbs": verbs}));
            if kind.status == StatusPart::Subresource {
                resources.push(json!({"name": format!("{}/status", kind.plural),
                    "singularName": "", "namespaced": is_namespaced, "kind": kind.kind,
                    "verbs": ["get", "patch", "update"]}));
            }
            if kind.plural == "pods" {
                resources.push(json!({"name": "pods/eviction", "singularName": "",
                    "namespaced": true, "group": "policy", "version": "v1",
                    "kind": "Eviction", "verbs": ["create"]}));
            }
        }
        if resources.is_empty() {
            return Err(Refusal::no_such_path());
        }
        let name = match group {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        Ok(json_response(
            200,
            &json!({"kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": name, "resources": resources}),
        ))
    }
}

fn read<'a>(request: &'a Request<Bytes>, now: Timestamp) -> Asked<'a> {
    let header = |name: http::HeaderName| {
        request
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or("")
    };
    let query = Query::parse(request.uri().query().unwrap_or(""));
    let view = match header(http::header::ACCEPT).contains("as=PartialObjectMetadata") {
        true => View::Metadata,
        false => View::Whole,
    };
    let agent = header(http::header::USER_AGENT)
        .split('/')
        .next()
        .unwrap_or("");
    let manager = match (query.get("fieldManager"), agent) {
        ("", "") => "unknown",
        ("", agent) => agent,
        (manager, _) => manager,
    };
    Asked {
        now,
        method: request.method(),
        view,
        content_type: header(http::header::CONTENT_TYPE),
        manager: manager.to_owned(),
        query,
        body: request.body(),
    }
}

/// Fills in what the path says about the object, and refuses an object that says otherwise.
fn located(place: &Place, mut object: Value) -> Result<Value, Refusal> {
    if !object.is_object() {
        return Err(Refusal::bad_request("the body is not an object"));
    }
    let checks = [
        ("/apiVersion", place.kind.api_version()),
        ("/kind", place.kind.kind.clone()),
    ];
    for (pointer, expected) in checks {
        match fields::text(&object, pointer) {
            "" => fields::set(&mut object, pointer, json!(expected)),
            found if found == expected => {}
            found => {
                let message = format!("the object has {pointer} {found}, not {expected}");
                return Err(Refusal::bad_request(message));
            }
        }
    }
    if let Some(namespace) = &place.namespace {
        match fields::namespace(&object) {
            "" => fields::set(&mut object, "/metadata/namespace", json!(namespace)),
            found if found == namespace => {}
            _ => {
                let message = "the namespace of the provided object does not match the \
                               namespace sent on the request";
                return Err(Refusal::bad_request(message));
            }
        }
    }
    Ok(object)
}

fn body(code: u16, object: &Value) -> Reply {
    Reply::Response(json_response(code, object))
}
