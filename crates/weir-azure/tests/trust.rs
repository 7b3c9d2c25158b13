//! Which servers the real wire trusts, and what it says when it does not.
//!
//! Trust is read from the environment when the wire is set up, so each case is a process of its
//! own: this program runs itself with `ASK` set, and that child asks the server for a scale set.

#![allow(clippy::unwrap_used, reason = "this is a test, its helpers included")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use weir_azure::{Arm, Credential, Endpoint, ScaleSetId};

const ASK: &str = "WEIR_TRUST_ASK";

fn main() {
    match std::env::var(ASK) {
        Ok(url) => ask(&url),
        Err(_) => run(),
    }
}

fn run() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("trust");
    fs::create_dir_all(&directory).unwrap();
    let (ours, other) = (directory.join("ours.pem"), directory.join("other.pem"));
    let none = directory.join("none.pem");
    let ca = authority("ours");
    fs::write(&ours, ca.pem()).unwrap();
    fs::write(&other, authority("another").pem()).unwrap();
    fs::write(&none, "").unwrap();
    let secure = serve(&ca);
    let silent = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();

    let closed = format!("https://localhost:{silent}");
    let nowhere = "https://no-such-host.invalid";
    let cases = [
        ("ssl_cert_file_is_trusted", &secure, &ours, "found pool-a"),
        (
            "a_strange_authority_is_named_as_the_cause",
            &secure,
            &other,
            "UnknownIssuer",
        ),
        (
            "no_certificates_at_all_says_what_to_install",
            &secure,
            &none,
            "SSL_CERT_FILE",
        ),
        (
            "a_closed_port_is_named",
            &closed,
            &ours,
            "Connection refused",
        ),
        (
            "a_host_without_address_is_named",
            &nowhere.to_owned(),
            &ours,
            "no-such-host.invalid",
        ),
    ];
    for (name, url, certificates, wanted) in cases {
        let said = child(url, certificates);
        assert!(
            said.contains(wanted),
            "{name}: wanted `{wanted}`, got: {said}"
        );
        assert_eq!(
            said.trim().lines().count(),
            1,
            "{name}: not one line: {said}"
        );
        println!("test {name} ... ok");
    }
}

/// What the child says: one line.
fn child(url: &str, certificates: &Path) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .env(ASK, url)
        .env("SSL_CERT_FILE", certificates)
        .env_remove("SSL_CERT_DIR")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::main(flavor = "current_thread")]
async fn ask(url: &str) {
    let wire = match weir_azure::http::connect() {
        Ok(wire) => wire,
        Err(error) => return println!("{error}"),
    };
    let endpoint = Endpoint::custom(url, url, "https://login.test").unwrap();
    let arm = Arm::new(wire, endpoint, Credential::anonymous());
    match arm
        .get_scale_set(&ScaleSetId::new("s", "g", "pool-a"))
        .await
    {
        Ok(found) => println!("found {}", found.unwrap().name.unwrap()),
        Err(error) => println!("{}", error.line()),
    }
}

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
}

/// Serves one fixed scale set over TLS for as long as the process lives; returns the URL.
fn serve(ca: &CertifiedIssuer<'static, KeyPair>) -> String {
    let key = KeyPair::generate().unwrap();
    let parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = parameters.signed_by(&key, ca).unwrap();
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(session, socket.unwrap());
            // A client that does not trust us hangs up during the handshake; that is its right.
            let _ = answer(&mut stream);
        }
    });
    format!("https://localhost:{port}")
}

fn answer(stream: &mut (impl Read + Write)) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        request.push(byte[0]);
    }
    let body = r#"{"name":"pool-a"}"#;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )?;
    stream.flush()
}
