//! When a request is sent again, and when it is not. All on a paused clock.

#![allow(clippy::unwrap_used, reason = "this is a test, its helpers included")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use support::{Answer, Script, answer, broken, pool, refused};
use weir_azure::{ArmError, Call, ErrorKind, Outcome, Retry, Verb};

fn empty_list() -> Answer {
    answer(200, &[], &json!({"value": []}))
}

fn throttled(seconds: &str) -> Answer {
    answer(429, &[("retry-after", seconds)], &Value::Null)
}

async fn read(script: &Script) -> Result<(), ArmError> {
    script.arm().list_instances(&pool()).await.map(drop)
}

async fn write(script: &Script) -> Result<(), ArmError> {
    script
        .arm()
        .update_instances(&pool(), &["7".to_owned()])
        .await
        .map(drop)
}

fn accepted() -> Answer {
    answer(
        202,
        &[("location", "https://arm.test/operations/7")],
        &Value::Null,
    )
}

#[tokio::test(start_paused = true)]
async fn a_read_is_repeated_twice_with_growing_pauses() {
    let script = Script::new([refused("arm.test"), broken(), empty_list()]);
    read(&script).await.unwrap();
    assert_eq!(script.seconds(), [0, 1, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_read_is_given_up_after_three_attempts() {
    let down = || answer(503, &[], &Value::Null);
    let script = Script::new([down(), down(), down(), empty_list()]);
    assert_eq!(
        read(&script).await.unwrap_err().kind(),
        ErrorKind::Transient
    );
    assert_eq!(script.seconds(), [0, 1, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_short_wait_is_kept_to_the_second_by_reads_and_writes() {
    let reads = Script::new([throttled("10"), throttled("3"), empty_list()]);
    read(&reads).await.unwrap();
    assert_eq!(reads.seconds(), [0, 10, 13]);
    let writes = Script::new([throttled("10"), throttled("3"), accepted()]);
    write(&writes).await.unwrap();
    assert_eq!(writes.seconds(), [0, 10, 13]);
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_is_left_to_the_caller() {
    let script = Script::new([throttled("11"), empty_list()]);
    let error = read(&script).await.unwrap_err();
    assert_eq!(error.retry(), Retry::After(Duration::from_secs(11)));
    assert_eq!(script.seconds(), [0]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_may_have_been_carried_out_is_never_repeated() {
    let rows = [
        ("broken", broken()),
        ("refused", refused("arm.test")),
        ("503", answer(503, &[("retry-after", "1")], &Value::Null)),
        ("500", answer(500, &[], &Value::Null)),
        ("429 without a wait", answer(429, &[], &Value::Null)),
        (
            "409",
            answer(
                409,
                &[("retry-after", "1")],
                &json!({"error": {"code": "Conflict"}}),
            ),
        ),
    ];
    for (name, first) in rows {
        let script = Script::new([first, accepted()]);
        assert!(write(&script).await.is_err(), "{name}");
        assert_eq!(script.count(), 1, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_not_asked_for_again() {
    let no = || answer(403, &[], &json!({"error": {"code": "AuthorizationFailed"}}));
    let script = Script::new([no(), empty_list()]);
    assert!(read(&script).await.is_err());
    assert_eq!(script.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_meter_sees_every_attempt() {
    let script = Script::new([throttled("2"), broken(), empty_list()]);
    let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
    let sink = Arc::clone(&calls);
    let arm = script.arm().with_meter(Arc::new(move |call: &Call| {
        sink.lock().unwrap().push(call.clone());
    }));
    arm.list_instances(&pool()).await.unwrap();
    let calls = calls.lock().unwrap();
    let seen: Vec<_> = calls
        .iter()
        .map(|call| (call.verb, call.attempt, call.outcome, call.status))
        .collect();
    assert_eq!(
        seen,
        [
            (
                Verb::ListInstances,
                1,
                Outcome::Failed(ErrorKind::Throttled),
                Some(429)
            ),
            (
                Verb::ListInstances,
                2,
                Outcome::Failed(ErrorKind::Unreachable),
                None
            ),
            (Verb::ListInstances, 3, Outcome::Done, Some(200)),
        ]
    );
}
