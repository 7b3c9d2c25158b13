//! What does chance decide next?

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::rng::Rng;

/// How long something takes: most draws lie within `median ± spread`, all lie above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// The middle of the draws.
    pub median: SignedDuration,
    /// The largest distance from the middle.
    pub spread: SignedDuration,
}

impl Latency {
    /// Returns a latency given in milliseconds.
    pub const fn from_millis(median: i64, spread: i64) -> Latency {
        Latency {
            median: SignedDuration::from_millis(median),
            spread: SignedDuration::from_millis(spread),
        }
    }

    /// Returns a latency given in seconds.
    pub const fn from_secs(median: i64, spread: i64) -> Latency {
        Latency::from_millis(median * 1000, spread * 1000)
    }
}

/// One stream of random draws, in the terms of a cluster.
#[derive(Clone, Debug)]
pub struct Draws {
    rng: Rng,
}

impl Draws {
    /// Starts the stream of this name.
    pub fn new(seed: u64, stream: &str) -> Draws {
        Draws {
            rng: Rng::from_seed_and_stream(seed, stream),
        }
    }

    /// Returns a number below `limit`; zero when the limit is zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.rng.below(limit)
    }

    /// Returns true in this share of the draws. Draws nothing when the rate is zero.
    pub fn happens(&mut self, rate: f64) -> bool {
        rate > 0.0 && self.rng.chance(rate)
    }

    /// Draws how long something takes, at least a millisecond.
    pub fn span(&mut self, latency: Latency) -> SignedDuration {
        let Latency { median, spread } = latency;
        let spread = spread.as_millis().max(0) as u64;
        // The sum of two draws gathers around the middle, as real delays do.
        let offset = self.below(spread + 1) + self.below(spread + 1);
        let millis = median.as_millis() as i64 - spread as i64 + offset as i64;
        SignedDuration::from_millis(millis.max(1))
    }

    /// Draws when something that starts at `now` is done.
    pub fn due(&mut self, now: Timestamp, latency: Latency) -> Timestamp {
        now + self.span(latency)
    }

    /// Draws a version 4 UUID.
    pub fn uuid(&mut self) -> String {
        self.rng.uuid()
    }

    /// Draws the suffix of a generated name, in the alphabet of Kubernetes.
    pub fn suffix(&mut self) -> String {
        /// Without vowels and look-alikes, as in `k8s.io/apimachinery/pkg/util/rand`.
        const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let letter =
            |draws: &mut Draws| char::from(ALPHABET[draws.below(ALPHABET.len() as u64) as usize]);
        (0..5).map(|_| letter(self)).collect()
    }
}
