//! Two compared commands, separated by `:::`.

use std::ffi::OsString;

use crate::input::named_input::refuse_recording;
use crate::wording::messages::Failure;

const VERSUS: &str = ":::";

/// Splits the words after a subcommand's options into none, one, or two commands.
pub(crate) fn commands(
    words: &[OsString],
    subcommand: &str,
) -> Result<Vec<Vec<OsString>>, Failure> {
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let commands: Vec<Vec<OsString>> = (words.split(|word| word == VERSUS))
        .map(<[OsString]>::to_vec)
        .collect();
    let wrong = |what: &str| {
        let message = format!("{what}: rprof {subcommand} -- OLD ::: NEW");
        Err(Failure::with_status(2, anyhow::anyhow!(message)))
    };
    if commands.iter().any(Vec::is_empty) {
        return wrong("a command is missing beside `:::`");
    }
    if commands.len() > 2 {
        return wrong("more than two commands cannot be compared");
    }
    for command in &commands {
        refuse_recording(command)?;
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_one_or_two() {
        let of = |line: &str| {
            let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
            commands(&words, "stat")
                .map(|commands| commands.iter().map(Vec::len).collect::<Vec<_>>())
        };
        assert!(matches!(of(""), Ok(none) if none.is_empty()));
        assert!(matches!(of("a b"), Ok(one) if one == [2]));
        assert!(matches!(of("a b ::: c"), Ok(two) if two == [2, 1]));
        for wrong in [":::", "a :::", "::: a", "a ::: b ::: c"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
