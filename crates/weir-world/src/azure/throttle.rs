//! How many requests are let through?
//!
//! Token buckets, as documented since 2024: ARM's per subscription and kind of verb, and
//! Compute's per resource and per subscription. Tokens are counted in thousandths of a
//! millisecond's share, so that no rounding accumulates.
//!
//! # Source
//! MicrosoftDocs/azure-compute-docs, compute-throttling-limits.md; "Understand how Azure Resource
//! Manager throttles requests" on learn.microsoft.com.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::{Answer, stamp};
use super::call::{Call, Route, SetPath};
use super::options::ThrottleBody;

/// How a bucket fills.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    /// Tokens per minute.
    refill: u64,
    capacity: u64,
}

const fn per_minute(refill: u64, capacity: u64) -> Option<Allowance> {
    Some(Allowance { refill, capacity })
}

/// One of Compute's kinds of request.
#[derive(Debug)]
struct Kind {
    /// The name in headers and refusals.
    name: &'static str,
    per_resource: Option<Allowance>,
    per_subscription: Option<Allowance>,
}

const SET_PUT: Kind = Kind {
    name: "CreateVMScaleSet",
    per_resource: per_minute(4, 12),
    per_subscription: per_minute(125, 375),
};
const SET_UPDATE: Kind = Kind {
    name: "UpdateVMScaleSet",
    per_resource: per_minute(4, 12),
    per_subscription: per_minute(500, 1_500),
};
/// Starred in the documentation: counted per subscription only.
const SET_ACT: Kind = Kind {
    name: "VMScaleSetActions",
    per_resource: None,
    per_subscription: per_minute(500, 1_500),
};
const SET_DELETE: Kind = Kind {
    name: "DeleteVMScaleSet",
    per_resource: per_minute(4, 12),
    per_subscription: per_minute(175, 525),
};
const SET_POWER_OFF: Kind = Kind {
    name: "VMScaleSetPowerOff",
    per_resource: None,
    per_subscription: per_minute(175, 525),
};
const SET_GET: Kind = Kind {
    name: "GetVMScaleSet",
    per_resource: per_minute(12, 36),
    per_subscription: per_minute(800, 2_400),
};
const SET_LIST: Kind = Kind {
    name: "HighCostGetVMScaleSet",
    per_resource: per_minute(10, 30),
    per_subscription: per_minute(360, 1_080),
};
/// Lists over all scale sets are counted per subscription only.
const SETS_LIST: Kind = Kind {
    per_resource: None,
    ..SET_LIST
};
const VM_UPDATE: Kind = Kind {
    name: "UpdateVMScaleSetVM",
    per_resource: per_minute(4, 12),
    per_subscription: per_minute(500, 1_500),
};
const VM_DELETE: Kind = Kind {
    name: "DeleteVMScaleSetVM",
    per_resource: per_minute(4, 12),
    per_subscription: per_minute(500, 1_500),
};
const VM_GET: Kind = Kind {
    name: "GetVMScaleSetVM",
    per_resource: per_minute(12, 36),
    per_subscription: per_minute(2_000, 6_000),
};
const GET_OPERATION: Kind = Kind {
    name: "GetOperation",
    per_resource: per_minute(15, 45),
    per_subscription: per_minute(5_000, 15_000),
};

/// ARM's own allowances, given per second in the documentation.
const ARM_READS: Allowance = Allowance {
    refill: 25 * 60,
    capacity: 250,
};
const ARM_WRITES: Allowance = Allowance {
    refill: 10 * 60,
    capacity: 200,
};

/// Whether a PUT makes a scale set or changes one, which are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutIs {
    Create,
    Update,
}

/// Milliseconds in a minute: a token is this many parts.
const PARTS: u64 = 60_000;

#[derive(Clone, Debug)]
struct Bucket {
    parts: u64,
    at: Timestamp,
}

/// All buckets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buckets {
    by_name: BTreeMap<String, Bucket>,
    refusals: u64,
}

/// What the allowances say to a request.
pub(crate) enum Ruling {
    /// It may pass; these headers tell what is left.
    Pass(Vec<(&'static str, String)>),
    Refuse(Answer),
}

impl Buckets {
    /// Takes a request's tokens, or refuses it.
    pub(crate) fn take(
        &mut self,
        call: &Call<'_>,
        put_is: PutIs,
        body: ThrottleBody,
        now: Timestamp,
    ) -> Ruling {
        let (verb, allowance) = match *call.method {
            Method::GET | Method::HEAD => ("reads", ARM_READS),
            Method::DELETE => ("deletes", ARM_WRITES),
            _ => ("writes", ARM_WRITES),
        };
        let subscription = subscription(call.path);
        let left = match self.take_one(&format!("arm/{verb}/{subscription}"), allowance, now) {
            Ok(left) => left,
            Err(wait) => return Ruling::Refuse(arm_refusal(verb, wait)),
        };
        let mut headers = vec![(arm_header(verb), left.to_string())];
        let Some((kind, resource)) = kind(call, put_is) else {
            return Ruling::Pass(headers);
        };
        let mut remaining = Vec::new();
        let scopes = [
            ("SubscriptionMaximum", kind.per_subscription, &subscription),
            ("Resource", kind.per_resource, &resource),
        ];
        for (suffix, allowance, scope) in scopes {
            let Some(allowance) = allowance else { continue };
            let bucket = format!("{}/{suffix}/{scope}", kind.name);
            match self.take_one(&bucket, allowance, now) {
                Ok(left) => {
                    remaining.push(format!("Microsoft.Compute/{}{suffix};{left}", kind.name))
                }
                Err(wait) => {
                    self.refusals += 1;
                    return Ruling::Refuse(self.refusal(kind, allowance, wait, body, now));
                }
            }
        }
        headers.push(("x-ms-ratelimit-remaining-resource", remaining.join(",")));
        Ruling::Pass(headers)
    }

    /// Takes one token and returns how many are left, or after how many seconds there is one.
    fn take_one(&mut self, name: &str, rule: Allowance, now: Timestamp) -> Result<u64, u64> {
        let full = rule.capacity * PARTS;
        let bucket = self.by_name.entry(name.to_owned()).or_insert(Bucket {
            parts: full,
            at: now,
        });
        let passed = now.duration_since(bucket.at).as_millis().max(0);
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        let grown = passed.saturating_mul(rule.refill);
        bucket.parts = bucket.parts.saturating_add(grown).min(full);
        bucket.at = now;
        if bucket.parts < PARTS {
            let missing = PARTS - bucket.parts;
            return Err(missing.div_ceil(rule.refill).div_ceil(1_000).max(1));
        }
        bucket.parts -= PARTS;
        Ok(bucket.parts / PARTS)
    }

    fn refusal(
        &self,
        kind: &Kind,
        allowance: Allowance,
        wait: u64,
        body: ThrottleBody,
        now: Timestamp,
    ) -> Answer {
        let is_bare = match body {
            ThrottleBody::Wrapped => false,
            ThrottleBody::Bare => true,
            ThrottleBody::Alternate => self.refusals.is_multiple_of(2),
        };
        let details = json!({
            "operationGroup": kind.name,
            "startTime": stamp(now),
            "endTime": stamp(now),
            "allowedRequestCount": allowance.capacity,
            "measuredRequestCount": allowance.capacity + 1,
        });
        compute_refusal(kind.name, &details, wait, is_bare)
    }
}

/// Returns Compute's refusal in either shape.
pub(crate) fn compute_refusal(group: &str, details: &Value, wait: u64, is_bare: bool) -> Answer {
    let error = json!({
        "code": "OperationNotAllowed",
        "message": "The server rejected the request because too many requests have been \
                    received for this subscription.",
        "details": [
            {"code": "TooManyRequests", "target": group, "message": details.to_string()},
        ],
    });
    let body = if is_bare {
        error
    } else {
        json!({"error": error})
    };
    Answer::json(StatusCode::TOO_MANY_REQUESTS, body).with("retry-after", wait.to_string())
}

fn arm_refusal(verb: &str, wait: u64) -> Answer {
    let message = format!(
        "Number of '{verb}' for subscription and operation type exceeded the token bucket. Please \
         try again after the Retry-After delay."
    );
    Answer::error(
        StatusCode::TOO_MANY_REQUESTS,
        "SubscriptionRequestsThrottled",
        &message,
    )
    .with("retry-after", wait.to_string())
    .with(arm_header(verb), "0")
}

fn arm_header(verb: &str) -> &'static str {
    match verb {
        "reads" => "x-ms-ratelimit-remaining-subscription-reads",
        "deletes" => "x-ms-ratelimit-remaining-subscription-deletes",
        _ => "x-ms-ratelimit-remaining-subscription-writes",
    }
}

fn subscription(path: &str) -> String {
    let id = path.split('/').nth(2);
    id.unwrap_or_default().to_ascii_lowercase()
}

/// Returns how Compute counts a request and on which resource.
///
/// The documentation does not name the list of a set's instances, POST `delete` and POST
/// `manualupgrade`; they are counted with what they are most like.
fn kind(call: &Call<'_>, put_is: PutIs) -> Option<(&'static Kind, String)> {
    let is_get = !call.is_write();
    let of_set = |set: &SetPath| format!("{}/{}", set.group, set.name).to_ascii_lowercase();
    let of_vm = |set: &SetPath, id: &str| format!("{}/{id}", of_set(set));
    match &call.route {
        Route::Operation { guid } => Some((&GET_OPERATION, guid.clone())),
        Route::Sets { .. } => Some((&SETS_LIST, String::new())),
        Route::Set(set) => {
            let kind = match (call.method, put_is) {
                _ if is_get => &SET_GET,
                (&Method::DELETE, _) => &SET_DELETE,
                (_, PutIs::Create) => &SET_PUT,
                (_, PutIs::Update) => &SET_UPDATE,
            };
            Some((kind, of_set(set)))
        }
        Route::SetPart(set, part) => {
            let kind = match part.as_str() {
                "instanceview" => &SET_LIST,
                _ if is_get => &SET_GET,
                "delete" => &SET_DELETE,
                "deallocate" => &SET_DELETE,
                "poweroff" => &SET_POWER_OFF,
                "manualupgrade" => &SET_UPDATE,
                _ => &SET_ACT,
            };
            Some((kind, of_set(set)))
        }
        Route::Vms(set) => Some((&SET_LIST, of_set(set))),
        Route::Vm(set, id) => {
            let kind = match *call.method {
                Method::DELETE => &VM_DELETE,
                _ if is_get => &VM_GET,
                _ => &VM_UPDATE,
            };
            Some((kind, of_vm(set, id)))
        }
        Route::VmPart(set, id, part) => {
            let kind = match part.as_str() {
                _ if is_get => &VM_GET,
                "poweroff" | "deallocate" => &VM_DELETE,
                _ => &VM_UPDATE,
            };
            Some((kind, of_vm(set, id)))
        }
        _ => None,
    }
}
