//! Does `weir controller` run as a process, and does it say in one line why it cannot?

#![allow(clippy::unwrap_used, reason = "this is a test, its helpers included")]

mod support;

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use support::{
    PASSWORD, Running, address, directory, get, kubeconfig, only_error, run, serve, serve_world,
    weir,
};
use weir_world::serve::SharedWorld;
use weir_world::world::{Endpoint, World, WorldOptions};

/// Loopback ports that the kernel chooses, so that tests can run side by side.
const FREE_PORTS: [&str; 4] = [
    "--health-addr",
    "127.0.0.1:0",
    "--metrics-addr",
    "127.0.0.1:0",
];

fn controller(directory: &Path) -> tokio::process::Command {
    let mut command = weir(directory);
    command.arg("controller").args(FREE_PORTS);
    command
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_used_is_one_line_without_its_content() {
    let directory = directory("kubeconfig-broken");
    let rows = [
        ("garbage", format!("\u{1}{PASSWORD}"), "it is no kubeconfig"),
        (
            "a list where a map belongs",
            format!("- {PASSWORD}\n"),
            "it is no kubeconfig",
        ),
        (
            "a word where a list belongs",
            format!("users: {PASSWORD}\n"),
            "it is no kubeconfig",
        ),
        (
            "another kind of object",
            "kind: Secret\n".to_owned(),
            "current context",
        ),
        ("nothing", String::new(), "current context"),
        (
            "a context that is not there",
            "current-context: c\n".to_owned(),
            "current context",
        ),
        (
            "a certificate that is none",
            format!(
                "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: c}}}}]\n\
                 clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:1', \
                 certificate-authority-data: '{PASSWORD}'}}}}]\nusers: [{{name: c, user: {{}}}}]\n"
            ),
            "certificate authority",
        ),
    ];
    for (case, content, expected) in rows {
        let path = directory.join("broken");
        fs::write(&path, content).unwrap();
        let mut command = controller(&directory);
        command.arg("--kubeconfig").arg(&path);
        let line = only_error(&run(command).await, case);
        assert!(line.contains(&path.display().to_string()), "{case}: {line}");
        assert!(line.contains(expected), "{case}: {line}");
        assert!(
            line.ends_with("give a file with which kubectl works"),
            "{case}: {line}"
        );
    }
}

#[tokio::test]
async fn an_absent_kubeconfig_is_one_line() {
    let directory = directory("kubeconfig-absent");
    let absent = directory.join("absent");
    let mut command = controller(&directory);
    command.arg("--kubeconfig").arg(&absent);
    let line = only_error(&run(command).await, "absent");
    assert!(
        line.contains(&format!("cannot read {}: No such file", absent.display())),
        "{line}"
    );

    let line = only_error(&run(controller(&directory)).await, "nowhere");
    assert!(
        line.contains("give --kubeconfig or set KUBECONFIG"),
        "{line}"
    );

    let broken = directory.join("broken");
    fs::write(&broken, format!("users: {PASSWORD}\n")).unwrap();
    let mut command = controller(&directory);
    command.env("KUBECONFIG", &broken);
    let line = only_error(&run(command).await, "KUBECONFIG");
    assert!(line.contains("it is no kubeconfig"), "{line}");
}

#[tokio::test]
async fn what_a_credential_plugin_is_told_or_prints_is_not_repeated() {
    let directory = directory("plugin");
    let path = directory.join("kubeconfig");
    for (case, script) in [
        ("fails", format!("echo {PASSWORD} >&2; exit 3")),
        ("prints no credential", format!("echo {PASSWORD}")),
    ] {
        let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh",
            "args": ["-c", script], "interactiveMode": "Never"});
        let text = json!({"current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": {"exec": exec}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
        fs::write(&path, text.to_string()).unwrap();
        let mut command = controller(&directory);
        command.arg("--kubeconfig").arg(&path);
        let line = only_error(&run(command).await, case);
        assert!(line.contains("run it by hand"), "{case}: {line}");
    }
}

#[tokio::test]
async fn an_api_server_that_does_not_answer_is_one_line() {
    let directory = directory("unreachable");
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let kubeconfig = kubeconfig(&directory, &format!("https://{closed}"));
    let mut command = controller(&directory);
    command.arg("--kubeconfig").arg(kubeconfig);
    let line = only_error(&run(command).await, "closed port");
    assert!(
        line.contains("cannot reach the management cluster"),
        "{line}"
    );
    assert!(line.contains("Connection refused"), "{line}");
    assert!(
        line.contains("check --kubeconfig and the network"),
        "{line}"
    );
}

#[tokio::test]
async fn an_address_in_use_is_one_line_that_names_the_flag() {
    let directory = directory("address-in-use");
    let kubeconfig = kubeconfig(&directory, "https://127.0.0.1:1");
    for (flag, other) in [
        ("--health-addr", "--metrics-addr"),
        ("--metrics-addr", "--health-addr"),
    ] {
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = held.local_addr().unwrap().to_string();
        let mut command = weir(&directory);
        command
            .arg("controller")
            .args([flag, &address, other, "127.0.0.1:0"]);
        command.arg("--kubeconfig").arg(&kubeconfig);
        let line = only_error(&run(command).await, flag);
        assert!(
            line.contains(&format!("failed to listen on {address}")),
            "{line}"
        );
        assert!(
            line.contains(&format!("choose another with {flag}")),
            "{line}"
        );
        assert!(line.contains("Address already in use"), "{line}");
    }
}

#[tokio::test]
async fn an_azure_address_that_cannot_be_used_is_one_line() {
    let directory = directory("azure-address");
    let authority = "https://login.microsoftonline.com";
    let rows = [
        ("no URL", "azure", authority, "is not a base URL"),
        (
            "clear text",
            "http://arm.example",
            authority,
            "must use https",
        ),
        (
            "a path",
            "https://arm.example/subscriptions",
            authority,
            "is not a base URL",
        ),
        (
            "no authority",
            "https://arm.example",
            "",
            "--azure-authority",
        ),
        (
            "a bad authority",
            "https://arm.example",
            "login",
            "authority host `login`",
        ),
    ];
    for (case, endpoint, authority, expected) in rows {
        let mut by_flag = controller(&directory);
        by_flag.args(["--azure-endpoint", endpoint, "--azure-authority", authority]);
        let mut by_variable = controller(&directory);
        by_variable.env("AZURE_RESOURCE_MANAGER_ENDPOINT", endpoint);
        by_variable.env("AZURE_AUTHORITY_HOST", authority);
        for command in [by_flag, by_variable] {
            let line = only_error(&run(command).await, case);
            assert!(line.contains(expected), "{case}: {line}");
        }
    }
}

#[tokio::test]
async fn a_mistake_in_the_call_ends_with_status_2() {
    let directory = directory("usage");
    let calls: [&[&str]; 4] = [
        &["controler"],
        &["controller", "--bogus"],
        &["controller", "--health-addr=x"],
        &[],
    ];
    for call in calls {
        let mut command = weir(&directory);
        command.args(call);
        let output = run(command).await;
        assert_eq!(output.status.code(), Some(2), "{call:?}: {output:?}");
    }
}

#[tokio::test]
async fn a_log_filter_that_is_none_is_one_line() {
    let directory = directory("log-filter");
    let mut command = controller(&directory);
    command.env("RUST_LOG", "weir=loud=very");
    let line = only_error(&run(command).await, "RUST_LOG");
    assert!(line.contains("RUST_LOG is no log filter"), "{line}");
}

#[tokio::test]
async fn missing_definitions_or_rights_are_one_line_that_says_what_to_apply() {
    let rows = [
        (
            StatusCode::NOT_FOUND,
            "NotFound",
            "kubectl apply -f deploy/crds",
        ),
        (
            StatusCode::FORBIDDEN,
            "Forbidden",
            "apply the RBAC rules of deploy/",
        ),
    ];
    for (status, reason, expected) in rows {
        let answer = async move |request: Request| {
            let (status, body) = match request.uri().path() {
                "/version" => (
                    StatusCode::OK,
                    json!({"major": "1", "minor": "34",
                    "gitVersion": "v1.34.0", "gitCommit": "", "gitTreeState": "", "buildDate": "",
                    "goVersion": "", "compiler": "", "platform": ""}),
                ),
                _ => (
                    status,
                    json!({"apiVersion": "v1", "kind": "Status", "status": "Failure",
                    "message": "refused", "reason": reason, "code": status.as_u16()}),
                ),
            };
            Response::builder()
                .status(status)
                .body(Body::from(body.to_string()))
                .unwrap()
        };
        let server = serve(Router::new().fallback(answer)).await;
        let directory = directory(&format!("start-{reason}"));
        let kubeconfig = kubeconfig(&directory, &server);
        let mut command = controller(&directory);
        command.arg("--kubeconfig").arg(kubeconfig);
        let line = only_error(&run(command).await, reason);
        assert!(line.contains("AzureMachinePool"), "{line}");
        assert!(line.contains(expected), "{line}");
    }
}

#[tokio::test]
async fn a_controller_is_ready_shows_its_metrics_and_ends_when_asked() {
    let directory = directory("runs");
    let world = SharedWorld::new(World::new(WorldOptions::default(), 1));
    let kubeconfig = kubeconfig(&directory, &serve_world(world, Endpoint::Management).await);
    let mut command = controller(&directory);
    command.args([
        "--leader-elect",
        "--leader-election-namespace",
        "kube-system",
    ]);
    command.arg("--kubeconfig").arg(kubeconfig);
    let mut running = Running::start(command);
    let health = address(&running.logged("--health-addr").await);
    let metrics = address(&running.logged("--metrics-addr").await);
    running.logged("caches are filled").await;

    let (status, _) = get(&health, "/healthz").await;
    assert!(status.contains("200"), "{status}");
    let (status, _) = get(&health, "/readyz").await;
    assert!(status.contains("200"), "{status}");
    let (status, text) = get(&metrics, "/metrics").await;
    assert!(status.contains("200"), "{status}");
    assert!(text.contains("application/openmetrics-text"), "{text}");
    assert!(text.contains("weir_turns_total 0"), "{text}");
    assert!(
        !running.log.concat().contains(PASSWORD),
        "{:#?}",
        running.log
    );
    assert_eq!(running.terminate().await, Some(0));
}

#[tokio::test]
async fn of_two_copies_one_waits_for_the_lease() {
    let directory = directory("lease");
    let world = SharedWorld::new(World::new(WorldOptions::default(), 1));
    let kubeconfig = kubeconfig(&directory, &serve_world(world, Endpoint::Management).await);
    let start = || {
        let mut command = controller(&directory);
        command
            .arg("--leader-elect")
            .arg("--kubeconfig")
            .arg(&kubeconfig);
        Running::start(command)
    };
    let mut first = start();
    first.logged("holding the lease").await;
    let mut second = start();
    let health = address(&second.logged("--health-addr").await);
    let waiting = second.logged("waiting for the lease").await;
    assert!(waiting.contains("weir-controller-leader"), "{waiting}");
    let (status, _) = get(&health, "/readyz").await;
    assert!(status.contains("200"), "{status}");
    assert_eq!(second.terminate().await, Some(0));
    assert_eq!(first.terminate().await, Some(0));
}
