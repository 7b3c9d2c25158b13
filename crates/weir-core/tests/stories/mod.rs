//! The stories, by what they are about, and what they have to show between them.

mod anywhere;
mod autoscaled;
mod broken;
mod counts;
mod drains;
mod ends;
mod health;
mod limits;
mod models;
mod order;
mod refused;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use expect_test::expect_file;

use crate::toy::{Script, Toy};

const FRESH_ORDERS: u64 = 100;

/// Cases of the case log in which the planner has no part or not the only one: where they are held.
const HELD_ELSEWHERE: &[(&str, &str, &str)] = &[
    // No surge is lost on the way from the API.
    (
        "C05",
        "weir-controllers/src/model/tests/fields.rs",
        "every_field_of_the_spec_reaches_the_body_and_rolls_if_it_must",
    ),
    // Statuses lag here; an observation has no flag of theirs.
    (
        "C13",
        "weir-sim/tests/rollout.rs",
        "every_fault_of_the_demo_is_survived_within_the_promises",
    ),
    // What rolls and what does not is decided before the planner sees a revision.
    (
        "C15",
        "weir-controllers/src/model/tests/revisions.rs",
        "tags_of_cluster_and_pool_make_no_new_revision",
    ),
    (
        "C18",
        "weir-controllers/src/model/tests/revisions.rs",
        "each_notation_of_an_image_is_the_same_image_and_no_other",
    ),
];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/rollouts")
}

fn story(title: &str, shows: &str, toy: impl Fn() -> Toy, script: Script) {
    let told = toy().tell(title, shows, script);
    expect_file![folder().join(format!("{title}.rollout"))].assert_eq(&told);
    let shuffled = toy().shuffle(script, 0);
    let shuffled = format!("{title}\norder: drawn from seed 0\n\n{shuffled}");
    expect_file![folder().join(format!("{title}.seed-0.rollout"))].assert_eq(&shuffled);
    for seed in 1..=FRESH_ORDERS {
        toy().shuffle(script, seed);
    }
}

fn nothing(_: &mut Toy, _: u32) {}

/// What is shown, and the titles of the stories that show it.
fn shown() -> BTreeMap<String, Vec<String>> {
    let mut shown: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let told = fs::read_to_string(entry.unwrap().path()).unwrap();
        let mut lines = told.lines();
        let title = lines.next().unwrap_or_default();
        let Some(shows) = lines.next().and_then(|line| line.strip_prefix("shows: ")) else {
            continue;
        };
        for what in shows.split(' ') {
            let titles = shown.entry(what.to_owned()).or_default();
            titles.push(title.to_owned());
        }
    }
    shown
}

#[test]
fn every_rule_has_two_stories() {
    let shown = shown();
    for rule in 1..=20 {
        let titles = shown.get(&format!("R{rule}")).map_or(&[][..], |t| t);
        assert!(titles.len() >= 2, "R{rule} is shown by {titles:?} only");
    }
}

#[test]
fn every_case_of_rollouts_and_scale_downs_is_held() {
    let shown = shown();
    for case in (1..=18).chain([129, 74, 75]) {
        let case = format!("C{case:02}");
        let elsewhere = HELD_ELSEWHERE.iter().any(|(held, _, _)| *held == case);
        assert!(
            elsewhere || shown.contains_key(&case),
            "{case} has neither a story nor a test elsewhere"
        );
    }
    for (case, file, test) in HELD_ELSEWHERE {
        let crates = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
        let source = fs::read_to_string(crates.join(file)).unwrap();
        let is_there = source.contains(&format!("fn {test}("));
        assert!(is_there, "{case} is to be held by {test}, which is gone");
    }
}

#[test]
fn every_file_has_a_story() {
    let stories = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/stories");
    let sources: Vec<String> = fs::read_dir(stories)
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    for entry in fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let title = name.trim_end_matches(".rollout");
        let quoted = format!("\"{}\"", title.trim_end_matches(".seed-0"));
        let is_told = sources.iter().any(|source| source.contains(&quoted));
        assert!(is_told, "nobody tells {name} any more");
    }
}
