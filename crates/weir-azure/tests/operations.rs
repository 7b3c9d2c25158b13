//! How accepted writes are followed to their end.

#![allow(clippy::unwrap_used, reason = "this is a test, its helpers included")]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{Answer, Script, answer, pool};
use weir_azure::{Deletion, ErrorKind, Operation, OperationStatus};

const ASYNC: &str = "https://arm.test/subscriptions/s/providers/Microsoft.Compute/locations/w\
                     /operations/7?p=8c1f&api-version=2024-11-01&t=0&c=cert%2B&s=signature&h=x";
const LOCATION: &str = "https://arm.test/subscriptions/s/providers/Microsoft.Compute/locations/w\
                        /operations/7?p=8c1f&monitor=true&s=signature";

/// Starts a delete with these headers and asks once how it stands.
async fn follow(headers: &[(&str, &str)], poll: Answer) -> (Script, OperationStatus) {
    let script = Script::new([answer(202, headers, &Value::Null), poll]);
    let arm = script.arm();
    let operation = arm
        .delete_scale_set(&pool(), Deletion::Graceful)
        .await
        .unwrap()
        .unwrap();
    let status = arm.get_operation(&operation).await.unwrap();
    (script, status)
}

const BOTH: [(&str, &str); 2] = [("azure-asyncoperation", ASYNC), ("location", LOCATION)];

#[tokio::test]
async fn the_async_url_is_preferred_and_asked_verbatim() {
    let body = json!({"startTime": "2026-11-30T10:00:00.0000000+00:00", "status": "InProgress",
                      "name": "7"});
    let (script, status) = follow(&BOTH, answer(200, &[("retry-after", "17")], &body)).await;
    assert_eq!(
        status,
        OperationStatus::InProgress {
            retry_after: Duration::from_secs(17)
        }
    );
    assert_eq!(
        script.request(1, |request| request.uri().to_string()),
        ASYNC
    );
}

#[tokio::test]
async fn the_body_of_the_async_url_tells_the_end() {
    let preempted = json!({"status": "Canceled", "error": {"code": "OperationPreempted",
        "message": "Preempted by a more recent operation."}});
    let failed = json!({"status": "failed", "error": {"code": "AllocationFailed",
        "message": "No capacity.", "details": []}});
    let rows = [
        (json!({"status": "Succeeded"}), "Succeeded", None),
        (json!({"status": "Rearranging"}), "InProgress", None),
        (failed, "Failed", Some(ErrorKind::AllocationFailed)),
        (preempted, "Canceled", Some(ErrorKind::Preempted)),
        (
            json!({"status": "Failed"}),
            "Failed",
            Some(ErrorKind::BadRequest),
        ),
    ];
    for (body, name, kind) in rows {
        let (_, status) = follow(&BOTH, answer(200, &[], &body)).await;
        assert!(
            format!("{status:?}").starts_with(name),
            "{body}: {status:?}"
        );
        let failure = match status {
            OperationStatus::Failed(failure) | OperationStatus::Canceled(failure) => Some(failure),
            _ => None,
        };
        assert_eq!(failure.map(|failure| failure.kind()), kind, "{body}");
    }
}

#[tokio::test]
async fn without_a_wait_from_azure_ten_seconds_are_kept() {
    let (_, status) = follow(&BOTH, answer(200, &[], &json!({"status": "InProgress"}))).await;
    assert_eq!(
        status,
        OperationStatus::InProgress {
            retry_after: Duration::from_secs(10)
        }
    );
}

#[tokio::test]
async fn the_location_url_tells_the_end_by_its_status() {
    let only = [("location", LOCATION)];
    let (script, running) = follow(&only, answer(202, &[("retry-after", "5")], &Value::Null)).await;
    assert_eq!(
        running,
        OperationStatus::InProgress {
            retry_after: Duration::from_secs(5)
        }
    );
    assert_eq!(
        script.request(1, |request| request.uri().to_string()),
        LOCATION
    );
    for status in [200, 204] {
        let (_, ended) = follow(&only, answer(status, &[], &Value::Null)).await;
        assert_eq!(ended, OperationStatus::Succeeded, "{status}");
    }
    let refusal = json!({"error": {"code": "Conflict", "message": "Another write."}});
    let (_, failed) = follow(&only, answer(409, &[], &refusal)).await;
    let OperationStatus::Failed(failure) = failed else {
        panic!("{failed:?}")
    };
    assert_eq!(failure.to_string(), "Conflict: Another write.");
}

#[tokio::test]
async fn an_operation_that_azure_no_longer_knows_is_forgotten() {
    let gone = json!({"error": {"code": "NotFound", "message": "No such operation."}});
    for headers in [&BOTH[..], &BOTH[1..]] {
        let (_, status) = follow(headers, answer(404, &[], &gone)).await;
        assert_eq!(status, OperationStatus::Forgotten);
    }
}

#[tokio::test]
async fn a_question_that_is_not_answered_is_an_error_and_no_verdict() {
    let start = answer(202, &BOTH[1..], &Value::Null);
    let busy = answer(429, &[("retry-after", "60")], &Value::Null);
    let script = Script::new([start, busy]);
    let arm = script.arm();
    let operation = arm
        .delete_scale_set(&pool(), Deletion::Graceful)
        .await
        .unwrap()
        .unwrap();
    let error = arm.get_operation(&operation).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Throttled);
}

#[tokio::test]
async fn an_operation_survives_storage_and_hides_its_signature() {
    let script = Script::new([
        answer(202, &BOTH, &Value::Null),
        answer(200, &[], &json!({"status": "Succeeded"})),
    ]);
    let arm = script.arm();
    let operation = arm
        .delete_scale_set(&pool(), Deletion::Graceful)
        .await
        .unwrap()
        .unwrap();
    let stored = serde_json::to_string(&operation).unwrap();
    let restored: Operation = serde_json::from_str(&stored).unwrap();
    assert_eq!(restored, operation);
    assert_eq!(
        arm.get_operation(&restored).await.unwrap(),
        OperationStatus::Succeeded
    );
    let shown = format!("{operation} {operation:?}");
    assert!(shown.contains("delete scale set Group-A/pool-a"), "{shown}");
    assert!(!shown.contains("signature"), "{shown}");
}

#[tokio::test]
async fn the_token_is_not_sent_to_a_poll_url_elsewhere() {
    let elsewhere = [(
        "azure-asyncoperation",
        "https://collector.test/operations/7",
    )];
    let script = Script::new([answer(202, &elsewhere, &Value::Null)]);
    let arm = script.arm();
    let operation = arm
        .delete_scale_set(&pool(), Deletion::Graceful)
        .await
        .unwrap()
        .unwrap();
    let error = arm.get_operation(&operation).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert_eq!(script.count(), 1);
}
