//! A story as one line of JSON that holds only what differs from a calm story, to be pasted into
//! `weir sim --story` or into a test. It means the same whatever seeds are drawn into later.

use serde_json::{Map, Value, json};

use super::Story;
use crate::scene::PoolSpec;

impl Story {
    /// Writes the story as one line.
    #[must_use]
    pub fn to_line(&self) -> String {
        let mut whole = value(self);
        prune(&mut whole, &value(&Story::default()));
        if let Some(pools) = whole.get_mut("pools").and_then(Value::as_array_mut) {
            let calm = value(&PoolSpec::default());
            pools.iter_mut().for_each(|pool| prune(pool, &calm));
        }
        whole.to_string()
    }

    /// Reads a story that [`Story::to_line`] wrote.
    ///
    /// # Errors
    /// The text is no story.
    pub fn from_line(line: &str) -> Result<Story, serde_json::Error> {
        serde_json::from_str(line)
    }
}

fn value(of: &impl serde::Serialize) -> Value {
    serde_json::to_value(of).expect("stories hold nothing but numbers, words and lists")
}

/// Takes out what is the same in a calm one.
fn prune(of: &mut Value, calm: &Value) {
    let Value::Object(fields) = of else { return };
    let kept = std::mem::take(fields)
        .into_iter()
        .filter_map(|(key, mut part)| {
            let same = calm.get(&key)?;
            prune(&mut part, same);
            (part != *same && part != json!({})).then_some((key, part))
        });
    *fields = kept.collect::<Map<_, _>>();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_is_the_same_after_it_was_written_and_read() {
        for seed in 0..50 {
            let story = Story::draw(seed);
            let line = story.to_line();
            let read = Story::from_line(&line).expect("what was written can be read");
            assert_eq!(read, story, "{line}");
        }
    }

    #[test]
    fn a_calm_story_is_a_short_line() {
        let story = Story {
            seed: 7,
            pools: vec![PoolSpec::new("pool", 2)],
            ..Story::default()
        };
        assert_eq!(story.to_line(), r#"{"pools":[{"replicas":2}],"seed":7}"#);
    }
}
