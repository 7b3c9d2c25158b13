//! Writes down what a turn saw and did: status, provider IDs, events, gauges.
//!
//! A status is written only when it says something new, so that a settled pool is silent.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use weir_api::{
    AzureMachinePool, AzureMachinePoolMachine, AzureMachinePoolMachineStatus,
    AzureMachinePoolStatus, Condition, Initialization, InstanceStatus, V1Beta1Condition,
    V1Beta2Status, contract, provider_id,
};
use weir_azure::Instance;
use weir_core::conditions::{self, Kind, Truth};
use weir_core::plan::Plan;
use weir_core::view::PoolView;

use super::apply::Outcomes;
use super::observe::{Blocked, Objects, Scene, instance_provider_id};
use crate::context::{Ctx, Key};
use crate::events::{Severity, record};
use crate::metrics::PoolLabels;

/// What a turn found could not be written down.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The status of the pool.
    #[error("failed to write the status of the pool")]
    Status(#[source] kube::Error),
    /// The provider IDs in the pool's spec.
    #[error("failed to write the provider IDs of the pool")]
    ProviderIds(#[source] kube::Error),
    /// The status of one of its machines.
    #[error("failed to write the status of pool machine {name}")]
    Machine {
        /// Its name.
        name: String,
        /// Why.
        source: kube::Error,
    },
}

/// Writes down what a turn saw and did.
pub(super) async fn report(
    pool: &AzureMachinePool,
    scene: &Scene,
    plan: &Plan,
    outcomes: &Outcomes,
    ctx: &Ctx,
) -> Result<(), ReportError> {
    let view = PoolView::of(&scene.observed, plan);
    gauge(&scene.key, &view, plan, ctx);
    let status = pool_status(pool, scene, plan, outcomes, &view, ctx).await;
    // First, so that whoever reads that the pool is available finds its instances.
    write_provider_ids(pool, scene, ctx)
        .await
        .map_err(ReportError::ProviderIds)?;
    write_status(pool, &status, ctx)
        .await
        .map_err(ReportError::Status)?;
    for instance in scene.look.iter().flat_map(|look| &look.instances) {
        if let Some(objects) = scene.objects.get(&instance.instance_id) {
            report_machine(objects, instance, scene, ctx).await?;
        }
    }
    tell(pool, scene, outcomes, ctx).await;
    Ok(())
}

/// Writes down why a pool cannot begin.
pub(super) async fn report_blocked(
    pool: &AzureMachinePool,
    blocked: &Blocked,
    ctx: &Ctx,
) -> Result<(), ReportError> {
    let mut status = pool.status.clone().unwrap_or_default();
    let now = ctx.clock.now();
    let message = blocked.to_string();
    let paused = matches!(blocked, Blocked::Paused);
    let mut claims = vec![Claim::paused(paused)];
    if !paused {
        let severity = if blocked.needs_a_person() {
            contract::v1beta1_condition::SEVERITY_ERROR
        } else {
            contract::v1beta1_condition::SEVERITY_INFO
        };
        let ready = Claim::new(
            contract::condition::READY,
            Truth::False,
            blocked.reason(),
            &message,
        );
        set_v1beta1(&mut status.conditions, &ready, severity, now);
        claims.push(ready);
    }
    set_conditions(&mut status.v1beta2, &claims, pool.metadata.generation, now);
    status.observed_generation = pool.metadata.generation;
    status.infrastructure_machine_kind = Some(contract::INFRASTRUCTURE_MACHINE_KIND.to_owned());
    write_status(pool, &status, ctx)
        .await
        .map_err(ReportError::Status)?;
    let key = Key {
        namespace: pool.namespace().unwrap_or_default(),
        name: pool.name_any(),
    };
    if blocked.needs_a_person() {
        tell_once(pool, &key, blocked.reason(), &message, ctx).await;
    }
    Ok(())
}

fn gauge(key: &Key, view: &PoolView, plan: &Plan, ctx: &Ctx) {
    let labels = PoolLabels {
        namespace: key.namespace.clone(),
        pool: key.name.clone(),
    };
    let old = view
        .instances
        .iter()
        .filter(|instance| !instance.current)
        .count();
    let metrics = &ctx.metrics;
    metrics
        .replicas
        .get_or_create(&labels)
        .set(i64::from(view.replicas));
    metrics
        .available
        .get_or_create(&labels)
        .set(i64::from(view.available));
    metrics.outdated.get_or_create(&labels).set(old as i64);
    metrics
        .waits
        .get_or_create(&labels)
        .set(view.waits.len() as i64);
    let stuck = plan.waits.iter().filter(|wait| wait.on.needs_somebody());
    metrics
        .stuck
        .get_or_create(&labels)
        .set(stuck.count() as i64);
}

async fn pool_status(
    pool: &AzureMachinePool,
    scene: &Scene,
    plan: &Plan,
    outcomes: &Outcomes,
    view: &PoolView,
    ctx: &Ctx,
) -> AzureMachinePoolStatus {
    let now = ctx.clock.now();
    let mut status = pool.status.clone().unwrap_or_default();
    let claims = claims(scene, plan, outcomes, ctx).await;
    for claim in claims.iter().filter(|claim| claim.v1beta1.is_some()) {
        let severity = contract::v1beta1_condition::SEVERITY_WARNING;
        let renamed = Claim {
            kind: claim.v1beta1.unwrap_or(claim.kind),
            ..claim.clone()
        };
        set_v1beta1(&mut status.conditions, &renamed, severity, now);
    }
    set_conditions(&mut status.v1beta2, &claims, pool.metadata.generation, now);
    status.observed_generation = pool.metadata.generation;
    status.infrastructure_machine_kind = Some(contract::INFRASTRUCTURE_MACHINE_KIND.to_owned());
    status.failure_reason = None;
    status.failure_message = None;
    let Some(look) = &scene.look else {
        return status;
    };
    status.replicas = i32::try_from(look.instances.len()).ok();
    status.instances = look
        .instances
        .iter()
        .map(|i| instance_status(i, scene))
        .collect();
    if let Some(scale_set) = &look.scale_set {
        // Never back to false: core would stop to follow the pool (docs/decisions).
        status.ready = Some(true);
        status.initialization = Some(Initialization {
            provisioned: Some(true),
        });
        let properties = scale_set.properties.as_ref();
        status.provisioning_state = properties.and_then(|p| p.provisioning_state.clone());
    } else {
        status.provisioning_state = None;
    }
    if let Some(machine_pool) = &scene.machine_pool {
        status.version = machine_pool.spec.template.spec.version.clone();
    }
    if plan.is_settled() && outcomes.refused.is_empty() {
        status.last_reconciled_replicas = i32::try_from(view.replicas).ok();
    }
    status
}

fn instance_status(instance: &Instance, scene: &Scene) -> InstanceStatus {
    let id = instance_provider_id(instance);
    let node = id
        .as_ref()
        .and_then(|id| scene.nodes.get(&id.to_lowercase()));
    InstanceStatus {
        version: node.and_then(|node| kubelet_version(node)),
        provisioning_state: instance.properties.provisioning_state.clone(),
        provider_id: id,
        instance_id: Some(instance.instance_id.clone()),
        instance_name: instance.name.clone(),
        latest_model_applied: is_current(&instance.instance_id, scene),
    }
}

/// Whether an instance has the wanted revision. Azure's own flag says less: any write of bootstrap
/// data turns it false for all.
fn is_current(id: &str, scene: &Scene) -> bool {
    let known = scene
        .observed
        .instances_known()
        .iter()
        .find(|instance| instance.id == id);
    known.is_some_and(|i| i.revision.as_ref() == Some(&scene.observed.pool.revision))
}

fn kubelet_version(node: &Node) -> Option<String> {
    Some(
        node.status
            .as_ref()?
            .node_info
            .as_ref()?
            .kubelet_version
            .clone(),
    )
}

/// A condition in both of its forms.
#[derive(Clone)]
struct Claim {
    kind: &'static str,
    /// Its name among the older conditions, if it is one of them.
    v1beta1: Option<&'static str>,
    truth: Truth,
    reason: String,
    message: String,
}

impl Claim {
    fn new(kind: &'static str, truth: Truth, reason: &str, message: &str) -> Claim {
        let (reason, message) = (reason.to_owned(), message.to_owned());
        Claim {
            kind,
            v1beta1: Some(kind),
            truth,
            reason,
            message,
        }
    }

    fn paused(paused: bool) -> Claim {
        let (truth, reason) = if paused {
            (Truth::True, contract::reason::PAUSED)
        } else {
            (Truth::False, contract::reason::NOT_PAUSED)
        };
        Claim {
            v1beta1: None,
            ..Claim::new(contract::condition::PAUSED, truth, reason, "")
        }
    }
}

async fn claims(scene: &Scene, plan: &Plan, outcomes: &Outcomes, ctx: &Ctx) -> Vec<Claim> {
    let mut claims = vec![Claim::paused(false)];
    for condition in conditions::conditions(&scene.observed, plan) {
        let (kind, v1beta1) = names(condition.kind);
        let mut claim = Claim::new(kind, condition.truth, condition.reason, &condition.message);
        claim.v1beta1 = v1beta1;
        claims.push(claim);
    }
    let trouble = trouble(scene, outcomes, ctx);
    if let Some((reason, message)) = trouble {
        for claim in &mut claims {
            let told = [
                contract::condition::READY,
                contract::v1beta1_condition::SCALE_SET_RUNNING,
            ];
            if told.contains(&claim.kind) {
                claim.truth = Truth::False;
                claim.reason.clone_from(&reason);
                claim.message.clone_from(&message);
            }
        }
    }
    claims
}

fn names(kind: Kind) -> (&'static str, Option<&'static str>) {
    use contract::{condition, v1beta1_condition};
    match kind {
        Kind::Available => (condition::AVAILABLE, None),
        Kind::UpToDate => (
            condition::UP_TO_DATE,
            Some(v1beta1_condition::SCALE_SET_MODEL_UPDATED),
        ),
        Kind::DesiredReplicas => {
            let name = v1beta1_condition::SCALE_SET_DESIRED_REPLICAS;
            (name, Some(name))
        }
        Kind::ScaleSetRunning => {
            let name = v1beta1_condition::SCALE_SET_RUNNING;
            (name, Some(name))
        }
        Kind::Ready => (condition::READY, Some(condition::READY)),
    }
}

/// What a person should know first: a step that was refused, or why Azure's last operation failed.
fn trouble(scene: &Scene, outcomes: &Outcomes, ctx: &Ctx) -> Option<(String, String)> {
    if let Some(refusal) = refusal(outcomes) {
        return Some(refusal);
    }
    if let Some(error) = &scene.unread {
        let reason = error
            .code()
            .map_or_else(|| "AzureNotReadable".to_owned(), str::to_owned);
        return Some((reason, error.line()));
    }
    failed_operation(scene, ctx)
}

/// The words of Azure's last failure, while the scale set shows it.
fn failed_operation(scene: &Scene, ctx: &Ctx) -> Option<(String, String)> {
    let failure = ctx.remember(&scene.key, |memory| memory.failure.clone())?;
    let words = format!("{failure} ({})", failure.hint());
    Some((failure.code, words))
}

fn set_conditions(
    status: &mut Option<V1Beta2Status>,
    claims: &[Claim],
    generation: Option<i64>,
    now: Timestamp,
) {
    let conditions = &mut status.get_or_insert_default().conditions;
    for claim in claims {
        let value = truth(claim.truth);
        let old = conditions
            .iter()
            .position(|condition| condition.type_ == claim.kind);
        let since = old
            .map(|at| &conditions[at])
            .filter(|old| old.status == value);
        let since = since.map_or_else(|| Time(now), |old| old.last_transition_time.clone());
        let condition = Condition {
            type_: claim.kind.to_owned(),
            status: value.to_owned(),
            reason: claim.reason.clone(),
            message: claim.message.clone(),
            observed_generation: generation,
            last_transition_time: since,
        };
        match old {
            Some(at) => conditions[at] = condition,
            None => conditions.push(condition),
        }
    }
    conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
}

fn set_v1beta1(
    conditions: &mut Vec<V1Beta1Condition>,
    claim: &Claim,
    severity: &str,
    now: Timestamp,
) {
    let value = truth(claim.truth);
    let old = conditions
        .iter()
        .position(|condition| condition.type_ == claim.kind);
    let since = old
        .map(|at| &conditions[at])
        .filter(|old| old.status == value);
    let is_true = claim.truth == Truth::True;
    let condition = V1Beta1Condition {
        type_: claim.kind.to_owned(),
        status: value.to_owned(),
        severity: (claim.truth == Truth::False).then(|| severity.to_owned()),
        last_transition_time: since
            .map_or_else(|| Time(now), |old| old.last_transition_time.clone()),
        reason: (!is_true).then(|| claim.reason.clone()),
        message: (!is_true && !claim.message.is_empty()).then(|| claim.message.clone()),
    };
    match old {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
}

fn truth(truth: Truth) -> &'static str {
    match truth {
        Truth::True => "True",
        Truth::False => "False",
        Truth::Unknown => "Unknown",
    }
}

async fn write_status(
    pool: &AzureMachinePool,
    status: &AzureMachinePoolStatus,
    ctx: &Ctx,
) -> Result<(), kube::Error> {
    if pool.status.as_ref() == Some(status) {
        return Ok(());
    }
    let mut value = serde_json::to_value(status).map_err(kube::Error::SerdeError)?;
    forget_dropped(&mut value, pool.status.as_ref());
    patch_status(pool, json!({"status": value}), ctx).await
}

/// A merge patch leaves alone what it does not name: what is no longer true must be named as null.
fn forget_dropped<S: serde::Serialize>(new: &mut Value, old: Option<&S>) {
    let old = old.and_then(|old| serde_json::to_value(old).ok());
    if let (Value::Object(new), Some(Value::Object(old))) = (new, old) {
        for key in old.keys() {
            new.entry(key.clone()).or_insert(Value::Null);
        }
    }
}

async fn patch_status<K>(object: &K, patch: Value, ctx: &Ctx) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let namespace = object.namespace().unwrap_or_default();
    let api: Api<K> = Api::namespaced(ctx.kube.clone(), &namespace);
    let patch = Patch::Merge(patch);
    match api
        .patch_status(&object.name_any(), &PatchParams::default(), &patch)
        .await
    {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other.map(|_| ()),
    }
}

/// An id leaves the list only after its machine is gone, since core deletes the Node of an id that
/// leaves without draining it.
async fn write_provider_ids(
    pool: &AzureMachinePool,
    scene: &Scene,
    ctx: &Ctx,
) -> Result<(), kube::Error> {
    let Some(look) = &scene.look else {
        return Ok(());
    };
    let mut ids: BTreeSet<_> = look
        .instances
        .iter()
        .filter_map(instance_provider_id)
        .collect();
    ids.extend(
        scene
            .objects
            .values()
            .map(|objects| objects.pool_machine.spec.provider_id.clone()),
    );
    let ids: Vec<_> = ids.into_iter().collect();
    let own = look.scale_set.as_ref().and_then(|s| s.id.as_deref());
    let own = own.and_then(|id| provider_id::from_arm_id(id).ok());
    let own = own.or_else(|| pool.spec.provider_id.clone());
    if pool.spec.provider_id_list == ids && pool.spec.provider_id == own {
        return Ok(());
    }
    let patch = Patch::Merge(json!({"spec": {"providerID": own, "providerIDList": ids}}));
    let api: Api<AzureMachinePool> = Api::namespaced(ctx.kube.clone(), &scene.key.namespace);
    match api
        .patch(&pool.name_any(), &PatchParams::default(), &patch)
        .await
    {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other.map(|_| ()),
    }
}

async fn report_machine(
    objects: &Objects,
    instance: &Instance,
    scene: &Scene,
    ctx: &Ctx,
) -> Result<(), ReportError> {
    let machine = &objects.pool_machine;
    let status = machine_status(machine, instance, scene, ctx.clock.now());
    if machine.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let failed = |source: kube::Error| ReportError::Machine {
        name: machine.name_any(),
        source,
    };
    let mut value =
        serde_json::to_value(&status).map_err(|error| failed(kube::Error::SerdeError(error)))?;
    forget_dropped(&mut value, machine.status.as_ref());
    patch_status(&**machine, json!({"status": value}), ctx)
        .await
        .map_err(failed)
}

fn machine_status(
    machine: &AzureMachinePoolMachine,
    instance: &Instance,
    scene: &Scene,
    now: Timestamp,
) -> AzureMachinePoolMachineStatus {
    let node = scene.nodes.get(&machine.spec.provider_id.to_lowercase());
    let mut status = machine.status.clone().unwrap_or_default();
    let made = instance.provisioning_state() != weir_azure::ProvisioningState::Creating;
    let ready = status.ready.unwrap_or(false) || made || node.is_some();
    status.ready = Some(ready);
    status.initialization = Some(Initialization {
        provisioned: Some(ready),
    });
    status.provisioning_state = instance.properties.provisioning_state.clone();
    status.instance_name = instance.name.clone();
    status.latest_model_applied = Some(is_current(&instance.instance_id, scene));
    status.failure_domain = instance.zone().map(str::to_owned);
    status.node_ref = node.map(|node| ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(node.name_any()),
        uid: node.uid(),
        ..ObjectReference::default()
    });
    status.version = node.and_then(|node| kubelet_version(node));
    status.observed_generation = machine.metadata.generation;
    status.failure_reason = None;
    status.failure_message = None;
    let claim = machine_claim(instance, ready);
    let severity = contract::v1beta1_condition::SEVERITY_INFO;
    set_v1beta1(&mut status.conditions, &claim, severity, now);
    set_conditions(
        &mut status.v1beta2,
        &[claim, Claim::paused(false)],
        machine.metadata.generation,
        now,
    );
    status
}

fn machine_claim(instance: &Instance, ready: bool) -> Claim {
    let kind = contract::condition::READY;
    if let Some(failure) = instance.failure() {
        let message = format!("{failure} ({})", failure.hint());
        return Claim::new(kind, Truth::False, "ProvisioningFailed", &message);
    }
    if ready {
        Claim::new(kind, Truth::True, contract::reason::PROVISIONED, "")
    } else {
        Claim::new(
            kind,
            Truth::False,
            contract::reason::NOT_PROVISIONED,
            "Azure is making it",
        )
    }
}

/// One event for each thing done, and one for each new trouble.
async fn tell(pool: &AzureMachinePool, scene: &Scene, outcomes: &Outcomes, ctx: &Ctx) {
    for step in &outcomes.done {
        let reason = format!("{:?}", step.action);
        let reason = reason.split([' ', '{']).next().unwrap_or("Step");
        record(ctx, pool, Severity::Normal, reason, &step.to_string()).await;
    }
    match trouble_line(scene, outcomes) {
        Some((reason, message)) => tell_once(pool, &scene.key, &reason, &message, ctx).await,
        None => ctx.remember(&scene.key, |memory| memory.told = None),
    }
}

/// The first step that was refused for good, unless somebody else was merely quicker.
fn refusal(outcomes: &Outcomes) -> Option<(String, String)> {
    let mut refused = outcomes.refused.iter();
    let (step, error) = refused.find(|(_, error)| !error.is_a_race())?;
    let message = format!("could not {}: {}", step.action, error.line());
    Some((error.reason(), message))
}

fn trouble_line(scene: &Scene, outcomes: &Outcomes) -> Option<(String, String)> {
    if let Some(refusal) = refusal(outcomes) {
        return Some(refusal);
    }
    let error = scene.unread.as_ref()?;
    Some(("AzureNotReadable".to_owned(), error.line()))
}

async fn tell_once(pool: &AzureMachinePool, key: &Key, reason: &str, message: &str, ctx: &Ctx) {
    let line = format!("{reason}: {message}");
    let new = ctx.remember(key, |memory| {
        let new = memory.told.as_ref() != Some(&line);
        memory.told = Some(line);
        new
    });
    if new {
        record(ctx, pool, Severity::Warning, reason, message).await;
    }
}
