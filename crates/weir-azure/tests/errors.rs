//! How Azure's refusals are sorted, what is kept of them and what must not be.

#![allow(clippy::unwrap_used, reason = "this is a test, its helpers included")]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{Script, TOKEN, answer, broken, pool, raw, refused};
use weir_azure::vmss::{OsProfile, ScaleSetProperties, VirtualMachineProfile};
use weir_azure::{ArmError, Deletion, ErrorKind, Failure, Precondition, Retry, ScaleSet};

/// Asks for a write that is never repeated on its own, and returns why it failed.
async fn failure_of(status: u16, headers: &[(&str, &str)], body: &Value) -> ArmError {
    let script = Script::new([answer(status, headers, body)]);
    let ids = ["7".to_owned()];
    let error = script
        .arm()
        .delete_instances(&pool(), &ids, Deletion::Graceful)
        .await;
    error.expect_err("the answer was a refusal")
}

fn wrapped(code: &str, message: &str) -> Value {
    json!({"error": {"code": code, "message": message}})
}

/// Status, code, message; kind, retry.
const REFUSALS: &str = "
409 Conflict                             ()                         conflict        backoff
409 ConflictingConcurrentWriteNotAllowed ()                         conflict        backoff
409 SomethingNobodyTold                  ()                         conflict        backoff
412 PreconditionFailed                   (Etag 2 is not 3.)         precondition_failed backoff
409 OperationNotAllowed                  (exceeding Cores quota.)   quota_exceeded  never
400 QuotaExceeded                        ()                         quota_exceeded  never
409 OperationNotAllowed                  (it is marked for deletion) marked_for_deletion backoff
409 OperationNotAllowed                  (It is stopped.)           bad_request     never
409 ZonalAllocationFailed                ()                         allocation_failed backoff
409 OverconstrainedAllocationRequest     ()                         allocation_failed backoff
409 SkuNotAvailable                      ()                         sku_not_available never
400 InvalidParameter (7 is not an active Virtual Machine Scale Set VM.) unknown_instance never
400 InstanceIdsListInstanceIdNotActiveVM ()                         unknown_instance never
400 InvalidParameter                     (Value of vmSize is invalid.) bad_request  never
409 PropertyChangeNotAllowed             ()           property_change_not_allowed   never
404 ResourceNotFound                     ()                         not_found       never
404 ParentResourceNotFound               ()                         not_found       never
404 ResourceGroupNotFound                ()           resource_group_not_found      never
404 SubscriptionNotFound                 ()                         bad_request     never
409 ResourceGroupBeingDeleted            ()           resource_group_being_deleted  backoff
401 InvalidAuthenticationToken           ()                         unauthorized    never
403 AuthorizationFailed                  ()                         forbidden       never
409 ScopeLocked                          ()                         forbidden       never
500 InternalExecutionError               ()                         transient       backoff
409 RetryableError                       ()                         transient       backoff
503                                      ()                         transient       backoff
404                                      ()                         malformed       backoff
302                                      ()                         malformed       backoff
400 InvalidRequestContent                (Could not find member x.) bad_request     never
";

#[tokio::test]
async fn refusals_are_sorted_by_code_and_status() {
    for row in REFUSALS.trim().lines() {
        let (left, verdict) = row.split_once(')').unwrap();
        let (asked, message) = left.split_once('(').unwrap();
        let (status, code) = asked.split_once(' ').unwrap();
        let (status, code): (u16, &str) = (status.parse().unwrap(), code.trim());
        let error = failure_of(status, &[], &wrapped(code, message)).await;
        let retry = match error.retry() {
            Retry::After(_) => "after",
            Retry::Backoff => "backoff",
            Retry::Never => "never",
        };
        let sorted = [error.kind().as_str(), retry];
        assert_eq!(
            sorted.as_slice(),
            verdict.split_whitespace().collect::<Vec<_>>(),
            "{row}"
        );
        assert_eq!(error.status(), Some(status), "{row}");
        assert!(error.to_string().contains(code), "{row}: {error}");
        assert!(error.to_string().contains(message), "{row}: {error}");
        assert!(
            !error.hint().is_empty() && !error.hint().contains('\n'),
            "{row}"
        );
    }
}

#[tokio::test]
async fn an_unknown_instance_is_known_by_its_target_too() {
    let body = json!({"error": {"code": "InvalidParameter", "message": "No such instance.",
                                "target": "instanceIds"}});
    assert_eq!(
        failure_of(400, &[], &body).await.kind(),
        ErrorKind::UnknownInstance
    );
}

#[tokio::test]
async fn both_shapes_of_429_are_read_and_the_wait_is_told() {
    let detail = json!({"code": "OperationNotAllowed", "message": "Too many requests.",
                        "details": [{"code": "TooManyRequests", "target": "UpdateVMScaleSet"}]});
    let shapes = [detail.clone(), json!({ "error": detail })];
    for shape in shapes {
        let error = failure_of(429, &[("retry-after", "1200")], &shape).await;
        assert_eq!(error.kind(), ErrorKind::Throttled, "{shape}");
        assert_eq!(
            error.retry(),
            Retry::After(Duration::from_secs(1200)),
            "{shape}"
        );
        assert_eq!(error.code(), Some("OperationNotAllowed"), "{shape}");
        assert_eq!(error.message(), Some("Too many requests."), "{shape}");
        assert!(error.to_string().contains("1200 s"), "{error}");
    }
    let silent = failure_of(429, &[], &Value::Null).await;
    assert_eq!(
        (silent.kind(), silent.retry()),
        (ErrorKind::Throttled, Retry::Backoff)
    );
}

#[tokio::test]
async fn a_wait_given_as_a_date_counts_from_the_date_of_the_answer() {
    let rows = [
        (
            "Mon, 30 Nov 2026 10:01:30 GMT",
            Retry::After(Duration::from_secs(90)),
        ),
        (
            "Mon, 30 Nov 2026 09:00:00 GMT",
            Retry::After(Duration::ZERO),
        ),
        ("soon", Retry::Backoff),
    ];
    for (until, retry) in rows {
        let headers = [
            ("retry-after", until),
            ("date", "Mon, 30 Nov 2026 10:00:00 GMT"),
        ];
        let error = failure_of(503, &headers, &Value::Null).await;
        assert_eq!(error.retry(), retry, "{until}");
    }
}

#[tokio::test]
async fn the_code_in_the_header_outranks_the_body() {
    let headers = [
        ("x-ms-error-code", "ResourceNotFound"),
        ("x-ms-request-id", "r-1"),
    ];
    let error = failure_of(404, &headers, &wrapped("Other", "Gone.")).await;
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.request_id(), Some("r-1"));
}

#[tokio::test]
async fn a_proxy_that_says_404_does_not_make_a_scale_set_absent() {
    let page = || raw(404, &[], "<html>Not here</html>");
    let script = Script::new([page(), page(), page()]);
    let error = script.arm().get_scale_set(&pool()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    let error = script
        .arm()
        .delete_scale_set(&pool(), Deletion::Graceful)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
}

#[tokio::test]
async fn an_absent_group_is_not_an_absent_scale_set_except_to_a_delete() {
    let gone = || {
        answer(
            404,
            &[],
            &wrapped("ResourceGroupNotFound", "No such group."),
        )
    };
    let script = Script::new([gone(), gone()]);
    let arm = script.arm();
    let error = arm.get_scale_set(&pool()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceGroupNotFound);
    assert_eq!(
        arm.delete_scale_set(&pool(), Deletion::Graceful)
            .await
            .unwrap(),
        None
    );
}

#[tokio::test]
async fn the_line_says_what_was_tried_why_it_failed_and_what_to_do() {
    let error = failure_of(403, &[], &wrapped("AuthorizationFailed", "You may not.")).await;
    assert_eq!(
        error.line(),
        "failed to delete instances of scale set Group-A/pool-a: Azure answered 403 \
         AuthorizationFailed: You may not. (give the identity the Contributor role on the \
         resource group, or lift the policy or lock that forbids this)"
    );
    let script = Script::new([broken()]);
    let ids = ["7".to_owned()];
    let error = script
        .arm()
        .update_instances(&pool(), &ids)
        .await
        .unwrap_err();
    assert_eq!(
        error.line(),
        "failed to update instances of scale set Group-A/pool-a: the exchange with arm.test \
         broke off: connection reset (check DNS, proxy, firewall and CA certificates towards \
         Azure)"
    );
}

#[tokio::test]
async fn an_answer_of_another_shape_is_malformed_and_says_where() {
    let script = Script::new([
        raw(200, &[], r#"{"value": [{"instanceId": 7}]}"#),
        raw(200, &[], "hello"),
        answer(202, &[], &Value::Null),
    ]);
    let arm = script.arm();
    let error = arm.list_instances(&pool()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert!(
        error.line().contains("expected a string"),
        "{}",
        error.line()
    );
    assert_eq!(
        arm.get_scale_set(&pool()).await.unwrap_err().kind(),
        ErrorKind::Malformed
    );
    let nowhere = arm
        .delete_scale_set(&pool(), Deletion::Graceful)
        .await
        .unwrap_err();
    assert!(
        nowhere.to_string().contains("no URL to follow"),
        "{nowhere}"
    );
}

#[tokio::test]
async fn no_secret_is_shown_even_if_azure_echoes_it() {
    let (data, password) = ("c2VjcmV0IGJvb3RzdHJhcA==", "correct horse battery");
    let body = ScaleSet {
        properties: Some(ScaleSetProperties {
            virtual_machine_profile: Some(VirtualMachineProfile {
                os_profile: Some(OsProfile {
                    custom_data: Some(data.into()),
                    admin_password: Some(password.into()),
                    ..OsProfile::default()
                }),
                user_data: Some("dXNlciBkYXRh".into()),
                ..VirtualMachineProfile::default()
            }),
            ..ScaleSetProperties::default()
        }),
        ..ScaleSet::default()
    };
    let echo = format!("Cannot use '{data}' with '{password}' for dXNlciBkYXRh, says {TOKEN}.");
    let script = Script::new([answer(400, &[], &wrapped("InvalidParameter", &echo))]);
    let arm = script.arm();
    let error = arm
        .put_scale_set(&pool(), &body, Precondition::Absent)
        .await
        .unwrap_err();
    let shown = format!(
        "{error}\n{error:?}\n{error:#?}\n{}\n{body:?}\n{arm:?}",
        error.line()
    );
    for secret in [data, password, "dXNlciBkYXRh", TOKEN] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    assert!(
        error
            .to_string()
            .contains("Cannot use '[redacted]' with '[redacted]'"),
        "{error}"
    );
    let sent = script.request(0, |request| {
        String::from_utf8(request.body().to_vec()).unwrap()
    });
    assert!(
        sent.contains(data) && sent.contains(password),
        "the secrets were not sent: {sent}"
    );
    let is_marked = script.request(0, |request| {
        request.headers()["authorization"].is_sensitive()
    });
    assert!(is_marked, "the token may be printed by a layer below");
}

#[tokio::test]
async fn nobody_there_says_where_it_looked() {
    let script = Script::new([refused("arm.test:443")]);
    let ids = ["7".to_owned()];
    let error = script
        .arm()
        .update_instances(&pool(), &ids)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.retry()),
        (ErrorKind::Unreachable, Retry::Backoff)
    );
    assert!(
        error.line().contains("cannot connect to arm.test:443"),
        "{}",
        error.line()
    );
}

#[test]
fn a_failure_told_later_is_sorted_like_a_refusal() {
    let rows = [
        (
            "AllocationFailed",
            ErrorKind::AllocationFailed,
            Retry::Backoff,
        ),
        ("OperationPreempted", ErrorKind::Preempted, Retry::Backoff),
        (
            "VMExtensionProvisioningError",
            ErrorKind::ProvisioningFailed,
            Retry::Never,
        ),
        (
            "OSProvisioningTimedOut",
            ErrorKind::ProvisioningFailed,
            Retry::Never,
        ),
        (
            "InternalExecutionError",
            ErrorKind::Transient,
            Retry::Backoff,
        ),
        ("NobodyKnows", ErrorKind::BadRequest, Retry::Never),
    ];
    for (code, kind, retry) in rows {
        let failure = Failure {
            code: code.to_owned(),
            message: String::new(),
        };
        assert_eq!((failure.kind(), failure.retry()), (kind, retry), "{code}");
    }
}
