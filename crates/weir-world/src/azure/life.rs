//! How do instances come, change and go?
//!
//! A write begins work on instances; each step of the work is on the agenda with its time, drawn
//! when the work begins. An operation ends with the last step of its work. Work on an instance
//! that begins later takes the place of what was under way.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::call::Call;
use super::model::{CustomData, image_version};
use super::operation::{Kind, Operation, Status, preempted};
use super::options::{CreateFailure, Delay};
use super::scale_set::{
    Failure, Instance, Power, ScaleSet, SetKey, State, VmModel, scale_in_victims,
};
use super::{Azure, Vm, VmEvent};
use crate::tally::Fault;

/// How long a guest may take to signal before its creation counts as failed.
///
/// # Source
/// Not documented for scale sets; provisioning of a single VM is given up after some 20 minutes.
const OS_TIMEOUT: SignedDuration = SignedDuration::from_mins(20);

/// How long an extension takes to fail. A guess.
const EXTENSION_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);

/// Something that happens at its time.
#[derive(Clone, Debug)]
pub(super) enum Due {
    /// A step of the work on an instance.
    Step {
        set: SetKey,
        id: u32,
        work: Work,
        step: Step,
    },
    /// The end of an operation, by GUID.
    OperationEnd(String),
}

/// Which work on which machine a step belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// This one, by number; void once another has begun.
    Numbered(u64),
    /// None: it happens to the machine with this `vmId` whatever goes on.
    Any(String),
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// The machine runs for the first time.
    Boot,
    /// It runs again.
    BootAgain,
    /// It does not run any more.
    Halt(Power),
    /// The work has ended well.
    Settle,
    /// The work has ended badly.
    Fail(Failure),
    /// It runs with a new OS disk, a model and custom data.
    NewDisk(Arc<VmModel>, Option<CustomData>),
    /// It has another model without having been stopped.
    Refit(Arc<VmModel>),
    /// It is gone.
    Leave,
    /// Someone else deletes it.
    Vanish,
    /// It is evicted.
    Evict,
}

/// A piece of work on one instance: its steps, each with the time from now.
pub(super) type Steps = Vec<(SignedDuration, Step)>;

impl Azure {
    pub(super) fn draw(&mut self, delay: Delay) -> SignedDuration {
        delay.draw(&mut self.rng.delays, self.options.latency.scale)
    }

    pub(super) fn schedule(&mut self, at: Timestamp, due: Due) {
        self.agenda_serial += 1;
        self.agenda.insert((at, self.agenda_serial), due);
    }

    /// Begins work on an instance in place of what was under way. Returns how long it takes.
    pub(super) fn begin(
        &mut self,
        key: &SetKey,
        id: u32,
        state: State,
        steps: Steps,
    ) -> SignedDuration {
        let now = self.now;
        let Some(instance) = self.instance_mut(key, id) else {
            return SignedDuration::ZERO;
        };
        instance.work += 1;
        instance.state = state;
        instance.state_since = now;
        let work = Work::Numbered(instance.work);
        let mut longest = SignedDuration::ZERO;
        for (after, step) in steps {
            longest = longest.max(after);
            let (set, work) = (key.clone(), work.clone());
            self.schedule(
                now + after,
                Due::Step {
                    set,
                    id,
                    work,
                    step,
                },
            );
        }
        longest
    }

    pub(super) fn instance_mut(&mut self, key: &SetKey, id: u32) -> Option<&mut Instance> {
        self.sets.get_mut(key)?.instances.get_mut(&id)
    }

    pub(super) fn run(&mut self, due: Due) {
        match due {
            Due::OperationEnd(guid) => self.end_operation(&guid),
            Due::Step {
                set,
                id,
                work,
                step,
            } => {
                let is_current = self.instance_mut(&set, id).is_some_and(|i| match &work {
                    Work::Numbered(number) => i.work == *number,
                    Work::Any(vm_id) => i.vm_id == *vm_id,
                });
                if is_current {
                    self.take_step(&set, id, step);
                }
            }
        }
    }

    fn take_step(&mut self, key: &SetKey, id: u32, step: Step) {
        let now = self.now;
        let Some(instance) = self.instance_mut(key, id) else {
            return;
        };
        match step {
            Step::Boot | Step::BootAgain => {
                instance.power = Power::Running;
                self.emit(key, id, VmEvent::Booted);
            }
            Step::Halt(power) => self.halt(key, id, power),
            Step::Settle => {
                instance.state = State::Succeeded;
                instance.state_since = now;
            }
            Step::Fail(failure) => {
                instance.state = State::Failed(failure);
                instance.state_since = now;
            }
            Step::NewDisk(model, custom_data) => {
                instance.model = model;
                instance.custom_data = custom_data;
                instance.power = Power::Running;
                self.judge_image(key, id);
                self.emit(key, id, VmEvent::Reimaged);
            }
            Step::Refit(model) => instance.model = model,
            Step::Leave => self.leave(key, id),
            Step::Vanish => self.vanish_at(key, id),
            Step::Evict => self.evict_at(key, id),
        }
    }

    /// Stops an instance's machine, if it runs.
    pub(super) fn halt(&mut self, key: &SetKey, id: u32, power: Power) {
        let Some(instance) = self.instance_mut(key, id) else {
            return;
        };
        let was_running = instance.power == Power::Running;
        instance.power = power;
        if was_running && let Some(set) = self.sets.get(key) {
            let provider_id = set.provider_id(id);
            self.events.push(VmEvent::Stopped { provider_id });
        }
    }

    /// Removes an instance for good.
    pub(super) fn leave(&mut self, key: &SetKey, id: u32) {
        let Some(set) = self.sets.get_mut(key) else {
            return;
        };
        set.instances.remove(&id);
        set.freed_ids.insert(id);
        let provider_id = set.provider_id(id);
        self.report.scale_set(&set.name).deleted += 1;
        self.events.push(VmEvent::Gone { provider_id });
    }

    /// Lowers the capacity by one for an instance that is not on its way out already.
    pub(super) fn remove_from_capacity(&mut self, key: &SetKey, id: u32) {
        let lag = self.draw(self.options.latency.capacity_lag);
        let now = self.now;
        if let Some(set) = self.sets.get_mut(key)
            && set.instances.get(&id).is_some_and(|i| !i.is_leaving())
        {
            let before = set.capacity();
            set.set_capacity(before.saturating_sub(1));
            let shown = set.stale_capacity.filter(|(_, until)| now < *until);
            set.stale_capacity = Some((shown.map_or(before, |(shown, _)| shown), now + lag));
        }
    }

    fn emit(&mut self, key: &SetKey, id: u32, event: fn(Vm) -> VmEvent) {
        if let Some(set) = self.sets.get(key)
            && let Some(instance) = set.instances.get(&id)
        {
            let event = event(self.vm(set, instance));
            self.events.push(event);
        }
    }

    pub(super) fn vm(&self, set: &ScaleSet, instance: &Instance) -> Vm {
        let tags = instance.tags.as_object().into_iter().flatten();
        let tags: BTreeMap<String, String> = tags
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        Vm {
            provider_id: set.provider_id(instance.id),
            instance_id: instance.id.to_string(),
            vm_id: instance.vm_id.clone(),
            computer_name: instance.computer_name.clone(),
            zone: instance.zone.clone(),
            size: instance.model.size.clone(),
            image: instance.model.image().clone(),
            custom_data: instance.custom_data.clone(),
            tags,
            scale_set: set.name.clone(),
            created: instance.created,
            never_joins: instance.never_joins,
        }
    }

    /// Sets whether an instance joins, from the image it now has.
    fn judge_image(&mut self, key: &SetKey, id: u32) {
        let bad_images = &self.options.bad_images;
        let instance = self
            .sets
            .get_mut(key)
            .and_then(|s| s.instances.get_mut(&id));
        if let Some(instance) = instance {
            instance.never_joins = is_bad(instance.model.image(), |word| bad_images.contains(word));
            if instance.never_joins {
                self.tally.count(Fault::BadImage);
            }
        }
    }

    /// Creates instances. Returns how long the last one takes, and the first failure, if any.
    pub(super) fn grow(
        &mut self,
        key: &SetKey,
        count: u32,
    ) -> (SignedDuration, Result<(), Failure>) {
        let mut longest = SignedDuration::ZERO;
        let mut verdict = Ok(());
        for _ in 0..count {
            let Some(id) = self.add_instance(key) else {
                break;
            };
            let latency = self.options.latency;
            let create = self.draw(latency.create);
            let boot = self.draw(latency.boot);
            let steps = match self.draw_failure() {
                None => vec![(create, Step::Boot), (create + boot, Step::Settle)],
                Some(failure) => {
                    let steps = self.failing(key, id, failure, create);
                    if let (Ok(()), Some((_, Step::Fail(failure)))) = (&verdict, steps.last()) {
                        verdict = Err(failure.clone());
                    }
                    steps
                }
            };
            longest = longest.max(self.begin(key, id, State::Creating, steps));
            self.plan_vanishing_of(key, id);
        }
        (longest, verdict)
    }

    fn draw_failure(&mut self) -> Option<CreateFailure> {
        let fails = self.rng.faults.chance(self.options.faults.create_fails);
        let which = self.rng.faults.below(3);
        if let Some(planned) = self.planned_failures.pop_front() {
            return Some(planned);
        }
        fails.then_some(match which {
            0 => CreateFailure::Allocation,
            1 => CreateFailure::OsTimeout,
            _ => CreateFailure::Extension,
        })
    }

    fn failing(
        &mut self,
        key: &SetKey,
        id: u32,
        failure: CreateFailure,
        create: SignedDuration,
    ) -> Steps {
        let scale = self.options.latency.scale;
        let Some(set) = self.sets.get_mut(key) else {
            return Vec::new();
        };
        let (size, location) = (set.size().to_owned(), set.location().to_owned());
        let is_zonal = !set.zones().is_empty();
        let name = format!("{}_{id}", set.name);
        if let Some(instance) = set.instances.get_mut(&id) {
            instance.never_joins = true;
        }
        let fail = |code: &str, message: String| {
            Step::Fail(Failure {
                code: code.to_owned(),
                message,
            })
        };
        let late = |span: SignedDuration| create + span.mul_f64(scale);
        self.tally.count(match failure {
            CreateFailure::Allocation => Fault::CreateAllocation,
            CreateFailure::OsTimeout => Fault::CreateOsTimeout,
            CreateFailure::Extension => Fault::CreateExtension,
        });
        match failure {
            CreateFailure::Allocation => {
                let code = if is_zonal {
                    "ZonalAllocationFailed"
                } else {
                    "AllocationFailed"
                };
                let message = format!(
                    "Allocation failed. There is not enough capacity for VM size {size} in \
                     {location}."
                );
                vec![(create, fail(code, message))]
            }
            CreateFailure::OsTimeout => {
                let message =
                    format!("OS Provisioning for VM '{name}' did not finish in the allotted time.");
                let end = fail("OSProvisioningTimedOut", message);
                vec![(create, Step::Boot), (late(OS_TIMEOUT), end)]
            }
            CreateFailure::Extension => {
                let message = format!("An extension failed to be provisioned on VM '{name}'.");
                let end = fail("VMExtensionProvisioningError", message);
                vec![(create, Step::Boot), (late(EXTENSION_TIMEOUT), end)]
            }
        }
    }

    /// Puts another instance into a scale set, with everything but work.
    fn add_instance(&mut self, key: &SetKey) -> Option<u32> {
        let appear = self.draw(self.options.latency.appear);
        let now = self.now;
        let id = self.next_id(key)?;
        let (vm_id, disk) = (self.rng.names.uuid(), self.rng.names.uuid());
        let set = self.sets.get_mut(key)?;
        let zone = emptiest(set, set.zones(), |instance| instance.zone.clone());
        let domains = set.model.pointer("/properties/platformFaultDomainCount");
        let domains = u32::try_from(domains.and_then(Value::as_u64).unwrap_or(1)).unwrap_or(1);
        let in_zone = zone.clone();
        let fault_domain = emptiest(set, (0..domains).collect(), |instance| {
            (instance.zone == in_zone).then_some(instance.fault_domain)
        });
        let os_profile = set
            .model
            .pointer("/properties/virtualMachineProfile/osProfile");
        let prefix = os_profile.and_then(|p| p.get("computerNamePrefix")?.as_str());
        let instance = Instance {
            id,
            vm_id,
            disk: disk.replace('-', ""),
            computer_name: format!("{}{}", prefix.unwrap_or_default(), base_36(id)),
            admin_username: os_profile
                .and_then(|p| p.get("adminUsername").cloned())
                .unwrap_or(json!("")),
            zone,
            fault_domain: fault_domain.unwrap_or(0),
            tags: set.tags(),
            created: now,
            listed_from: now + appear,
            model: Arc::clone(&set.vm_model),
            custom_data: set.custom_data.clone(),
            protection: None,
            state: State::Creating,
            state_since: now,
            power: Power::None,
            work: 0,
            never_joins: false,
        };
        set.instances.insert(id, instance);
        let (name, count) = (set.name.clone(), set.instances.len() as u64);
        let counts = self.report.scale_set(&name);
        counts.created += 1;
        counts.instances_max = counts.instances_max.max(count);
        self.judge_image(key, id);
        Some(id)
    }

    /// Chooses an id: the next one, with gaps, or one that was freed.
    fn next_id(&mut self, key: &SetKey) -> Option<u32> {
        let rule = self.options.ids;
        let (reuses, leaves_gap) = (
            self.rng.names.chance(rule.reuse),
            self.rng.names.chance(rule.gap),
        );
        let width = self.rng.names.below(4) as u32 + 1;
        let set = self.sets.get_mut(key)?;
        if reuses && let Some(id) = set.freed_ids.pop_first() {
            return Some(id);
        }
        if leaves_gap && set.next_id > 0 {
            set.next_id += width;
        }
        let id = set.next_id;
        set.next_id += 1;
        Some(id)
    }

    /// Begins the deletion of an instance. Returns how long it takes.
    pub(super) fn begin_delete(&mut self, key: &SetKey, id: u32) -> SignedDuration {
        let Some(set) = self.sets.get(key) else {
            return SignedDuration::ZERO;
        };
        let Some(instance) = set.instances.get(&id).filter(|i| !i.is_leaving()) else {
            return SignedDuration::ZERO;
        };
        // A machine that does not run has nobody to notify.
        let notice = match instance.power {
            Power::Running => set.terminate_notice().unwrap_or(SignedDuration::ZERO),
            _ => SignedDuration::ZERO,
        };
        let provider_id = set.provider_id(id);
        self.events.push(VmEvent::Deleting { provider_id });
        let delete = self.draw(self.options.latency.delete);
        let steps = vec![
            (notice, Step::Halt(Power::None)),
            (notice + delete, Step::Leave),
        ];
        self.begin(key, id, State::Deleting, steps)
    }

    /// Begins the deletions that a lower capacity takes. Returns how long the last one takes.
    pub(super) fn shrink(&mut self, key: &SetKey, count: usize) -> SignedDuration {
        let victims = self.sets.get(key).map(|set| scale_in_victims(set, count));
        let spans = victims.unwrap_or_default().into_iter();
        let spans: Vec<SignedDuration> = spans.map(|id| self.begin_delete(key, id)).collect();
        spans.into_iter().max().unwrap_or(SignedDuration::ZERO)
    }

    /// Begins to move an instance to the set's model. Returns how long it takes.
    pub(super) fn begin_upgrade(&mut self, key: &SetKey, id: u32) -> SignedDuration {
        let Some((target, instance)) = self
            .sets
            .get(key)
            .and_then(|set| Some((Arc::clone(&set.vm_model), set.instances.get(&id)?)))
        else {
            return SignedDuration::ZERO;
        };
        // In the midst of being made or changed a machine need not run; then it gets a new disk.
        let is_settled = !matches!(instance.state, State::Creating | State::Updating);
        if is_settled && !instance.model.needs_new_disk(&target) {
            let update = self.draw(self.options.latency.update);
            let steps = vec![(update, Step::Refit(target)), (update, Step::Settle)];
            return self.begin(key, id, State::Updating, steps);
        }
        // Custom data bypasses the upgrade policy: the instance keeps what it has.
        let custom_data = instance.custom_data.clone();
        self.begin_new_disk(key, id, target, custom_data)
    }

    pub(super) fn begin_new_disk(
        &mut self,
        key: &SetKey,
        id: u32,
        model: Arc<VmModel>,
        custom_data: Option<CustomData>,
    ) -> SignedDuration {
        let reimage = self.draw(self.options.latency.reimage);
        self.halt(key, id, Power::Stopped);
        let steps = vec![
            (reimage, Step::NewDisk(model, custom_data)),
            (reimage, Step::Settle),
        ];
        self.begin(key, id, State::Updating, steps)
    }

    /// Begins an operation that ends after this span with this verdict.
    pub(super) fn begin_operation(
        &mut self,
        call: &Call<'_>,
        key: &SetKey,
        kind: Kind,
        span: SignedDuration,
        verdict: Result<(), Failure>,
    ) -> Option<Operation> {
        let now = self.now;
        let kept = self.options.operations_kept_for;
        self.operations
            .retain(|_, operation| operation.ended.is_none_or(|ended| now < ended + kept));
        let set = self.sets.get_mut(key)?;
        let about = (key.clone(), set.subscription.as_str(), set.location());
        let mut operation = Operation::new(&mut self.rng.names, call, about, kind, now);
        operation.verdict = verdict;
        if let Some(phase) = kind.phase() {
            set.running.insert(operation.guid.clone(), phase);
        }
        let guid = operation.guid.clone();
        self.operations.insert(guid.clone(), operation.clone());
        self.schedule(now + span, Due::OperationEnd(guid));
        Some(operation)
    }

    fn end_operation(&mut self, guid: &str) {
        let now = self.now;
        let Some(operation) = self.operations.get_mut(guid) else {
            return;
        };
        if operation.status != Status::InProgress {
            return;
        }
        operation.ended = Some(now);
        operation.status = match &operation.verdict {
            Ok(()) => Status::Succeeded,
            Err(failure) => Status::Failed(failure.clone()),
        };
        let (key, kind, verdict) = (
            operation.set.clone(),
            operation.kind,
            operation.verdict.clone(),
        );
        if let Some(set) = self.sets.get_mut(&key)
            && set.running.remove(guid).is_some()
        {
            set.outcome = verdict;
            if kind == Kind::DeleteSet {
                self.sets.remove(&key);
            }
        }
    }

    /// Returns how long it takes until those of these instances that are leaving have left.
    pub(super) fn until_gone(&self, key: &SetKey, among: impl Fn(u32) -> bool) -> SignedDuration {
        let Some(leaving) = self.sets.get(key) else {
            return SignedDuration::ZERO;
        };
        let ends = self.agenda.iter().filter_map(|((at, _), due)| match due {
            Due::Step {
                set,
                id,
                work: Work::Numbered(work),
                step: Step::Leave,
            } if set == key && among(*id) => {
                let instance = leaving.instances.get(id)?;
                (instance.work == *work).then_some(*at)
            }
            _ => None,
        });
        let last = ends.max().unwrap_or(self.now);
        last.duration_since(self.now)
    }

    /// Ends all running writes on a scale set because a newer one takes their place.
    pub(super) fn preempt(&mut self, key: &SetKey) {
        let now = self.now;
        let Some(set) = self.sets.get_mut(key) else {
            return;
        };
        for guid in set.running.keys().cloned().collect::<Vec<_>>() {
            let operation = self.operations.get_mut(&guid);
            if let Some(operation) = operation.filter(|operation| operation.kind.is_on_set()) {
                operation.ended = Some(now);
                operation.status = Status::Canceled(preempted());
                self.tally.count(Fault::AzurePreempted);
                set.running.remove(&guid);
            }
        }
    }

    /// Draws anew when each instance vanishes.
    pub(super) fn plan_vanishing(&mut self) {
        self.agenda.retain(|_, due| {
            !matches!(
                due,
                Due::Step {
                    step: Step::Vanish,
                    ..
                }
            )
        });
        let all: Vec<(SetKey, u32)> = self
            .sets
            .iter()
            .flat_map(|(key, set)| set.instances.keys().map(|id| (key.clone(), *id)))
            .collect();
        for (key, id) in all {
            self.plan_vanishing_of(&key, id);
        }
    }

    fn plan_vanishing_of(&mut self, key: &SetKey, id: u32) {
        /// In seconds.
        const HOUR: f64 = 3_600.0;
        let rate = self.options.faults.vanish_per_hour;
        let after = self.rng.vanish.exponential(1.0);
        let Some(instance) = self.instance_mut(key, id).filter(|_| rate > 0.0) else {
            return;
        };
        let work = Work::Any(instance.vm_id.clone());
        let after = SignedDuration::from_secs((after * HOUR / rate).ceil() as i64);
        let (set, step) = (key.clone(), Step::Vanish);
        self.schedule(
            self.now + after,
            Due::Step {
                set,
                id,
                work,
                step,
            },
        );
    }
}

/// What happens to instances without a request.
impl Azure {
    /// Deletes an instance as someone with a portal would, at once. Says whether there was one.
    pub fn vanish(&mut self, scale_set: &str, instance_id: &str) -> bool {
        self.with_instance(scale_set, instance_id, Azure::vanish_at)
    }

    /// Makes an instance `Failed` with this code; its machine goes on as it was.
    pub fn fail(&mut self, scale_set: &str, instance_id: &str, code: &str) -> bool {
        let failure = Failure {
            code: code.to_owned(),
            message: format!("The instance failed: {code}."),
        };
        self.with_instance(scale_set, instance_id, |azure, key, id| {
            azure.begin(key, id, State::Failed(failure), Vec::new());
        })
    }

    /// Stops an instance's machine, as its guest can do by itself.
    pub fn stop(&mut self, scale_set: &str, instance_id: &str) -> bool {
        self.with_instance(scale_set, instance_id, |azure, key, id| {
            azure.changes += 1;
            azure.tally.count(Fault::Stopped);
            azure.halt(key, id, Power::Stopped);
        })
    }

    /// Evicts a spot instance by the set's eviction policy, at once.
    ///
    /// `Delete` removes it and lowers the capacity; `Deallocate` stops it, and it counts on.
    pub fn evict(&mut self, scale_set: &str, instance_id: &str) -> bool {
        self.with_instance(scale_set, instance_id, Azure::evict_at)
    }

    fn vanish_at(&mut self, key: &SetKey, id: u32) {
        self.changes += 1;
        self.tally.count(Fault::Vanished);
        self.remove_from_capacity(key, id);
        if let Some(set) = self.sets.get_mut(key) {
            set.etag += 1;
        }
        self.leave(key, id);
    }

    fn evict_at(&mut self, key: &SetKey, id: u32) {
        let policy = self.sets.get(key).and_then(|set| {
            let at = "/properties/virtualMachineProfile/evictionPolicy";
            set.model.pointer(at)?.as_str()
        });
        if policy.is_some_and(|policy| policy.eq_ignore_ascii_case("delete")) {
            self.vanish_at(key, id);
        } else {
            self.halt(key, id, Power::Deallocated);
        }
    }

    fn with_instance(
        &mut self,
        scale_set: &str,
        instance_id: &str,
        act: impl FnOnce(&mut Azure, &SetKey, u32),
    ) -> bool {
        let found = self.find(scale_set).zip(instance_id.parse().ok());
        let Some((key, id)) = found else {
            return false;
        };
        let is_there = self.instance_mut(&key, id).is_some();
        if is_there {
            act(self, &key, id);
        }
        is_there
    }
}

/// Returns the place with the fewest instances that stay; the first of equals.
fn emptiest<T: Clone + PartialEq>(
    set: &ScaleSet,
    places: Vec<T>,
    place_of: impl Fn(&Instance) -> Option<T>,
) -> Option<T> {
    let count = |place: &T| {
        let there = |one: &&Instance| place_of(one).as_ref() == Some(place);
        set.staying().filter(there).count()
    };
    places.into_iter().min_by_key(count)
}

/// Writes an id as host names end: base 36, six digits.
fn base_36(id: u32) -> String {
    let mut rest = id;
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[(rest % 36) as usize];
        rest /= 36;
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

/// Says whether an image is among the bad ones, by its version or by its whole id.
fn is_bad(image: &Value, is_listed: impl Fn(&str) -> bool) -> bool {
    let ids = ["id", "communityGalleryImageId", "sharedGalleryImageId"];
    let mut words = ids.iter().filter_map(|key| image.get(*key)?.as_str());
    image_version(image).is_some_and(&is_listed) || words.any(is_listed)
}

#[cfg(test)]
mod tests {
    use super::base_36;

    #[test]
    fn host_names_end_in_base_36() {
        let rows = [
            (0, "000000"),
            (4, "000004"),
            (38, "000012"),
            (46_655, "000ZZZ"),
        ];
        for (id, text) in rows {
            assert_eq!(base_36(id), text, "{id}");
        }
    }
}
