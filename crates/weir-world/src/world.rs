//! What is the state of the whole world, and what happens next in it?
//!
//! Sans-IO: requests go in and answers come out, time moves only when told to. The same world
//! serves tests that step it, simulations that jump to [`World::next_due`], and the demo.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::refusal::Refusal;
use crate::cluster::server::{Faults, Reach, WriteOptions};
use crate::cluster::{ApiServer, Reply, Side, Target, WatchId, patch};
use crate::trace::{Trace, TraceEntry};

/// Whom a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// The API server with the Cluster API objects.
    Management,
    /// The API server with nodes and pods.
    Workload,
    /// Azure Resource Manager.
    Azure,
}

/// How the world behaves.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// The time at which it starts.
    pub start: Timestamp,
    /// How the management API server misbehaves.
    pub management_faults: Faults,
    /// How the workload API server misbehaves.
    pub workload_faults: Faults,
}

impl Default for WorldOptions {
    fn default() -> WorldOptions {
        WorldOptions {
            start: Timestamp::constant(1_767_225_600, 0),
            management_faults: Faults::default(),
            workload_faults: Faults::default(),
        }
    }
}

/// The simulated world.
#[derive(Debug)]
pub struct World {
    now: Timestamp,
    management: ApiServer,
    workload: ApiServer,
    trace: Trace,
}

impl World {
    /// Makes a world. Two worlds with equal options, seed and requests are equal for ever.
    pub fn new(options: WorldOptions, seed: u64) -> World {
        let mut management = ApiServer::new(Side::Management, seed);
        let mut workload = ApiServer::new(Side::Workload, seed);
        management.set_faults(options.management_faults);
        workload.set_faults(options.workload_faults);
        World {
            now: options.start,
            management,
            workload,
            trace: Trace::default(),
        }
    }

    /// Returns the world's time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Answers a request at the present time.
    pub fn handle(&mut self, endpoint: Endpoint, request: &Request<Bytes>) -> Reply {
        let now = self.now;
        let reply = match endpoint {
            Endpoint::Management => self.management.handle(request, now),
            Endpoint::Workload => self.workload.handle(request, now),
            Endpoint::Azure => Reply::Response(Refusal::no_such_path().to_response()),
        };
        self.settle();
        reply
    }

    /// Returns a watch's frames that are due; `None` once it has ended.
    pub fn watch_poll(&mut self, id: WatchId) -> Option<Vec<Bytes>> {
        let now = self.now;
        let frames = self.server_mut(id.side).watch_poll(id, now);
        self.settle();
        frames
    }

    /// Forgets a watch whose client has left.
    pub fn watch_close(&mut self, id: WatchId) {
        self.server_mut(id.side).watch_close(id);
    }

    /// Returns when the world has something to do by itself, if ever.
    pub fn next_due(&self) -> Option<Timestamp> {
        let times = [
            self.management.next_due(self.now),
            self.workload.next_due(self.now),
        ];
        times.into_iter().flatten().min().map(|at| at.max(self.now))
    }

    /// Moves time forward, doing on the way what is due, in order.
    pub fn advance(&mut self, to: Timestamp) {
        while let Some(at) = self.next_due().filter(|at| *at <= to) {
            self.now = at;
            self.management.advance(at);
            self.workload.advance(at);
            self.settle();
        }
        self.now = self.now.max(to);
    }

    /// Passes on what the servers just changed, and collects their lines.
    fn settle(&mut self) {
        for server in [&mut self.management, &mut self.workload] {
            self.trace.extend(server.take_lines());
            drop(server.take_changes());
        }
    }

    /// Returns everything that happened, oldest first.
    pub fn trace(&self) -> &[TraceEntry] {
        self.trace.entries()
    }

    /// Returns a hash of everything that happened.
    pub fn fingerprint(&self) -> u64 {
        self.trace.fingerprint()
    }

    /// Returns one of the API servers.
    pub fn server(&self, side: Side) -> &ApiServer {
        match side {
            Side::Management => &self.management,
            Side::Workload => &self.workload,
        }
    }

    /// Returns one of the API servers, to change how it behaves.
    pub fn server_mut(&mut self, side: Side) -> &mut ApiServer {
        match side {
            Side::Management => &mut self.management,
            Side::Workload => &mut self.workload,
        }
    }

    /// Returns an object.
    pub fn get(&self, side: Side, target: &Target) -> Option<Arc<Value>> {
        self.server(side).get(target)
    }

    /// Creates an object as a user would, but with its `status`.
    ///
    /// # Errors
    /// As the API server's.
    pub fn create(&mut self, side: Side, object: Value) -> Result<Arc<Value>, Refusal> {
        let now = self.now;
        let options = WriteOptions::controller("user");
        let created = self.server_mut(side).create(now, object, &options);
        self.settle();
        created
    }

    /// Changes an object with a merge patch, as a user would. `reach` says which part.
    ///
    /// # Errors
    /// As the API server's.
    pub fn patch(
        &mut self,
        side: Side,
        target: &Target,
        reach: Reach,
        change: &Value,
    ) -> Result<Arc<Value>, Refusal> {
        let now = self.now;
        let options = WriteOptions {
            reach,
            ..WriteOptions::controller("user")
        };
        let server = self.server_mut(side);
        let live = server.get(target);
        let proposed = patch::merge(live.as_deref().unwrap_or(&Value::Null), change);
        let written = server.rewrite(now, target, &options, proposed);
        self.settle();
        written
    }

    /// Deletes an object as a user would.
    ///
    /// # Errors
    /// As the API server's.
    pub fn delete(&mut self, side: Side, target: &Target) -> Result<Arc<Value>, Refusal> {
        let now = self.now;
        let options = crate::cluster::collect::DeleteOptions::by("user");
        let last = self.server_mut(side).delete(now, target, &options);
        self.settle();
        last
    }
}
