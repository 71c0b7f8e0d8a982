//! [`ServerKind`]: server types, with their addresses and limits.

use std::fmt;

use rprof_export::{ExportOptions, PartEncoder, otlp, pprof};
use rprof_profile::{Profile, WeighBy};

use crate::error::PushError;

/// Type of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerKind {
    /// Pyroscope: `push.v1.PusherService/Push` over the Connect protocol, with pprof inside.
    Pyroscope,
    /// Parca: `ProfileStoreService/WriteRaw` through its HTTP gateway, with pprof inside.
    Parca,
    /// OTLP over HTTP, for collectors and several servers.
    Otlp,
}

/// Server limits for one profile or request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Maximum samples: rows of equal labels and stack.
    pub samples: usize,
    /// Maximum bytes of a profile before compression.
    pub bytes: u64,
    /// Maximum locations in a stack. The innermost are kept.
    pub depth: Option<usize>,
    /// Maximum labels of a profile, including added ones.
    pub labels: usize,
    /// Maximum bytes of a label's value.
    pub label_value: usize,
}

impl ServerKind {
    /// Types of servers, in the order of the help text.
    pub const ALL: [ServerKind; 3] = [ServerKind::Pyroscope, ServerKind::Parca, ServerKind::Otlp];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            ServerKind::Pyroscope => "pyroscope",
            ServerKind::Parca => "parca",
            ServerKind::Otlp => "otlp",
        }
    }

    /// Returns the server's default limits.
    ///
    /// Sources: for Pyroscope the defaults of its `limits` (`max_profile_stacktrace_samples`,
    /// `max_profile_size_bytes`, `max_profile_stacktrace_depth`, `max_label_names_per_series`,
    /// `max_label_value_length`); for Parca half of its gRPC server's message limit; for OTLP the
    /// limit of a collector's HTTP receiver.
    pub fn limits(self) -> ServerLimits {
        match self {
            ServerKind::Pyroscope => ServerLimits {
                samples: 16_000,
                bytes: 4 << 20,
                depth: Some(1_000),
                labels: 30,
                label_value: 2_048,
            },
            ServerKind::Parca => ServerLimits {
                samples: usize::MAX,
                bytes: 16 << 20,
                depth: None,
                labels: 64,
                label_value: 64 << 10,
            },
            ServerKind::Otlp => ServerLimits {
                samples: usize::MAX,
                bytes: 20 << 20,
                depth: None,
                labels: 128,
                label_value: 64 << 10,
            },
        }
    }

    /// Returns the default maximum age in seconds of accepted profiles; an hour for Pyroscope.
    pub fn oldest(self) -> Option<u64> {
        (self == ServerKind::Pyroscope).then_some(3600)
    }

    /// Returns the URL of requests. `server` may include a path.
    ///
    /// # Errors
    /// Returns [`PushError::NotHttp`], [`PushError::CredentialsInAddress`].
    pub fn address(self, server: &str) -> Result<String, PushError> {
        let lower = server.to_ascii_lowercase();
        let rest = ["http://", "https://"]
            .iter()
            .find_map(|scheme| lower.strip_prefix(scheme))
            .ok_or_else(|| PushError::NotHttp(server.to_owned()))?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err(PushError::CredentialsInAddress);
        }
        if authority.is_empty() || rest.contains(['?', '#']) {
            return Err(PushError::NotHttp(server.to_owned()));
        }
        let server = server.trim_end_matches('/');
        let path = self.path();
        Ok(match server.ends_with(path) {
            true => server.to_owned(),
            false => format!("{server}{path}"),
        })
    }

    fn path(self) -> &'static str {
        match self {
            ServerKind::Pyroscope => "/push.v1.PusherService/Push",
            ServerKind::Parca => "/api/profiles/writeraw",
            ServerKind::Otlp => "/v1development/profiles",
        }
    }

    /// Returns an encoder of a profile in the server's format, with samples weighted by `weight`.
    pub fn encoder<'p>(
        self,
        profile: &'p Profile,
        weight: WeighBy,
        options: &ExportOptions,
    ) -> Box<dyn PartEncoder + 'p> {
        match self {
            ServerKind::Otlp => Box::new(otlp::Encoder::new(profile, weight, options)),
            _ => Box::new(pprof::Encoder::new(profile, weight, options)),
        }
    }
}

impl fmt::Display for ServerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_server() {
        let of = |target: ServerKind, server: &str| target.address(server).unwrap();
        assert_eq!(
            of(ServerKind::Pyroscope, "http://a:4040/"),
            "http://a:4040/push.v1.PusherService/Push"
        );
        assert_eq!(
            of(ServerKind::Parca, "https://a/parca"),
            "https://a/parca/api/profiles/writeraw"
        );
        // URL of a collector's profiles, as configured in exporters.
        assert_eq!(
            of(ServerKind::Otlp, "HTTP://a:4318/v1development/profiles"),
            "HTTP://a:4318/v1development/profiles"
        );
        for bad in ["a:4040", "ftp://a", "http://", "http:///x", "http://a/?x=y"] {
            let error = ServerKind::Otlp.address(bad).unwrap_err();
            assert!(matches!(error, PushError::NotHttp(_)), "{bad}: {error}");
        }
        let secret = ServerKind::Otlp
            .address("https://me:secret@a/")
            .unwrap_err();
        assert!(!secret.to_string().contains("secret@"));
    }
}
