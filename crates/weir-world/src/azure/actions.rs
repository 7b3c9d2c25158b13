//! What do actions on instances do, one by one or many at once?

use std::collections::BTreeSet;
use std::sync::Arc;

use http::StatusCode;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::answer::{
    Answer, Answered, bad_request, concurrent, instance_not_active, invalid, marked_for_deletion,
    missing_parameter, no_such_path, not_found,
};
use super::call::{Call, SetPath};
use super::life::{Due, Step, Work};
use super::model::{CustomData, custom_data, merge, text};
use super::operation::Kind;
use super::options::ReimageTo;
use super::scale_set::{Power, ScaleSet, SetKey, State};
use super::writes::check_etag;
use super::{Azure, ParallelWrites, key};

/// What can be done to instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Delete,
    Upgrade,
    Reimage,
    Restart,
    Start,
    PowerOff,
    Deallocate,
}

impl Action {
    fn on_set(part: &str) -> Option<Action> {
        match part {
            "delete" => Some(Action::Delete),
            "manualupgrade" => Some(Action::Upgrade),
            part => Action::on_vm(part),
        }
    }

    fn on_vm(part: &str) -> Option<Action> {
        match part {
            "reimage" | "reimageall" => Some(Action::Reimage),
            "restart" | "redeploy" => Some(Action::Restart),
            "start" => Some(Action::Start),
            "poweroff" => Some(Action::PowerOff),
            "deallocate" => Some(Action::Deallocate),
            _ => None,
        }
    }
}

impl Azure {
    pub(super) fn act_on_set(&mut self, call: &Call<'_>, path: &SetPath, part: &str) -> Answered {
        let key = key(path);
        let set = self.set(path)?;
        let action = Action::on_set(part).ok_or_else(no_such_path)?;
        if set.is_leaving {
            return Err(marked_for_deletion(part, &set.name));
        }
        check_etag(call, set)?;
        let body = Value::Object(call.object()?);
        let ids = self.named_instances(set, action, body.get("instanceIds"))?;
        let replacement = custom_data(body.pointer("/osProfile/customData").cloned())?;
        let kind = match action {
            Action::Delete => Kind::DeleteInstances,
            _ => Kind::Act,
        };
        self.enter(&key, kind)?;
        let mut span = match action {
            Action::Delete => SignedDuration::ZERO,
            // Protected instances may be all there are, and the answer still takes a while.
            _ => self.draw(self.options.latency.update),
        };
        for id in &ids {
            span = span.max(self.act(&key, *id, action, replacement.as_ref()));
        }
        if action == Action::Delete {
            span = span.max(self.until_gone(&key, |id| ids.contains(&id)));
        }
        self.bump(&key);
        let operation = self.begin_operation(call, &key, kind, span, Ok(()));
        let charge = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        self.accepted(call, &key, StatusCode::ACCEPTED, operation.as_ref(), charge)
    }

    /// Reads which instances are meant; an unknown one has the whole list refused.
    fn named_instances(
        &self,
        set: &ScaleSet,
        action: Action,
        given: Option<&Value>,
    ) -> Answered<BTreeSet<u32>> {
        let names: Vec<&str> = match given {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            None | Some(Value::Null) => Vec::new(),
            Some(_) => return Err(invalid("instanceIds", "instanceIds must be a list.")),
        };
        let needs_list = matches!(action, Action::Delete | Action::Upgrade);
        if names.is_empty() && needs_list {
            return Err(missing_parameter("instanceIds"));
        }
        let is_acted_on = |id: &u32| {
            action == Action::Delete
                || set.instances.get(id).is_some_and(|instance| {
                    !instance.is_leaving() && !instance.is_protected("protectFromScaleSetActions")
                })
        };
        if names.is_empty() || names == ["*"] {
            return Ok(set.instances.keys().copied().filter(is_acted_on).collect());
        }
        let mut ids = BTreeSet::new();
        for name in names {
            let instance = set.listed(name, self.now);
            let instance = instance.ok_or_else(|| instance_not_active(name))?;
            if instance.is_leaving() && action != Action::Delete {
                return Err(leaving_in_list(name));
            }
            ids.insert(instance.id);
        }
        ids.retain(is_acted_on);
        Ok(ids)
    }

    /// Begins one action on one instance. Returns how long it takes.
    fn act(
        &mut self,
        key: &SetKey,
        id: u32,
        action: Action,
        custom_data: Option<&CustomData>,
    ) -> SignedDuration {
        match action {
            Action::Delete => {
                self.remove_from_capacity(key, id);
                self.begin_delete(key, id)
            }
            Action::Upgrade => self.begin_upgrade(key, id),
            Action::Reimage => self.begin_reimage(key, id, custom_data),
            Action::Restart => {
                self.halt(key, id, Power::Starting);
                self.begin_power(key, id, Some(Step::BootAgain))
            }
            Action::Start => {
                let is_running = self
                    .instance_mut(key, id)
                    .is_some_and(|instance| instance.power == Power::Running);
                if !is_running {
                    self.set_power(key, id, Power::Starting);
                }
                self.begin_power(key, id, (!is_running).then_some(Step::BootAgain))
            }
            Action::PowerOff => self.begin_halt(key, id, Power::Stopping, Power::Stopped),
            Action::Deallocate => self.begin_halt(key, id, Power::Deallocating, Power::Deallocated),
        }
    }

    fn begin_halt(
        &mut self,
        key: &SetKey,
        id: u32,
        on_the_way: Power,
        end: Power,
    ) -> SignedDuration {
        let runs = self
            .instance_mut(key, id)
            .is_some_and(|instance| instance.power == Power::Running);
        if runs {
            self.halt(key, id, on_the_way);
        }
        self.begin_power(key, id, Some(Step::Halt(end)))
    }

    fn begin_power(&mut self, key: &SetKey, id: u32, step: Option<Step>) -> SignedDuration {
        let span = self.draw(self.options.latency.power);
        let mut steps = vec![(span, Step::Settle)];
        steps.extend(step.map(|step| (span, step)));
        self.begin(key, id, State::Updating, steps)
    }

    fn set_power(&mut self, key: &SetKey, id: u32, power: Power) {
        if let Some(instance) = self.instance_mut(key, id) {
            instance.power = power;
        }
    }

    /// A reimage brings the set's custom data, unless it brings its own.
    fn begin_reimage(
        &mut self,
        key: &SetKey,
        id: u32,
        custom_data: Option<&CustomData>,
    ) -> SignedDuration {
        let reimage_to = self.options.reimage_to;
        let Some((set, instance)) = self
            .sets
            .get(key)
            .and_then(|set| Some((set, set.instances.get(&id)?)))
        else {
            return SignedDuration::ZERO;
        };
        let model = match reimage_to {
            ReimageTo::InstanceModel => &instance.model,
            ReimageTo::LatestModel => &set.vm_model,
        };
        let model = Arc::clone(model);
        let custom_data = custom_data.or(set.custom_data.as_ref()).cloned();
        self.begin_new_disk(key, id, model, custom_data)
    }

    fn bump(&mut self, key: &SetKey) {
        if let Some(set) = self.sets.get_mut(key) {
            set.etag += 1;
        }
    }

    pub(super) fn put_vm(&mut self, call: &Call<'_>, path: &SetPath, name: &str) -> Answered {
        let id = self.writable_vm(call, path, name, "Put")?;
        let key = key(path);
        let body = Value::Object(call.object()?);
        let change = body.pointer("/properties/protectionPolicy");
        let before = self
            .instance_mut(&key, id)
            .and_then(|i| i.protection.clone());
        let policy = match change {
            Some(change) => Some(merge(&before.unwrap_or(json!({})), change)),
            None => before,
        };
        if let Some(policy) = &policy {
            check_protection(policy)?;
        }
        self.enter_vm(&key, id, Kind::ActOnInstance)?;
        let span = self.draw(self.options.latency.update);
        let is_settled = self.instance_mut(&key, id).is_some_and(|instance| {
            instance.protection = policy;
            instance.state == State::Succeeded
        });
        // What is under way goes on, and a failure stays in view.
        if is_settled {
            self.begin(&key, id, State::Updating, vec![(span, Step::Settle)]);
        }
        self.bump(&key);
        let operation = self.begin_operation(call, &key, Kind::ActOnInstance, span, Ok(()));
        let (set, operation) = (self.set(path)?, operation.as_ref());
        let instance = set.instances.get(&id);
        let view = instance.map(|instance| set.vm_view(instance, &self.options, false));
        let answer = Answer::ok(view.unwrap_or(Value::Null)).with("etag", set.etag());
        Ok(match operation {
            Some(operation) => operation.announce(answer, call, self.options.retry_after_seconds),
            None => answer,
        })
    }

    pub(super) fn delete_vm(&mut self, call: &Call<'_>, path: &SetPath, name: &str) -> Answered {
        let key = key(path);
        let set = self.set(path)?;
        check_etag(call, set)?;
        let Some(id) = set.listed(name, self.now).map(|instance| instance.id) else {
            return Ok(Answer::bare(StatusCode::NO_CONTENT));
        };
        self.enter_vm(&key, id, Kind::DeleteInstance)?;
        let begun = self.act(&key, id, Action::Delete, None);
        let span = begun.max(self.until_gone(&key, |other| other == id));
        self.bump(&key);
        let operation = self.begin_operation(call, &key, Kind::DeleteInstance, span, Ok(()));
        self.accepted(call, &key, StatusCode::ACCEPTED, operation.as_ref(), 1)
    }

    pub(super) fn act_on_vm(
        &mut self,
        call: &Call<'_>,
        path: &SetPath,
        name: &str,
        part: &str,
    ) -> Answered {
        let id = self.writable_vm(call, path, name, part)?;
        let key = key(path);
        if part == "simulateeviction" {
            return self.simulate_eviction(&key, id);
        }
        let action = Action::on_vm(part).ok_or_else(no_such_path)?;
        let body = Value::Object(call.object()?);
        let replacement = custom_data(body.pointer("/osProfile/customData").cloned())?;
        self.enter_vm(&key, id, Kind::ActOnInstance)?;
        let span = self.act(&key, id, action, replacement.as_ref());
        self.bump(&key);
        let operation = self.begin_operation(call, &key, Kind::ActOnInstance, span, Ok(()));
        self.accepted(call, &key, StatusCode::ACCEPTED, operation.as_ref(), 1)
    }

    /// Finds the instance of a write; one that is not there is 400 and not 404.
    fn writable_vm(
        &self,
        call: &Call<'_>,
        path: &SetPath,
        name: &str,
        action: &str,
    ) -> Answered<u32> {
        let set = self.set(path)?;
        let instance = set.listed(name, self.now);
        let instance = instance.ok_or_else(|| instance_not_active(name))?;
        if instance.is_leaving() || set.is_leaving {
            let action = format!("{action} on Virtual Machine Scale Set VM Instance");
            return Err(marked_for_deletion(&action, &set.name));
        }
        check_etag(call, set)?;
        Ok(instance.id)
    }

    fn enter_vm(&mut self, key: &SetKey, id: u32, kind: Kind) -> Answered<()> {
        let is_busy = self
            .instance_mut(key, id)
            .is_some_and(|i| matches!(i.state, State::Creating | State::Updating));
        if is_busy && self.options.parallel_writes == ParallelWrites::Conflict {
            return Err(concurrent());
        }
        self.enter(key, kind)
    }

    /// Answers at once; the eviction follows.
    fn simulate_eviction(&mut self, key: &SetKey, id: u32) -> Answered {
        let priority = self.sets.get(key).map(|set| {
            text(&set.model, "/properties/virtualMachineProfile/priority").to_ascii_lowercase()
        });
        if !matches!(priority.as_deref(), Some("spot" | "low")) {
            return Err(bad_request(
                "Only instances of priority Spot can be evicted.",
            ));
        }
        let after = self.draw(self.options.latency.update);
        let at = self.now + after;
        if let Some(instance) = self.instance_mut(key, id) {
            let work = Work::Any(instance.vm_id.clone());
            let (set, step) = (key.clone(), Step::Evict);
            self.schedule(
                at,
                Due::Step {
                    set,
                    id,
                    work,
                    step,
                },
            );
        }
        Ok(Answer::bare(StatusCode::NO_CONTENT))
    }

    /// Finds the instance of a read.
    pub(super) fn readable_vm(&self, path: &SetPath, name: &str) -> Answered<(&ScaleSet, u32)> {
        let set = self.set(path)?;
        let instance = set.listed(name, self.now).ok_or_else(|| {
            let kind = "Microsoft.Compute/virtualMachineScaleSets";
            let resource = format!("{kind}/{}/virtualMachines/{name}", path.name);
            not_found(&resource, &path.group)
        })?;
        Ok((set, instance.id))
    }
}

fn leaving_in_list(name: &str) -> Answer {
    let message = format!(
        "The instanceIds list contains {name}, which is not an active Virtual Machine Scale Set \
         VM instanceId."
    );
    let code = "InstanceIdsListInstanceIdNotActiveVM";
    Answer::error(StatusCode::BAD_REQUEST, code, &message).about("instanceIds")
}

/// Protection from actions implies protection from scale-in, and denying that is refused.
fn check_protection(policy: &Value) -> Answered<()> {
    let is = |member: &str, value: bool| policy.get(member) == Some(&json!(value));
    if is("protectFromScaleSetActions", true) && is("protectFromScaleIn", false) {
        return Err(invalid(
            "protectionPolicy",
            "protectFromScaleIn cannot be false while protectFromScaleSetActions is true.",
        ));
    }
    Ok(())
}
