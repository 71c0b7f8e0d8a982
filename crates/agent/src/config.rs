//! [`Config`]: the configuration file, validated.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rprof_push::{Label, ServerKind};
use serde::Deserialize;

use crate::error::{AgentError, failed};
use crate::identity::Rule;

/// Settings of an agent. Keys in the file use `-` instead of `_`. Unknown keys are errors.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Sampling rate, windows and share of hosts.
    #[serde(default)]
    pub sample: SamplingConfig,
    /// Resource limits of the agent itself.
    #[serde(default)]
    pub budget: BudgetConfig,
    /// Rules that map processes to services.
    #[serde(default)]
    pub identity: Identities,
    /// Limits of the spool.
    #[serde(default)]
    pub spool: SpoolLimits,
    /// Metrics endpoint.
    #[serde(default)]
    pub metrics: Metrics,
    /// Destinations. Each receives all windows.
    #[serde(default)]
    pub to: Vec<To>,
}

/// Table `[sample]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct SamplingConfig {
    /// Samples a second of each CPU, 1 to 100. Default: 19.
    pub rate: u32,
    /// Length of a window in seconds, a divisor of an hour. Default: 60.
    pub window_seconds: u32,
    /// Share of the hosts that sample in each hour, above 0 and up to 1. Default: 1.
    pub hosts: f64,
    /// Symbol information to resolve on this host.
    pub symbols: WantedNames,
}

/// Symbol information to resolve on the recording host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WantedNames {
    /// Function names from symbol tables. Inlined calls and lines can be added later, by build-id.
    Names,
    /// Symbol names, inlined calls and source lines, which needs memory for debug information.
    Lines,
}

/// Table `[budget]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct BudgetConfig {
    /// CPU time of the agent in percent of one core. Default: 1.
    pub cpu_percent: f64,
    /// Resident memory of the agent in MiB. Default: 256.
    pub memory_mib: u64,
}

/// Table `[identity]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Identities {
    /// Name of this host. Default: the kernel's host name.
    pub host: Option<String>,
    /// Read `OTEL_SERVICE_NAME`, `DD_SERVICE` and their versions from process environments.
    /// Default: no, because environments hold secrets.
    pub service_from_env: bool,
    /// Folder where the kubelet creates `NAMESPACE_POD_UID` folders. Default: `/var/log/pods`.
    pub pods: PathBuf,
    /// Rules that name services. The first match applies.
    pub rule: Vec<Rule>,
}

/// Table `[spool]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct SpoolLimits {
    /// Folder of the spool. Default: `/var/lib/rprof/agent`.
    pub folder: PathBuf,
    /// Maximum size in MiB, for all destinations together. Default: 512.
    pub max_mib: u64,
    /// Minimum free space of the disk, in percent. Below it, nothing is spooled. Default: 5.
    pub min_free_percent: f64,
}

/// Table `[metrics]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Metrics {
    /// Loopback address of the endpoint, such as `127.0.0.1:9190`. Default: none.
    pub listen: Option<SocketAddr>,
}

/// Type of server or store that a destination sends to (`kind` in the file).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DestinationKind {
    /// Parquet files below a folder.
    Folder,
    /// Parquet files in a bucket.
    S3,
    /// Pyroscope server.
    Pyroscope,
    /// Parca server.
    Parca,
    /// OpenTelemetry over HTTP.
    Otlp,
}

impl DestinationKind {
    /// Returns the name used in the file.
    pub fn name(self) -> &'static str {
        match self {
            DestinationKind::Folder => "folder",
            DestinationKind::S3 => "s3",
            DestinationKind::Pyroscope => "pyroscope",
            DestinationKind::Parca => "parca",
            DestinationKind::Otlp => "otlp",
        }
    }

    /// Returns the type of profile server, or `None` for table stores.
    pub fn target(self) -> Option<ServerKind> {
        match self {
            DestinationKind::Folder | DestinationKind::S3 => None,
            DestinationKind::Pyroscope => Some(ServerKind::Pyroscope),
            DestinationKind::Parca => Some(ServerKind::Parca),
            DestinationKind::Otlp => Some(ServerKind::Otlp),
        }
    }
}

/// Settings of a destination: one `[[to]]` table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct To {
    /// Type of server or store.
    pub kind: DestinationKind,
    /// Name of the destination, which also names its spool folder. Default: the name of the kind.
    pub name: Option<String>,
    /// Folder of tables (`folder`).
    pub path: Option<PathBuf>,
    /// URL of the server, or of the bucket: `s3://BUCKET/PREFIX`.
    pub url: Option<String>,
    /// Endpoint of the object store (`s3`). Default: the AWS endpoint of the region.
    pub endpoint: Option<String>,
    /// Region of the bucket (`s3`). Default: `us-east-1`.
    pub region: Option<String>,
    /// File with `aws_access_key_id = …` and `aws_secret_access_key = …` (`s3`).
    pub credentials_file: Option<PathBuf>,
    /// File with a bearer token.
    pub token_file: Option<PathBuf>,
    /// File with `USER:PASSWORD`.
    pub basic_auth_file: Option<PathBuf>,
    /// File with one header per line, `NAME: VALUE`.
    pub header_file: Option<PathBuf>,
    /// File with trusted certificates (PEM), which replace the system's.
    pub ca_file: Option<PathBuf>,
    /// Tenant, for multi-tenant servers.
    pub tenant: Option<String>,
    /// Allow credentials over unencrypted HTTP.
    #[serde(default)]
    pub plain_http: bool,
    /// Labels for all profiles, each `NAME=VALUE`.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Timeout of a request in seconds. Default: 30.
    pub timeout_seconds: Option<u64>,
}

impl Default for SamplingConfig {
    fn default() -> Self {
        SamplingConfig {
            rate: 19,
            window_seconds: 60,
            hosts: 1.0,
            symbols: WantedNames::Names,
        }
    }
}

impl Default for BudgetConfig {
    fn default() -> Self {
        BudgetConfig {
            cpu_percent: 1.0,
            memory_mib: 256,
        }
    }
}

impl Default for Identities {
    fn default() -> Self {
        Identities {
            host: None,
            service_from_env: false,
            pods: "/var/log/pods".into(),
            rule: Vec::new(),
        }
    }
}

impl Default for SpoolLimits {
    fn default() -> Self {
        SpoolLimits {
            folder: "/var/lib/rprof/agent".into(),
            max_mib: 512,
            min_free_percent: 5.0,
        }
    }
}

impl To {
    /// Returns the name of the destination.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.kind.name())
    }

    /// Returns the timeout of a request.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds.unwrap_or(30))
    }
}

impl Config {
    /// Reads and checks a configuration file.
    ///
    /// # Errors
    /// [`AgentError::File`], or [`AgentError::Config`] with the key and a remedy.
    pub fn read(path: &Path) -> Result<Config, AgentError> {
        let text = fs::read_to_string(path).map_err(failed("read", path))?;
        Config::parse(&text).map_err(|message| AgentError::Config {
            path: path.to_owned(),
            message,
        })
    }

    /// Parses and checks settings.
    ///
    /// # Errors
    /// Message with the key, the problem and a remedy.
    ///
    /// # Examples
    /// ```
    /// use rprof_agent::Config;
    ///
    /// let config = Config::parse("[[to]]\nkind = \"folder\"\npath = \"/data\"")?;
    /// assert_eq!((config.sample.rate, config.to[0].name()), (19, "folder"));
    /// let error = Config::parse("[sample]\nrate = 1000").unwrap_err();
    /// assert!(error.contains("sample.rate"));
    /// # Ok::<(), String>(())
    /// ```
    pub fn parse(text: &str) -> Result<Config, String> {
        let config: Config = basic_toml::from_str(text)
            .map_err(|error| format!("{error}; docs/agent.md lists all keys"))?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        let sample = &self.sample;
        if !(1..=100).contains(&sample.rate) {
            return Err(format!(
                "sample.rate = {}: give 1 to 100 samples a second; for short recordings at a \
                 higher rate use `rprof record -F`",
                sample.rate
            ));
        }
        if sample.window_seconds == 0 || 3600 % sample.window_seconds != 0 {
            return Err(format!(
                "sample.window-seconds = {}: give a divisor of 3600, such as 60",
                sample.window_seconds
            ));
        }
        if !(sample.hosts > 0.0 && sample.hosts <= 1.0) {
            return Err(format!(
                "sample.hosts = {}: give a share above 0 and up to 1",
                sample.hosts
            ));
        }
        if self.budget.cpu_percent.is_nan() || self.budget.cpu_percent <= 0.0 {
            return Err("budget.cpu-percent: give percent of a core above 0".to_owned());
        }
        if self.budget.memory_mib == 0 || self.spool.max_mib == 0 {
            return Err("budget.memory-mib and spool.max-mib: give MiB above 0".to_owned());
        }
        if !(0.0..100.0).contains(&self.spool.min_free_percent) {
            return Err("spool.min-free-percent: give 0 to 100".to_owned());
        }
        if !self.spool.folder.is_absolute() {
            return Err("spool.folder: give an absolute path".to_owned());
        }
        if let Some(listen) = self.metrics.listen.filter(|at| !at.ip().is_loopback()) {
            return Err(format!(
                "metrics.listen = {listen}: give a loopback address, such as 127.0.0.1:9190; the page has no password"
            ));
        }
        for (nth, rule) in self.identity.rule.iter().enumerate() {
            if rule.is_empty() {
                return Err(format!(
                    "identity.rule {}: give exe, unit, container, comm, pod or namespace, or it names every process",
                    nth + 1
                ));
            }
        }
        if self.to.is_empty() {
            return Err(
                "no [[to]]: give a destination, such as `[[to]]`, `kind = \"folder\"`, `path = \"/data\"`"
                    .to_owned(),
            );
        }
        for (nth, to) in self.to.iter().enumerate() {
            to.check().map_err(|why| format!("to {}: {why}", nth + 1))?;
            if self.to[..nth].iter().any(|other| other.name() == to.name()) {
                return Err(format!(
                    "to {}: another destination is also named `{}`; give each its own name",
                    nth + 1,
                    to.name()
                ));
            }
        }
        Ok(())
    }
}

impl To {
    fn check(&self) -> Result<(), String> {
        let name = self.name();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(format!("name = {name:?}: give letters, digits, - and _"));
        }
        let is_s3 = self.kind == DestinationKind::S3;
        let is_server = self.kind.target().is_some();
        let wants = [
            (
                "path",
                self.path.is_some(),
                self.kind == DestinationKind::Folder,
                true,
            ),
            ("url", self.url.is_some(), is_s3 || is_server, true),
            ("endpoint", self.endpoint.is_some(), is_s3, false),
            ("region", self.region.is_some(), is_s3, false),
            (
                "credentials-file",
                self.credentials_file.is_some(),
                is_s3,
                true,
            ),
            ("token-file", self.token_file.is_some(), is_server, false),
            (
                "basic-auth-file",
                self.basic_auth_file.is_some(),
                is_server,
                false,
            ),
            ("header-file", self.header_file.is_some(), is_server, false),
            ("ca-file", self.ca_file.is_some(), is_s3 || is_server, false),
            ("tenant", self.tenant.is_some(), is_server, false),
            ("labels", !self.labels.is_empty(), is_server, false),
            ("plain-http", self.plain_http, is_s3 || is_server, false),
            (
                "timeout-seconds",
                self.timeout_seconds.is_some(),
                is_s3 || is_server,
                false,
            ),
        ];
        for (key, is_given, is_of_kind, is_needed) in wants {
            if is_given && !is_of_kind {
                return Err(format!("{key} is not for kind = {:?}", self.kind.name()));
            }
            if !is_given && is_of_kind && is_needed {
                return Err(format!("kind = {:?} needs {key}", self.kind.name()));
            }
        }
        if self.path.as_ref().is_some_and(|path| !path.is_absolute()) {
            return Err("path: give an absolute path".to_owned());
        }
        if self.timeout_seconds == Some(0) {
            return Err("timeout-seconds: give 1 or more".to_owned());
        }
        for label in &self.labels {
            Label::parse(label).map_err(|error| format!("labels: {error}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let config = Config::parse("[[to]]\nkind = \"folder\"\npath = \"/data\"\n").unwrap();
        assert_eq!(config.sample.rate, 19);
        assert_eq!(config.sample.window_seconds, 60);
        assert_eq!(
            (config.budget.cpu_percent, config.budget.memory_mib),
            (1.0, 256)
        );
        assert_eq!(
            (config.spool.max_mib, config.spool.min_free_percent),
            (512, 5.0)
        );
        assert!(!config.identity.service_from_env && config.metrics.listen.is_none());
    }

    #[test]
    fn the_example_in_the_repository_is_valid() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/agent/agent.toml");
        let config = Config::read(&path).unwrap();
        assert!(config.to.len() > 1 && config.identity.rule.len() > 1);
    }

    #[test]
    fn errors_name_key_and_remedy() {
        let to = "[[to]]\nkind = \"folder\"\npath = \"/data\"\n";
        for (text, words) in [
            ("[sample]\nrate = 0", "sample.rate = 0: give 1 to 100"),
            ("[sample]\nrat = 1", "unknown field `rat`"),
            ("[sampel]\nrate = 1", "unknown field `sampel`"),
            ("[sample]\nrate = \"x\"", "expected u32"),
            ("[sample]\nwindow-seconds = 7", "divisor of 3600"),
            ("[sample]\nhosts = 0.0", "sample.hosts"),
            ("[metrics]\nlisten = \"0.0.0.0:1\"", "loopback"),
            ("[spool]\nfolder = \"x\"", "absolute"),
            ("[[identity.rule]]\nservice = \"x\"", "identity.rule 1"),
            ("[budget]\ncpu-percent = 0.0", "budget.cpu-percent"),
            ("x", "line 1"),
        ] {
            let error = Config::parse(&format!("{text}\n{to}")).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        for (to, words) in [
            ("", "no [[to]]"),
            ("[[to]]\nkind = \"folder\"", "needs path"),
            ("[[to]]\nkind = \"ftp\"", "ftp"),
            (
                "[[to]]\nkind = \"s3\"\nurl = \"s3://a/b\"",
                "needs credentials-file",
            ),
            (
                "[[to]]\nkind = \"folder\"\npath = \"/a\"\nurl = \"x\"",
                "url is not for",
            ),
            ("[[to]]\nkind = \"folder\"\npath = \"a\"", "absolute"),
            (
                "[[to]]\nkind = \"otlp\"\nurl = \"http://a\"\nlabels = [\"a\"]",
                "labels",
            ),
            (
                "[[to]]\nkind = \"folder\"\npath = \"/a\"\n[[to]]\nkind = \"folder\"\npath = \"/b\"",
                "to 2: another destination",
            ),
        ] {
            let error = Config::parse(to).unwrap_err();
            assert!(error.contains(words), "{to}: {error}");
        }
    }
}
