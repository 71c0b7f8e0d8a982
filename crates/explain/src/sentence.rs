//! [`Explanation`]: sentences in order, cut to a number of words.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use rprof_export::clean::shell_word;
use rprof_profile::unit::inflected;

/// Topic of a sentence, in the order of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Topic {
    /// Amount and quality of the samples.
    Measured,
    /// Changes between two recordings.
    Changed,
    /// Places with most time.
    Where,
    /// Kinds of work.
    Why,
    /// Phases of threads, processes.
    Threads,
    /// Reasons of waits.
    Waits,
}

impl Topic {
    /// Returns the heading.
    pub fn heading(self) -> &'static str {
        match self {
            Topic::Measured => "Measured",
            Topic::Changed => "Changed",
            Topic::Where => "Where",
            Topic::Why => "Why",
            Topic::Threads => "Threads",
            Topic::Waits => "Waits",
        }
    }
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Sentence {
    /// Topic.
    pub topic: Topic,
    /// The statement, with its number.
    pub text: String,
    /// Arguments of `rprof` that show the number, without the input: `report --sort object`.
    pub command: String,
    /// Share of the time that it explains, from 0 to 100. Sentences with a small one are left out
    /// first.
    pub importance: f64,
}

/// Sentences about a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    sentences: Vec<Sentence>,
    /// ` -i FILE`, or empty.
    input: String,
    /// Options of filters with a space before each, or empty.
    filters: String,
}

impl Explanation {
    pub(crate) fn new(sentences: Vec<Sentence>, input: &OsStr) -> Explanation {
        Explanation {
            sentences: sorted(sentences),
            input: match input.is_empty() {
                true => String::new(),
                false => format!(" -i {}", shell_word(input.as_bytes())),
            },
            filters: String::new(),
        }
    }

    pub(crate) fn with_sentences(mut self, found: impl Iterator<Item = Sentence>) -> Explanation {
        self.sentences.extend(found);
        self.sentences = sorted(self.sentences);
        self
    }

    /// Adds options of filters, with which the profile was read, to the commands that take them.
    #[must_use]
    pub fn with_filters(mut self, words: &[OsString]) -> Explanation {
        let words = words.iter().map(|word| shell_word(word.as_bytes()));
        self.filters = words.map(|word| format!(" {word}")).collect();
        self
    }

    /// Returns all sentences, by topic, the most important ones first.
    pub fn sentences(&self) -> &[Sentence] {
        &self.sentences
    }

    /// Returns the command of a sentence, as one types it.
    pub fn command(&self, sentence: &Sentence) -> String {
        // The header is of the whole recording.
        let filters = match sentence.command.starts_with("header") {
            true => "",
            false => &*self.filters,
        };
        format!("rprof {}{filters}{}", sentence.command, self.input)
    }

    /// Returns the text with at most this number of words. The least important sentences are left
    /// out, and the last line counts them. At least one sentence remains.
    pub fn within(&self, words: usize) -> String {
        let mut order: Vec<usize> = (0..self.sentences.len()).collect();
        order.sort_by(|a, b| {
            let importance = |at: &usize| self.sentences[*at].importance;
            importance(b).total_cmp(&importance(a)).then(a.cmp(b))
        });
        let mut shown = vec![false; self.sentences.len()];
        let mut left = words;
        for (nth, at) in order.into_iter().enumerate() {
            let sentence = &self.sentences[at];
            let size = count_words(&sentence.text) + count_words(&self.command(sentence)) + 1;
            if size <= left || nth == 0 {
                shown[at] = true;
                left = left.saturating_sub(size);
            }
        }
        let mut text = String::new();
        let mut topic = None;
        let chosen = self.sentences.iter().zip(&shown);
        for (sentence, _) in chosen.filter(|(_, shown)| **shown) {
            if topic != Some(sentence.topic) {
                let break_ = if topic.is_some() { "\n" } else { "" };
                let _ = writeln!(text, "{break_}{}", sentence.topic.heading());
                topic = Some(sentence.topic);
            }
            let _ = writeln!(text, "- {}", sentence.text);
            let _ = writeln!(text, "    {}", self.command(sentence));
        }
        let rest = shown.iter().filter(|shown| !**shown).count();
        if rest > 0 {
            let noun = inflected(rest as u64, "sentence");
            let _ = writeln!(text, "\n{rest} more {noun} with a larger --budget");
        }
        text
    }
}

fn sorted(mut sentences: Vec<Sentence>) -> Vec<Sentence> {
    let order = |a: &Sentence, b: &Sentence| {
        (a.topic.cmp(&b.topic)).then(b.importance.total_cmp(&a.importance))
    };
    sentences.sort_by(order);
    sentences
}

fn count_words(text: &str) -> usize {
    text.split_whitespace().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(topic: Topic, text: &str, importance: f64) -> Sentence {
        Sentence {
            topic,
            text: text.to_owned(),
            command: "report".to_owned(),
            importance,
        }
    }

    #[test]
    fn sentences_of_little_weight_are_left_out_first() {
        let sentences = vec![
            sentence(Topic::Why, "seven words are in this one here", 10.0),
            sentence(Topic::Where, "one two three", 50.0),
            sentence(Topic::Measured, "first", 100.0),
        ];
        let explanation = Explanation::new(sentences, "a b.data".as_ref());
        let text = explanation.within(17);
        assert_eq!(
            text,
            "Measured\n- first\n    rprof report -i 'a b.data'\n\nWhere\n- one two three\n    rprof report -i 'a b.data'\n\n1 more sentence with a larger --budget\n"
        );
        assert!(explanation.within(0).contains("first"));
        assert!(explanation.within(400).contains("seven words"));
    }

    #[test]
    fn a_file_of_any_name_is_a_word_of_a_shell() {
        let input = OsStr::from_bytes(b"a\x1b[31m\xff b.data");
        let explanation = Explanation::new(vec![sentence(Topic::Where, "one", 1.0)], input);
        let filtered = explanation
            .clone()
            .with_filters(&["--comm".into(), "a b".into()]);
        assert!(filtered.within(9).contains("rprof report --comm 'a b' -i "));
        assert!(
            explanation
                .within(9)
                .ends_with("rprof report -i $'a\\x1b[31m\\xff b.data'\n"),
            "{}",
            explanation.within(9)
        );
    }
}
