//! What stands between slashes.

use crate::pmu::{Pmu, WORDS, word_index};
use crate::settings::{Settings, TERMS, Term, number};
use crate::{EventError, generic, suggest};

/// What terms come to.
#[derive(Debug, Default)]
pub(super) struct Meaning {
    pub(super) words: [u64; WORDS],
    pub(super) settings: Settings,
}

/// Splits terms at their commas, but not within quotes, and takes these away.
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

/// Terms of an event that is no PMU's, `of` being what messages call it.
pub(super) fn of_event(of: &str, text: &str) -> Result<Meaning, EventError> {
    let mut meaning = Meaning::default();
    for term in split(text) {
        if !meaning.take(&term)? {
            return Err(unknown(of.to_owned(), &term, &[]));
        }
    }
    Ok(meaning)
}

/// Terms of a PMU's event: values for its formats, names of its events, and those for any event.
pub(super) fn of_pmu(pmu: &Pmu, text: &str) -> Result<Meaning, EventError> {
    let mut meaning = Meaning::default();
    let terms = split(text);
    for term in &terms {
        if meaning.take(term)? {
            continue;
        }
        if let Some(event) = named_event(pmu, term) {
            for part in split(&event) {
                if part.value == Some("?") {
                    // The user gives it, as a term of his own.
                    if !terms
                        .iter()
                        .any(|t| t.name == part.name && t.value.is_some())
                    {
                        let given = format!("{}=?", part.name);
                        return Err(term.bad(format!("{given} must be given with it")));
                    }
                    continue;
                }
                if !meaning.take(&part)? {
                    meaning.place(pmu, &part)?;
                }
            }
            continue;
        }
        meaning.place(pmu, term)?;
    }
    Ok(meaning)
}

/// What a term stands for that is the name of one of the PMU's events.
fn named_event(pmu: &Pmu, term: &Term<'_>) -> Option<String> {
    match term.value {
        None if pmu.format(term.name).is_none() => pmu.event(term.name),
        // `event=name`, where it is not a number.
        Some(name) if term.name == "event" && number(name).is_none() => pmu.event(name),
        _ => None,
    }
}

impl Meaning {
    /// Takes a term that any event can have.
    fn take(&mut self, term: &Term<'_>) -> Result<bool, EventError> {
        match word_index(term.name) {
            Some(word) => {
                self.words[word] = term.number()?;
                Ok(true)
            }
            None => self.settings.take(term),
        }
    }

    /// Puts a value where the PMU wants it. Bits add up, as in perf.
    fn place(&mut self, pmu: &Pmu, term: &Term<'_>) -> Result<(), EventError> {
        if let Some(format) = pmu.format(term.name) {
            let placed = format.place(term.number()?).ok_or_else(|| {
                let most = u64::MAX >> (64 - format.width().clamp(1, 64));
                term.bad(format!(
                    "it has {} bits in the PMU `{}`, for up to {most:#x}",
                    format.width(),
                    pmu.name()
                ))
            })?;
            self.words[format.word] |= placed;
            return Ok(());
        }
        match (term.value, generic::raw_code(term.name)) {
            (None, Some(code)) => {
                self.words[0] |= code;
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
