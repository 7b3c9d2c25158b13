//! What does one API server store, and how does a write change it?
//!
//! This file holds the store and the rules every write obeys: versions, generations, finalizers,
//! ownership. `http.rs` reads requests, `watch.rs` streams changes, `collect.rs` deletes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::agenda::Agenda;
use super::apply::{Force, Operation, Ownership, Part, Writer};
use super::draw::{Draws, Latency};
use super::fields;
use super::kinds::{self, Generation, Kind, Scope, StatusPart, resource};
use super::refusal::Refusal;
use super::watch::Watch;
use crate::tally::{Fault, Tally};
use crate::trace::TraceEntry;

/// Which of the world's two API servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Holds the Cluster API objects.
    Management,
    /// Holds nodes and pods.
    Workload,
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Side::Management => "management",
            Side::Workload => "workload",
        })
    }
}

/// How an API server misbehaves. Rates are shares between 0 and 1; all are 0 by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// Requests answered with 500: half of them before they took effect, half after.
    pub error_500: f64,
    /// Updates and patches refused with a 409 although nothing else wrote.
    pub conflict: f64,
    /// Changes at which each open watch breaks.
    pub watch_drop: f64,
    /// Changes that watches see late.
    pub late_watch: f64,
    /// How late those are; seconds around one when `None`.
    pub late_watch_by: Option<Latency>,
}

/// How a watch from a version that is no longer in the log is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpiredAs {
    /// The answer is a 410.
    Response,
    /// The answer is a 200 whose first event is an error with code 410.
    Event,
    /// Either, as the seed decides.
    #[default]
    Drawn,
}

/// Name of an object within its resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    /// Namespace, "" for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// One object of a server: the resource (see [`resource`]) and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Resource, such as `machines.cluster.x-k8s.io`.
    pub resource: String,
    /// Which object.
    pub id: ObjectName,
}

impl Target {
    /// Names an object; the namespace is "" for cluster-scoped ones.
    pub fn new(resource: &str, namespace: &str, name: &str) -> Target {
        let id = ObjectName {
            namespace: namespace.into(),
            name: name.into(),
        };
        Target {
            resource: resource.into(),
            id,
        }
    }

    /// Names the object that was read.
    pub fn of(resource: &str, object: &Value) -> Target {
        Target::new(resource, fields::namespace(object), fields::name(object))
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plural = self.resource.split('.').next().unwrap_or("");
        match self.id.namespace.as_str() {
            "" => write!(f, "{plural} {}", self.id.name),
            namespace => write!(f, "{plural} {namespace}/{}", self.id.name),
        }
    }
}

/// What a change did to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It came into being.
    Added,
    /// It is different.
    Modified,
    /// It is gone.
    Deleted,
}

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// The version this change made.
    pub revision: u64,
    /// Which object.
    pub target: Target,
    /// What happened to it.
    pub what: What,
    /// The object afterwards; its last state when it is gone.
    pub object: Arc<Value>,
    /// The object before.
    pub previous: Option<Arc<Value>>,
    /// When watches can see it.
    pub visible_at: Timestamp,
}

/// How far a write reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The object itself, as a client's write.
    Main,
    /// The status subresource, as a client's write.
    Status,
    /// Both at once: only the world's own controllers write so.
    Whole,
}

/// Whether a write is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// It is only tried.
    Yes,
    /// It is kept.
    No,
}

/// Who writes, and how.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// Field manager.
    pub manager: String,
    /// How far the write reaches.
    pub reach: Reach,
    /// Whether it is kept.
    pub dry_run: DryRun,
}

impl WriteOptions {
    /// A write by one of the world's own controllers.
    pub fn controller(manager: &str) -> WriteOptions {
        WriteOptions {
            manager: manager.into(),
            reach: Reach::Whole,
            dry_run: DryRun::No,
        }
    }

    fn writer(&self, operation: Operation) -> Writer {
        let part = match self.reach {
            Reach::Status => Part::Status,
            Reach::Main | Reach::Whole => Part::Main,
        };
        Writer {
            name: self.manager.clone(),
            operation,
            part,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) object: Arc<Value>,
    pub(super) owners: Arc<Ownership>,
}

/// How many changes the log holds before old ones are forgotten, as etcd's compaction does.
///
/// Every watch that is polled at least once per this many changes never sees a 410.
const LOG_LIMIT_DEFAULT: usize = 20_000;

/// One simulated Kubernetes API server.
#[derive(Debug)]
pub struct ApiServer {
    pub(super) side: Side,
    pub(super) kinds: BTreeMap<String, Kind>,
    pub(super) objects: BTreeMap<String, BTreeMap<ObjectName, Stored>>,
    pub(super) revision: u64,
    pub(super) log: VecDeque<Change>,
    log_limit: usize,
    pub(super) compacted: u64,
    pub(super) watches: BTreeMap<u64, Watch>,
    pub(super) watch_count: u64,
    pub(super) uids: BTreeSet<String>,
    pub(super) garbage: Agenda<String>,
    fresh: Vec<Change>,
    lines: Vec<TraceEntry>,
    pub(crate) tally: Tally,
    pub(super) faults: Faults,
    pub(super) expired_as: ExpiredAs,
    pub(super) names: Draws,
    pub(super) chance: Draws,
    pub(super) delays: Draws,
}

impl ApiServer {
    /// Starts an empty server with the built-in kinds.
    pub fn new(side: Side, seed: u64) -> ApiServer {
        let kinds = kinds::built_in();
        ApiServer {
            side,
            objects: kinds
                .keys()
                .map(|key| (key.clone(), BTreeMap::new()))
                .collect(),
            kinds,
            revision: 1,
            log: VecDeque::new(),
            log_limit: LOG_LIMIT_DEFAULT,
            compacted: 0,
            watches: BTreeMap::new(),
            watch_count: 0,
            uids: BTreeSet::new(),
            garbage: Agenda::default(),
            fresh: Vec::new(),
            lines: Vec::new(),
            tally: Tally::default(),
            faults: Faults::default(),
            expired_as: ExpiredAs::default(),
            names: Draws::new(seed, &format!("{side}-names")),
            chance: Draws::new(seed, &format!("{side}-faults")),
            delays: Draws::new(seed, &format!("{side}-delays")),
        }
    }

    /// Returns which server this is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Serves one more kind.
    pub fn register(&mut self, kind: Kind) {
        let key = kind.resource();
        self.objects.entry(key.clone()).or_default();
        self.kinds.insert(key, kind);
    }

    /// Changes how the server misbehaves from here on.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Changes how watches from forgotten versions are refused.
    pub fn set_expired_as(&mut self, expired_as: ExpiredAs) {
        self.expired_as = expired_as;
    }

    /// Changes how many changes the log holds.
    pub fn set_log_limit(&mut self, limit: usize) {
        self.log_limit = limit;
    }

    /// Forgets the whole log, as a compaction of etcd does.
    pub fn compact(&mut self) {
        self.log.clear();
        self.compacted = self.revision;
    }

    /// Returns the version of the latest change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns an object.
    pub fn get(&self, target: &Target) -> Option<Arc<Value>> {
        let stored = self.objects.get(&target.resource)?.get(&target.id)?;
        Some(stored.object.clone())
    }

    /// Returns all objects of a resource, by namespace and name.
    pub fn list(&self, resource: &str) -> impl Iterator<Item = &Arc<Value>> {
        self.objects
            .get(resource)
            .into_iter()
            .flat_map(|all| all.values())
            .map(|one| &one.object)
    }

    /// Returns the objects of a resource in one namespace, by name.
    pub fn list_in(&self, resource: &str, namespace: &str) -> impl Iterator<Item = &Arc<Value>> {
        let first = ObjectName {
            namespace: namespace.to_owned(),
            name: String::new(),
        };
        let all = self.objects.get(resource).into_iter();
        let namespace = namespace.to_owned();
        all.flat_map(move |all| all.range(first.clone()..))
            .take_while(move |(id, _)| id.namespace == namespace)
            .map(|(_, one)| &one.object)
    }

    /// Returns the changes since the last call, oldest first.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.fresh)
    }

    /// Returns the trace lines since the last call, oldest first.
    pub fn take_lines(&mut self) -> Vec<TraceEntry> {
        std::mem::take(&mut self.lines)
    }

    pub(super) fn say(&mut self, at: Timestamp, line: impl AsRef<str>) {
        self.lines.push(TraceEntry {
            at,
            line: format!("{}: {}", self.side, line.as_ref()),
        });
    }

    /// Returns the resource of an object, by its `apiVersion` and `kind`.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn resource_of(&self, object: &Value) -> Result<String, Refusal> {
        let (version, kind) = (
            fields::text(object, "/apiVersion"),
            fields::text(object, "/kind"),
        );
        self.kinds
            .iter()
            .find(|(_, known)| known.kind == kind && known.api_version() == version)
            .map(|(key, _)| key.clone())
            .ok_or_else(|| {
                let message = format!("no matches for kind \"{kind}\" in version \"{version}\"");
                Refusal::bad_request(message)
            })
    }

    pub(super) fn kind(&self, resource: &str) -> Result<Kind, Refusal> {
        self.kinds
            .get(resource)
            .cloned()
            .ok_or_else(Refusal::no_such_path)
    }

    pub(super) fn stored(&self, target: &Target) -> Result<Stored, Refusal> {
        let found = self
            .objects
            .get(&target.resource)
            .and_then(|all| all.get(&target.id));
        found
            .cloned()
            .ok_or_else(|| Refusal::not_found(&target.resource, &target.id.name))
    }

    /// Creates an object; its resource follows from `apiVersion` and `kind`.
    ///
    /// # Errors
    /// As a real server's `POST`.
    pub fn create(
        &mut self,
        now: Timestamp,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Arc<Value>, Refusal> {
        self.create_owned(now, object, options, None)
    }

    fn create_owned(
        &mut self,
        now: Timestamp,
        mut object: Value,
        options: &WriteOptions,
        applied: Option<Ownership>,
    ) -> Result<Arc<Value>, Refusal> {
        let resource = self.resource_of(&object)?;
        let kind = self.kind(&resource)?;
        if !fields::text(&object, "/metadata/resourceVersion").is_empty() {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Refusal::bad_request(message));
        }
        let prefix = fields::text(&object, "/metadata/generateName").to_owned();
        if fields::name(&object).is_empty() {
            if prefix.is_empty() {
                let why = "metadata.name: Required value: name or generateName is required";
                return Err(Refusal::invalid(&resource, "", why));
            }
            let name = format!("{prefix}{}", self.names.suffix());
            fields::set(&mut object, "/metadata/name", json!(name));
        }
        match kind.scope {
            Scope::Cluster => fields::remove(&mut object, "/metadata/namespace"),
            Scope::Namespaced if fields::namespace(&object).is_empty() => {
                return Err(Refusal::bad_request("an empty namespace may not be set"));
            }
            Scope::Namespaced => {}
        }
        let target = Target::of(&resource, &object);
        if self.get(&target).is_some() {
            return Err(Refusal::already_exists(&resource, &target.id.name));
        }
        check_owners(&object, &target)?;
        self.prepare_new(now, &mut object, &kind, options);
        let owners = applied.unwrap_or_else(|| {
            let mut owners = Ownership::default();
            owners.update(options.writer(Operation::Update), &Value::Null, &object);
            owners
        });
        if options.dry_run == DryRun::Yes {
            return Ok(Arc::new(object));
        }
        self.uids.insert(fields::uid(&object).to_owned());
        self.doubt_owners(now, &object);
        Ok(self.put(now, target, object, owners, What::Added, &options.manager))
    }

    fn prepare_new(
        &mut self,
        now: Timestamp,
        object: &mut Value,
        kind: &Kind,
        options: &WriteOptions,
    ) {
        for gone in [
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "managedFields",
        ] {
            fields::remove(object, &format!("/metadata/{gone}"));
        }
        fields::set(object, "/metadata/uid", json!(self.names.uuid()));
        fields::set(
            object,
            "/metadata/creationTimestamp",
            json!(fields::stamp(now)),
        );
        if kind.generation == Generation::Counted {
            fields::set(object, "/metadata/generation", json!(1));
        }
        // Nodes register with their status; for all others it is the subresource that writes it.
        let keeps_status = options.reach == Reach::Whole || kind.plural == "nodes";
        if kind.status == StatusPart::Subresource && !keeps_status {
            fields::remove(object, "/status");
        }
        if kind.resource() == resource::PODS && fields::at(object, "/status/phase").is_none() {
            fields::set(object, "/status/phase", json!("Pending"));
        }
    }

    /// Changes an object as one of the world's own controllers: all of it, without a version.
    ///
    /// # Errors
    /// The object is gone, or the result breaks a rule.
    pub fn edit(
        &mut self,
        now: Timestamp,
        target: &Target,
        manager: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<Arc<Value>, Refusal> {
        let mut proposed = (*self.stored(target)?.object).clone();
        change(&mut proposed);
        self.rewrite(now, target, &WriteOptions::controller(manager), proposed)
    }

    /// Replaces an object by `proposed`, obeying `metadata.resourceVersion` and `uid` in it.
    ///
    /// # Errors
    /// As a real server's `PUT`.
    pub fn rewrite(
        &mut self,
        now: Timestamp,
        target: &Target,
        options: &WriteOptions,
        proposed: Value,
    ) -> Result<Arc<Value>, Refusal> {
        let stored = self.stored(target)?;
        let proposed = self.settle(target, options, &stored.object, proposed)?;
        if proposed == *stored.object {
            return Ok(stored.object);
        }
        let mut owners = (*stored.owners).clone();
        owners.update(options.writer(Operation::Update), &stored.object, &proposed);
        Ok(self.finish(now, target, options, proposed, owners))
    }

    /// Server-side apply. Returns the object and whether it is new.
    ///
    /// # Errors
    /// As a real server's apply patch: a conflict names each field and its owner.
    pub fn apply(
        &mut self,
        now: Timestamp,
        target: &Target,
        options: &WriteOptions,
        wanted: Value,
        force: Force,
    ) -> Result<(Arc<Value>, What), Refusal> {
        let writer = options.writer(Operation::Apply);
        let Ok(stored) = self.stored(target) else {
            return self.apply_new(now, target, options, wanted, writer);
        };
        let mut owners = (*stored.owners).clone();
        let merged = owners
            .apply(writer, &stored.object, &wanted, force)
            .map_err(|conflicts| {
                let shown = conflicts
                    .iter()
                    .map(|one| format!("conflict with \"{}\": {}", one.owner, one.field));
                let count = conflicts.len();
                let shown = shown.collect::<Vec<_>>().join(", ");
                let why = format!("Apply failed with {count} conflicts: {shown}");
                Refusal {
                    message: why,
                    ..Refusal::conflict(&target.resource, &target.id.name, "")
                }
            })?;
        let proposed = self.settle(target, options, &stored.object, merged)?;
        if proposed == *stored.object && owners == *stored.owners {
            return Ok((stored.object, What::Modified));
        }
        Ok((
            self.finish(now, target, options, proposed, owners),
            What::Modified,
        ))
    }

    fn apply_new(
        &mut self,
        now: Timestamp,
        target: &Target,
        options: &WriteOptions,
        wanted: Value,
        writer: Writer,
    ) -> Result<(Arc<Value>, What), Refusal> {
        if options.reach == Reach::Status {
            return Err(Refusal::not_found(&target.resource, &target.id.name));
        }
        if !fields::uid(&wanted).is_empty() {
            let why = "uid mismatch: the provided object specified a uid, and no existing object \
                       was found";
            return Err(Refusal::conflict(&target.resource, &target.id.name, why));
        }
        let mut owners = Ownership::default();
        let object = owners
            .apply(writer, &json!({}), &wanted, Force::Yes)
            .expect("a forced apply has no conflicts");
        let created = self.create_owned(now, object, options, Some(owners))?;
        Ok((created, What::Added))
    }

    /// Checks a proposed object against the live one and puts the server's own fields right.
    fn settle(
        &self,
        target: &Target,
        options: &WriteOptions,
        live: &Value,
        mut proposed: Value,
    ) -> Result<Value, Refusal> {
        let kind = self.kind(&target.resource)?;
        check_preconditions(target, live, &proposed)?;
        if options.reach == Reach::Status {
            let status = proposed.get("status").cloned();
            proposed = live.clone();
            match status {
                Some(status) => fields::set(&mut proposed, "/status", status),
                None => fields::remove(&mut proposed, "/status"),
            }
        } else if options.reach == Reach::Main && kind.status == StatusPart::Subresource {
            match live.get("status") {
                Some(status) => fields::set(&mut proposed, "/status", status.clone()),
                None => fields::remove(&mut proposed, "/status"),
            }
        }
        keep_system_fields(live, &mut proposed);
        check_owners(&proposed, target)?;
        check_finalizers(live, &proposed, target)?;
        if kind.generation == Generation::Counted && specification_differs(live, &proposed) {
            let generation = fields::number(live, "/metadata/generation").unwrap_or(0) + 1;
            fields::set(&mut proposed, "/metadata/generation", json!(generation));
        }
        Ok(proposed)
    }

    fn finish(
        &mut self,
        now: Timestamp,
        target: &Target,
        options: &WriteOptions,
        proposed: Value,
        owners: Ownership,
    ) -> Arc<Value> {
        if options.dry_run == DryRun::Yes {
            return Arc::new(proposed);
        }
        let holds = fields::number(&proposed, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
        let is_free = fields::list(&proposed, "/metadata/finalizers").is_empty();
        if fields::is_deleting(&proposed) && is_free && holds == 0 {
            return self.erase(now, target, proposed, &options.manager);
        }
        self.put(
            now,
            target.clone(),
            proposed,
            owners,
            What::Modified,
            &options.manager,
        )
    }

    /// Stores an object under a fresh version and tells everyone.
    pub(super) fn put(
        &mut self,
        now: Timestamp,
        target: Target,
        mut object: Value,
        owners: Ownership,
        what: What,
        by: &str,
    ) -> Arc<Value> {
        self.revision += 1;
        fields::set(
            &mut object,
            "/metadata/resourceVersion",
            json!(self.revision.to_string()),
        );
        let object = Arc::new(object);
        let stored = Stored {
            object: object.clone(),
            owners: Arc::new(owners),
        };
        let all = self.objects.entry(target.resource.clone()).or_default();
        let previous = all.insert(target.id.clone(), stored).map(|old| old.object);
        self.publish(now, target, what, object.clone(), previous, by);
        object
    }

    /// Takes an object out of the store and tells everyone.
    pub(super) fn erase(
        &mut self,
        now: Timestamp,
        target: &Target,
        mut last: Value,
        by: &str,
    ) -> Arc<Value> {
        self.revision += 1;
        fields::set(
            &mut last,
            "/metadata/resourceVersion",
            json!(self.revision.to_string()),
        );
        let all = self.objects.entry(target.resource.clone()).or_default();
        let previous = all.remove(&target.id).map(|old| old.object);
        self.uids.remove(fields::uid(&last));
        let last = Arc::new(last);
        self.doubt_dependents(now, fields::uid(&last));
        self.publish(
            now,
            target.clone(),
            What::Deleted,
            last.clone(),
            previous,
            by,
        );
        last
    }

    fn publish(
        &mut self,
        now: Timestamp,
        target: Target,
        what: What,
        object: Arc<Value>,
        previous: Option<Arc<Value>>,
        by: &str,
    ) {
        let did = match what {
            What::Added => "created",
            What::Modified => "changed",
            What::Deleted => "gone",
        };
        self.say(
            now,
            format!("{target} {did} by {by}, version {}", self.revision),
        );
        let visible_at = self.visible_at(now);
        self.drop_watches(now);
        let revision = self.revision;
        let change = Change {
            revision,
            target,
            what,
            object,
            previous,
            visible_at,
        };
        self.fresh.push(change.clone());
        self.log.push_back(change);
        while self.log.len() > self.log_limit {
            if let Some(oldest) = self.log.pop_front() {
                self.compacted = oldest.revision;
            }
        }
    }

    fn visible_at(&mut self, now: Timestamp) -> Timestamp {
        let mut at = now;
        if self.chance.happens(self.faults.late_watch) {
            self.tally.count(Fault::WatchLate);
            let latency = self
                .faults
                .late_watch_by
                .unwrap_or(Latency::from_millis(1000, 900));
            at = self.chance.due(now, latency);
        }
        // Watches never reorder: what comes after a late change is at least as late.
        self.log.back().map_or(at, |last| last.visible_at.max(at))
    }
}

fn check_preconditions(target: &Target, live: &Value, proposed: &Value) -> Result<(), Refusal> {
    let version = fields::text(proposed, "/metadata/resourceVersion");
    if !version.is_empty() && version != fields::text(live, "/metadata/resourceVersion") {
        return Err(Refusal::stale(&target.resource, &target.id.name));
    }
    let uid = fields::uid(proposed);
    if !uid.is_empty() && uid != fields::uid(live) {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            fields::uid(live)
        );
        return Err(Refusal::conflict(&target.resource, &target.id.name, &why));
    }
    let name = fields::name(proposed);
    if !name.is_empty() && name != target.id.name {
        let message = format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.id.name
        );
        return Err(Refusal::bad_request(message));
    }
    Ok(())
}

/// Fields of `metadata` that a write never changes.
const KEPT_FIELDS: [&str; 9] = [
    "name",
    "namespace",
    "generateName",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

fn keep_system_fields(live: &Value, proposed: &mut Value) {
    for field in ["apiVersion", "kind"] {
        proposed[field] = live[field].clone();
    }
    for field in KEPT_FIELDS {
        let pointer = format!("/metadata/{field}");
        match fields::at(live, &pointer) {
            Some(value) => fields::set(proposed, &pointer, value.clone()),
            None => fields::remove(proposed, &pointer),
        }
    }
    fields::remove(proposed, "/metadata/managedFields");
    for map in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let pointer = format!("/metadata/{map}");
        let is_empty = match fields::at(proposed, &pointer) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Null) => true,
            _ => false,
        };
        if is_empty {
            fields::remove(proposed, &pointer);
        }
    }
}

fn check_owners(object: &Value, target: &Target) -> Result<(), Refusal> {
    let owners = fields::list(object, "/metadata/ownerReferences");
    let controllers = owners
        .iter()
        .filter(|owner| fields::flag(owner, "/controller"));
    if controllers.count() > 1 {
        let why = "metadata.ownerReferences: Invalid value: Only one reference can have \
                   Controller set to true";
        return Err(Refusal::invalid(&target.resource, &target.id.name, why));
    }
    let is_whole = |owner: &Value| {
        ["/uid", "/name", "/kind", "/apiVersion"]
            .iter()
            .all(|field| !fields::text(owner, field).is_empty())
    };
    if !owners.iter().all(is_whole) {
        let why = "metadata.ownerReferences: Invalid value: uid, name, kind and apiVersion must \
                   not be empty";
        return Err(Refusal::invalid(&target.resource, &target.id.name, why));
    }
    Ok(())
}

fn check_finalizers(live: &Value, proposed: &Value, target: &Target) -> Result<(), Refusal> {
    if !fields::is_deleting(live) {
        return Ok(());
    }
    let before = fields::list(live, "/metadata/finalizers");
    let after = fields::list(proposed, "/metadata/finalizers");
    match after.iter().find(|finalizer| !before.contains(finalizer)) {
        None => Ok(()),
        Some(added) => {
            let why = format!(
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object \
                 is being deleted, found new finalizers {added}"
            );
            Err(Refusal::invalid(&target.resource, &target.id.name, &why))
        }
    }
}

fn specification_differs(live: &Value, proposed: &Value) -> bool {
    let is_specification = |key: &String| key != "metadata" && key != "status";
    let part = |object: &Value| -> Vec<(String, Value)> {
        let fields = object.as_object().into_iter().flatten();
        fields
            .filter(|(key, _)| is_specification(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    part(live) != part(proposed)
}
