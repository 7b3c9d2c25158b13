//! How tokens are had, kept and refused.

#![allow(clippy::unwrap_used, reason = "this is a test, its helpers included")]

mod support;

use std::path::PathBuf;

use serde_json::{Value, json};
use support::{Answer, Script, answer, endpoint, pool, raw, refused};
use weir_azure::{
    Arm, Credential, CredentialError, Endpoint, ErrorKind, Identity, Retry, Secret, UserAssigned,
};

const SECRET: &str = "a-very-secret-client-secret";

fn service_principal() -> Identity {
    Identity::ClientSecret {
        tenant: "tenant-1".to_owned(),
        client: "client-1".to_owned(),
        secret: SECRET.into(),
    }
}

fn token(name: &str, seconds: u64) -> Answer {
    let body = json!({"token_type": "Bearer", "expires_in": seconds, "access_token": name});
    answer(200, &[("content-type", "application/json")], &body)
}

fn empty_list() -> Answer {
    answer(200, &[], &json!({"value": []}))
}

fn arm(script: &Script, identity: Identity) -> Arm {
    let credential = Credential::new(&script.wire(), &endpoint(), identity).unwrap();
    Arm::new(script.wire(), endpoint(), credential)
}

fn bearer(script: &Script, index: usize) -> String {
    script.request(index, |request| {
        request.headers()["authorization"]
            .to_str()
            .unwrap()
            .to_owned()
    })
}

async fn refusal(identity: Identity, answer: Answer) -> CredentialError {
    let script = Script::new([answer]);
    let credential = Credential::new(&script.wire(), &endpoint(), identity).unwrap();
    credential.token().await.unwrap_err()
}

#[tokio::test]
async fn a_client_secret_buys_a_token_that_is_used_until_it_ends() {
    let script = Script::new([token("t-1", 3600), empty_list(), empty_list()]);
    let arm = arm(&script, service_principal());
    arm.list_instances(&pool()).await.unwrap();
    arm.list_instances(&pool()).await.unwrap();
    assert!(script.is_used_up());
    let (url, form) = script.request(0, |request| {
        (
            request.uri().to_string(),
            String::from_utf8(request.body().to_vec()).unwrap(),
        )
    });
    assert_eq!(url, "https://login.test/tenant-1/oauth2/v2.0/token");
    assert!(
        form.contains("scope=https%3A%2F%2Farm.test%2F.default"),
        "{form}"
    );
    assert!(form.contains(SECRET), "{form}");
    assert_eq!(
        (bearer(&script, 1), bearer(&script, 2)),
        ("Bearer t-1".into(), "Bearer t-1".into())
    );
}

#[tokio::test]
async fn a_token_near_its_end_is_renewed() {
    let script = Script::new([
        token("t-1", 60),
        empty_list(),
        token("t-2", 3600),
        empty_list(),
    ]);
    let arm = arm(&script, service_principal());
    arm.list_instances(&pool()).await.unwrap();
    arm.list_instances(&pool()).await.unwrap();
    assert_eq!(
        (bearer(&script, 1), bearer(&script, 3)),
        ("Bearer t-1".into(), "Bearer t-2".into())
    );
}

#[tokio::test]
async fn entra_s_refusals_say_what_to_do() {
    let rows = [
        (
            401,
            7_000_215,
            "Invalid client secret provided.",
            "the client secret is wrong",
        ),
        (
            401,
            7_000_222,
            "The secret keys are expired.",
            "the client secret has expired",
        ),
        (
            400,
            90_002,
            "Tenant 'tenant-1' not found.",
            "the tenant does not exist",
        ),
        (
            400,
            700_016,
            "Application not found.",
            "the client does not exist",
        ),
        (
            400,
            700_213,
            "No matching federated identity.",
            "no federated credential",
        ),
    ];
    for (status, number, words, hint) in rows {
        let body = json!({"error": "invalid_client", "error_codes": [number],
            "error_description":
                format!("AADSTS{number}: {words}\r\nTrace ID: t\r\nCorrelation ID: c")});
        let error = refusal(service_principal(), answer(status, &[], &body)).await;
        assert!(error.hint().contains(hint), "{number}: {}", error.hint());
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{number}");
        let shown = error.to_string();
        assert_eq!(
            shown,
            format!("login.test refused a token: {status} AADSTS{number}: AADSTS{number}: {words}")
        );
    }
}

#[tokio::test]
async fn a_wrong_secret_reaches_the_caller_of_a_verb_as_one_line() {
    let body = json!({"error": "invalid_client", "error_codes": [7_000_215],
        "error_description": format!("AADSTS7000215: Invalid client secret '{SECRET}' provided.")});
    let script = Script::new([answer(401, &[], &body)]);
    let arm = arm(&script, service_principal());
    let error = arm.get_scale_set(&pool()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.retry()),
        (ErrorKind::Unauthorized, Retry::Never)
    );
    let line = error.line();
    assert!(
        line.starts_with("failed to read scale set Group-A/pool-a: login.test refused"),
        "{line}"
    );
    assert!(
        line.contains("AADSTS7000215") && line.contains("the client secret is wrong"),
        "{line}"
    );
    assert!(!line.contains('\n') && !line.contains(SECRET), "{line}");
    assert_eq!(script.count(), 1, "a wrong secret was tried again");
}

#[tokio::test(start_paused = true)]
async fn an_authority_out_of_reach_is_asked_again_and_then_named() {
    let script = Script::new([
        refused("login.test:443"),
        answer(503, &[], &Value::Null),
        refused("login.test:443"),
    ]);
    let error = arm(&script, service_principal())
        .list_instances(&pool())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(script.is_used_up());
    let line = error.line();
    assert!(line.contains("cannot ask login.test for a token"), "{line}");
    assert!(line.contains("check the authority host"), "{line}");
}

#[tokio::test]
async fn an_authority_that_answers_nonsense_is_named() {
    let error = refusal(service_principal(), raw(200, &[], "<html>Sign in</html>")).await;
    assert!(
        matches!(error, CredentialError::Malformed { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("login.test"), "{error}");
    let error = refusal(service_principal(), raw(404, &[], "<html>Lost</html>")).await;
    assert!(
        error
            .to_string()
            .contains("login.test refused a token: 404"),
        "{error}"
    );
}

#[tokio::test]
async fn workload_identity_sends_the_service_account_token() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("service-account-token");
    std::fs::write(&file, "service.account.token").unwrap();
    let script = Script::new([token("t-1", 3600)]);
    let identity = Identity::WorkloadIdentity {
        tenant: "tenant-1".to_owned(),
        client: "client-1".to_owned(),
        token_file: file,
    };
    let credential = Credential::new(&script.wire(), &endpoint(), identity).unwrap();
    let got = credential.token().await.unwrap().unwrap();
    assert_eq!(got.expose(), "t-1");
    let form = script.request(0, |request| {
        String::from_utf8(request.body().to_vec()).unwrap()
    });
    assert!(
        form.contains("client_assertion=service.account.token"),
        "{form}"
    );
}

#[test]
fn workload_identity_without_a_token_file_says_how_to_get_one() {
    let script = Script::new([]);
    let identity = Identity::WorkloadIdentity {
        tenant: "tenant-1".to_owned(),
        client: "client-1".to_owned(),
        token_file: PathBuf::from("no/such/token"),
    };
    let error = Credential::new(&script.wire(), &endpoint(), identity).unwrap_err();
    assert!(error.to_string().contains("no/such/token"), "{error}");
    assert!(
        error.hint().contains("azure.workload.identity/use"),
        "{}",
        error.hint()
    );
}

#[tokio::test]
async fn managed_identity_asks_the_machine_and_names_the_identity() {
    let body = json!({"access_token": "t-1", "expires_on": "4102444800", "token_type": "Bearer",
                      "resource": "https://arm.test"});
    let script = Script::new([answer(200, &[], &body), answer(400, &[], &Value::Null)]);
    let named = |client: &str| Identity::ManagedIdentity {
        user_assigned: Some(UserAssigned::Client(client.to_owned())),
    };
    let credential = Credential::new(&script.wire(), &endpoint(), named("c-1")).unwrap();
    assert_eq!(credential.token().await.unwrap().unwrap().expose(), "t-1");
    let (url, metadata) = script.request(0, |request| {
        (
            request.uri().to_string(),
            request.headers().get("metadata").cloned(),
        )
    });
    assert!(
        url.starts_with("http://169.254.169.254/metadata/identity/oauth2/token?"),
        "{url}"
    );
    assert!(url.contains("client_id=c-1"), "{url}");
    assert_eq!(metadata.unwrap(), "true");

    let other = Credential::new(&script.wire(), &endpoint(), named("c-2")).unwrap();
    let error = other.token().await.unwrap_err();
    assert!(
        error.hint().contains("assign the identity"),
        "{}",
        error.hint()
    );
}

#[tokio::test]
async fn managed_identity_off_azure_says_so() {
    let identity = Identity::ManagedIdentity {
        user_assigned: None,
    };
    let error = refusal(identity, refused("169.254.169.254:80")).await;
    assert!(
        matches!(error, CredentialError::Unreachable { .. }),
        "{error:?}"
    );
    assert!(
        error.hint().contains("Azure machines only"),
        "{}",
        error.hint()
    );
}

#[test]
fn an_identity_with_holes_is_refused_before_anything_is_sent() {
    let script = Script::new([]);
    let principal = |tenant: &str, client: &str, secret: &str| Identity::ClientSecret {
        tenant: tenant.to_owned(),
        client: client.to_owned(),
        secret: secret.into(),
    };
    let rows = [
        (principal("", "c", "s"), "tenant"),
        (principal("t", " ", "s"), "client id"),
        (principal("t", "c", ""), "client secret"),
        (principal("not a tenant", "c", "s"), "tenant"),
    ];
    for (identity, what) in rows {
        let error = Credential::new(&script.wire(), &endpoint(), identity).unwrap_err();
        assert!(error.to_string().contains(what), "{what}: {error}");
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{what}");
    }
    let clear = Endpoint::custom("https://arm.test", "a", "http://localhost:1").unwrap();
    let error = Credential::new(&script.wire(), &clear, service_principal()).unwrap_err();
    assert!(error.to_string().contains("HTTPS"), "{error}");
}

#[tokio::test]
async fn nobody_sends_no_token() {
    let script = Script::new([empty_list()]);
    let arm = Arm::new(script.wire(), endpoint(), Credential::anonymous());
    arm.list_instances(&pool()).await.unwrap();
    assert!(script.request(0, |request| {
        !request.headers().contains_key("authorization")
    }));
}

#[tokio::test]
async fn secrets_and_tokens_do_not_show() {
    let script = Script::new([token("token-that-was-bought", 3600)]);
    let identity = service_principal();
    let shown_identity = format!("{identity:?}");
    let credential = Credential::new(&script.wire(), &endpoint(), identity).unwrap();
    let got = credential.token().await.unwrap().unwrap();
    let fixed = Identity::Token("token-that-was-given".into());
    let given = Credential::new(&script.wire(), &endpoint(), fixed.clone()).unwrap();
    let secret: Secret = SECRET.into();
    let shown =
        format!("{shown_identity} {credential:?} {got:?} {got} {fixed:?} {given:?} {secret}");
    for hidden in [SECRET, "token-that-was"] {
        assert!(!shown.contains(hidden), "{shown}");
    }
    assert_eq!(
        serde_json::to_string(&secret).unwrap(),
        format!("\"{SECRET}\"")
    );
}
