//! Which key has to be looked at, and when?

use std::collections::BTreeMap;

use jiff::Timestamp;

/// Keys with the time each is due, at most one time per key.
///
/// Keys due at the same instant come out in the order in which they were put in.
#[derive(Clone, Debug)]
pub struct Agenda<K> {
    due: BTreeMap<(Timestamp, u64), K>,
    place: BTreeMap<K, (Timestamp, u64)>,
    sequence: u64,
}

impl<K> Default for Agenda<K> {
    fn default() -> Agenda<K> {
        Agenda {
            due: BTreeMap::new(),
            place: BTreeMap::new(),
            sequence: 0,
        }
    }
}

impl<K: Ord + Clone> Agenda<K> {
    /// Puts a key in; an earlier time that it already has wins.
    pub fn add(&mut self, at: Timestamp, key: K) {
        if self
            .place
            .get(&key)
            .is_some_and(|(planned, _)| *planned <= at)
        {
            return;
        }
        self.cancel(&key);
        self.sequence += 1;
        self.place.insert(key.clone(), (at, self.sequence));
        self.due.insert((at, self.sequence), key);
    }

    /// Takes a key out.
    pub fn cancel(&mut self, key: &K) {
        if let Some(place) = self.place.remove(key) {
            self.due.remove(&place);
        }
    }

    /// Returns whether the key is in.
    pub fn contains(&self, key: &K) -> bool {
        self.place.contains_key(key)
    }

    /// Returns the time of a key.
    pub fn planned(&self, key: &K) -> Option<Timestamp> {
        self.place.get(key).map(|(at, _)| *at)
    }

    /// Returns the time of the first key.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    /// Takes out the first key that is due by `now`.
    pub fn pop(&mut self, now: Timestamp) -> Option<K> {
        let entry = self
            .due
            .first_entry()
            .filter(|entry| entry.key().0 <= now)?;
        let key = entry.remove();
        self.place.remove(&key);
        Some(key)
    }
}
