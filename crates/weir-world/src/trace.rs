//! What happened in the world, in order, in plain words?

use jiff::Timestamp;

/// How many lines are kept. Older ones leave; the fingerprint still covers them.
///
/// A rollout of a hundred instances writes some ten thousand lines.
const LINES_KEPT_MAX: usize = 400_000;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// When.
    pub at: Timestamp,
    /// What, in plain words.
    pub line: String,
}

/// Everything that happened, and a hash of it.
#[derive(Clone, Debug)]
pub struct Trace {
    entries: Vec<TraceEntry>,
    hash: u64,
    dropped_count: usize,
}

impl Default for Trace {
    fn default() -> Trace {
        /// The offset basis of 64-bit FNV-1a.
        const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        Trace {
            entries: Vec::new(),
            hash: FNV_OFFSET,
            dropped_count: 0,
        }
    }
}

impl Trace {
    /// Adds a line.
    pub fn push(&mut self, at: Timestamp, line: impl Into<String>) {
        let line = line.into();
        self.mix(&at.as_nanosecond().to_le_bytes());
        self.mix(line.as_bytes());
        if self.entries.len() >= LINES_KEPT_MAX {
            self.entries.drain(..LINES_KEPT_MAX / 2);
            self.dropped_count += LINES_KEPT_MAX / 2;
        }
        self.entries.push(TraceEntry { at, line });
    }

    /// Adds lines that were written elsewhere, in their order.
    pub fn extend(&mut self, entries: impl IntoIterator<Item = TraceEntry>) {
        for entry in entries {
            self.push(entry.at, entry.line);
        }
    }

    /// Returns the lines that are kept, oldest first.
    pub fn entries(&self) -> &[TraceEntry] {
        &self.entries
    }

    /// Returns how many older lines have left.
    pub fn dropped_count(&self) -> usize {
        self.dropped_count
    }

    /// Returns the FNV-1a hash of all times and lines so far.
    pub fn fingerprint(&self) -> u64 {
        self.hash
    }

    fn mix(&mut self, bytes: &[u8]) {
        /// The prime of 64-bit FNV-1a.
        const FNV_PRIME: u64 = 0x100_0000_01b3;
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        }
    }
}
