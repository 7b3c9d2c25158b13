//! What would Azure do?
//!
//! A simulated Azure Resource Manager with Uniform scale sets, and the token authority that goes
//! with it. Sans-IO: [`Azure::handle`] answers a request, time moves only in [`Azure::advance`],
//! all chance comes from one seed. docs/azure.md lists each behaviour with its source, and says
//! which are guesses. Start with `life.rs`, which says how instances come and go.

mod actions;
mod answer;
mod call;
mod identity;
mod life;
mod model;
mod operation;
mod options;
mod reads;
mod report;
mod scale_set;
mod throttle;
mod writes;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use jiff::Timestamp;
use serde_json::Value;

pub use model::CustomData;
pub use options::{
    AzureFaults, AzureOptions, CreateFailure, Delay, GroupCase, Groups, InstanceIds, Latency,
    ParallelWrites, Quota, ReimageTo, StaleOn, ThrottleBody, Throttling, TokenCheck, VmSize,
};
pub use report::{AzureReport, CallCounts, ScaleSetCounts};

use crate::rng::Rng;
use crate::tally::{Fault, Tally};
use answer::{Answer, Answered};
use call::{Call, Route, SetPath};
use life::Due;
use operation::Operation;
use scale_set::{ScaleSet, SetKey};
use throttle::{Buckets, PutIs, Ruling};

/// A virtual machine, as the cluster side needs to know it.
#[derive(Clone, Debug, PartialEq)]
pub struct Vm {
    /// What its node has as `spec.providerID`; the resource group is in lower case.
    pub provider_id: String,
    /// The instance's id within its scale set; may have belonged to another machine before.
    pub instance_id: String,
    /// The machine's own id, which is never used again.
    pub vm_id: String,
    /// The host name; in lower case it is the node's name.
    pub computer_name: String,
    /// The availability zone, if it is in one.
    pub zone: Option<String>,
    /// The VM size.
    pub size: String,
    /// The image reference it runs.
    pub image: Value,
    /// The bootstrap data it was given.
    pub custom_data: Option<CustomData>,
    /// Its tags: those that the scale set had when it was created.
    pub tags: BTreeMap<String, String>,
    /// The name of its scale set.
    pub scale_set: String,
    /// When it was created.
    pub created: Timestamp,
    /// Whether its bootstrap fails, so that it never becomes a node.
    pub never_joins: bool,
}

/// Something that happened to a virtual machine.
#[derive(Clone, Debug, PartialEq)]
pub enum VmEvent {
    /// It runs: for the first time, or again.
    Booted(Vm),
    /// It does not run any more but may come back.
    Stopped {
        /// Which one.
        provider_id: String,
    },
    /// Its deletion has been accepted. It may go on running for the length of its notice.
    Deleting {
        /// Which one.
        provider_id: String,
    },
    /// It is gone for good.
    Gone {
        /// Which one.
        provider_id: String,
    },
    /// It runs with a new OS disk. It was stopped before.
    Reimaged(Vm),
}

impl VmEvent {
    /// Returns which machine this is about.
    pub fn provider_id(&self) -> &str {
        match self {
            VmEvent::Booted(vm) | VmEvent::Reimaged(vm) => &vm.provider_id,
            VmEvent::Stopped { provider_id }
            | VmEvent::Deleting { provider_id }
            | VmEvent::Gone { provider_id } => provider_id,
        }
    }
}

/// What is true of an instance, for tests and checkers.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceFact {
    /// The machine.
    pub vm: Vm,
    /// `Creating`, `Updating`, `Succeeded`, `Failed` or `Deleting`.
    pub provisioning_state: &'static str,
    /// Why it failed, if it did.
    pub failure_code: Option<String>,
    /// Whether its machine runs.
    pub is_running: bool,
    /// Whether it has the scale set's model as it is now.
    pub has_latest_model: bool,
    /// Whether it already shows in lists.
    pub is_listed: bool,
}

/// The simulated Azure.
#[derive(Debug)]
pub struct Azure {
    options: AzureOptions,
    now: Timestamp,
    sets: BTreeMap<SetKey, ScaleSet>,
    operations: BTreeMap<String, Operation>,
    agenda: BTreeMap<(Timestamp, u64), Due>,
    agenda_serial: u64,
    events: Vec<VmEvent>,
    tokens: identity::Tokens,
    buckets: Buckets,
    report: AzureReport,
    pub(crate) tally: Tally,
    /// Grows whenever a set or an instance may have changed.
    changes: u64,
    planned_failures: VecDeque<CreateFailure>,
    rng: Streams,
}

/// One stream per concern, so that a fault switched on leaves names and delays as they were.
#[derive(Debug)]
struct Streams {
    names: Rng,
    delays: Rng,
    faults: Rng,
    vanish: Rng,
    requests: Rng,
}

impl Azure {
    /// Makes an Azure without scale sets.
    ///
    /// Two of them with equal options, seed and requests are equal for ever.
    pub fn new(options: AzureOptions, seed: u64, start: Timestamp) -> Azure {
        let stream = |name| Rng::from_seed_and_stream(seed, name);
        Azure {
            options,
            now: start,
            sets: BTreeMap::new(),
            operations: BTreeMap::new(),
            agenda: BTreeMap::new(),
            agenda_serial: 0,
            events: Vec::new(),
            tokens: identity::Tokens::default(),
            buckets: Buckets::default(),
            report: AzureReport::default(),
            tally: Tally::default(),
            changes: 0,
            planned_failures: VecDeque::new(),
            rng: Streams {
                names: stream("azure/names"),
                delays: stream("azure/delays"),
                faults: stream("azure/faults"),
                vanish: stream("azure/vanish"),
                requests: stream("azure/requests"),
            },
        }
    }

    /// Answers a request to ARM, the token authority or the metadata endpoints.
    ///
    /// What was due before `now` happens first. Events come with the next [`Azure::advance`].
    pub fn handle(&mut self, request: &Request<Bytes>, now: Timestamp) -> Response<Bytes> {
        self.run_until(now);
        let call = Call::read(request);
        let answer = self.answer(&call);
        self.report.count(&call, answer.status);
        self.changes += u64::from(call.is_write());
        let request_id = self.rng.requests.uuid();
        answer
            .with("x-ms-request-id", request_id.clone())
            .with("x-ms-correlation-request-id", request_id)
            .into_response()
    }

    /// Returns when something happens by itself next, if ever.
    pub fn next_due(&self) -> Option<Timestamp> {
        if !self.events.is_empty() {
            return Some(self.now);
        }
        self.agenda.keys().next().map(|(at, _)| (*at).max(self.now))
    }

    /// Moves time forward and returns what happened to machines since the last call, in order.
    pub fn advance(&mut self, now: Timestamp) -> Vec<VmEvent> {
        self.run_until(now);
        std::mem::take(&mut self.events)
    }

    /// Returns the time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns how often what was asked, and what came of it.
    pub fn report(&self) -> &AzureReport {
        &self.report
    }

    /// Returns a number that grows whenever a set or an instance may have changed.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the options.
    pub fn options(&self) -> &AzureOptions {
        &self.options
    }

    fn run_until(&mut self, now: Timestamp) {
        while let Some(entry) = self.agenda.first_entry() {
            let at = entry.key().0;
            if at > now {
                break;
            }
            let due = entry.remove();
            self.now = self.now.max(at);
            self.changes += 1;
            self.run(due);
        }
        self.now = self.now.max(now);
    }

    fn answer(&mut self, call: &Call<'_>) -> Answer {
        match self.admit(call) {
            Ok(headers) => {
                let mut answer = self.carry_out(call).unwrap_or_else(|refusal| refusal);
                answer.headers.extend(headers);
                answer
            }
            Err(refusal) => refusal,
        }
    }

    /// Decides whether a request gets as far as being carried out.
    fn admit(&mut self, call: &Call<'_>) -> Answered<Vec<(&'static str, String)>> {
        if identity::is_open(&call.route) {
            return Ok(Vec::new());
        }
        self.check_token(call)?;
        if call.parameter("api-version").is_none_or(str::is_empty) {
            let message = "The api-version query parameter (?api-version=) is required for all \
                           requests.";
            let code = "MissingApiVersionParameter";
            return Err(Answer::error(StatusCode::BAD_REQUEST, code, message));
        }
        let headers = match self.options.throttling {
            Throttling::Off => Vec::new(),
            Throttling::On => {
                let put_is = self.put_is(call);
                let body = self.options.throttle_body;
                match self.buckets.take(call, put_is, body, self.now) {
                    Ruling::Pass(headers) => headers,
                    Ruling::Refuse(refusal) => {
                        self.tally.count(Fault::AzureAllowance);
                        return Err(refusal);
                    }
                }
            }
        };
        self.fault_before(call)?;
        Ok(headers)
    }

    fn put_is(&self, call: &Call<'_>) -> PutIs {
        match &call.route {
            Route::Set(path) if !self.sets.contains_key(&key(path)) => PutIs::Create,
            _ => PutIs::Update,
        }
    }

    /// Draws whether a request meets a fault before it is carried out.
    fn fault_before(&mut self, call: &Call<'_>) -> Answered<()> {
        let faults = self.options.faults;
        // All draws are made for every request, so that one fault does not move the others.
        let throttled = self.rng.faults.chance(faults.throttle);
        let failed = self.rng.faults.chance(faults.error_500);
        let conflicts = self.rng.faults.chance(faults.conflict);
        if throttled {
            self.tally.count(Fault::AzureThrottled);
            let details = serde_json::json!({"operationGroup": "Simulated"});
            let refusal = throttle::compute_refusal("Simulated", &details, 5, false);
            return Err(refusal);
        }
        if failed {
            self.tally.count(Fault::AzureError);
            let message = "An internal execution error occurred. Please retry later.";
            return Err(Answer::error(
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalExecutionError",
                message,
            ));
        }
        if conflicts && call.is_write() {
            self.tally.count(Fault::AzureConflict);
            return Err(answer::concurrent());
        }
        Ok(())
    }

    fn carry_out(&mut self, call: &Call<'_>) -> Answered {
        let answered = self.dispatch(call);
        if let Err(refusal) = &answered {
            let fault = refused(refusal);
            fault.into_iter().for_each(|fault| self.tally.count(fault));
        }
        let is_lost = self.rng.faults.chance(self.options.faults.lost_answer);
        if is_lost && call.is_write() && !identity::is_open(&call.route) {
            self.tally.count(Fault::AzureLostAnswer);
            let message = "The gateway did not receive a response within the specified time.";
            let code = "GatewayTimeout";
            return Err(Answer::error(StatusCode::GATEWAY_TIMEOUT, code, message));
        }
        answered
    }

    fn dispatch(&mut self, call: &Call<'_>) -> Answered {
        let method = call.method.clone();
        match (&call.route, method) {
            (Route::Set(path), Method::PUT) => self.put_set(call, path),
            (Route::Set(path), Method::PATCH) => self.patch_set(call, path),
            (Route::Set(path), Method::DELETE) => self.delete_set(call, path),
            (Route::SetPart(path, part), Method::POST) => self.act_on_set(call, path, part),
            (Route::Vm(path, id), Method::PUT) => self.put_vm(call, path, id),
            (Route::Vm(path, id), Method::DELETE) => self.delete_vm(call, path, id),
            (Route::VmPart(path, id, part), Method::POST) => self.act_on_vm(call, path, id, part),
            (Route::Token { tenant }, Method::POST) => self.issue_token(call, tenant),
            (_, Method::GET | Method::HEAD) => self.read(call),
            (Route::Unknown, _) => Err(answer::no_such_path()),
            _ => Err(answer::method_not_allowed()),
        }
    }

    fn group_exists(&self, name: &str) -> Answered<()> {
        match &self.options.groups {
            Groups::Any => Ok(()),
            Groups::Only(names) if names.iter().any(|n| n.eq_ignore_ascii_case(name)) => Ok(()),
            Groups::Only(_) => Err(answer::group_not_found(name)),
        }
    }

    /// Returns the scale set of a path.
    fn set(&self, path: &SetPath) -> Answered<&ScaleSet> {
        self.group_exists(&path.group)?;
        let set = self.sets.get(&key(path));
        set.ok_or_else(|| answer::set_not_found(&path.name, &path.group))
    }
}

/// Moves that a test, a fault or a person with a portal makes. Scale sets are found by their
/// name alone; the first one in the order of subscription and group is meant.
impl Azure {
    /// Returns what is true of a scale set's instances, by id; empty if there is no such set.
    pub fn instances(&self, scale_set: &str) -> Vec<InstanceFact> {
        let Some(set) = self.find(scale_set).and_then(|key| self.sets.get(&key)) else {
            return Vec::new();
        };
        let facts = set.instances.values().map(|instance| InstanceFact {
            vm: self.vm(set, instance),
            provisioning_state: instance.state.word(),
            failure_code: match &instance.state {
                scale_set::State::Failed(failure) => Some(failure.code.clone()),
                _ => None,
            },
            is_running: instance.power == scale_set::Power::Running,
            has_latest_model: instance.model == set.vm_model,
            is_listed: instance.listed_from <= self.now,
        });
        facts.collect()
    }

    /// Returns the provider ID of each instance of a scale set, by id, with whether its deletion
    /// has been accepted; empty if there is no such set.
    pub fn provider_ids(&self, scale_set: &str) -> Vec<(String, bool)> {
        let Some(set) = self.find(scale_set).and_then(|key| self.sets.get(&key)) else {
            return Vec::new();
        };
        let instances = set.instances.iter();
        instances
            .map(|(id, instance)| (set.provider_id(*id), instance.is_leaving()))
            .collect()
    }

    /// Returns the capacity of a scale set, if there is such a set.
    pub fn capacity(&self, scale_set: &str) -> Option<u32> {
        let key = self.find(scale_set)?;
        Some(self.sets.get(&key)?.capacity())
    }

    /// Returns the names of all scale sets.
    pub fn scale_sets(&self) -> Vec<String> {
        let mut names: Vec<String> = self.sets.values().map(|set| set.name.clone()).collect();
        names.sort();
        names
    }

    /// Changes what goes wrong by chance from here on.
    pub fn set_faults(&mut self, faults: AzureFaults) {
        self.options.faults = faults;
        self.plan_vanishing();
    }

    /// Changes how much may be used from here on.
    pub fn set_quota(&mut self, quota: Quota) {
        self.options.quota = quota;
    }

    /// Adds or removes versions and ids of images whose machines never join.
    pub fn set_bad_images(&mut self, images: BTreeSet<String>) {
        self.options.bad_images = images;
    }

    /// Makes the creations of the next instances fail, one for each entry, in this order.
    pub fn fail_next_creates(&mut self, failures: impl IntoIterator<Item = CreateFailure>) {
        self.planned_failures.extend(failures);
    }

    /// Forgets the failures of creations that were to come.
    pub fn clear_planned_failures(&mut self) {
        self.planned_failures.clear();
    }

    fn find(&self, scale_set: &str) -> Option<SetKey> {
        let keys = self.sets.keys();
        keys.into_iter()
            .find(|key| key.name.eq_ignore_ascii_case(scale_set))
            .cloned()
    }
}

/// Returns which fault a refusal tells of, if it is one.
fn refused(refusal: &Answer) -> Option<Fault> {
    let body = refusal.body.as_ref()?;
    match (refusal.status, model::text(body, "/error/code")) {
        (StatusCode::PRECONDITION_FAILED, _) => Some(Fault::AzureStale),
        (StatusCode::CONFLICT, "Conflict") => Some(Fault::AzureBusy),
        (StatusCode::CONFLICT, "OperationNotAllowed") => {
            let about_quota = model::text(body, "/error/message").contains("quota");
            about_quota.then_some(Fault::AzureQuota)
        }
        _ => None,
    }
}

fn key(path: &SetPath) -> SetKey {
    SetKey {
        subscription: path.subscription.to_ascii_lowercase(),
        group: path.group.to_ascii_lowercase(),
        name: path.name.to_ascii_lowercase(),
    }
}
