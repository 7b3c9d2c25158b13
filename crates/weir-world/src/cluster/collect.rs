//! How does an object leave, and what leaves with it?
//!
//! Deletion with finalizers, grace and propagation; the garbage collector; the pods' slow end.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::draw::Latency;
use super::fields;
use super::kinds::{Generation, resource};
use super::refusal::Refusal;
use super::server::{ApiServer, DryRun, Target};

/// What happens to the objects that an object owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted some time after it.
    #[default]
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay, without their owner reference.
    Orphan,
}

/// How to delete.
#[derive(Clone, Debug)]
pub struct DeleteOptions {
    /// What happens to owned objects.
    pub propagation: Propagation,
    /// Only an object with this UID is deleted.
    pub uid: Option<String>,
    /// Only an object at this version is deleted.
    pub resource_version: Option<String>,
    /// Overrides a pod's grace period.
    pub grace_period_seconds: Option<i64>,
    /// Whether the deletion is only tried.
    pub dry_run: DryRun,
    /// Who deletes, for the trace.
    pub by: String,
}

impl DeleteOptions {
    /// A plain background deletion.
    pub fn by(name: &str) -> DeleteOptions {
        DeleteOptions {
            propagation: Propagation::Background,
            uid: None,
            resource_version: None,
            grace_period_seconds: None,
            dry_run: DryRun::No,
            by: name.into(),
        }
    }

    /// A deletion that does not wait for a pod's containers.
    pub fn at_once(name: &str) -> DeleteOptions {
        DeleteOptions {
            grace_period_seconds: Some(0),
            ..DeleteOptions::by(name)
        }
    }

    /// Reads the body and the query of a `DELETE`.
    pub(super) fn read(body: &Value, propagation: &str, by: &str) -> DeleteOptions {
        let word = match fields::text(body, "/propagationPolicy") {
            "" => propagation,
            word => word,
        };
        let given = |pointer: &str| match fields::text(body, pointer) {
            "" => None,
            text => Some(text.to_owned()),
        };
        DeleteOptions {
            propagation: match word {
                "Foreground" => Propagation::Foreground,
                "Orphan" => Propagation::Orphan,
                _ => Propagation::Background,
            },
            uid: given("/preconditions/uid"),
            resource_version: given("/preconditions/resourceVersion"),
            grace_period_seconds: fields::number(body, "/gracePeriodSeconds"),
            dry_run: match fields::list(body, "/dryRun").is_empty() {
                true => DryRun::No,
                false => DryRun::Yes,
            },
            by: by.into(),
        }
    }
}

/// The finalizer that foreground deletion puts on an owner.
const FOREGROUND: &str = "foregroundDeletion";

/// The grace period of a pod that does not name one.
const GRACE_PERIOD_SECONDS_DEFAULT: i64 = 30;

/// How long the garbage collector takes to act on an object whose owner is gone.
const COLLECTION: Latency = Latency::from_millis(800, 600);

impl ApiServer {
    /// Deletes an object, or marks it when finalizers or grace hold it.
    ///
    /// Returns its last state; `metadata.deletionTimestamp` is set on it if it is still there.
    ///
    /// # Errors
    /// The object is gone, or a precondition does not hold.
    pub fn delete(
        &mut self,
        now: Timestamp,
        target: &Target,
        options: &DeleteOptions,
    ) -> Result<Arc<Value>, Refusal> {
        let live = self.stored(target)?.object;
        check_delete_preconditions(target, &live, options)?;
        if options.dry_run == DryRun::Yes {
            return Ok(live);
        }
        if options.propagation == Propagation::Orphan {
            self.disown_dependents(now, fields::uid(&live));
        }
        let grace = match target.resource.as_str() {
            resource::PODS => grace_period(&live, options),
            _ => 0,
        };
        let is_foreground = options.propagation == Propagation::Foreground;
        let is_held = !fields::list(&live, "/metadata/finalizers").is_empty();
        if !is_held && !is_foreground && grace == 0 {
            return Ok(self.erase(now, target, (*live).clone(), &options.by));
        }
        let kind = self.kind(&target.resource)?;
        let mut marked = (*live).clone();
        if is_foreground && !fields::is_deleting(&live) {
            fields::add_finalizer(&mut marked, FOREGROUND);
        }
        let end = now + SignedDuration::from_secs(grace);
        let is_sooner = fields::time(&live, "/metadata/deletionTimestamp")
            .is_none_or(|planned| target.resource == resource::PODS && end < planned);
        if is_sooner {
            if kind.generation == Generation::Counted && !fields::is_deleting(&live) {
                let generation = fields::number(&live, "/metadata/generation").unwrap_or(0) + 1;
                fields::set(&mut marked, "/metadata/generation", json!(generation));
            }
            fields::set(
                &mut marked,
                "/metadata/deletionTimestamp",
                json!(fields::stamp(end)),
            );
            fields::set(
                &mut marked,
                "/metadata/deletionGracePeriodSeconds",
                json!(grace),
            );
        }
        if is_foreground {
            self.doubt_dependents(now, fields::uid(&live));
        }
        if marked == *live {
            return Ok(live);
        }
        let owners = (*self.stored(target)?.owners).clone();
        let what = super::server::What::Modified;
        Ok(self.put(now, target.clone(), marked, owners, what, &options.by))
    }

    /// Looks at the owners of a new object some time later, if one of them is not there.
    pub(super) fn doubt_owners(&mut self, now: Timestamp, object: &Value) {
        for owner in fields::list(object, "/metadata/ownerReferences") {
            let uid = fields::text(owner, "/uid");
            if !self.uids.contains(uid) {
                self.doubt_dependents(now, uid);
            }
        }
    }

    /// Looks some time later at what the object with this UID owns.
    pub(super) fn doubt_dependents(&mut self, now: Timestamp, uid: &str) {
        let at = self.delays.due(now, COLLECTION);
        self.garbage.add(at, uid.to_owned());
    }

    /// Returns when the server has something to do by itself.
    pub fn next_due(&self, now: Timestamp) -> Option<Timestamp> {
        let late = match self.watches.is_empty() {
            true => None,
            false => self.next_visible(now),
        };
        [self.garbage.next_due(), late].into_iter().flatten().min()
    }

    /// Does what is due: garbage collection.
    pub fn advance(&mut self, now: Timestamp) {
        while let Some(uid) = self.garbage.pop(now) {
            self.collect(now, &uid);
        }
    }

    fn collect(&mut self, now: Timestamp, uid: &str) {
        let dependents = self.dependents(uid);
        let owner_is_there = self.uids.contains(uid);
        if owner_is_there && !self.is_foreground(uid) {
            return;
        }
        for (target, object) in &dependents {
            let others = fields::list(object, "/metadata/ownerReferences")
                .iter()
                .any(|owner| {
                    let other = fields::text(owner, "/uid");
                    other != uid && self.uids.contains(other)
                });
            // A failure means that the object left in this very instant.
            let _gone = match others {
                true => self.disown(now, target, uid).err(),
                false => {
                    let options = DeleteOptions::by("garbage collector");
                    self.delete(now, target, &options).err()
                }
            };
        }
        if owner_is_there {
            self.finish_foreground(now, uid);
        }
    }

    fn finish_foreground(&mut self, now: Timestamp, uid: &str) {
        let blocks = |object: &Value| {
            let owners = fields::list(object, "/metadata/ownerReferences");
            owners.iter().any(|owner| {
                fields::text(owner, "/uid") == uid && fields::flag(owner, "/blockOwnerDeletion")
            })
        };
        if self
            .dependents(uid)
            .iter()
            .any(|(_, object)| blocks(object))
        {
            self.doubt_dependents(now, uid);
            return;
        }
        if let Some((owner, _)) = self.with_uid(uid) {
            let _gone = self
                .edit(now, &owner, "garbage collector", |object| {
                    fields::remove_finalizer(object, FOREGROUND);
                })
                .err();
        }
    }

    fn is_foreground(&self, uid: &str) -> bool {
        self.with_uid(uid)
            .is_some_and(|(_, owner)| fields::has_finalizer(&owner, FOREGROUND))
    }

    fn with_uid(&self, uid: &str) -> Option<(Target, Arc<Value>)> {
        self.objects.iter().find_map(|(resource, all)| {
            let stored = all.values().find(|one| fields::uid(&one.object) == uid)?;
            Some((Target::of(resource, &stored.object), stored.object.clone()))
        })
    }

    fn dependents(&self, uid: &str) -> Vec<(Target, Arc<Value>)> {
        let owned = |object: &Value| {
            let owners = fields::list(object, "/metadata/ownerReferences");
            owners
                .iter()
                .any(|owner| fields::text(owner, "/uid") == uid)
        };
        self.objects
            .iter()
            .flat_map(|(resource, all)| all.values().map(move |one| (resource, &one.object)))
            .filter(|(_, object)| owned(object))
            .map(|(resource, object)| (Target::of(resource, object), object.clone()))
            .collect()
    }

    fn disown_dependents(&mut self, now: Timestamp, uid: &str) {
        for (target, _) in self.dependents(uid) {
            let _gone = self.disown(now, &target, uid).err();
        }
    }

    fn disown(&mut self, now: Timestamp, target: &Target, uid: &str) -> Result<(), Refusal> {
        self.edit(now, target, "garbage collector", |object| {
            if let Some(Value::Array(all)) = object.pointer_mut("/metadata/ownerReferences") {
                all.retain(|owner| fields::text(owner, "/uid") != uid);
            }
        })
        .map(drop)
    }
}

fn check_delete_preconditions(
    target: &Target,
    live: &Value,
    options: &DeleteOptions,
) -> Result<(), Refusal> {
    let checks = [
        ("UID", options.uid.as_deref(), fields::uid(live)),
        (
            "ResourceVersion",
            options.resource_version.as_deref(),
            fields::text(live, "/metadata/resourceVersion"),
        ),
    ];
    for (what, wanted, found) in checks {
        if wanted.is_some_and(|wanted| wanted != found) {
            let wanted = wanted.unwrap_or("");
            let why = format!(
                "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: \
                 {found}"
            );
            return Err(Refusal::conflict(&target.resource, &target.id.name, &why));
        }
    }
    Ok(())
}

/// A pod that no kubelet runs, or whose containers have ended, has nothing to wait for.
fn grace_period(pod: &Value, options: &DeleteOptions) -> i64 {
    let phase = fields::text(pod, "/status/phase");
    let is_over = phase == "Succeeded" || phase == "Failed";
    if fields::text(pod, "/spec/nodeName").is_empty() || is_over {
        return 0;
    }
    options
        .grace_period_seconds
        .or_else(|| fields::number(pod, "/spec/terminationGracePeriodSeconds"))
        .unwrap_or(GRACE_PERIOD_SECONDS_DEFAULT)
}
