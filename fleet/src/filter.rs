//! [`Filter`]: conditions on samples.

use crate::hours::Hours;

/// Conditions on samples. `None` matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Service.
    pub service: Option<String>,
    /// Version of the service.
    pub version: Option<String>,
    /// Host.
    pub host: Option<String>,
    /// Name of the event.
    pub event: Option<String>,
    /// Time range of window starts.
    pub hours: Hours,
}

impl Filter {
    /// Returns the conditions as SQL, or `TRUE` if there are none.
    ///
    /// # Examples
    /// ```
    /// use rprof_fleet::filter::Filter;
    ///
    /// let filter = Filter { service: Some("o'hare".into()), ..Filter::default() };
    /// assert_eq!(filter.sql(), "service = 'o''hare'");
    /// ```
    pub fn sql(&self) -> String {
        let texts = [
            ("service", &self.service),
            ("version", &self.version),
            ("host", &self.host),
            ("event", &self.event),
        ];
        let mut all: Vec<String> = (texts.into_iter())
            .filter_map(|(column, value)| Some(format!("{column} = {}", quoted(value.as_deref()?))))
            .collect();
        let times = [(">=", self.hours.since), ("<", self.hours.until)];
        all.extend(times.into_iter().filter_map(|(sign, second)| {
            let time = chrono::DateTime::from_timestamp(second?, 0)?;
            let time = time.format("%Y-%m-%dT%H:%M:%SZ");
            Some(format!("window_start {sign} TIMESTAMP '{time}'"))
        }));
        match all.is_empty() {
            true => "TRUE".to_owned(),
            false => all.join(" AND "),
        }
    }
}

pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_joined() {
        assert_eq!(Filter::default().sql(), "TRUE");
        let filter = Filter {
            version: Some("1".into()),
            hours: Hours {
                since: Some(0),
                until: None,
            },
            ..Filter::default()
        };
        assert_eq!(
            filter.sql(),
            "version = '1' AND window_start >= TIMESTAMP '1970-01-01T00:00:00Z'"
        );
    }
}
