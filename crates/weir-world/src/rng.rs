//! Where does chance come from?
//!
//! From a seed and the name of a stream, and from nowhere else. Each concern draws from a stream
//! of its own, so that one more draw in one place changes nothing in another.

/// A stream of random numbers: SplitMix64.
///
/// # Source
/// Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: u64,
}

/// The step of SplitMix64: the golden ratio in 64 bits.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

impl Rng {
    /// Returns the stream of this name under this seed.
    pub fn from_seed_and_stream(seed: u64, stream: &str) -> Rng {
        // FNV-1a spreads the names; one mixing step keeps neighbouring seeds apart.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in stream.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        Rng {
            state: mix(seed.wrapping_add(GAMMA)) ^ hash,
        }
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// Returns a number from zero to below `n`; zero if `n` is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        // The high half of the product is even to within n / 2^64.
        let product = u128::from(self.next_u64()) * u128::from(n);
        (product >> 64) as u64
    }

    /// Returns a number from zero to below one.
    pub fn unit(&mut self) -> f64 {
        /// A double has 53 bits of precision.
        const SCALE: f64 = (1_u64 << 53) as f64;
        (self.next_u64() >> 11) as f64 / SCALE
    }

    /// Returns true with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        // A draw is made in any case, so that a fault switched off leaves the rest as it was.
        self.unit() < probability
    }

    /// Returns a draw from the normal distribution with mean zero and deviation one.
    ///
    /// The sum of twelve draws, which is close enough for delays and never beyond six.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// Returns a draw from the log-normal distribution with this median and spread.
    ///
    /// About two thirds of the draws lie between `median / e^spread` and `median * e^spread`.
    pub fn log_normal(&mut self, median: f64, spread: f64) -> f64 {
        median * (self.normal() * spread).exp()
    }

    /// Returns a draw from the exponential distribution with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -(1.0 - self.unit()).ln() * mean
    }

    /// Puts a list in random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            list.swap(last, other);
        }
    }

    /// Returns a random UUID, version 4, in lower case.
    pub fn uuid(&mut self) -> String {
        let high = (self.next_u64() & !0xf000) | 0x4000;
        let low = (self.next_u64() & !(0b11 << 62)) | (0b10 << 62);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// Returns this many random characters of the URL-safe base64 alphabet.
    pub fn token(&mut self, length: usize) -> String {
        const ALPHABET: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut bits = 0;
        let mut text = String::with_capacity(length);
        for index in 0..length {
            // Ten characters of six bits come from one draw.
            if index % 10 == 0 {
                bits = self.next_u64();
            }
            text.push(char::from(ALPHABET[(bits & 0x3f) as usize]));
            bits >>= 6;
        }
        text
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let draw = |seed, stream| {
            let mut rng = Rng::from_seed_and_stream(seed, stream);
            [rng.next_u64(), rng.next_u64()]
        };
        assert_eq!(draw(7, "faults"), draw(7, "faults"));
        assert_ne!(draw(7, "faults"), draw(7, "names"));
        assert_ne!(draw(7, "faults"), draw(8, "faults"));
    }

    #[test]
    fn draws_keep_to_their_ranges() {
        let mut rng = Rng::from_seed_and_stream(1, "ranges");
        let mut seen = [0_u32; 5];
        let mut medians = 0;
        for _ in 0..5_000 {
            seen[rng.below(5) as usize] += 1;
            assert!((0.0..1.0).contains(&rng.unit()));
            medians += u32::from(rng.log_normal(90.0, 0.3) < 90.0);
        }
        assert!(
            seen.iter().all(|count| (800..1200).contains(count)),
            "{seen:?}"
        );
        assert!((2_300..2_700).contains(&medians), "{medians}");
        assert_eq!(rng.below(0), 0);
        assert!(!rng.chance(0.0));
        assert!(rng.chance(1.0));
    }

    #[test]
    fn a_shuffle_loses_nothing_and_a_uuid_is_version_four() {
        let mut rng = Rng::from_seed_and_stream(3, "shuffle");
        let mut list: Vec<u32> = (0..20).collect();
        rng.shuffle(&mut list);
        assert_ne!(list, (0..20).collect::<Vec<_>>());
        list.sort_unstable();
        assert_eq!(list, (0..20).collect::<Vec<_>>());
        let uuid = rng.uuid();
        assert_eq!(uuid.len(), 36);
        assert_eq!(&uuid[14..15], "4");
        assert!("89ab".contains(&uuid[19..20]), "{uuid}");
    }
}
