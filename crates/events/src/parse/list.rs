//! Splits a list into the texts of its events.

use crate::error::EventError;
use crate::probe::is_probe;

/// Cause of an error for an empty part of a list.
const NO_EVENT: &str = "an event is missing beside a comma";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    pub(super) text: &'a str,
    /// Number of the group; `None` outside groups.
    pub(super) group: Option<u32>,
    pub(super) group_letters: Option<&'a str>,
}

/// Splits a list at its commas, except within slashes, and resolves groups.
///
/// # Errors
/// Returns [`EventError::Syntax`] for unpaired braces or slashes, and for commas without an event on
/// both sides. An empty text is an empty list.
pub(super) fn split(text: &str) -> Result<Vec<Part<'_>>, EventError> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    let mut groups = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Ok(parts);
    }
    loop {
        rest = rest.trim_start();
        if rest.is_empty() || rest.starts_with(',') {
            return Err(EventError::Syntax {
                event: text.to_owned(),
                why: NO_EVENT,
            });
        }
        let Some(inner) = group_start(rest) else {
            let (event, behind) = split_event(rest, false)?;
            parts.push(Part {
                text: event,
                group: None,
                group_letters: None,
            });
            match behind.strip_prefix(',') {
                Some(behind) => rest = behind,
                None => return Ok(parts),
            }
            continue;
        };
        let first = parts.len();
        rest = split_group(inner, groups, &mut parts)?;
        let letters;
        (letters, rest) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
        let letters = letters.trim();
        if !letters.is_empty() {
            let letters = letters
                .strip_prefix(':')
                .ok_or_else(|| EventError::Syntax {
                    event: text.to_owned(),
                    why: "only a colon and modifiers may follow a group's closing brace",
                })?;
            for part in &mut parts[first..] {
                part.group_letters = Some(letters);
            }
        }
        groups += 1;
        match rest.strip_prefix(',') {
            Some(behind) => rest = behind,
            None => return Ok(parts),
        }
    }
}

/// Returns the text after a group's brace. A name may precede it.
fn group_start(text: &str) -> Option<&str> {
    let at = text.find(['{', ',', '}', '/', ':'])?;
    text[at..].strip_prefix('{')
}

/// Appends the events up to the closing brace. Returns the remaining text.
fn split_group<'a>(
    text: &'a str,
    group: u32,
    parts: &mut Vec<Part<'a>>,
) -> Result<&'a str, EventError> {
    let first = parts.len();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let wrong = |why| EventError::Syntax {
            event: format!("{{{text}"),
            why,
        };
        if rest.is_empty() {
            return Err(wrong("a group is not closed: } is missing"));
        }
        if rest.starts_with('}') {
            return Err(wrong(match parts.len() > first {
                true => NO_EVENT,
                false => "a group needs at least one event",
            }));
        }
        if rest.starts_with(',') {
            return Err(wrong(NO_EVENT));
        }
        if rest.starts_with('{') {
            return Err(wrong("a group cannot contain another group"));
        }
        let event;
        (event, rest) = split_event(rest, true)?;
        parts.push(Part {
            text: event,
            group: Some(group),
            group_letters: None,
        });
        if let Some(behind) = rest.strip_prefix('}') {
            return Ok(behind);
        }
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

fn split_event(text: &str, in_group: bool) -> Result<(&str, &str), EventError> {
    // Slashes of probes and breakpoints do not come in pairs.
    let plain = is_probe(text) || text.starts_with("mem:");
    let (mut in_terms, mut quoted, mut slashes) = (false, false, 0);
    let mut end = text.len();
    for (at, c) in text.char_indices() {
        match c {
            '\'' if in_terms => quoted = !quoted,
            _ if quoted => {}
            '/' if !plain && slashes < 2 => {
                slashes += 1;
                in_terms = !in_terms;
            }
            _ if in_terms => {}
            ',' => {
                end = at;
                break;
            }
            '}' if in_group => {
                end = at;
                break;
            }
            '{' | '}' if !plain => {
                return Err(EventError::Syntax {
                    event: text.to_owned(),
                    why: "this brace belongs to no group",
                });
            }
            _ => {}
        }
    }
    if in_terms {
        return Err(EventError::Syntax {
            event: text.to_owned(),
            why: "the second slash is missing: terms stand between two slashes",
        });
    }
    Ok((text[..end].trim(), &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &str) -> Vec<&str> {
        split(list).unwrap().iter().map(|part| part.text).collect()
    }

    #[test]
    fn commas_within_terms_do_not_split() {
        assert_eq!(
            texts(" cpu/event=1,umask=2/u, cycles ,msr/tsc/ "),
            ["cpu/event=1,umask=2/u", "cycles", "msr/tsc/"]
        );
        assert_eq!(
            texts("cpu/event=1,name='a/b,c'/,cs"),
            ["cpu/event=1,name='a/b,c'/", "cs"]
        );
        assert_eq!(
            texts("mem:0x10/8:rw,uprobe:/bin/a/b:main,cs"),
            ["mem:0x10/8:rw", "uprobe:/bin/a/b:main", "cs"]
        );
        assert!(texts("").is_empty() && texts(" ").is_empty());
    }

    #[test]
    fn groups_have_numbers_and_letters() {
        let parts = split("cs,{cycles,cpu/event=1,umask=2/}:Su,named{faults},{mem:1,cs}").unwrap();
        let shown: Vec<_> = (parts.iter())
            .map(|p| (p.text, p.group, p.group_letters))
            .collect();
        assert_eq!(
            shown,
            [
                ("cs", None, None),
                ("cycles", Some(0), Some("Su")),
                ("cpu/event=1,umask=2/", Some(0), Some("Su")),
                ("faults", Some(1), None),
                ("mem:1", Some(2), None),
                ("cs", Some(2), None),
            ]
        );
    }

    #[test]
    fn braces_slashes_and_commas_without_an_end_are_errors() {
        for list in [
            "{cycles",
            "{",
            "{}",
            "cycles}",
            "cycles/freq=1",
            "{{cs}}",
            "{cs}x",
            "cs{",
            "a/'/",
            ",",
            " , ,",
            "cs,",
            ",cs",
            "cs,,faults",
            "{cs,}",
            "{,cs}",
            "{cs},",
            "{cs},,faults",
        ] {
            assert!(
                matches!(split(list), Err(EventError::Syntax { .. })),
                "{list}"
            );
        }
    }
}
