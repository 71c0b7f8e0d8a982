//! Terms, the text between slashes: of a PMU, or of any event.

use crate::error::EventError;
use crate::pmu::{CONFIG_WORDS, Pmu, word_index};
use crate::settings::{EventSettings, TERMS, Term, number};
use crate::{generic, suggest};

#[derive(Debug, Default)]
pub(super) struct TermValues {
    pub(super) config: [u64; CONFIG_WORDS],
    pub(super) settings: EventSettings,
}

/// Splits terms at their commas outside quotes, and removes the quotes.
fn split(text: &str) -> Vec<Term<'_>> {
    let mut quoted = false;
    let parts = text.split(move |c| {
        quoted ^= c == '\'';
        c == ',' && !quoted
    });
    (parts.map(str::trim).filter(|part| !part.is_empty()))
        .map(|part| match part.split_once('=') {
            Some((name, value)) => Term {
                name: name.trim(),
                value: Some(unquoted(value.trim())),
            },
            None => Term {
                name: part,
                value: None,
            },
        })
        .collect()
}

fn unquoted(value: &str) -> &str {
    let inner = value.strip_prefix('\'').and_then(|v| v.strip_suffix('\''));
    inner.unwrap_or(value)
}

/// Parses the terms of an event without a PMU. `of` is its name in messages.
pub(super) fn of_event(of: &str, text: &str) -> Result<TermValues, EventError> {
    let mut values = TermValues::default();
    for term in split(text) {
        if !values.apply_common(&term)? {
            return Err(unknown(of.to_owned(), &term, &[]));
        }
    }
    Ok(values)
}

/// Parses a PMU's formats, names of its events, and terms of any event.
pub(super) fn of_pmu(pmu: &Pmu, text: &str) -> Result<TermValues, EventError> {
    let mut values = TermValues::default();
    let terms = split(text);
    for term in &terms {
        if values.apply_common(term)? {
            continue;
        }
        if let Some(event) = named_event(pmu, term) {
            for part in split(&event) {
                if part.value == Some("?") {
                    // The user must supply it, as another term.
                    if !terms
                        .iter()
                        .any(|t| t.name == part.name && t.value.is_some())
                    {
                        let given = format!("{}=?", part.name);
                        return Err(term.bad(format!("this event also needs {given}")));
                    }
                    continue;
                }
                if !values.apply_common(&part)? {
                    values.apply_to_pmu(pmu, &part)?;
                }
            }
            continue;
        }
        values.apply_to_pmu(pmu, term)?;
    }
    Ok(values)
}

pub(super) fn named_events<'a>(pmu: &Pmu, text: &'a str) -> impl Iterator<Item = &'a str> {
    (split(text).into_iter())
        .filter(|term| named_event(pmu, term).is_some())
        .map(|term| term.value.unwrap_or(term.name))
}

fn named_event(pmu: &Pmu, term: &Term<'_>) -> Option<String> {
    match term.value {
        None if pmu.format(term.name).is_none() => pmu.event(term.name),
        // `event=name`, unless it is a number.
        Some(name) if term.name == "event" && number(name).is_none() => pmu.event(name),
        _ => None,
    }
}

impl TermValues {
    /// Returns false for other terms.
    fn apply_common(&mut self, term: &Term<'_>) -> Result<bool, EventError> {
        match word_index(term.name) {
            Some(word) => {
                self.config[word] = term.number()?;
                Ok(true)
            }
            None => self.settings.apply_term(term),
        }
    }

    /// Writes a term's value into the config words. Bits are combined, as in perf.
    fn apply_to_pmu(&mut self, pmu: &Pmu, term: &Term<'_>) -> Result<(), EventError> {
        if let Some(format) = pmu.format(term.name) {
            let encoded = format.encode(term.number()?).ok_or_else(|| {
                let most = u64::MAX >> (64 - format.width().clamp(1, 64));
                term.bad(format!(
                    "it has {} bits in PMU `{}`, at most {most:#x}",
                    format.width(),
                    pmu.name()
                ))
            })?;
            self.config[format.word] |= encoded;
            return Ok(());
        }
        match (term.value, generic::raw_code(term.name)) {
            (None, Some(code)) => {
                self.config[0] |= code;
                Ok(())
            }
            _ => {
                let mut there = pmu.terms();
                there.extend(pmu.events());
                Err(unknown(format!("the PMU `{}`", pmu.name()), term, &there))
            }
        }
    }
}

fn unknown(of: String, term: &Term<'_>, there: &[String]) -> EventError {
    let all = there.iter().cloned().chain(TERMS.map(str::to_owned));
    let terms: Vec<String> = all.collect();
    EventError::UnknownTerm {
        of,
        term: term.name.to_owned(),
        near: suggest::names_near(term.name, terms.clone()),
        terms,
    }
}
