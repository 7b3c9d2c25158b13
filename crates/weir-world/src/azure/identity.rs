//! Who is asking, and where is Azure?
//!
//! The token authority, the instance metadata endpoint for managed identities, and the document
//! that tells a client where everything is. Tokens are opaque words.

use std::collections::BTreeMap;
use std::fmt;

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::answer::{Answer, Answered};
use super::call::{Call, Route};
use super::{Azure, TokenCheck};

/// How long a token is good for.
///
/// # Source
/// An hour is at the lower end of what the authority issues (60 to 90 minutes).
const TOKEN_LIFE: SignedDuration = SignedDuration::from_hours(1);

/// The tokens that are good, with their ends.
#[derive(Clone, Default)]
pub(crate) struct Tokens {
    ends: BTreeMap<String, Timestamp>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens", self.ends.len())
    }
}

/// Says whether a route asks for no token.
pub(crate) fn is_open(route: &Route) -> bool {
    matches!(
        route,
        Route::MetadataEndpoints
            | Route::InstanceDiscovery
            | Route::OpenIdConfiguration { .. }
            | Route::Token { .. }
            | Route::IdentityToken
    )
}

impl Azure {
    pub(super) fn check_token(&self, call: &Call<'_>) -> Answered<()> {
        if self.options.token_check == TokenCheck::Off {
            return Ok(());
        }
        let token = call
            .header("authorization")
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim());
        let end = token.and_then(|token| self.tokens.ends.get(token));
        match (token, end) {
            (_, Some(end)) if *end > self.now => Ok(()),
            (_, Some(_)) => Err(self.unauthorized(
                call,
                "ExpiredAuthenticationToken",
                "The access token has expired.",
            )),
            (Some(_), None) => Err(self.unauthorized(
                call,
                "InvalidAuthenticationToken",
                "The access token is invalid.",
            )),
            (None, None) => Err(self.unauthorized(
                call,
                "AuthenticationFailed",
                "Authentication failed. The 'Authorization' header is missing.",
            )),
        }
    }

    fn unauthorized(&self, call: &Call<'_>, code: &str, message: &str) -> Answer {
        let (base, tenant) = (&call.base, &self.options.tenant);
        let challenge = format!("Bearer authorization_uri=\"{base}/{tenant}\"");
        Answer::error(StatusCode::UNAUTHORIZED, code, message).with("www-authenticate", challenge)
    }

    pub(super) fn issue_token(&mut self, call: &Call<'_>, tenant: &str) -> Answered {
        let form = call.form();
        let field = |name: &str| {
            let found = form.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value.as_str())
        };
        if field("grant_type") != Some("client_credentials") {
            return Err(self.token_refusal(
                StatusCode::BAD_REQUEST,
                "unsupported_grant_type",
                "AADSTS70003: The app requested an unsupported grant type.",
                70_003,
            ));
        }
        let tenant_is_known = tenant.eq_ignore_ascii_case(&self.options.tenant)
            || ["common", "organizations"].contains(&tenant);
        if !tenant_is_known {
            return Err(self.token_refusal(
                StatusCode::BAD_REQUEST,
                "invalid_request",
                "AADSTS90002: Tenant not found. Check to make sure you have the correct tenant \
                 ID and are signing into the correct cloud.",
                90_002,
            ));
        }
        let secret_is_good = match &self.options.client_secret {
            None => field("client_secret").is_some_and(|secret| !secret.is_empty()),
            Some(expected) => field("client_secret") == Some(expected),
        };
        // An assertion's signature is not looked at: there is no key to check it with.
        let assertion_is_good = field("client_assertion").is_some_and(|a| !a.is_empty())
            && field("client_assertion_type")
                == Some("urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
        if !(secret_is_good || assertion_is_good) {
            return Err(self.token_refusal(
                StatusCode::UNAUTHORIZED,
                "invalid_client",
                "AADSTS7000215: Invalid client secret provided. Ensure the secret being sent in \
                 the request is the client secret value, not the client secret ID.",
                7_000_215,
            ));
        }
        let token = self.new_token();
        Ok(Answer::ok(json!({
            "token_type": "Bearer",
            "expires_in": TOKEN_LIFE.as_secs(),
            "ext_expires_in": TOKEN_LIFE.as_secs(),
            "access_token": token,
        }))
        .with("cache-control", "no-store, no-cache"))
    }

    fn token_refusal(&self, status: StatusCode, error: &str, text: &str, code: u32) -> Answer {
        let body = json!({
            "error": error,
            "error_description": text,
            "error_codes": [code],
            "timestamp": self.now.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
        });
        Answer::json(status, body)
    }

    /// Issues a token, as a successful login does. For clients that bring their own.
    pub fn new_token(&mut self) -> String {
        let now = self.now;
        self.tokens.ends.retain(|_, end| *end > now);
        let token = format!("sim-{}", self.rng.requests.token(40));
        self.tokens.ends.insert(token.clone(), now + TOKEN_LIFE);
        token
    }

    /// Takes every token back, so that clients must log in again.
    pub fn revoke_tokens(&mut self) {
        self.tokens.ends.clear();
    }

    pub(super) fn identity_token(&mut self, call: &Call<'_>) -> Answered {
        let has_header = call
            .header("metadata")
            .is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let (Some(resource), true) = (call.parameter("resource"), has_header) else {
            let body = json!({"error": "invalid_request",
                "error_description": "Required metadata header or resource not specified"});
            return Err(Answer::json(StatusCode::BAD_REQUEST, body));
        };
        let resource = resource.to_owned();
        let token = self.new_token();
        let life = TOKEN_LIFE.as_secs();
        Ok(Answer::ok(json!({
            "access_token": token,
            "expires_in": life.to_string(),
            "expires_on": (self.now.as_second() + life).to_string(),
            "not_before": self.now.as_second().to_string(),
            "resource": resource,
            "token_type": "Bearer",
        })))
    }
}

pub(crate) fn open_id_configuration(base: &str, tenant: &str) -> Value {
    json!({
        "issuer": format!("{base}/{tenant}/v2.0"),
        "authorization_endpoint": format!("{base}/{tenant}/oauth2/v2.0/authorize"),
        "token_endpoint": format!("{base}/{tenant}/oauth2/v2.0/token"),
        "device_authorization_endpoint": format!("{base}/{tenant}/oauth2/v2.0/devicecode"),
        "jwks_uri": format!("{base}/{tenant}/discovery/v2.0/keys"),
        "response_types_supported": ["code", "id_token", "code id_token"],
        "subject_types_supported": ["pairwise"],
        "id_token_signing_alg_values_supported": ["RS256"],
    })
}

pub(crate) fn instance_discovery(base: &str, tenant: &str) -> Value {
    json!({
        "tenant_discovery_endpoint":
            format!("{base}/{tenant}/v2.0/.well-known/openid-configuration"),
        "api-version": "1.1",
        "metadata": [],
    })
}

pub(crate) fn metadata_endpoints(base: &str) -> Value {
    json!({
        "name": "Sim",
        "portal": base,
        "authentication": {
            "loginEndpoint": base,
            "audiences": [format!("{base}/"), base],
            "tenant": "common",
            "identityProvider": "AAD",
        },
        "graphAudience": base,
        "graph": base,
        "microsoftGraphResourceId": base,
        "resourceManager": base,
        "media": "",
        "batch": "",
        "gallery": "",
        "vmImageAliasDoc": "",
        "suffixes": {"storage": "sim.local", "keyVaultDns": "kv.sim.local"},
    })
}
