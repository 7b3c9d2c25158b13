//! How often was Azure asked, and what came of it?

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use serde::Serialize;

use super::call::{Call, Route};
use super::identity;

/// How often one kind of request was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallCounts {
    /// All of them.
    pub total: u64,
    /// Those answered with 429.
    pub throttled: u64,
    /// Those answered with another status from 400 on.
    pub refused: u64,
}

/// What became of the instances of one scale set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleSetCounts {
    /// Instances whose creation was begun.
    pub created: u64,
    /// Instances that are gone.
    pub deleted: u64,
    /// The most instances there were at once, those on their way out included.
    pub instances_max: u64,
}

/// How often Azure was asked, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AzureReport {
    /// By operation, as in Azure's own names.
    pub calls: BTreeMap<String, CallCounts>,
    /// GET requests to ARM that are not polls.
    pub reads: u64,
    /// All other requests to ARM.
    pub writes: u64,
    /// Questions after the state of operations.
    pub polls: u64,
    /// Requests answered with 429.
    pub throttled: u64,
    /// By name of scale set, those that are gone included.
    pub scale_sets: BTreeMap<String, ScaleSetCounts>,
}

impl AzureReport {
    pub(crate) fn count(&mut self, call: &Call<'_>, status: StatusCode) {
        let counts = self.calls.entry(name(call)).or_default();
        counts.total += 1;
        if status == StatusCode::TOO_MANY_REQUESTS {
            counts.throttled += 1;
            self.throttled += 1;
        } else if status.as_u16() >= 400 {
            counts.refused += 1;
        }
        if identity::is_open(&call.route) {
            return;
        }
        match (&call.route, call.is_write()) {
            (Route::Operation { .. }, _) => self.polls += 1,
            (_, false) => self.reads += 1,
            (_, true) => self.writes += 1,
        }
    }

    pub(crate) fn scale_set(&mut self, name: &str) -> &mut ScaleSetCounts {
        self.scale_sets.entry(name.to_owned()).or_default()
    }
}

/// Returns the operation's name, after Azure's own.
fn name(call: &Call<'_>) -> String {
    let (noun, verb) = match &call.route {
        Route::Set(_) => ("VirtualMachineScaleSets", set_verb(call.method)),
        Route::SetPart(_, part) => ("VirtualMachineScaleSets", part.as_str()),
        Route::Sets { .. } => ("VirtualMachineScaleSets", "List"),
        Route::Vms(_) => ("VirtualMachineScaleSetVMs", "List"),
        Route::Vm(..) if *call.method == Method::PUT => ("VirtualMachineScaleSetVMs", "Update"),
        Route::Vm(..) => ("VirtualMachineScaleSetVMs", set_verb(call.method)),
        Route::VmPart(_, _, part) => ("VirtualMachineScaleSetVMs", part.as_str()),
        Route::Operation { .. } => ("Operations", "Get"),
        Route::Skus => ("ResourceSkus", "List"),
        Route::Usages { .. } => ("Usages", "List"),
        Route::ImageVersions { .. } => ("ImageVersions", "Get"),
        Route::Group { .. } => ("ResourceGroups", "Get"),
        Route::Subscriptions | Route::Subscription(_) => ("Subscriptions", "Get"),
        Route::Tenants => ("Tenants", "List"),
        Route::Token { .. } | Route::IdentityToken => ("Tokens", "Get"),
        Route::MetadataEndpoints | Route::InstanceDiscovery | Route::OpenIdConfiguration { .. } => {
            ("Metadata", "Get")
        }
        Route::Unknown => ("Unknown", call.method.as_str()),
    };
    format!("{noun}_{verb}")
}

fn set_verb(method: &Method) -> &'static str {
    match *method {
        Method::PUT => "CreateOrUpdate",
        Method::PATCH => "Update",
        Method::DELETE => "Delete",
        _ => "Get",
    }
}
