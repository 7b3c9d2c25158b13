//! How does a test run the built binary, with nothing of the surroundings in its way?

#![allow(dead_code, reason = "each test file uses its own part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;
use weir_world::serve::SharedWorld;
use weir_world::world::Endpoint;

/// How long anything may take on busy cores before a test gives up.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The word that must never be seen in what the binary prints.
pub(crate) const PASSWORD: &str = "correct-horse-battery-staple";

/// A directory of one test's own, empty at its start.
pub(crate) fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if directory.exists() {
        fs::remove_dir_all(&directory).unwrap();
    }
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// The binary with no environment but a certificate authority that it may trust.
pub(crate) fn weir(directory: &Path) -> Command {
    let authority = directory.join("trusted.pem");
    if !authority.exists() {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params
            .self_signed(&KeyPair::generate().unwrap())
            .unwrap()
            .pem();
        fs::write(&authority, certificate).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .env_clear()
        .env("SSL_CERT_FILE", authority)
        .env("HOME", directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Runs the binary to its end.
pub(crate) async fn run(mut command: Command) -> Output {
    timeout(LIMIT, command.output())
        .await
        .expect("the binary did not end in time")
        .unwrap()
}

/// Asserts that a run failed with exactly one line on stderr beside log lines, and returns it.
pub(crate) fn only_error(output: &Output, case: &str) -> String {
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{case}: {stderr}");
    assert!(
        !stderr.contains(PASSWORD),
        "{case} shows a secret: {stderr}"
    );
    let mut lines = Vec::new();
    for line in stderr.lines() {
        match line.starts_with("{\"timestamp\"") {
            true => assert!(
                line.contains("\"level\":\"INFO\""),
                "{case} warns too: {line}"
            ),
            false => lines.push(line),
        }
    }
    let [line] = lines[..] else {
        panic!("{case} does not print one line:\n{stderr}");
    };
    assert!(line.starts_with("error: "), "{case}: {line}");
    line.to_owned()
}

/// Writes a kubeconfig for a server that wants no TLS, with a token that must not be shown.
pub(crate) fn kubeconfig(directory: &Path, server: &str) -> PathBuf {
    let path = directory.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
         users: [{{name: u, user: {{token: {PASSWORD}}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
    );
    fs::write(&path, text).unwrap();
    path
}

/// A running binary, killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: Lines<BufReader<ChildStderr>>,
    /// What it has printed to stderr so far.
    pub(crate) log: Vec<String>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Running {
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        Running {
            child,
            stdout,
            stderr,
            log: Vec::new(),
        }
    }

    /// Returns the next line of stdout.
    pub(crate) async fn line(&mut self) -> String {
        let line = timeout(LIMIT, self.stdout.next_line()).await;
        line.expect("no line was printed in time")
            .unwrap()
            .expect("stdout is closed")
    }

    /// Reads stderr up to a line that contains these words, and returns the line.
    pub(crate) async fn logged(&mut self, words: &str) -> String {
        loop {
            let line = timeout(LIMIT, self.stderr.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("no {words} in {:#?}", self.log));
            let line = line.unwrap();
            let line = line.unwrap_or_else(|| panic!("ended without {words}: {:#?}", self.log));
            self.log.push(line.clone());
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Sends SIGTERM and returns the exit status.
    pub(crate) async fn terminate(mut self) -> Option<i32> {
        let id = self.child.id().expect("it still runs").to_string();
        let asked = Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .await
            .unwrap();
        assert!(asked.success());
        let ended = timeout(LIMIT, self.child.wait()).await;
        ended.expect("it did not end in time").unwrap().code()
    }
}

/// Gets a path over plain HTTP and returns the status line and the rest.
pub(crate) async fn get(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(LIMIT, stream.read_to_string(&mut answer))
        .await
        .unwrap()
        .unwrap();
    let (status, rest) = answer.split_once("\r\n").unwrap();
    (status.to_owned(), rest.to_owned())
}

/// Serves one side of a simulated world over plain HTTP until the test ends.
pub(crate) async fn serve_world(world: SharedWorld, side: Endpoint) -> String {
    let answer = async move |request: Request| {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        world
            .answer(side, &Request::from_parts(parts, body))
            .map(Body::new)
    };
    serve(Router::new().fallback(answer)).await
}

/// Serves until the test ends; returns the base URL.
pub(crate) async fn serve(routes: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    format!("http://{address}")
}

/// The defaults that `weir azure-sim --help` prints.
pub(crate) const SUBSCRIPTION: &str = "22222222-2222-2222-2222-222222222222";
pub(crate) const TENANT: &str = "11111111-1111-1111-1111-111111111111";

/// A running simulated Azure.
pub(crate) struct Sim {
    pub(crate) running: Running,
    pub(crate) url: String,
    pub(crate) ca: PathBuf,
}

impl Sim {
    /// Starts it on a free port and waits until it listens.
    pub(crate) async fn start(directory: &Path, flags: &[&str]) -> Sim {
        let ca = directory.join("ca.pem");
        let mut command = weir(directory);
        command
            .args(["azure-sim", "--listen=127.0.0.1:0"])
            .args(flags);
        command.arg("--ca-file").arg(&ca);
        let mut running = Running::start(command);
        let line = running.line().await;
        let rest = line.strip_prefix("listening on ").unwrap();
        let (url, at) = rest.split_once(", CA in ").unwrap();
        assert_eq!(at, ca.display().to_string());
        assert!(url.starts_with("https://127.0.0.1:"), "{line}");
        Sim {
            running,
            url: url.to_owned(),
            ca,
        }
    }
}

/// Returns the address in a log line about a listener.
pub(crate) fn address(line: &str) -> String {
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    line["address"].as_str().unwrap().to_owned()
}
