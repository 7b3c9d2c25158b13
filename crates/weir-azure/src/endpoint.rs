//! Which Azure is meant: where are its resource manager and its token authority?

use http::Uri;

/// The addresses of one Azure cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    resource_manager: String,
    audience: String,
    authority: String,
}

/// An address given for a custom cloud cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The text is not an absolute URL without path or query.
    #[error("{what} `{url}` is not a base URL such as https://management.azure.com")]
    NotABaseUrl {
        /// Which address it is.
        what: &'static str,
        /// The text given.
        url: String,
    },
    /// A bearer token would travel in clear text.
    #[error("{what} `{url}` must use https; plain http is accepted for loopback addresses only")]
    ClearText {
        /// Which address it is.
        what: &'static str,
        /// The text given.
        url: String,
    },
    /// No cloud has this name.
    #[error(
        "Azure environment `{0}` is unknown; use AzurePublicCloud, AzureUSGovernmentCloud or \
         AzureChinaCloud"
    )]
    UnknownCloud(String),
}

impl Endpoint {
    /// Returns the public cloud.
    pub fn public() -> Self {
        Self::fixed(
            "https://management.azure.com",
            "https://login.microsoftonline.com",
        )
    }

    /// Returns a cloud by the name that Cluster API's `azureEnvironment` uses; empty means public.
    ///
    /// # Errors
    /// [`EndpointError::UnknownCloud`] for any other name.
    pub fn named(cloud: &str) -> Result<Self, EndpointError> {
        match cloud {
            "" | "AzurePublicCloud" => Ok(Self::public()),
            "AzureUSGovernmentCloud" => Ok(Self::fixed(
                "https://management.usgovcloudapi.net",
                "https://login.microsoftonline.us",
            )),
            "AzureChinaCloud" => Ok(Self::fixed(
                "https://management.chinacloudapi.cn",
                "https://login.chinacloudapi.cn",
            )),
            other => Err(EndpointError::UnknownCloud(other.to_owned())),
        }
    }

    /// Returns a cloud at addresses of your own: ARM's base URL, the audience that tokens are
    /// asked for, and the base URL of the token authority.
    ///
    /// # Errors
    /// When ARM's or the authority's address is not a base URL, or would send tokens in the clear.
    pub fn custom(
        resource_manager: &str,
        audience: &str,
        authority: &str,
    ) -> Result<Self, EndpointError> {
        Ok(Self {
            resource_manager: base_url("resource manager endpoint", resource_manager)?,
            audience: audience.trim_end_matches('/').to_owned(),
            authority: base_url("authority host", authority)?,
        })
    }

    /// Returns ARM's base URL, without a slash at its end.
    pub fn resource_manager(&self) -> &str {
        &self.resource_manager
    }

    /// Returns the base URL of the token authority, without a slash at its end.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the OAuth scope that tokens are asked for.
    pub fn scope(&self) -> String {
        format!("{}/.default", self.audience)
    }

    /// Says whether a URL that ARM handed out may be sent our token.
    ///
    /// Poll and page URLs come from response headers and bodies. The token goes to ARM's own host
    /// and its (regional) subdomains, over the same scheme, and nowhere else.
    pub(crate) fn covers(&self, url: &Uri) -> bool {
        let Ok(home) = self.resource_manager.parse::<Uri>() else {
            return false;
        };
        let (Some(ours), Some(theirs)) = (home.host(), url.host()) else {
            return false;
        };
        let (ours, theirs) = (ours.to_ascii_lowercase(), theirs.to_ascii_lowercase());
        let is_ours = theirs == ours || theirs.ends_with(&format!(".{ours}"));
        is_ours && home.scheme() == url.scheme() && port(&home) == port(url)
    }

    fn fixed(resource_manager: &str, authority: &str) -> Self {
        Self {
            resource_manager: resource_manager.to_owned(),
            audience: resource_manager.to_owned(),
            authority: authority.to_owned(),
        }
    }
}

fn port(url: &Uri) -> u16 {
    let by_scheme = if url.scheme_str() == Some("http") {
        80
    } else {
        443
    };
    url.port_u16().unwrap_or(by_scheme)
}

fn base_url(what: &'static str, url: &str) -> Result<String, EndpointError> {
    let trimmed = url.trim_end_matches('/');
    let not_a_base_url = || EndpointError::NotABaseUrl {
        what,
        url: url.to_owned(),
    };
    let parsed: Uri = trimmed.parse().map_err(|_| not_a_base_url())?;
    let host = parsed.host().ok_or_else(not_a_base_url)?;
    if parsed
        .path_and_query()
        .is_some_and(|rest| rest.as_str() != "/")
    {
        return Err(not_a_base_url());
    }
    let is_loopback = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    match parsed.scheme_str() {
        Some("https") => Ok(trimmed.to_owned()),
        Some("http") if is_loopback => Ok(trimmed.to_owned()),
        Some("http") => Err(EndpointError::ClearText {
            what,
            url: url.to_owned(),
        }),
        _ => Err(not_a_base_url()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_addresses_lose_their_last_slash_and_must_be_base_urls() {
        let sim = Endpoint::custom("https://localhost:8443/", "https://sim/", "https://login/");
        let sim = sim.unwrap();
        assert_eq!(sim.resource_manager(), "https://localhost:8443");
        assert_eq!(sim.scope(), "https://sim/.default");
        for refused in [
            "localhost",
            "https://a/path",
            "ftp://a",
            "http://arm.example",
            "",
        ] {
            assert!(
                Endpoint::custom(refused, "a", "https://login").is_err(),
                "{refused}"
            );
        }
        assert!(Endpoint::custom("http://127.0.0.1:1", "a", "https://login").is_ok());
    }

    #[test]
    fn the_token_stays_with_arm() {
        let public = Endpoint::public();
        let rows = [
            ("https://management.azure.com/x", true),
            ("https://management.azure.com:443/x", true),
            ("https://westeurope.management.azure.com/x", true),
            ("http://management.azure.com/x", false),
            ("https://management.azure.com.evil.example/x", false),
            ("https://evilmanagement.azure.com/x", false),
            ("/relative", false),
        ];
        for (url, covered) in rows {
            assert_eq!(public.covers(&url.parse().unwrap()), covered, "{url}");
        }
    }

    #[test]
    fn clouds_are_found_by_the_names_cluster_api_uses() {
        assert_eq!(Endpoint::named("").unwrap(), Endpoint::public());
        assert!(Endpoint::named("AzureUSGovernmentCloud").is_ok());
        assert!(Endpoint::named("azure").is_err());
    }
}
