//! What is asked? Reads a request's path, query and body.
//!
//! Azure compares the fixed parts of a path without regard to case, and clients make use of it.

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use serde_json::{Map, Value};

use super::answer::{Answer, Answered};

/// A scale set as a path names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetPath {
    pub(crate) subscription: String,
    pub(crate) group: String,
    pub(crate) name: String,
}

/// Where a list of scale sets is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListScope {
    Group(String),
    Location(String),
    Subscription,
}

/// What a path is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    MetadataEndpoints,
    InstanceDiscovery,
    OpenIdConfiguration {
        tenant: String,
    },
    Token {
        tenant: String,
    },
    IdentityToken,
    Tenants,
    Subscriptions,
    Subscription(String),
    Group {
        subscription: String,
        name: String,
    },
    Skus,
    Usages {
        location: String,
    },
    ImageVersions {
        rest: Vec<String>,
    },
    Operation {
        guid: String,
    },
    Sets {
        subscription: String,
        scope: ListScope,
    },
    Set(SetPath),
    SetPart(SetPath, String),
    Vms(SetPath),
    Vm(SetPath, String),
    VmPart(SetPath, String, String),
    Unknown,
}

/// A request, taken apart.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) method: &'a Method,
    pub(crate) route: Route,
    pub(crate) path: &'a str,
    pub(crate) raw_query: &'a str,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) base: String,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) bytes: &'a Bytes,
}

impl<'a> Call<'a> {
    pub(crate) fn read(request: &'a Request<Bytes>) -> Call<'a> {
        let uri = request.uri();
        let raw_query = uri.query().unwrap_or_default();
        Call {
            method: request.method(),
            route: route(uri.path()),
            path: uri.path(),
            raw_query,
            query: pairs(raw_query),
            base: base(request),
            headers: request.headers(),
            bytes: request.body(),
        }
    }

    /// Returns a query parameter by its name, which is compared without regard to case.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self
            .query
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Says whether `$expand` asks for this.
    pub(crate) fn expands(&self, what: &str) -> bool {
        self.parameter("$expand").is_some_and(|list| {
            list.split(',')
                .any(|entry| entry.trim().eq_ignore_ascii_case(what))
        })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(crate) fn is_write(&self) -> bool {
        *self.method != Method::GET && *self.method != Method::HEAD
    }

    /// Reads the body as an object; an empty one counts as an empty object.
    pub(crate) fn object(&self) -> Answered<Map<String, Value>> {
        if self.bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Map::new());
        }
        match serde_json::from_slice(self.bytes) {
            Ok(Value::Object(object)) => Ok(object),
            // The parser's words may quote the body, which can hold secrets.
            Ok(_) | Err(_) => Err(Answer::error(
                http::StatusCode::BAD_REQUEST,
                "InvalidRequestContent",
                "The request content was invalid and could not be deserialized.",
            )),
        }
    }

    /// Reads the body as a form.
    pub(crate) fn form(&self) -> Vec<(String, String)> {
        pairs(std::str::from_utf8(self.bytes).unwrap_or_default())
    }
}

/// Takes a query or form apart.
pub(crate) fn pairs(text: &str) -> Vec<(String, String)> {
    let parts = text.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (
                decode(&key.replace('+', " ")),
                decode(&value.replace('+', " ")),
            )
        })
        .collect()
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let hex = (bytes[index] == b'%')
            .then(|| text.get(index + 1..index + 3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match hex {
            Some(byte) => {
                out.push(byte);
                index += 3;
            }
            None => {
                out.push(bytes[index]);
                index += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns where the client found us, for the absolute URLs in answers.
fn base(request: &Request<Bytes>) -> String {
    let uri = request.uri();
    if let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) {
        return format!("{scheme}://{authority}");
    }
    let host = request.headers().get("host");
    let host = host.and_then(|host| host.to_str().ok());
    format!("https://{}", host.unwrap_or("management.azure.com"))
}

fn route(path: &str) -> Route {
    let segments: Vec<String> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(decode)
        .collect();
    let lower: Vec<String> = segments.iter().map(|s| s.to_ascii_lowercase()).collect();
    let words: Vec<&str> = lower.iter().map(String::as_str).collect();
    let name = |index: usize| segments[index].clone();
    match words.as_slice() {
        ["metadata", "endpoints"] => Route::MetadataEndpoints,
        ["metadata", "identity", "oauth2", "token"] => Route::IdentityToken,
        [_, "discovery", "instance"] => Route::InstanceDiscovery,
        [_, "v2.0", ".well-known", "openid-configuration"]
        | [_, ".well-known", "openid-configuration"] => {
            Route::OpenIdConfiguration { tenant: name(0) }
        }
        [_, "oauth2", "v2.0", "token"] | [_, "oauth2", "token"] => Route::Token { tenant: name(0) },
        ["tenants"] => Route::Tenants,
        ["subscriptions"] => Route::Subscriptions,
        ["subscriptions", _] => Route::Subscription(name(1)),
        ["subscriptions", _, "resourcegroups", _] => Route::Group {
            subscription: name(1),
            name: name(3),
        },
        [
            "subscriptions",
            _,
            "providers",
            "microsoft.compute",
            rest @ ..,
        ] => in_subscription(&segments, rest),
        [
            "subscriptions",
            _,
            "resourcegroups",
            _,
            "providers",
            "microsoft.compute",
            rest @ ..,
        ] => in_group(&segments, rest),
        _ => Route::Unknown,
    }
}

/// Routes what comes after `/subscriptions/{s}/providers/Microsoft.Compute`.
fn in_subscription(segments: &[String], rest: &[&str]) -> Route {
    let name = |index: usize| segments[index].clone();
    let sets = |scope| Route::Sets {
        subscription: name(1),
        scope,
    };
    match rest {
        ["skus"] => Route::Skus,
        ["virtualmachinescalesets"] => sets(ListScope::Subscription),
        ["locations", _, "virtualmachinescalesets"] => sets(ListScope::Location(name(5))),
        ["locations", _, "usages"] => Route::Usages { location: name(5) },
        ["locations", _, "operations", guid] => Route::Operation {
            guid: (*guid).to_owned(),
        },
        ["locations", _, "publishers", ..]
        | ["locations", _, "communitygalleries", ..]
        | ["locations", _, "sharedgalleries", ..] => image_versions(segments, 6),
        _ => Route::Unknown,
    }
}

/// Routes what comes after `/subscriptions/{s}/resourceGroups/{g}/providers/Microsoft.Compute`.
fn in_group(segments: &[String], rest: &[&str]) -> Route {
    let set = || SetPath {
        subscription: segments[1].clone(),
        group: segments[3].clone(),
        name: segments[7].clone(),
    };
    match rest {
        ["virtualmachinescalesets"] => Route::Sets {
            subscription: segments[1].clone(),
            scope: ListScope::Group(segments[3].clone()),
        },
        ["virtualmachinescalesets", _] => Route::Set(set()),
        ["virtualmachinescalesets", _, "virtualmachines"] => Route::Vms(set()),
        ["virtualmachinescalesets", _, "virtualmachines", _] => {
            Route::Vm(set(), segments[9].clone())
        }
        ["virtualmachinescalesets", _, "virtualmachines", _, part] => {
            Route::VmPart(set(), segments[9].clone(), (*part).to_owned())
        }
        ["virtualmachinescalesets", _, part @ ..] => Route::SetPart(set(), part.join("/")),
        ["galleries", ..] => image_versions(segments, 6),
        _ => Route::Unknown,
    }
}

/// Image versions come as `…/versions` and `…/versions/{v}`, whatever is before.
fn image_versions(segments: &[String], from: usize) -> Route {
    let at = segments
        .iter()
        .position(|segment| segment.eq_ignore_ascii_case("versions"));
    match at {
        Some(at) if segments.len() <= at + 2 => Route::ImageVersions {
            rest: segments[from..].to_vec(),
        },
        _ => Route::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_parts_match_in_any_case_and_names_keep_theirs() {
        let path = "/Subscriptions/s/resourcegroups/RG-a/PROVIDERS/microsoft.compute/\
                    VIRTUALMACHINESCALESETS/Pool/virtualmachines/3/powerOff";
        let expected = SetPath {
            subscription: "s".to_owned(),
            group: "RG-a".to_owned(),
            name: "Pool".to_owned(),
        };
        let part = Route::VmPart(expected, "3".to_owned(), "poweroff".to_owned());
        assert_eq!(route(path), part);
        assert_eq!(route("/subscriptions/s/nonsense"), Route::Unknown);
    }

    #[test]
    fn queries_are_read_escaped_and_unescaped() {
        let both = pairs("$expand=instanceView&%24filter=a%20eq%20'b'&x=1+2&flag");
        let expected = [
            ("$expand", "instanceView"),
            ("$filter", "a eq 'b'"),
            ("x", "1 2"),
            ("flag", ""),
        ];
        assert_eq!(both, expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
    }
}
