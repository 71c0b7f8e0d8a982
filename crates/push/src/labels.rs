//! [`Label`]: name-value pairs sent with profiles.

use std::fmt;

use rprof_export::clean::clean;

use crate::error::PushError;
use crate::target::{ServerKind, ServerLimits};

/// Name of the label with the profile type (Prometheus's data model).
const KIND: &str = "__name__";

const SERVICE: &str = "service_name";

/// Name of the service in OpenTelemetry's semantic conventions.
const SERVICE_ATTRIBUTE: &str = "service.name";

/// Label of a profile, or attribute of its resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Name of the label.
    pub name: String,
    /// Value of the label.
    pub value: String,
}

impl Label {
    /// Creates a label. Replaces unsafe characters in the value, because it may contain process
    /// names.
    pub fn new(name: &str, value: &str) -> Label {
        Label {
            name: name.to_owned(),
            value: clean(value).into_owned(),
        }
    }

    /// Parses `NAME=VALUE`.
    ///
    /// # Errors
    /// Returns [`PushError::BadLabel`].
    pub fn parse(text: &str) -> Result<Label, PushError> {
        let bad = |what| PushError::BadLabel {
            label: clean(text).into_owned(),
            what,
        };
        let (name, value) = text.split_once('=').ok_or_else(|| bad("give NAME=VALUE"))?;
        if value.is_empty() {
            return Err(bad("the value is empty"));
        }
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
        let is_other = |c: char| is_first(c) || c.is_ascii_digit() || c == '.';
        if !name.starts_with(is_first) || !name.chars().all(is_other) {
            return Err(bad(
                "a name consists of letters, digits, `_` and `.`, and begins with a letter",
            ));
        }
        if name.starts_with("__") {
            return Err(bad(
                "names that begin with `__` are reserved for the server",
            ));
        }
        Ok(Label::new(name, value))
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={:?}", self.name, self.value)
    }
}

/// Returns all labels for a server: the given ones under the server's names, and the required ones.
/// The default service name is `unknown_service`, as in OpenTelemetry, followed by a colon and the
/// program name.
///
/// # Errors
/// Returns [`PushError::BadLabel`] for duplicate names, too many labels, or too long ones.
pub fn complete(
    target: ServerKind,
    given: &[Label],
    program: &str,
    kind: &str,
    limits: &ServerLimits,
) -> Result<Vec<Label>, PushError> {
    let service = match target {
        ServerKind::Otlp => SERVICE_ATTRIBUTE,
        _ => SERVICE,
    };
    let mut labels: Vec<Label> = given.to_vec();
    for label in &mut labels {
        if [SERVICE, SERVICE_ATTRIBUTE].contains(&&*label.name) {
            label.name = service.to_owned();
        } else if target != ServerKind::Otlp {
            // Prometheus names contain no dots.
            label.name = label.name.replace('.', "_");
        }
    }
    if labels.iter().all(|label| label.name != service) {
        let name = match program {
            "" => "unknown_service".to_owned(),
            _ => format!("unknown_service:{program}"),
        };
        labels.push(Label::new(service, &name));
    }
    if target != ServerKind::Otlp {
        labels.push(Label::new(KIND, kind));
    }
    labels.sort_by(|a, b| a.name.cmp(&b.name));
    let bad = |label: &Label, what| PushError::BadLabel {
        label: label.to_string(),
        what,
    };
    if let Some(pair) = labels.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(bad(&pair[1], "this name occurs twice"));
    }
    if let Some(label) = labels.get(limits.labels) {
        return Err(bad(label, "the server accepts fewer labels"));
    }
    match labels
        .iter()
        .find(|label| label.value.len() > limits.label_value)
    {
        Some(label) => Err(bad(label, "the server accepts shorter values only")),
        None => Ok(labels),
    }
}

/// Returns the profile type of an event: `process_cpu` for CPU time, as in Pyroscope and Parca,
/// else the event name in characters allowed by Prometheus.
pub fn kind_of(event: &str, is_time: bool) -> String {
    if is_time {
        return "process_cpu".to_owned();
    }
    let letter = |c: char| match c.is_ascii_alphanumeric() {
        true => c,
        false => '_',
    };
    let name: String = event.chars().map(letter).collect();
    match name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() {
        true => format!("_{name}"),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete_of(target: ServerKind, given: &[&str]) -> Result<Vec<String>, String> {
        let given: Vec<Label> = given
            .iter()
            .map(|text| Label::parse(text).unwrap())
            .collect();
        let all = complete(target, &given, "app", "process_cpu", &target.limits());
        all.map(|all| all.iter().map(ToString::to_string).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn servers_get_the_labels_that_they_want() {
        assert_eq!(
            complete_of(ServerKind::Pyroscope, &["k8s.pod=x", "service.name=a=b"]).unwrap(),
            [
                r#"__name__="process_cpu""#,
                r#"k8s_pod="x""#,
                r#"service_name="a=b""#
            ]
        );
        assert_eq!(
            complete_of(ServerKind::Otlp, &["k8s.pod=x"]).unwrap(),
            [r#"k8s.pod="x""#, r#"service.name="unknown_service:app""#]
        );
        let twice = complete_of(ServerKind::Parca, &["a.b=1", "a_b=2"]).unwrap_err();
        assert!(twice.contains("this name occurs twice"), "{twice}");
        let many: Vec<String> = (0..30).map(|n| format!("l{n}=x")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(complete_of(ServerKind::Pyroscope, &many).is_err());
        assert!(complete_of(ServerKind::Parca, &many).is_ok());
        let long = format!("a={}", "x".repeat(2_049));
        assert!(complete_of(ServerKind::Pyroscope, &[&long]).is_err());
    }

    #[test]
    fn what_is_no_label_is_refused() {
        for bad in ["a", "a=", "=b", "1a=b", "a-b=c", "__name__=x", "a b=c"] {
            assert!(Label::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(Label::parse("a=\u{1b}[2J").unwrap().value, "\u{fffd}[2J");
        assert_eq!(kind_of("cpu-clock:u", true), "process_cpu");
        assert_eq!(kind_of("page-faults", false), "page_faults");
        assert_eq!(kind_of("2:316", false), "_2_316");
    }
}
