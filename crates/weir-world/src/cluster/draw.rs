//! What does chance decide next?

use jiff::{SignedDuration, Timestamp};

/// How long something takes: most draws lie within `median ± spread`, all lie above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// One stream of random draws: SplitMix64, started from the seed and the stream's name.
#[derive(Clone, Debug)]
pub struct Draws {
    state: u64,
}

impl Draws {
    /// Starts the stream of this name.
    pub fn new(seed: u64, stream: &str) -> Draws {
        let name = stream
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            });
        Draws { state: seed ^ name }
    }

    /// Returns the next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`; zero when the limit is zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        match limit {
            0 => 0,
            _ => self.bits() % limit,
        }
    }

    /// Returns true in this share of the draws. Draws nothing when the rate is zero.
    pub fn happens(&mut self, rate: f64) -> bool {
        /// 2^53: every integer below it has an exact `f64`.
        const STEPS: u64 = 1 << 53;
        rate > 0.0 && (self.below(STEPS) as f64) < rate * STEPS as f64
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
        let (high, low) = (self.bits(), self.bits());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:x}{:03x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            8 + (low >> 62),
            (low >> 48) & 0xfff,
            low & 0xffff_ffff_ffff,
        )
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
