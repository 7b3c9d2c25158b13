//! What did the controllers ask for, in which turn, and what made them take that turn?

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use jiff::Timestamp;
use weir_controllers::wake::Work;
use weir_world::world::Endpoint;

/// What the controllers did, as far as it is written down.
#[derive(Clone, Debug, Default)]
pub struct Diary {
    /// Turns of pools and requests, in their order.
    pub entries: Vec<Entry>,
    /// Real time spent in the controllers and their clients.
    pub in_controllers: Duration,
    /// Real time spent in the world and on the way to it.
    pub in_world: Duration,
    why: BTreeMap<Work, BTreeMap<&'static str, Timestamp>>,
}

/// One line of the diary.
#[derive(Clone, Debug)]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: Did,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    /// A turn of a pool began.
    Turn {
        /// What made it begin: kinds of events, or a time that was set before.
        because: Vec<&'static str>,
    },
    /// Azure was asked.
    Azure {
        /// For what.
        what: Ask,
        /// The status of the answer.
        status: u16,
    },
    /// An object was written.
    Wrote {
        /// The verb and the resource, such as `PATCH machines/status`.
        what: String,
    },
}

/// The kinds of request to Azure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ask {
    /// GET of the scale set.
    GetSet,
    /// One page of its instances.
    ListPage,
    /// PUT of the scale set.
    PutSet,
    /// PATCH of the scale set.
    PatchSet,
    /// Deletion of instances.
    DeleteInstances,
    /// The state of an operation.
    Poll,
    /// Anything else.
    Other,
}

impl Ask {
    /// Returns a short name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Ask::GetSet => "get-set",
            Ask::ListPage => "list-page",
            Ask::PutSet => "put-set",
            Ask::PatchSet => "patch-set",
            Ask::DeleteInstances => "delete-instances",
            Ask::Poll => "poll",
            Ask::Other => "other",
        }
    }

    /// Returns whether it changes something.
    #[must_use]
    pub fn is_write(self) -> bool {
        match self {
            Ask::PutSet | Ask::PatchSet | Ask::DeleteInstances => true,
            Ask::GetSet | Ask::ListPage | Ask::Poll | Ask::Other => false,
        }
    }

    fn of(request: &Request<Bytes>) -> Ask {
        let path = request.uri().path().to_ascii_lowercase();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        if parts.iter().any(|part| part.starts_with("operation")) {
            return Ask::Poll;
        }
        let set = parts
            .iter()
            .position(|part| *part == "virtualmachinescalesets");
        let below = set.map(|set| &parts[(set + 2).min(parts.len())..]);
        match (below, request.method()) {
            (Some([]), &Method::GET) => Ask::GetSet,
            (Some([]), &Method::PUT) => Ask::PutSet,
            (Some([]), &Method::PATCH) => Ask::PatchSet,
            (Some(["virtualmachines"]), &Method::GET) => Ask::ListPage,
            (Some(["delete"]), &Method::POST) => Ask::DeleteInstances,
            _ => Ask::Other,
        }
    }
}

impl Diary {
    /// Writes down a request that was answered. Reads of Kubernetes are left out.
    pub(crate) fn answered(
        &mut self,
        at: Timestamp,
        endpoint: Endpoint,
        request: &Request<Bytes>,
        status: u16,
    ) {
        let what = match endpoint {
            Endpoint::Azure => Did::Azure {
                what: Ask::of(request),
                status,
            },
            Endpoint::Management | Endpoint::Workload => {
                if request.method() == Method::GET {
                    return;
                }
                let what = object_write(request);
                Did::Wrote { what }
            }
        };
        self.entries.push(Entry { at, what });
    }

    /// Notes that a turn is due for a reason.
    pub(crate) fn due(&mut self, work: &Work, why: &'static str, at: Timestamp) {
        let reasons = self.why.entry(work.clone()).or_default();
        let due = reasons.entry(why).or_insert(at);
        *due = (*due).min(at);
    }

    /// Writes down that a turn begins.
    pub(crate) fn begins(&mut self, work: &Work, at: Timestamp) {
        let reasons = self.why.remove(work).unwrap_or_default();
        if let Work::Pool(_) = work {
            let met = reasons.into_iter().filter(|(_, due)| *due <= at);
            let because: BTreeSet<_> = met.map(|(why, _)| why).collect();
            let because = because.into_iter().collect();
            let what = Did::Turn { because };
            self.entries.push(Entry { at, what });
        }
    }
}

/// Names a write by its verb, its resource and its subresource.
fn object_write(request: &Request<Bytes>) -> String {
    let mut parts = request.uri().path().split('/').skip(1);
    // /api/v1/… and /apis/GROUP/VERSION/…, then namespaces/NAME/ for most.
    let skipped = if parts.next() == Some("api") { 1 } else { 2 };
    let rest: Vec<&str> = parts.skip(skipped).collect();
    let rest = match rest.as_slice() {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        rest => rest,
    };
    let resource = rest.first().unwrap_or(&"");
    let sub = rest.get(2).map(|sub| format!("/{sub}")).unwrap_or_default();
    format!("{} {resource}{sub}", request.method())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, path: &str) -> Request<Bytes> {
        Request::builder()
            .method(method)
            .uri(path)
            .body(Bytes::new())
            .expect("a valid request")
    }

    #[test]
    fn requests_to_azure_are_told_apart_by_path_and_verb() {
        let set = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/\
                   virtualMachineScaleSets/pool";
        let rows = [
            ("GET", set.to_owned(), Ask::GetSet),
            ("PUT", set.to_owned(), Ask::PutSet),
            ("PATCH", set.to_owned(), Ask::PatchSet),
            ("GET", format!("{set}/virtualMachines"), Ask::ListPage),
            ("POST", format!("{set}/delete"), Ask::DeleteInstances),
            (
                "GET",
                "/subscriptions/s/providers/Microsoft.Compute/locations/l/operations/1".to_owned(),
                Ask::Poll,
            ),
        ];
        for (method, path, ask) in rows {
            assert_eq!(Ask::of(&request(method, &path)), ask, "{method} {path}");
        }
    }

    #[test]
    fn writes_of_objects_are_named_by_verb_and_resource() {
        let rows = [
            ("POST", "/api/v1/namespaces/n/events", "POST events"),
            (
                "PATCH",
                "/apis/g.io/v1/namespaces/n/pools/p/status",
                "PATCH pools/status",
            ),
            (
                "DELETE",
                "/apis/g.io/v1/namespaces/n/machines/m",
                "DELETE machines",
            ),
            ("PATCH", "/api/v1/nodes/a", "PATCH nodes"),
        ];
        for (method, path, name) in rows {
            assert_eq!(object_write(&request(method, path)), name, "{path}");
        }
    }
}
