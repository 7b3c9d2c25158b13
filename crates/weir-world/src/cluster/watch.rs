//! Which changes does a client that watches get to see, and when?

use std::collections::VecDeque;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::fields;
use super::http::{Query, View, shown};
use super::kinds::Kind;
use super::refusal::Refusal;
use super::selector::Selector;
use super::server::{ApiServer, Change, ExpiredAs, ObjectName, Side, What};
use crate::tally::Fault;

/// One open watch of one of the API servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchId {
    /// The server that holds it.
    pub side: Side,
    /// Its number there.
    pub number: u64,
}

/// Whether a client wants bookmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bookmarks {
    Wanted { next_at: Timestamp },
    None,
}

#[derive(Clone, Debug)]
pub(super) struct Watch {
    kind: Kind,
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
    selector: Selector,
    view: View,
    /// The last version that was looked at.
    position: u64,
    queued: VecDeque<Value>,
    bookmarks: Bookmarks,
    deadline: Timestamp,
    is_broken: bool,
}

/// How often a quiet watch tells its version; kube-apiserver does so about once a minute.
const BOOKMARK_PERIOD: SignedDuration = SignedDuration::from_secs(60);

/// How long a watch lasts whose client sets no limit (kube-apiserver: 30 to 60 minutes).
const WATCH_SECONDS_DEFAULT: i64 = 1800;

/// What a watch is to show, taken from its request.
pub(super) struct WatchRequest<'a> {
    pub(super) resource: &'a str,
    pub(super) namespace: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) query: &'a Query,
    pub(super) view: View,
}

impl ApiServer {
    pub(super) fn open_watch(
        &mut self,
        now: Timestamp,
        request: &WatchRequest<'_>,
    ) -> Result<WatchId, Refusal> {
        let kind = self.kind(request.resource)?;
        let query = request.query;
        let selector = query.selector()?;
        let seconds = query
            .number("timeoutSeconds")
            .unwrap_or(WATCH_SECONDS_DEFAULT);
        let mut watch = Watch {
            kind,
            resource: request.resource.to_owned(),
            namespace: request.namespace.map(str::to_owned),
            name: request.name.map(str::to_owned),
            selector,
            view: request.view,
            position: self.revision,
            queued: VecDeque::new(),
            bookmarks: match query.is_true("allowWatchBookmarks") {
                true => Bookmarks::Wanted {
                    next_at: now + BOOKMARK_PERIOD,
                },
                false => Bookmarks::None,
            },
            deadline: now + SignedDuration::from_secs(seconds),
            is_broken: false,
        };
        let asked = query.get("resourceVersion");
        let asked = match asked {
            "" => 0,
            text => text.parse::<u64>().map_err(|_| {
                Refusal::bad_request(format!("Invalid value: \"{text}\": resourceVersion"))
            })?,
        };
        if query.is_true("sendInitialEvents") || asked == 0 {
            self.queue_initial(&mut watch, query);
        } else if asked < self.compacted {
            self.tally.count(Fault::WatchExpired);
            let refusal = Refusal::expired(asked, self.compacted);
            let as_response = match self.expired_as {
                ExpiredAs::Response => true,
                ExpiredAs::Event => false,
                ExpiredAs::Drawn => self.chance.below(2) == 0,
            };
            if as_response {
                return Err(refusal);
            }
            watch.fail(&refusal);
        } else {
            watch.position = asked;
        }
        self.watch_count += 1;
        self.watches.insert(self.watch_count, watch);
        Ok(WatchId {
            side: self.side,
            number: self.watch_count,
        })
    }

    fn queue_initial(&self, watch: &mut Watch, query: &Query) {
        let all = self.objects.get(&watch.resource).into_iter().flatten();
        for (id, stored) in all {
            if watch.covers(id) && watch.selector.matches(&stored.object) {
                watch.queue("ADDED", &stored.object);
            }
        }
        if query.is_true("sendInitialEvents") {
            let mut bookmark = watch.bookmark(self.revision);
            fields::set_annotation(&mut bookmark, "k8s.io/initial-events-end", "true");
            watch
                .queued
                .push_back(json!({"type": "BOOKMARK", "object": bookmark}));
        }
    }

    /// Returns the frames a watch has for its client, each a line of JSON; `None` once it ended.
    pub fn watch_poll(&mut self, id: WatchId, now: Timestamp) -> Option<Vec<Bytes>> {
        let mut watch = self.watches.remove(&id.number)?;
        self.collect_events(&mut watch, now);
        let line = |event: Value| Bytes::from(format!("{event}\n"));
        let frames: Vec<Bytes> = watch.queued.drain(..).map(line).collect();
        if watch.is_broken || watch.deadline <= now {
            self.say(now, format!("a watch of {} ended", watch.resource));
            return (!frames.is_empty()).then_some(frames);
        }
        self.watches.insert(id.number, watch);
        Some(frames)
    }

    /// Forgets a watch whose client has left.
    pub fn watch_close(&mut self, id: WatchId) {
        self.watches.remove(&id.number);
    }

    /// Returns how many watches are open.
    pub fn watch_count(&self) -> usize {
        self.watches.len()
    }

    fn collect_events(&mut self, watch: &mut Watch, now: Timestamp) {
        if watch.is_broken {
            return;
        }
        if watch.position < self.compacted {
            self.tally.count(Fault::WatchExpired);
            watch.fail(&Refusal::expired(watch.position, self.compacted));
            return;
        }
        let start = self
            .log
            .partition_point(|change| change.revision <= watch.position);
        for change in self.log.range(start..) {
            if change.visible_at > now {
                return;
            }
            watch.position = change.revision;
            watch.see(change);
        }
        if let Bookmarks::Wanted { next_at } = watch.bookmarks
            && next_at <= now
        {
            let bookmark = watch.bookmark(watch.position);
            watch
                .queued
                .push_back(json!({"type": "BOOKMARK", "object": bookmark}));
            watch.bookmarks = Bookmarks::Wanted {
                next_at: now + BOOKMARK_PERIOD,
            };
        }
    }

    /// Returns when the first change that is still hidden can be seen.
    pub(super) fn next_visible(&self, now: Timestamp) -> Option<Timestamp> {
        let last = self.log.back().filter(|change| change.visible_at > now)?;
        let start = self.log.partition_point(|change| change.visible_at <= now);
        self.log
            .get(start)
            .or(Some(last))
            .map(|change| change.visible_at)
    }

    /// Breaks open watches at the rate of the fault.
    pub(super) fn drop_watches(&mut self, now: Timestamp) {
        let rate = self.faults.watch_drop;
        if rate <= 0.0 {
            return;
        }
        let mut broken = 0;
        for watch in self.watches.values_mut() {
            if self.chance.happens(rate) {
                watch.is_broken = true;
                broken += 1;
            }
        }
        if broken > 0 {
            self.tally.add(Fault::WatchBroke, broken);
            self.say(now, format!("{broken} watches broke"));
        }
    }
}

impl Watch {
    fn covers(&self, id: &ObjectName) -> bool {
        self.namespace
            .as_ref()
            .is_none_or(|namespace| *namespace == id.namespace)
            && self.name.as_ref().is_none_or(|name| *name == id.name)
    }

    fn see(&mut self, change: &Change) {
        if change.target.resource != self.resource || !self.covers(&change.target.id) {
            return;
        }
        let is_picked = self.selector.matches(&change.object);
        let was_picked = change
            .previous
            .as_ref()
            .is_some_and(|previous| self.selector.matches(previous));
        let word = match (change.what, was_picked, is_picked) {
            (What::Added, _, true) | (What::Modified, false, true) => "ADDED",
            (What::Modified, true, true) => "MODIFIED",
            (What::Deleted, true, _) | (What::Modified, true, false) => "DELETED",
            (What::Deleted, false, true) => "DELETED",
            (_, _, false) => return,
        };
        self.queue(word, &change.object);
    }

    fn queue(&mut self, word: &str, object: &Value) {
        let object = shown(object, self.view);
        self.queued
            .push_back(json!({"type": word, "object": object}));
    }

    fn fail(&mut self, refusal: &Refusal) {
        self.queued
            .push_back(json!({"type": "ERROR", "object": refusal.to_status()}));
        self.is_broken = true;
    }

    fn bookmark(&self, revision: u64) -> Value {
        let (version, kind) = match self.view {
            View::Whole => (self.kind.api_version(), self.kind.kind.as_str()),
            View::Metadata => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadata"),
        };
        json!({"apiVersion": version, "kind": kind, "metadata": {
            "resourceVersion": revision.to_string(), "creationTimestamp": null}})
    }
}
