//! Counts the words of files. Each thread has its own table.
//!
//! `cargo run -p rprof-parallel --example words -- FILE…`
#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::collections::HashMap;
use std::path::PathBuf;

fn main() {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let tables = rprof_parallel::run(rprof_parallel::available(), files.len(), |queue| {
        let mut words: HashMap<String, u64> = HashMap::new();
        while let Some(file) = queue.next() {
            let text = std::fs::read_to_string(&files[file]).unwrap_or_default();
            for word in text.split_whitespace() {
                *words.entry(word.to_owned()).or_default() += 1;
            }
        }
        words
    });
    let threads = tables.len();
    let mut words: HashMap<String, u64> = HashMap::new();
    for (word, count) in tables.into_iter().flatten() {
        *words.entry(word).or_default() += count;
    }
    let mut words: Vec<(String, u64)> = words.into_iter().collect();
    words.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    println!("{} words, counted on {threads} threads", words.len());
    for (word, count) in words.iter().take(10) {
        println!("{count:>8}  {word:?}");
    }
}
