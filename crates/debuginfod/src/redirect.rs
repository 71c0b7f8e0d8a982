//! Redirects: only to the same server.

use ureq::http::Uri;
use ureq::http::uri::Scheme;

/// Reason to refuse a redirect.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The target is not an HTTP address.
    NoAddress,
    /// The target is another server, or downgrades HTTPS to HTTP: `SCHEME://HOST:PORT`.
    Elsewhere(String),
}

/// Resolves the `Location` header of a response from `from` (RFC 9110, 10.2.2). Only accepts the
/// same server: the same host and port, or an upgrade of the same host to HTTPS.
///
/// Naming a server means trusting that server and no other. With free redirects, a server could
/// send requests into the internal network of the user who reads a recording.
pub(crate) fn follow(from: &Uri, location: &str) -> Result<Uri, Refused> {
    let location = location.split('#').next().unwrap_or_default();
    let (Some(scheme), Some(authority)) = (from.scheme_str(), from.authority()) else {
        return Err(Refused::NoAddress);
    };
    let first = location.split(['/', '?']).next().unwrap_or_default();
    let whole = if first.contains(':') {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else {
        let folder = from
            .path()
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        format!("{scheme}://{authority}{folder}/{location}")
    };
    let to: Uri = whole.parse().map_err(|_| Refused::NoAddress)?;
    let (Some(host), Some(port), Some(to_scheme)) = (to.host(), port(&to), to.scheme_str()) else {
        return Err(Refused::NoAddress);
    };
    if host.is_empty() {
        return Err(Refused::NoAddress);
    }
    let is_same_host = from
        .host()
        .is_some_and(|old| old.eq_ignore_ascii_case(host));
    let is_same_port = self::port(from) == Some(port);
    let is_https = to.scheme() == Some(&Scheme::HTTPS);
    let was_https = from.scheme() == Some(&Scheme::HTTPS);
    let is_upgrade = is_https && !was_https && (self::port(from), port) == (Some(80), 443);
    let is_downgrade = was_https && !is_https;
    match is_same_host && (is_same_port || is_upgrade) && !is_downgrade {
        true => Ok(to),
        false => Err(Refused::Elsewhere(format!("{to_scheme}://{host}:{port}"))),
    }
}

fn port(uri: &Uri) -> Option<u16> {
    let default = match uri.scheme()? {
        scheme if *scheme == Scheme::HTTP => 80,
        scheme if *scheme == Scheme::HTTPS => 443,
        _ => return None,
    };
    Some(uri.port_u16().unwrap_or(default))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(from: &str, location: &str) -> Result<String, Refused> {
        follow(&from.parse().unwrap(), location).map(|uri| uri.to_string())
    }

    #[test]
    fn redirects_stay_on_the_server() {
        let from = "http://a.example:8002/buildid/ab/debuginfo";
        for (location, whole) in [
            ("/x", "http://a.example:8002/x"),
            ("x?y#z", "http://a.example:8002/buildid/ab/x?y"),
            ("//A.example:8002/x", "http://A.example:8002/x"),
            ("http://a.example:8002/x", "http://a.example:8002/x"),
            ("https://a.example:8002/x", "https://a.example:8002/x"),
        ] {
            assert_eq!(to(from, location).as_deref(), Ok(whole));
        }
        let upgraded = to("http://a.example/x", "https://a.example/x");
        assert_eq!(upgraded.as_deref(), Ok("https://a.example/x"));
        for (from, location, elsewhere) in [
            (from, "http://b.example:8002/x", "http://b.example:8002"),
            (from, "http://a.example/x", "http://a.example:80"),
            (from, "//a.example:22/", "http://a.example:22"),
            (
                from,
                "http://a.example:8002@127.0.0.1/",
                "http://127.0.0.1:80",
            ),
            (
                "https://a.example/x",
                "http://a.example:443/",
                "http://a.example:443",
            ),
            (
                "https://a.example/x",
                "http://a.example/",
                "http://a.example:80",
            ),
        ] {
            assert_eq!(
                to(from, location),
                Err(Refused::Elsewhere(elsewhere.into()))
            );
        }
        for location in [
            "file:///etc/passwd",
            "ftp://a.example:8002/",
            "http://",
            "\u{1b}[2J",
            "mailto:x",
        ] {
            assert_eq!(to(from, location), Err(Refused::NoAddress), "{location}");
        }
    }
}
