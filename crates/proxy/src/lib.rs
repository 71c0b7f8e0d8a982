//! Route of an HTTP request: direct, or through the proxy that the environment names.
//!
//! `ureq` uses the first proxy variable it finds, for every URL. Here the scheme of the URL selects
//! the variable, as in curl:
//!
//! | URL | variables, the first one set applies |
//! |---|---|
//! | `https://` | `https_proxy`, `HTTPS_PROXY`, `all_proxy`, `ALL_PROXY` |
//! | `http://` | `http_proxy`, `HTTP_PROXY`, `all_proxy`, `ALL_PROXY` |
//!
//! Requests to loopback addresses and hosts in `no_proxy` or `NO_PROXY` go directly. A proxy sees
//! the content of requests to `http://` addresses, so those with credentials are refused. For
//! `https://` it sees only host and port.

mod exceptions;

use std::env;
use std::net::{IpAddr, ToSocketAddrs};

use ureq::http::Uri;
use ureq::{Proxy, ProxyProtocol};

/// A proxy in the environment that cannot carry a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The proxy would see credentials.
    #[error(
        "credentials would go unencrypted through the proxy in {variable}; give an https:// \
         address, or add {host} to NO_PROXY"
    )]
    Unencrypted {
        /// Environment variable that names the proxy.
        variable: &'static str,
        /// Host of the request.
        host: String,
    },
    /// The variable names something other than an HTTP proxy.
    #[error(
        "{variable} does not name an HTTP proxy, such as http://HOST:PORT; correct it, or add {host} to NO_PROXY"
    )]
    Unsupported {
        /// Environment variable.
        variable: &'static str,
        /// Host of the request.
        host: String,
    },
}

/// Returns the proxy for a request, or nothing if it goes directly to its host.
///
/// ```
/// let uri = "http://127.0.0.1:4040/".parse()?;
/// assert!(rprof_proxy::proxy_for(&uri, true)?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ProxyError`].
pub fn proxy_for(uri: &Uri, has_credentials: bool) -> Result<Option<Proxy>, ProxyError> {
    choose(uri, has_credentials, &|name| env::var(name).ok())
}

/// Returns true if a host is this machine: a loopback address, or `localhost` unless that resolves
/// to another machine.
/// Brackets around an IPv6 address are allowed.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let is_here = |ip: IpAddr| ip.to_canonical().is_loopback();
    if host.eq_ignore_ascii_case("localhost") {
        // If it does not resolve, nothing is sent.
        let resolved = (host, 0).to_socket_addrs();
        return resolved.map_or(true, |mut all| all.all(|address| is_here(address.ip())));
    }
    host.trim_matches(['[', ']']).parse().is_ok_and(is_here)
}

fn choose(
    uri: &Uri,
    has_credentials: bool,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Proxy>, ProxyError> {
    let is_https = uri.scheme_str() == Some("https");
    let names = match is_https {
        true => ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
        false => ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"],
    };
    let host = uri.host().unwrap_or_default();
    let set = (names.into_iter()).find_map(|name| Some((name, variable(name)?)));
    let Some((name, value)) = set.filter(|(_, value)| !value.is_empty()) else {
        return Ok(None);
    };
    let direct = ["no_proxy", "NO_PROXY"].into_iter().find_map(|name| {
        let list = variable(name)?;
        (!list.is_empty()).then_some(list)
    });
    let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
    if is_loopback(host) || direct.is_some_and(|list| exceptions::hold(&list, host, port)) {
        return Ok(None);
    }
    // The value may contain a password, so no message shows it.
    let proxy = Proxy::new(&value)
        .ok()
        .filter(|proxy| matches!(proxy.protocol(), ProxyProtocol::Http | ProxyProtocol::Https));
    match proxy {
        None => Err(ProxyError::Unsupported {
            variable: name,
            host: host.to_owned(),
        }),
        Some(_) if has_credentials && !is_https => Err(ProxyError::Unencrypted {
            variable: name,
            host: host.to_owned(),
        }),
        proxy => Ok(proxy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the host of the proxy for a request, in an environment.
    fn route(
        uri: &str,
        has_credentials: bool,
        environment: &[(&str, &str)],
    ) -> Result<Option<String>, ProxyError> {
        let variable = |name: &str| {
            let set = environment.iter().find(|(set, _)| *set == name);
            set.map(|(_, value)| (*value).to_owned())
        };
        let proxy = choose(&uri.parse().unwrap(), has_credentials, &variable)?;
        Ok(proxy.map(|proxy| proxy.host().to_owned()))
    }

    #[test]
    fn the_scheme_of_the_address_selects_the_variable() {
        let both = [("http_proxy", "http://p1:1"), ("https_proxy", "p2:2")];
        let all = [("ALL_PROXY", "http://p3:3"), ("HTTPS_PROXY", "http://p4")];
        let none = [("http_proxy", ""), ("all_proxy", "http://p5")];
        for (uri, environment, proxy) in [
            ("http://a.example/", &both[..], Some("p1")),
            ("https://a.example/", &both, Some("p2")),
            ("http://a.example/", &all, Some("p3")),
            ("https://a.example/", &all, Some("p4")),
            ("http://a.example/", &none, None),
            ("https://a.example/", &none, Some("p5")),
            ("https://a.example/", &[], None),
        ] {
            let found = route(uri, false, environment).unwrap();
            assert_eq!(found.as_deref(), proxy, "{uri} {environment:?}");
        }
    }

    #[test]
    fn loopback_addresses_and_no_proxy_are_reached_directly() {
        let environment = [("all_proxy", "http://p:1"), ("no_proxy", "a.example, b:81")];
        for uri in [
            "http://localhost:4040/x",
            "http://LOCALHOST/",
            "https://127.0.0.1/",
            "http://127.9.9.9:1/",
            "http://[::1]:1/",
            "http://[::ffff:127.0.0.1]:1/",
            "http://x.a.example/",
            "http://b:81/",
        ] {
            assert_eq!(route(uri, true, &environment), Ok(None), "{uri}");
        }
        for uri in ["https://localhost.a/", "https://b:82/", "https://10.0.0.1/"] {
            assert_eq!(
                route(uri, true, &environment),
                Ok(Some("p".into())),
                "{uri}"
            );
        }
        let environment = [("http_proxy", "p"), ("no_proxy", ""), ("NO_PROXY", "*")];
        assert_eq!(route("http://a/", true, &environment), Ok(None));
    }

    #[test]
    fn credentials_do_not_pass_a_proxy_without_encryption() {
        for proxy in ["http://p:1", "https://p:1", "p:1"] {
            let environment = [("http_proxy", proxy), ("https_proxy", proxy)];
            let refused = route("http://a.example/", true, &environment).unwrap_err();
            let message = refused.to_string();
            assert!(message.contains("http_proxy") && message.contains("a.example to NO_PROXY"));
            for (uri, has_credentials) in
                [("https://a.example/", true), ("http://a.example/", false)]
            {
                let found = route(uri, has_credentials, &environment);
                assert_eq!(found, Ok(Some("p".into())), "{uri}");
            }
        }
    }

    #[test]
    fn proxies_other_than_http_are_refused_and_not_shown() {
        for proxy in [
            "socks5://u:s3cret@p:1",
            "ftp://u:s3cret@p",
            "http://",
            "a b",
        ] {
            let refused = route("https://a.example/", false, &[("ALL_PROXY", proxy)]).unwrap_err();
            assert!(matches!(
                refused,
                ProxyError::Unsupported {
                    variable: "ALL_PROXY",
                    ..
                }
            ));
            assert!(!refused.to_string().contains("s3cret"));
        }
    }
}
