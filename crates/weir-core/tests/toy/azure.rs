//! Azure's part: takes or refuses writes, makes instances, deletes them, and fails.

use jiff::{SignedDuration, Timestamp};
use weir_core::observed::{
    Instance, Machine, Power, Provisioning, Refusal, Revision, ScaleSet, instance_order,
};

use super::Toy;

/// How Azure says that it has no room for more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Refuses {
    /// The write is answered with an error and changes nothing, as when a quota is used up.
    AtOnce,
    /// The operation fails later: the raised capacity stays, what is missing is not made.
    Later,
    /// The operation fails later, and leaves instances without a machine.
    LeavingHulks,
}

/// What the controllers keep of a refusal.
pub(super) struct Standing {
    pub refusal: Refusal,
    pub revision: Revision,
    tries: i32,
}

const NO_ROOM: &str = "AllocationFailed";

impl Toy {
    /// Takes a write of capacity, with or without the wanted model, or refuses it whole.
    pub(super) fn ask(&mut self, capacity: u32, with_model: bool) {
        let before = self.scale_set.as_ref().map_or(0, |set| set.capacity);
        let deleting = self.instances.iter().filter(|i| i.is_being_deleted());
        let total = capacity + deleting.count() as u32;
        let no_room = self.room.is_some_and(|room| total > room);
        if no_room && capacity > before && self.refuses == Refuses::AtOnce {
            self.event("azure", "409 QuotaExceeded");
            let listed = self.instances.len() as u32;
            let live = self.instances.iter().filter(|i| !i.is_being_deleted());
            let pending = before.saturating_sub(live.count() as u32);
            return self.refuse("QuotaExceeded", listed + pending);
        }
        let revision = match &self.scale_set {
            Some(scale_set) if !with_model => scale_set.revision.clone(),
            _ => Some(self.pool.revision.clone()),
        };
        self.scale_set = Some(ScaleSet {
            capacity,
            revision,
            provisioning: Provisioning::Updating,
        });
    }

    /// Accepts a delete, which lowers the capacity at once, or refuses it while another one runs.
    pub(super) fn delete(&mut self, ids: &[String]) {
        let running = self.instances.iter().any(Instance::is_being_deleted);
        if running && self.one_delete_at_a_time {
            self.event("azure", "409 Conflict: a delete is running");
            self.collided = true;
            return;
        }
        for id in ids {
            self.instance(id).provisioning = Provisioning::Deleting;
        }
        self.scale_set.as_mut().unwrap().capacity -= ids.len() as u32;
    }

    /// Remembers a refusal as the controllers do: asked again at growing intervals.
    fn refuse(&mut self, code: &str, fits: u32) {
        let revision = self.pool.revision.clone();
        let before = self.standing.take().filter(|s| s.revision == revision);
        let tries = before.as_ref().map_or(0, |standing| standing.tries);
        let pause = SignedDuration::from_mins(1) * 2_i32.pow(tries.min(10) as u32);
        let refusal = Refusal {
            code: code.to_owned(),
            message: "no room for more".to_owned(),
            since: before.map_or(self.now, |standing| standing.refusal.since),
            retry_at: self.now + pause.min(SignedDuration::from_mins(15)),
            fits,
        };
        self.standing = Some(Standing {
            refusal,
            revision,
            tries: tries + 1,
        });
    }

    /// Lets Azure work for a while.
    pub(super) fn azure(&mut self) {
        let Some(scale_set) = self.scale_set.clone().filter(|_| !self.azure_sleeps) else {
            return;
        };
        if scale_set.provisioning == Provisioning::Deleting {
            self.scale_set = None;
            let gone = self.instances.drain(..);
            self.orphans.extend(gone.filter_map(|i| i.machine));
            return;
        }
        self.finish_deletions();
        let mut end = match scale_set.provisioning.clone() {
            Provisioning::Updating => Provisioning::Succeeded,
            at_rest => at_rest,
        };
        for instance in &mut self.instances {
            if instance.provisioning == Provisioning::Creating {
                instance.power = Power::Running;
                instance.provisioning = Provisioning::Succeeded;
                if self.fail_next > 0 {
                    self.fail_next -= 1;
                    let code = "OSProvisioningTimedOut".to_owned();
                    instance.provisioning = Provisioning::Failed(code.clone());
                    end = Provisioning::Failed(code);
                }
            }
        }
        if scale_set.provisioning == Provisioning::Updating && !self.make(&scale_set) {
            end = Provisioning::Failed(NO_ROOM.to_owned());
        }
        let is_made = |i: &Instance| i.provisioning != Provisioning::Creating;
        if self.instances.iter().all(is_made) || end != Provisioning::Succeeded {
            self.scale_set.as_mut().unwrap().provisioning = end;
        }
        self.instances.sort_by_key(|i| instance_order(&i.id));
        self.learn();
    }

    fn finish_deletions(&mut self) {
        let mut gone: Vec<Machine> = Vec::new();
        for instance in std::mem::take(&mut self.instances) {
            if instance.is_being_deleted() {
                let moves = self.deleting.entry(instance.id.clone()).or_default();
                *moves += 1;
                if *moves >= self.deletion_takes {
                    self.deleted += 1;
                    gone.extend(instance.machine);
                    continue;
                }
            }
            self.instances.push(instance);
        }
        self.orphans.extend(gone);
    }

    /// Makes what is missing; returns whether there was room for all.
    fn make(&mut self, scale_set: &ScaleSet) -> bool {
        let live = self.instances.iter().filter(|i| !i.is_being_deleted());
        let missing = scale_set.capacity.saturating_sub(live.count() as u32);
        let is_hulk = |i: &&Instance| i.provisioning == Provisioning::Failed(NO_ROOM.to_owned());
        for made in 0..missing {
            let hulks = self.instances.iter().filter(is_hulk).count();
            let used = (self.instances.len() - hulks) as u32;
            let has_room = self.room.is_none_or(|room| used < room);
            if !has_room && self.refuses != Refuses::LeavingHulks {
                return made == missing;
            }
            let mut instance = self.newborn(scale_set.revision.clone());
            if has_room {
                self.made += 1;
            } else {
                instance.provisioning = Provisioning::Failed(NO_ROOM.to_owned());
            }
            self.instances.push(instance);
        }
        !self.instances.iter().any(|i| is_hulk(&i))
    }

    fn newborn(&mut self, revision: Option<Revision>) -> Instance {
        let id = self.next_id.to_string();
        self.next_id += 1;
        Instance {
            vm_id: format!("vm-{id}"),
            id,
            created: self.now,
            provisioning: Provisioning::Creating,
            power: Power::Unknown,
            zone: (self.zones > 0).then(|| (self.next_id % self.zones + 1).to_string()),
            protected: false,
            revision,
            machine: None,
            node: None,
        }
    }

    /// What the controllers learn from looking: creations that failed, and that more can be had.
    fn learn(&mut self) {
        let hulk = Provisioning::Failed(NO_ROOM.to_owned());
        let (hulks, made): (Vec<_>, Vec<_>) =
            self.instances.iter().partition(|i| i.provisioning == hulk);
        let live = self.instances.iter().filter(|i| !i.is_being_deleted());
        let scale_set = self.scale_set.as_ref().unwrap();
        let missing = scale_set.provisioning == hulk && scale_set.capacity > live.count() as u32;
        let mut signs: Vec<String> = hulks.iter().map(|i| i.id.clone()).collect();
        signs.extend(missing.then(|| "missing".to_owned()));
        let made = made.len() as u32;
        if self
            .standing
            .as_ref()
            .is_some_and(|s| made > s.refusal.fits)
        {
            self.standing = None;
        }
        let is_news = signs.iter().any(|sign| !self.counted.contains(sign));
        self.counted = signs.into_iter().collect();
        if is_news {
            self.event("azure", "the operation failed: AllocationFailed");
            self.refuse(NO_ROOM, made);
        }
    }

    /// Takes an instance away as a platform fault does.
    pub fn vanish(&mut self, id: &str) {
        self.event("azure", &format!("loses {id}"));
        let at = self.instances.iter().position(|i| i.id == id).unwrap();
        let instance = self.instances.remove(at);
        self.orphans.extend(instance.machine);
        if !matches!(instance.provisioning, Provisioning::Deleting) {
            self.scale_set.as_mut().unwrap().capacity -= 1;
        }
    }

    /// Stops the machine of an instance, and its node with it.
    pub fn stop(&mut self, id: &str) {
        self.event("azure", &format!("stops {id}"));
        self.instance(id).power = Power::Stopped;
        let since: Timestamp = self.now;
        let node = self.instance(id).node.as_mut().unwrap();
        (node.ready, node.since) = (false, since);
    }
}
