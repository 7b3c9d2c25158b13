//! The others: nodes, drains, users and the autoscaler.

use weir_core::observed::{Departure, Limit, Node, Provisioning, Unhealthy};

use super::{Toy, revision};

impl Toy {
    /// Lets nodes join.
    pub(super) fn nodes(&mut self) {
        let (now, boot) = (self.now, self.boot);
        let is_bad = |i: &_| self.bad.iter().any(|bad| Some(revision(bad)) == *i);
        for instance in &mut self.instances {
            let is_up = instance.provisioning == Provisioning::Succeeded;
            let is_due = now >= instance.created + boot;
            if is_up && is_due && instance.node.is_none() && !is_bad(&instance.revision) {
                instance.node = Some(Node {
                    name: format!("node-{}", instance.id),
                    ready: true,
                    since: now,
                    cordoned_by_us: false,
                });
            }
        }
    }

    /// Lets drains end.
    pub(super) fn drains(&mut self) {
        let now = self.now;
        for instance in &mut self.instances {
            let Some(machine) = &mut instance.machine else {
                continue;
            };
            if let Departure::Draining { since, blocked_by } = &machine.departure {
                let takes = self.slow_drains.get(&instance.id).copied();
                let is_over = now >= *since + takes.unwrap_or_default();
                let timeout = self.drain_timeout;
                let is_timed_out = timeout.is_some_and(|timeout| now >= *since + timeout);
                if is_timed_out || blocked_by.is_none() && is_over {
                    machine.departure = Departure::Drained { since: now };
                }
            }
        }
    }

    /// Lets a blocked drain go on.
    pub fn unblock(&mut self, id: &str) {
        self.event("user", &format!("makes room for the pods of {id}"));
        self.blocked.retain(|blocked| blocked != id);
        if !self.has(id) {
            return;
        }
        let machine = self.instance(id).machine.as_mut().unwrap();
        if let Departure::Draining { blocked_by, .. } = &mut machine.departure {
            *blocked_by = None;
        }
    }

    /// The user asks for another count.
    pub fn scale(&mut self, replicas: u32) {
        self.event("user", &format!("asks for {replicas}"));
        self.pool.replicas = replicas;
    }

    /// The user changes the model.
    pub fn want(&mut self, name: &str) {
        self.event("user", &format!("wants {name}"));
        self.pool.revision = revision(name);
    }

    /// The user allows so many to be unavailable.
    pub fn allow_unavailable(&mut self, limit: Limit) {
        self.event("user", &format!("sets maxUnavailable to {limit}"));
        self.pool.max_unavailable = limit;
    }

    /// The user deletes the Machine of an instance.
    pub fn delete_machine(&mut self, id: &str) {
        self.event("user", &format!("deletes the Machine of {id}"));
        if self.instance(id).machine.is_some() {
            self.leave(id);
        }
    }

    /// The user, or a tool, marks an instance to go first in a scale-down.
    pub fn mark(&mut self, id: &str) {
        self.event("user", &format!("marks {id}"));
        self.instance(id).machine.as_mut().unwrap().delete_marked = true;
    }

    /// A health check wants an instance replaced.
    pub fn find_unhealthy(&mut self, id: &str, why: &str) {
        self.event("check", &format!("finds {id} unhealthy: {why}"));
        let (since, why) = (self.now, why.to_owned());
        self.instance(id).machine.as_mut().unwrap().unhealthy = Some(Unhealthy { since, why });
    }

    /// The user takes an instance's protection from scale-in away.
    pub fn unprotect(&mut self, id: &str) {
        self.event("user", &format!("no longer protects {id}"));
        self.instance(id).protected = false;
    }

    /// The user deletes the pool.
    pub fn delete_pool(&mut self) {
        self.event("user", "deletes the pool");
        self.pool.deleting = true;
    }

    /// Somebody deletes the scale set behind Weir's back.
    pub fn delete_scale_set(&mut self) {
        self.event("user", "deletes the scale set in Azure");
        self.scale_set.as_mut().unwrap().provisioning = Provisioning::Deleting;
    }

    /// The autoscaler asks Azure for more instances.
    pub fn autoscaler_adds(&mut self, count: u32) {
        self.event("scaler", &format!("adds {count}"));
        let scale_set = self.scale_set.as_mut().unwrap();
        scale_set.capacity += count;
        scale_set.provisioning = Provisioning::Updating;
        // Its doing, not ours: it may well ask for more than our ceiling.
        self.existed = self.asked_for();
    }

    /// The autoscaler deletes an instance in Azure, as far as it is still there to be deleted.
    pub fn autoscaler_takes(&mut self, id: &str) {
        self.take("scaler", id);
    }

    /// A user deletes an instance in Azure, as far as it is still there to be deleted.
    pub fn delete_in_azure(&mut self, id: &str) {
        self.take("user", id);
    }

    fn take(&mut self, who: &str, id: &str) {
        if self.has(id) && !self.instance(id).is_being_deleted() {
            self.event(who, &format!("deletes {id} in Azure"));
            self.instance(id).provisioning = Provisioning::Deleting;
            self.scale_set.as_mut().unwrap().capacity -= 1;
        }
    }

    /// A node stops being Ready, or is Ready again.
    pub fn node(&mut self, id: &str, ready: bool) {
        let now = self.now;
        let is = if ready { "is" } else { "is not" };
        self.event("node", &format!("{id} {is} Ready"));
        let node = self.instance(id).node.as_mut().unwrap();
        (node.ready, node.since) = (ready, now);
    }
}
