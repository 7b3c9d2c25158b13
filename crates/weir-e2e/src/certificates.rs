//! Which certificates do servers on loopback need so that real clients trust them?

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// Files of one authority and of one certificate for every server on loopback.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
    /// The authority's certificate.
    pub(crate) ca: PathBuf,
    /// Holds `tls.crt` and `tls.key`, the names that Cluster API's webhooks look for.
    pub(crate) serving: PathBuf,
    /// Signs service account tokens, and its public half.
    pub(crate) account_key: PathBuf,
    /// The public half of `account_key`.
    pub(crate) account_public_key: PathBuf,
}

impl Certificates {
    /// Makes all of them below `directory`.
    pub(crate) fn create(directory: &Path) -> anyhow::Result<Self> {
        let serving = directory.join("serving");
        fs::create_dir_all(&serving).context("failed to create a directory for certificates")?;
        let certificates = Self {
            ca: directory.join("ca.crt"),
            serving,
            account_key: directory.join("accounts.key"),
            account_public_key: directory.join("accounts.pub"),
        };

        let ca_key = KeyPair::generate().context("failed to make the authority's key")?;
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.distinguished_name.push(DnType::CommonName, "weir-e2e");
        let ca_certificate = ca
            .self_signed(&ca_key)
            .context("failed to sign the authority")?;
        write(&certificates.ca, &ca_certificate.pem())?;

        let key = KeyPair::generate().context("failed to make the servers' key")?;
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let server = CertificateParams::new(names)
            .and_then(|server| server.signed_by(&key, &Issuer::new(ca, ca_key)))
            .context("failed to sign the servers' certificate")?;
        write(&certificates.certificate(), &server.pem())?;
        write(&certificates.key(), &key.serialize_pem())?;

        let accounts = KeyPair::generate().context("failed to make the accounts' key")?;
        write(&certificates.account_key, &accounts.serialize_pem())?;
        write(&certificates.account_public_key, &accounts.public_key_pem())?;
        Ok(certificates)
    }

    /// Returns the servers' certificate.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.serving.join("tls.crt")
    }

    /// Returns the servers' key.
    pub(crate) fn key(&self) -> PathBuf {
        self.serving.join("tls.key")
    }

    /// Returns the authority's certificate in the form of a `caBundle`.
    pub(crate) fn ca_bundle(&self) -> anyhow::Result<serde_json::Value> {
        let ca = fs::read(&self.ca).context("failed to read the authority's certificate")?;
        Ok(serde_json::to_value(k8s_openapi::ByteString(ca))?)
    }
}

fn write(path: &Path, content: &str) -> anyhow::Result<()> {
    fs::write(path, content).with_context(|| format!("failed to write {}", path.display()))
}
