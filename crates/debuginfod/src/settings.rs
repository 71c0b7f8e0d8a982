//! Servers, cache and limits.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Reason why downloads are impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// `DEBUGINFOD_URLS` is unset or empty.
    #[error(
        "DEBUGINFOD_URLS names no server; set it, for instance to https://debuginfod.elfutils.org/"
    )]
    NoServers,
    /// An entry of `DEBUGINFOD_URLS` is not an HTTP address.
    #[error("DEBUGINFOD_URLS contains {0:?}, which is not an http:// or https:// address")]
    NotHttp(String),
    /// `DEBUGINFOD_URLS` requires signature checks, which are not implemented.
    #[error(
        "DEBUGINFOD_URLS contains ima:enforcing, but rprof does not check IMA signatures; name \
         servers without it"
    )]
    Signatures,
    /// A numeric variable has an invalid value.
    #[error("{name} is {value:?}, which is not a number")]
    NotANumber {
        /// Name of the variable.
        name: &'static str,
        /// Value of the variable.
        value: String,
    },
    /// Neither `XDG_CACHE_HOME` nor `HOME` is set.
    #[error("no folder for downloaded files; set DEBUGINFOD_CACHE_PATH, XDG_CACHE_HOME or HOME")]
    NoCache,
}

/// Servers, cache folder, and limits on time and size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Server URLs without a trailing slash, in the order of requests.
    pub urls: Vec<String>,
    /// Cache folder.
    pub cache: PathBuf,
    /// Timeout for the start of a response, and for each further 100 KiB (or the rest). A slower
    /// server is skipped afterwards.
    pub patience: Duration,
    /// Time limit for all downloads together.
    pub total_time: Duration,
    /// Maximum size of a file in bytes.
    pub max_size: u64,
}

impl Settings {
    /// Default of [`Settings::patience`]. elfutils waits for 90 s, but for a single file requested
    /// by a user.
    pub const PATIENCE: Duration = Duration::from_secs(20);
    /// Default of [`Settings::total_time`].
    pub const TOTAL_TIME: Duration = Duration::from_secs(180);
    /// Default of [`Settings::max_size`]. The largest debug files of distributions (browsers,
    /// LLVM) have 2 to 3 GiB.
    pub const MAX_SIZE: u64 = 4 << 30;

    /// Reads the settings from the environment: `DEBUGINFOD_URLS`, `DEBUGINFOD_CACHE_PATH` (else
    /// `XDG_CACHE_HOME`, else `HOME`), `DEBUGINFOD_TIMEOUT`, `DEBUGINFOD_MAXTIME`,
    /// `DEBUGINFOD_MAXSIZE`. Source: debuginfod-client-config(7).
    ///
    /// # Errors
    /// Returns [`SettingsError`] if downloads are impossible.
    pub fn from_environment() -> Result<Self, SettingsError> {
        Self::from_variables(std::env::var_os)
    }

    /// Reads the settings from the given variables, like [`Settings::from_environment`].
    ///
    /// # Errors
    /// Returns the errors of [`Settings::from_environment`].
    pub fn from_variables(
        get: impl Fn(&'static str) -> Option<OsString>,
    ) -> Result<Self, SettingsError> {
        let set = |name| get(name).filter(|value| !value.is_empty());
        let text = |name| set(name).map(|value| value.to_string_lossy().into_owned());
        let number = |name, default: u64| match text(name) {
            // Negative numbers and 0 mean "no limit" in elfutils, but here the default.
            Some(value) => match value.trim().parse::<i64>() {
                Ok(n) => Ok(u64::try_from(n).ok().filter(|n| *n > 0).unwrap_or(default)),
                Err(_) => Err(SettingsError::NotANumber { name, value }),
            },
            None => Ok(default),
        };
        let urls = servers(&text("DEBUGINFOD_URLS").unwrap_or_default())?;
        let cache = match (
            set("DEBUGINFOD_CACHE_PATH"),
            set("XDG_CACHE_HOME"),
            set("HOME"),
        ) {
            (Some(cache), ..) => PathBuf::from(cache),
            (_, Some(caches), _) => PathBuf::from(caches).join("debuginfod_client"),
            (.., Some(home)) => {
                let home = PathBuf::from(home);
                let old = home.join(".debuginfod_client_cache");
                match old.is_dir() {
                    true => old,
                    false => home.join(".cache").join("debuginfod_client"),
                }
            }
            _ => return Err(SettingsError::NoCache),
        };
        // A relative path would depend on the current folder.
        if !cache.is_absolute() {
            return Err(SettingsError::NoCache);
        }
        let patience = number("DEBUGINFOD_TIMEOUT", Self::PATIENCE.as_secs())?;
        let total_time = number("DEBUGINFOD_MAXTIME", Self::TOTAL_TIME.as_secs())?;
        const DAY: u64 = 86_400;
        Ok(Self {
            urls,
            cache,
            patience: Duration::from_secs(patience.min(DAY)),
            total_time: Duration::from_secs(total_time.min(DAY)),
            max_size: number("DEBUGINFOD_MAXSIZE", Self::MAX_SIZE)?,
        })
    }
}

fn servers(list: &str) -> Result<Vec<String>, SettingsError> {
    let mut urls: Vec<String> = Vec::new();
    for word in list.split_whitespace() {
        if let Some(policy) = word.strip_prefix("ima:") {
            match policy {
                "enforcing" => return Err(SettingsError::Signatures),
                _ => continue,
            }
        }
        let lower = word.to_ascii_lowercase();
        if !lower.starts_with("http://") && !lower.starts_with("https://") {
            return Err(SettingsError::NotHttp(word.into()));
        }
        let url = word.trim_end_matches('/').to_owned();
        if !urls.contains(&url) {
            urls.push(url);
        }
    }
    match urls.is_empty() {
        true => Err(SettingsError::NoServers),
        false => Ok(urls),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        Settings::from_variables(|name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.into())
        })
    }

    const URLS: (&str, &str) = (
        "DEBUGINFOD_URLS",
        " https://a/ ima:ignore http://b:1/x  https://a ",
    );

    #[test]
    fn as_elfutils_reads_them() {
        let settings = of(&[URLS, ("HOME", "/h"), ("XDG_CACHE_HOME", "/c")]).unwrap();
        assert_eq!(settings.urls, ["https://a", "http://b:1/x"]);
        assert_eq!(settings.cache, PathBuf::from("/c/debuginfod_client"));
        assert_eq!(settings.patience, Settings::PATIENCE);
        let settings = of(&[URLS, ("HOME", "/h")]).unwrap();
        assert_eq!(settings.cache, PathBuf::from("/h/.cache/debuginfod_client"));
        let path = ("DEBUGINFOD_CACHE_PATH", "/p");
        let limits = [("DEBUGINFOD_TIMEOUT", "3"), ("DEBUGINFOD_MAXTIME", "-1")];
        let size = ("DEBUGINFOD_MAXSIZE", "1000");
        let settings = of(&[URLS, path, limits[0], limits[1], size]).unwrap();
        assert_eq!(settings.cache, PathBuf::from("/p"));
        assert_eq!(settings.patience, Duration::from_secs(3));
        assert_eq!(settings.total_time, Settings::TOTAL_TIME);
        assert_eq!(settings.max_size, 1000);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let home = ("HOME", "/h");
        let urls = |list| of(&[("DEBUGINFOD_URLS", list), home]).unwrap_err();
        assert_eq!(of(&[home]).unwrap_err(), SettingsError::NoServers);
        assert_eq!(urls("ima:ignore"), SettingsError::NoServers);
        assert_eq!(
            urls("file:///x"),
            SettingsError::NotHttp("file:///x".into())
        );
        assert_eq!(urls("ima:enforcing https://a"), SettingsError::Signatures);
        assert_eq!(of(&[URLS]).unwrap_err(), SettingsError::NoCache);
        assert_eq!(
            of(&[URLS, ("XDG_CACHE_HOME", "c")]).unwrap_err(),
            SettingsError::NoCache
        );
        assert!(of(&[URLS, home, ("DEBUGINFOD_TIMEOUT", "soon")]).is_err());
    }
}
