//! The boundary to Azure Resource Manager (ARM): what do we ask of Azure, and what did it answer?
//!
//! [`Arm`] is one concrete, typed client with a method for each verb Weir uses. It stands on
//! [`Wire`], a tower service that exchanges one HTTP request for one response, and the seam to
//! Azure lies there: production puts [`http::connect`] behind it, a simulation puts itself behind
//! it, and both run the same encoding, decoding, error mapping and retries.
//!
//! This crate decides nothing about pools. It knows no Kubernetes, and nothing here outlives a
//! call except cached tokens. Read `arm.rs` next, then `error.rs`.

mod arm;
mod credential;
mod endpoint;
mod error;
mod exchange;
pub mod http;
mod id;
mod operation;
mod secret;
mod size;
pub mod vmss;
mod wire;

pub use arm::{Accepted, Arm, Deletion, Precondition};
pub use credential::{Credential, CredentialError, Identity, UserAssigned};
pub use endpoint::{Endpoint, EndpointError};
pub use error::{ArmError, ErrorKind, Failure, Retry};
pub use exchange::{Call, Meter, Outcome, Verb};
pub use id::{ETag, ParseIdError, ScaleSetId};
pub use operation::{Operation, OperationStatus};
pub use secret::Secret;
pub use size::VmSize;
pub use vmss::{Instance, PowerState, ProvisioningState, Reimage, ScaleSet, ScaleSetPatch};
pub use wire::{Wire, WireError};
