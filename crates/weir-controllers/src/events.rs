//! Events on pools, for people: what was done and why, and what went wrong.
//!
//! kube's own recorder stamps the wall clock; this one asks the [`Clock`](crate::Clock), so that a
//! simulated hour reads as an hour.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};

use crate::context::Ctx;

/// How serious an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Work as usual.
    Normal,
    /// Something failed or is held up.
    Warning,
}

/// Writes an event on an object. A lost event costs nothing but the line: failures are logged.
pub async fn record<K>(ctx: &Ctx, object: &K, severity: Severity, reason: &str, message: &str)
where
    K: Resource<DynamicType = ()>,
{
    let at = Time(ctx.clock.now());
    let namespace = object.namespace().unwrap_or_default();
    let event = Event {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}.", object.name_any())),
            namespace: Some(namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            name: object.meta().name.clone(),
            namespace: Some(namespace.clone()),
            uid: object.meta().uid.clone(),
            ..ObjectReference::default()
        },
        type_: Some(match severity {
            Severity::Normal => "Normal".to_owned(),
            Severity::Warning => "Warning".to_owned(),
        }),
        reason: Some(reason.to_owned()),
        message: Some(message.chars().take(MESSAGE_MAX).collect()),
        source: Some(EventSource {
            component: Some("weir".to_owned()),
            host: None,
        }),
        first_timestamp: Some(at.clone()),
        last_timestamp: Some(at),
        count: Some(1),
        ..Event::default()
    };
    let api: Api<Event> = Api::namespaced(ctx.kube.clone(), &namespace);
    if let Err(error) = api.create(&PostParams::default(), &event).await {
        tracing::warn!(reason, %error, "failed to write an event");
    }
}

/// The API server refuses longer messages.
const MESSAGE_MAX: usize = 1024;
