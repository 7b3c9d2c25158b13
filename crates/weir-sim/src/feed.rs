//! Caches fed from the world's watches, one event at a time and as late as the rig likes.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use bytes::Bytes;
use http::Request;
use k8s_openapi::api::core::v1::Node;
use kube::core::WatchEvent;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use weir_controllers::Key;
use weir_controllers::caches::Caches;
use weir_controllers::wake::{self, Followed, Work};
use weir_world::cluster::{Reply, WatchId};
use weir_world::world::{Endpoint, World};

/// A kind whose events wake reconcilers.
pub(crate) trait Fed: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned {
    fn endpoint() -> Endpoint;
    fn told(&self) -> String;
    fn concerns(&self, caches: &Caches) -> Vec<Work>;
}

impl<K> Fed for K
where
    K: Followed + Clone + Debug + DeserializeOwned,
{
    fn endpoint() -> Endpoint {
        Endpoint::Management
    }

    fn told(&self) -> String {
        self.news()
    }

    fn concerns(&self, caches: &Caches) -> Vec<Work> {
        self.wakes(caches)
    }
}

/// One watch and the cache that it fills.
pub(crate) trait Feed {
    /// Reads from the world what is new, without telling anybody.
    fn pull(&mut self, world: &mut World);
    /// Returns whether there is something to deliver.
    fn has_news(&self) -> bool;
    /// Returns whether the cache ever held everything.
    fn is_filled(&self) -> bool;
    /// Puts one event into the cache and returns whom it concerns.
    fn deliver(&mut self, caches: &Caches) -> Vec<Work>;
    /// Lets the next event be delivered twice.
    fn repeat(&mut self);
}

/// A watch of the management cluster.
pub(crate) struct Watch<K: kube::runtime::reflector::Lookup<DynamicType = ()> + Clone + 'static> {
    writer: Writer<K>,
    line: Line<K>,
    news: BTreeMap<Key, String>,
}

impl<K> Watch<K>
where
    K: Fed + 'static,
{
    pub(crate) fn new(writer: Writer<K>) -> Watch<K> {
        Watch {
            writer,
            line: Line::new(K::endpoint()),
            news: BTreeMap::new(),
        }
    }
}

impl<K> Feed for Watch<K>
where
    K: Fed + 'static,
{
    fn pull(&mut self, world: &mut World) {
        self.line.pull(world);
    }

    fn has_news(&self) -> bool {
        !self.line.waiting.is_empty()
    }

    fn is_filled(&self) -> bool {
        self.line.filled
    }

    fn repeat(&mut self) {
        self.line.repeat();
    }

    fn deliver(&mut self, caches: &Caches) -> Vec<Work> {
        let Some(event) = self.line.next() else {
            return Vec::new();
        };
        self.writer.apply_watcher_event(&event);
        match &event {
            Event::Apply(object) | Event::InitApply(object) => {
                let told = object.told();
                let key = Key::of(object);
                if self.news.insert(key, told.clone()) == Some(told) {
                    return Vec::new();
                }
                object.concerns(caches)
            }
            Event::Delete(object) => {
                self.news.remove(&Key::of(object));
                object.concerns(caches)
            }
            Event::Init | Event::InitDone => Vec::new(),
        }
    }
}

/// A watch of the nodes of a workload cluster.
pub(crate) struct Nodes {
    cluster: Key,
    writer: Writer<Node>,
    line: Line<Node>,
    news: BTreeMap<String, String>,
}

impl Nodes {
    pub(crate) fn new(cluster: Key, writer: Writer<Node>) -> Nodes {
        Nodes {
            cluster,
            writer,
            line: Line::new(Endpoint::Workload),
            news: BTreeMap::new(),
        }
    }
}

impl Feed for Nodes {
    fn pull(&mut self, world: &mut World) {
        self.line.pull(world);
    }

    fn has_news(&self) -> bool {
        !self.line.waiting.is_empty()
    }

    fn is_filled(&self) -> bool {
        self.line.filled
    }

    fn repeat(&mut self) {
        self.line.repeat();
    }

    fn deliver(&mut self, caches: &Caches) -> Vec<Work> {
        let Some(event) = self.line.next() else {
            return Vec::new();
        };
        self.writer.apply_watcher_event(&event);
        let node = match &event {
            Event::Apply(node) | Event::InitApply(node) => {
                let told = wake::node_news(node);
                if self.news.insert(node.name_any(), told.clone()) == Some(told) {
                    return Vec::new();
                }
                node
            }
            Event::Delete(node) => {
                self.news.remove(&node.name_any());
                node
            }
            Event::Init | Event::InitDone => return Vec::new(),
        };
        let pools = wake::pools_of_node(node, &self.cluster, caches);
        pools.into_iter().map(Work::Pool).collect()
    }
}

/// The events of one kind, as they come from the world: a list first, then a watch.
struct Line<K> {
    endpoint: Endpoint,
    watch: Option<WatchId>,
    version: Option<String>,
    waiting: VecDeque<Event<K>>,
    filled: bool,
}

impl<K> Line<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    fn new(endpoint: Endpoint) -> Line<K> {
        Line {
            endpoint,
            watch: None,
            version: None,
            waiting: VecDeque::new(),
            filled: false,
        }
    }

    fn pull(&mut self, world: &mut World) {
        let Some(id) = self.watch else {
            return self.open(world);
        };
        let Some(frames) = world.watch_poll(id) else {
            self.watch = None;
            return;
        };
        for frame in frames {
            for line in frame
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
            {
                let event = serde_json::from_slice(line).expect("the world writes watch events");
                self.take(event);
            }
        }
    }

    /// A change is told once more, as after a watch that broke; lists are told as a whole.
    fn repeat(&mut self) {
        let again = match self.waiting.front() {
            Some(Event::Apply(object)) => Some(Event::Apply(object.clone())),
            Some(Event::Delete(object)) => Some(Event::Delete(object.clone())),
            _ => None,
        };
        if let Some(event) = again {
            self.waiting.push_front(event);
        }
    }

    fn next(&mut self) -> Option<Event<K>> {
        let event = self.waiting.pop_front();
        self.filled |= matches!(event, Some(Event::InitDone));
        event
    }

    fn take(&mut self, event: WatchEvent<K>) {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.version = object.resource_version();
                self.waiting.push_back(Event::Apply(object));
            }
            WatchEvent::Deleted(object) => {
                self.version = object.resource_version();
                self.waiting.push_back(Event::Delete(object));
            }
            WatchEvent::Bookmark(mark) => self.version = Some(mark.metadata.resource_version),
            WatchEvent::Error(_) => {
                self.watch = None;
                self.version = None;
            }
        }
    }

    /// Opens the watch where the last one ended, or after a fresh list.
    fn open(&mut self, world: &mut World) {
        let path = K::url_path(&(), None);
        if self.version.is_none() {
            let Reply::Response(answer) = world.handle(self.endpoint, &get(&path)) else {
                return;
            };
            if !answer.status().is_success() {
                return;
            }
            let list: Value = serde_json::from_slice(answer.body()).expect("a list is JSON");
            self.version = list["metadata"]["resourceVersion"]
                .as_str()
                .map(str::to_owned);
            self.waiting.push_back(Event::Init);
            for item in list["items"].as_array().into_iter().flatten() {
                let object = serde_json::from_value(item.clone()).expect("an item is of its kind");
                self.waiting.push_back(Event::InitApply(object));
            }
            self.waiting.push_back(Event::InitDone);
        }
        let version = self.version.as_deref().unwrap_or("0");
        let watch = format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={version}");
        match world.handle(self.endpoint, &get(&watch)) {
            Reply::Watch(id) => self.watch = Some(id),
            // Refused (an old version, a fault): begin with a list at the next pull.
            Reply::Response(_) => self.version = None,
        }
    }
}

fn get(path: &str) -> Request<Bytes> {
    Request::get(path)
        .body(Bytes::new())
        .expect("a path is a valid request")
}
