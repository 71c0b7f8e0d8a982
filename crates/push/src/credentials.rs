//! [`SenderCredentials`]: headers read from files, and certificates.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rprof_proxy::is_loopback;
use ureq::http::Uri;
use ureq::http::header::{AUTHORIZATION, HeaderName, HeaderValue};

use crate::error::PushError;

/// Maximum size in bytes of a file with credentials or certificates.
const LIMIT: u64 = 1 << 20;

/// Header read from a file. Its value is never displayed.
#[derive(Clone)]
struct SecretHeader {
    name: HeaderName,
    value: HeaderValue,
    from: PathBuf,
}

/// Headers that identify the sender. They come from files, because other users can see arguments
/// and environment variables.
#[derive(Clone, Default)]
pub struct SenderCredentials {
    headers: Vec<SecretHeader>,
    /// Files whose mode grants rights to other users.
    open: Vec<PathBuf>,
}

impl fmt::Debug for SenderCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.shown()).finish()
    }
}

impl SenderCredentials {
    /// Adds a bearer token (RFC 6750) from a file.
    ///
    /// # Errors
    /// Returns [`PushError::Read`], [`PushError::BadFile`].
    pub fn add_token(&mut self, path: &Path) -> Result<(), PushError> {
        let token = self.text(path)?;
        self.add(AUTHORIZATION, &format!("Bearer {}", token.trim()), path)
    }

    /// Adds a user name and password (RFC 7617) from a file with `USER:PASSWORD`.
    ///
    /// # Errors
    /// Returns [`PushError::Read`], [`PushError::BadFile`].
    pub fn add_password(&mut self, path: &Path) -> Result<(), PushError> {
        let text = self.text(path)?;
        let line = text.trim_end_matches(['\r', '\n']);
        if !line.contains(':') || line.contains('\n') {
            return Err(bad(path, "it must contain one line, USER:PASSWORD"));
        }
        let encoded = STANDARD.encode(line);
        self.add(AUTHORIZATION, &format!("Basic {encoded}"), path)
    }

    /// Adds headers from a file with lines `NAME: VALUE`.
    ///
    /// # Errors
    /// Returns [`PushError::Read`], [`PushError::BadFile`].
    pub fn add_headers(&mut self, path: &Path) -> Result<(), PushError> {
        let text = self.text(path)?;
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| bad(path, "each line must be NAME: VALUE"))?;
            let name = HeaderName::from_bytes(name.trim().as_bytes())
                .map_err(|_| bad(path, "a name is not a valid header name"))?;
            self.add(name, value.trim(), path)?;
        }
        Ok(())
    }

    fn add(&mut self, name: HeaderName, value: &str, path: &Path) -> Result<(), PushError> {
        if value.split_whitespace().next_back() == Some("Bearer") || value.is_empty() {
            return Err(bad(path, "it is empty"));
        }
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| bad(path, "it has characters that are invalid in a header"))?;
        value.set_sensitive(true);
        self.headers.push(SecretHeader {
            name,
            value,
            from: path.to_owned(),
        });
        Ok(())
    }

    fn text(&mut self, path: &Path) -> Result<String, PushError> {
        let (bytes, mode) = read(path)?;
        if mode & 0o077 != 0 && !self.open.iter().any(|open| open == path) {
            self.open.push(path.to_owned());
        }
        String::from_utf8(bytes).map_err(|_| bad(path, "it is not text"))
    }

    /// Returns whether there are no headers.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// Returns the files whose mode grants rights to other users.
    pub fn open_files(&self) -> &[PathBuf] {
        &self.open
    }

    /// Iterates over the headers for display: name, and source file of the value.
    pub fn shown(&self) -> impl Iterator<Item = (&str, &Path)> {
        let headers = self.headers.iter();
        headers.map(|header| (header.name.as_str(), &*header.from))
    }

    /// Refuses to send credentials to another machine without encryption.
    ///
    /// # Errors
    /// Returns [`PushError::Plain`].
    pub fn check(&self, address: &str) -> Result<(), PushError> {
        let uri: Uri = address
            .parse()
            .map_err(|_| PushError::NotHttp(address.to_owned()))?;
        let host = uri.host().unwrap_or_default();
        match uri.scheme_str() {
            Some("http") if !self.is_empty() && !is_loopback(host) => {
                Err(PushError::Plain(host.to_owned()))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn headers(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        let headers = self.headers.iter();
        headers.map(|header| (&header.name, &header.value))
    }
}

fn bad(path: &Path, what: &'static str) -> PushError {
    PushError::BadFile {
        path: path.to_owned(),
        what,
    }
}

pub(crate) fn read(path: &Path) -> Result<(Vec<u8>, u32), PushError> {
    let cannot = |source| PushError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(cannot)?;
    let mode = file.metadata().map_err(cannot)?.mode();
    let mut bytes = Vec::new();
    file.take(LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(cannot)?;
    match bytes.len() as u64 > LIMIT {
        true => Err(bad(path, "it is larger than 1 MiB")),
        false => Ok((bytes, mode)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn secrets_come_from_files_and_are_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str, mode| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let mut all = SenderCredentials::default();
        all.add_token(&file("token", "s3cret\n", 0o600)).unwrap();
        all.add_password(&file("basic", "me:pass word\n", 0o644))
            .unwrap();
        all.add_headers(&file("more", "X-Scope-OrgID: team\n\nX-Other:a:b\n", 0o600))
            .unwrap();
        let headers: Vec<(&str, &str)> = all
            .headers()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(
            headers,
            [
                ("authorization", "Bearer s3cret"),
                // As in RFC 7617: base64 of me:pass word.
                ("authorization", "Basic bWU6cGFzcyB3b3Jk"),
                ("x-scope-orgid", "team"),
                ("x-other", "a:b"),
            ]
        );
        assert_eq!(all.open_files(), [folder.path().join("basic")]);
        assert!(!format!("{all:?}").contains("s3cret"));

        let plain = |address: &str| matches!(all.check(address), Err(PushError::Plain(_)));
        assert!(plain("http://a.example/x") && plain("http://10.0.0.1:4040/x"));
        for fine in [
            "https://a.example/x",
            "http://localhost:4/x",
            "http://[::1]:4/x",
        ] {
            assert!(!plain(fine), "{fine}");
        }
        assert!(
            SenderCredentials::default()
                .check("http://a.example/")
                .is_ok()
        );
    }

    #[test]
    fn files_that_hold_something_else_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let mut none = SenderCredentials::default();
        for text in ["", "\n", "a\u{1}b", "a\nb"] {
            std::fs::write(&path, text).unwrap();
            assert!(none.add_token(&path).is_err(), "{text:?}");
            assert!(none.add_password(&path).is_err(), "{text:?}");
        }
        std::fs::write(&path, "no header").unwrap();
        assert!(none.add_headers(&path).is_err());
        assert!(none.add_token(&folder.path().join("none")).is_err());
        assert!(none.is_empty());
    }
}
