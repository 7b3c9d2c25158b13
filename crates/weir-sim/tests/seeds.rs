//! A fixed range of seeds, and what a seed promises. CI plays many more with `weir sim`.

use weir_sim::story::Story;

#[test]
fn the_first_seeds_hold_every_promise() {
    for seed in 0..10 {
        let story = Story::draw(seed);
        let verdict = story.play();
        assert!(verdict.broken.is_empty(), "{story}{:#?}", verdict.broken);
    }
}

#[test]
fn one_seed_gives_one_trace_and_another_seed_another() {
    let once = Story::draw(4).play().fingerprint;
    let again = Story::draw(4).play().fingerprint;
    let other = Story::draw(5).play().fingerprint;
    assert_eq!(once, again);
    assert_ne!(once, other);
}
