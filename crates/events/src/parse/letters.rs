use crate::error::EventError;
use crate::event::Event;
use crate::modifiers::{LetterError, Letters};

pub(super) fn set_letters(
    events: &mut [Event],
    letters: &str,
    text: &str,
) -> Result<(), EventError> {
    let parsed = Letters::parse(letters).map_err(|error| event_error(error, letters, text))?;
    for event in events {
        event.modifiers = parsed.modifiers;
        event.qualifiers = parsed.qualifiers;
    }
    Ok(())
}

pub(super) fn add_group_letters(
    event: &mut Event,
    letters: &str,
    text: &str,
) -> Result<(), EventError> {
    let own = Letters {
        modifiers: event.modifiers,
        qualifiers: event.qualifiers,
    };
    let sum = (own.add(letters)).map_err(|error| event_error(error, letters, text))?;
    event.modifiers = sum.modifiers;
    event.qualifiers = sum.qualifiers;
    Ok(())
}

fn event_error(error: LetterError, letters: &str, event: &str) -> EventError {
    let event = event.to_owned();
    match error {
        LetterError::Empty => EventError::Modifier {
            event,
            modifier: letters.to_owned(),
        },
        LetterError::Unknown(letter) => EventError::Modifier {
            event,
            modifier: letter.to_string(),
        },
        LetterError::Repeated(modifier) => EventError::ModifierRepeated { event, modifier },
    }
}
