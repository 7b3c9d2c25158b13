//! What time is it? The one seam through which reconcilers learn it.

use jiff::Timestamp;

/// A source of the time of day.
pub trait Clock: Send + Sync {
    /// Returns the time at this moment.
    fn now(&self) -> Timestamp;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
