//! What do PUT, PATCH and DELETE of a scale set do?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::answer::{
    Answer, Answered, concurrent, etag_differs, exists_already, invalid, marked_for_deletion,
};
use super::call::{Call, SetPath};
use super::model::{
    WriteOnly, check_change, check_new, check_patch, check_zones_in_body, drop_read_only,
    fill_defaults, merge, take_write_only, text,
};
use super::operation::Kind;
use super::scale_set::{Phase, ScaleSet, SetKey};
use super::{Azure, ParallelWrites, key};

/// The most instances in one placement group, and in a set of several.
///
/// # Source
/// MicrosoftDocs/azure-compute-docs, virtual-machine-scale-sets-placement-groups.md.
const INSTANCES_MAX: [(bool, u64); 2] = [(true, 100), (false, 1_000)];

impl Azure {
    pub(super) fn put_set(&mut self, call: &Call<'_>, path: &SetPath) -> Answered {
        self.group_exists(&path.group)?;
        let mut body = Value::Object(call.object()?);
        let write_only = take_write_only(&mut body)?;
        drop_read_only(&mut body);
        if self.sets.contains_key(&key(path)) {
            return self.update_set(call, path, &body, write_only);
        }
        if let Some(etag) = call.header("if-match") {
            return Err(etag_differs(etag, "(none)"));
        }
        self.create_set(call, path, body, write_only)
    }

    pub(super) fn patch_set(&mut self, call: &Call<'_>, path: &SetPath) -> Answered {
        self.set(path)?;
        let mut body = Value::Object(call.object()?);
        let write_only = take_write_only(&mut body)?;
        drop_read_only(&mut body);
        check_patch(&body)?;
        self.update_set(call, path, &body, write_only)
    }

    fn create_set(
        &mut self,
        call: &Call<'_>,
        path: &SetPath,
        mut model: Value,
        write_only: WriteOnly,
    ) -> Answered {
        check_new(&model)?;
        fill_defaults(&mut model, &path.name);
        self.check_size(&model, path)?;
        self.check_room(None, &model)?;
        let mut set = ScaleSet {
            subscription: path.subscription.clone(),
            group: path.group.clone(),
            name: path.name.clone(),
            model,
            custom_data: write_only.custom_data,
            vm_model: Arc::default(),
            stale_capacity: None,
            unique_id: self.rng.names.uuid(),
            created: self.now,
            etag: 1,
            running: BTreeMap::new(),
            outcome: Ok(()),
            is_leaving: false,
            instances: BTreeMap::new(),
            next_id: 0,
            freed_ids: BTreeSet::new(),
        };
        set.vm_model = Arc::new(set.current_vm_model(&self.options.stale_on));
        let (key, capacity) = (set.key(), set.capacity());
        self.sets.insert(key.clone(), set);
        let update = self.draw(self.options.latency.update);
        let (grow, verdict) = self.grow(&key, capacity);
        let operation =
            self.begin_operation(call, &key, Kind::CreateSet, grow.max(update), verdict);
        self.accepted(
            call,
            &key,
            StatusCode::CREATED,
            operation.as_ref(),
            capacity,
        )
    }

    fn update_set(
        &mut self,
        call: &Call<'_>,
        path: &SetPath,
        body: &Value,
        write_only: WriteOnly,
    ) -> Answered {
        let key = key(path);
        let set = self.set(path)?;
        if set.is_leaving {
            return Err(marked_for_deletion("Put", &set.name));
        }
        check_etag(call, set)?;
        check_zones_in_body(body)?;
        let mut model = merge(&set.model, body);
        fill_defaults(&mut model, &path.name);
        check_change(&set.model, &model)?;
        if set.size() != text(&model, "/sku/name") {
            self.check_size(&model, path)?;
        }
        self.check_room(Some(&key), &model)?;
        self.enter(&key, Kind::UpdateSet)?;
        let stale_on = self.options.stale_on.clone();
        let Some(set) = self.sets.get_mut(&key) else {
            return Err(super::answer::set_not_found(&path.name, &path.group));
        };
        set.model = model;
        set.stale_capacity = None;
        set.custom_data = write_only.custom_data.or(set.custom_data.take());
        set.etag += 1;
        let vm_model = set.current_vm_model(&stale_on);
        let is_new_model = *set.vm_model != vm_model;
        if is_new_model {
            set.vm_model = Arc::new(vm_model);
        }
        let rolls = is_new_model && set.is_rolling_by_itself();
        let (wanted, staying) = (set.capacity(), set.staying().count());
        let to_upgrade: Vec<u32> = set.staying().filter(|_| rolls).map(|i| i.id).collect();
        let update = self.draw(self.options.latency.update);
        let missing = u32::try_from((wanted as usize).saturating_sub(staying)).unwrap_or(u32::MAX);
        let (grow, verdict) = self.grow(&key, missing);
        let shrink = self.shrink(&key, staying.saturating_sub(wanted as usize));
        let mut span = update.max(grow).max(shrink);
        for id in to_upgrade {
            span = span.max(self.begin_upgrade(&key, id));
        }
        let operation = self.begin_operation(call, &key, Kind::UpdateSet, span, verdict);
        self.accepted(call, &key, StatusCode::OK, operation.as_ref(), missing)
    }

    pub(super) fn delete_set(&mut self, call: &Call<'_>, path: &SetPath) -> Answered {
        self.group_exists(&path.group)?;
        let key = key(path);
        let Some(set) = self.sets.get_mut(&key) else {
            return Ok(Answer::bare(StatusCode::NO_CONTENT));
        };
        check_etag(call, set)?;
        if set.is_leaving {
            return Ok(self.repeat_delete(call, &key));
        }
        // A deletion of the whole set ends whatever is under way.
        set.is_leaving = true;
        set.etag += 1;
        let ids: Vec<u32> = set.instances.keys().copied().collect();
        let charge = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        self.preempt(&key);
        let mut span = self.draw(self.options.latency.update);
        for id in ids {
            self.begin_delete(&key, id);
        }
        // Deletions that began earlier count too.
        span = span.max(self.until_gone(&key, |_| true));
        let operation = self.begin_operation(call, &key, Kind::DeleteSet, span, Ok(()));
        self.accepted(call, &key, StatusCode::ACCEPTED, operation.as_ref(), charge)
    }

    /// Answers a second DELETE with the operation of the first.
    fn repeat_delete(&self, call: &Call<'_>, key: &SetKey) -> Answer {
        let accepted = Answer::bare(StatusCode::ACCEPTED);
        let set = self.sets.get(key);
        let mut running = set.into_iter().flat_map(|set| &set.running);
        let guid = running.find(|(_, phase)| **phase == Phase::Deleting);
        match guid.and_then(|(guid, _)| self.operations.get(guid)) {
            Some(first) => first.announce(accepted, call, self.options.retry_after_seconds),
            None => accepted,
        }
    }

    /// Makes the answer to an accepted write.
    pub(super) fn accepted(
        &self,
        call: &Call<'_>,
        key: &SetKey,
        status: StatusCode,
        operation: Option<&super::Operation>,
        charge: u32,
    ) -> Answered {
        let answer = match (status, self.sets.get(key)) {
            (StatusCode::OK | StatusCode::CREATED, Some(set)) => {
                Answer::json(status, set.view(false, self.now)).with("etag", set.etag())
            }
            _ => Answer::bare(status),
        };
        let answer = answer.with("x-ms-request-charge", charge.to_string());
        Ok(match operation {
            Some(operation) => operation.announce(answer, call, self.options.retry_after_seconds),
            None => answer,
        })
    }

    /// Lets a write on a scale set in, or refuses it because of one that runs.
    pub(super) fn enter(&mut self, key: &SetKey, kind: Kind) -> Answered<()> {
        let Some(set) = self.sets.get(key) else {
            return Ok(());
        };
        let running = set.running.keys();
        let running = running.filter_map(|guid| self.operations.get(guid));
        let running: Vec<_> = running
            .filter(|operation| operation.kind.is_on_set())
            .collect();
        // Each of two deletes would lower the capacity that the other one has read.
        let accepted_since = self.now - self.options.delete_acceptance;
        let collides = kind == Kind::DeleteInstances
            && running
                .iter()
                .any(|other| other.kind == kind && other.started > accepted_since);
        match self.options.parallel_writes {
            ParallelWrites::Conflict if !running.is_empty() => Err(concurrent()),
            ParallelWrites::Accept if collides => Err(concurrent()),
            ParallelWrites::Preempt if kind.is_on_set() => {
                self.preempt(key);
                Ok(())
            }
            ParallelWrites::Accept | ParallelWrites::Conflict | ParallelWrites::Preempt => Ok(()),
        }
    }

    fn check_size(&self, model: &Value, path: &SetPath) -> Answered<()> {
        let size = text(model, "/sku/name");
        let sizes = self.options.vm_sizes.iter().map(|size| size.name.as_str());
        if !sizes.clone().any(|known| known.eq_ignore_ascii_case(size)) {
            let all = sizes.collect::<Vec<_>>().join(",");
            let message = format!(
                "The value {size} provided for the VM size is not valid. The valid sizes in the \
                 current region are: {all}."
            );
            return Err(invalid("vmSize", &message));
        }
        if self.options.sizes_unavailable.contains(size) {
            let (name, location) = (&path.name, text(model, "/location"));
            let message = format!(
                "The requested VM size for resource '{name}' is currently not available in \
                 location '{location}'."
            );
            return Err(Answer::error(
                StatusCode::CONFLICT,
                "SkuNotAvailable",
                &message,
            ));
        }
        Ok(())
    }

    /// Refuses a capacity beyond the set's limit or the quota. `replaced` is the set as it is.
    fn check_room(&self, replaced: Option<&SetKey>, model: &Value) -> Answered<()> {
        let Some(wanted) = model.pointer("/sku/capacity").and_then(Value::as_u64) else {
            return Err(invalid("sku.capacity", "The capacity is not a number."));
        };
        let is_single = model.pointer("/properties/singlePlacementGroup") == Some(&json!(true));
        let limit = INSTANCES_MAX
            .iter()
            .find(|(single, _)| *single == is_single);
        if let Some((_, limit)) = limit
            && wanted > *limit
        {
            let message = format!("The capacity {wanted} exceeds the maximum of {limit}.");
            return Err(invalid("sku.capacity", &message));
        }
        let location = text(model, "/location");
        let others = self
            .sets
            .iter()
            .filter(|(key, set)| Some(*key) != replaced && set.location() == location);
        let mut used = [0_u64; 2];
        for (_, set) in others {
            let capacity = u64::from(set.capacity());
            used[0] += capacity * self.vcpus(set.size());
            used[1] += capacity;
        }
        let before = replaced.and_then(|key| self.sets.get(key));
        let before = before.map_or(0, |set| u64::from(set.capacity()));
        let vcpus = self.vcpus(text(model, "/sku/name"));
        let family = self.family(text(model, "/sku/name"));
        let rows = [
            (
                self.options.quota.cores,
                used[0],
                vcpus,
                format!("{family} Cores"),
            ),
            (
                self.options.quota.instances,
                used[1],
                1,
                "Virtual Machines".to_owned(),
            ),
        ];
        for (limit, others, each, what) in rows {
            let Some(limit) = limit.map(u64::from) else {
                continue;
            };
            // Lowering is always allowed, even when the quota was cut below what is in use.
            if wanted > before && others + wanted * each > limit {
                let usage = others + before * each;
                let required = (wanted - before) * each;
                return Err(quota_exceeded(location, &what, limit, usage, required));
            }
        }
        Ok(())
    }

    pub(super) fn vcpus(&self, size: &str) -> u64 {
        let sizes = &self.options.vm_sizes;
        let found = sizes.iter().find(|s| s.name.eq_ignore_ascii_case(size));
        found.map_or(0, |size| u64::from(size.vcpus))
    }

    fn family(&self, size: &str) -> &str {
        let sizes = &self.options.vm_sizes;
        let found = sizes.iter().find(|s| s.name.eq_ignore_ascii_case(size));
        found.map_or("unknown", |size| size.family.as_str())
    }
}

fn quota_exceeded(location: &str, what: &str, limit: u64, usage: u64, required: u64) -> Answer {
    let needed = usage + required;
    let message = format!(
        "Operation could not be completed as it results in exceeding approved {what} quota. \
         Additional details - Deployment Model: Resource Manager, Location: {location}, Current \
         Limit: {limit}, Current Usage: {usage}, Additional Required: {required}, (Minimum) New \
         Limit Required: {needed}."
    );
    Answer::error(StatusCode::CONFLICT, "OperationNotAllowed", &message)
}

/// Checks `If-Match` and `If-None-Match` against a scale set that exists.
pub(super) fn check_etag(call: &Call<'_>, set: &ScaleSet) -> Answered<()> {
    if *call.method == Method::PUT && call.header("if-none-match").is_some() {
        return Err(exists_already());
    }
    match call.header("if-match").map(str::trim) {
        None | Some("*" | "") => Ok(()),
        Some(given) if given == set.etag() => Ok(()),
        Some(given) => Err(etag_differs(given, &set.etag())),
    }
}
