//! A story in words for people.

use std::fmt;

use super::Story;
use crate::scene::PoolSpec;

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}:", self.seed)?;
        for pool in &self.pools {
            writeln!(f, "  {}", told(pool))?;
        }
        for workload in &self.workloads {
            let budget = workload.min_available.as_deref().unwrap_or("none");
            writeln!(
                f,
                "  {} pods of {}, of which {budget} must stay",
                workload.replicas, workload.name
            )?;
        }
        writeln!(f, "  {:?}", self.mischief)?;
        writeln!(f, "  API servers: {:?}", self.api_faults)?;
        writeln!(f, "  Azure: {:?}", self.azure)?;
        for beat in &self.moves {
            let name = self.pools.get(beat.pool).map_or("?", |pool| &pool.name);
            writeln!(f, "  after {} s, {name}: {:?}", beat.after, beat.what)?;
        }
        Ok(())
    }
}

fn told(pool: &PoolSpec) -> String {
    let mut told = format!(
        "{} in {}: {} replicas, surge {}, unavailable {}, {} first",
        pool.name,
        pool.cluster,
        pool.replicas,
        pool.max_surge,
        pool.max_unavailable,
        pool.delete_policy
    );
    if !pool.zones.is_empty() {
        told.push_str(", in three zones");
    }
    if pool.min_ready_seconds > 0 {
        told.push_str(&format!(", Ready for {} s", pool.min_ready_seconds));
    }
    if let Some(limit) = pool.drain_timeout_seconds {
        told.push_str(&format!(", drains end after {limit} s"));
    }
    told
}
