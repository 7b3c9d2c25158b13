//! What carries a request to Azure and an answer back?
//!
//! One boxed tower service. It knows nothing of tokens, JSON or retries; [`crate::Arm`] does. The
//! real one is in `http.rs`.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use tower::util::BoxCloneSyncService;

/// Exchanges one HTTP request for one complete HTTP response.
///
/// Requests carry an absolute URI. Any status is an `Ok`: an error means that no answer came.
pub type Wire = BoxCloneSyncService<Request<Bytes>, Response<Bytes>, WireError>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// No answer came over the wire.
///
/// After anything but [`WireError::Connect`] the request may have been carried out all the same.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The connection could not be made, so nothing was sent.
    #[error("cannot connect to {host}")]
    Connect {
        /// Host and port that were tried.
        host: String,
        /// What the network or TLS said.
        source: BoxError,
    },
    /// No complete answer came in time.
    #[error("no answer from {host} within {} s", after.as_secs())]
    Timeout {
        /// Host and port that were asked.
        host: String,
        /// How long we waited.
        after: Duration,
    },
    /// The connection broke, or the answer could not be read to its end.
    #[error("the exchange with {host} broke off")]
    Broken {
        /// Host and port that were asked.
        host: String,
        /// What went wrong.
        source: BoxError,
    },
}

impl WireError {
    /// Returns the host and port that gave no answer.
    pub fn host(&self) -> &str {
        match self {
            Self::Connect { host, .. } | Self::Timeout { host, .. } | Self::Broken { host, .. } => {
                host
            }
        }
    }
}
