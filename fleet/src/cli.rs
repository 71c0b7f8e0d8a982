//! The command line.

use std::path::PathBuf;

use chrono::Utc;
use clap::{Args, Parser, Subcommand, ValueEnum};

use rprof_fleet::compare::{Per, Versions};
use rprof_fleet::ddl::Dialect;
use rprof_fleet::engine::Engine;
use rprof_fleet::filter::Filter;
use rprof_fleet::hours::{Hours, moment};
use rprof_fleet::profile::Root;

/// Profiles of many hosts: top functions, flame graphs and comparisons, by SQL engines
///
/// Reads the tables that `rprof agent` and `rprof export --format parquet` write, in a folder or a bucket.
#[derive(Parser)]
#[command(name = "rprof-fleet", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Top functions, by self and total time
    Top {
        #[command(flatten)]
        question: Question,
        /// Most rows
        #[arg(short = 'n', long, default_value_t = 20)]
        limit: usize,
        /// Sort by total time instead of self
        #[arg(long)]
        children: bool,
        /// Form of the output: text, json, csv, markdown
        #[arg(long, default_value = "text")]
        format: String,
    },
    /// Flame graph as SVG
    Flamegraph {
        #[command(flatten)]
        question: Question,
        /// What stacks stand on
        #[arg(long, value_enum, default_value_t = Root::Service)]
        root: Root,
        /// File to write
        #[arg(short, long, default_value = "flamegraph.svg")]
        output: PathBuf,
        /// Title at the top
        #[arg(long)]
        title: Option<String>,
    },
    /// Page that explores the profile, in one file that works offline
    Html {
        #[command(flatten)]
        question: Question,
        /// What stacks stand on
        #[arg(long, value_enum, default_value_t = Root::Service)]
        root: Root,
        /// File to write
        #[arg(short, long, default_value = "profile.html")]
        output: PathBuf,
    },
    /// The profile for other tools: folded, pprof, otlp
    Export {
        #[command(flatten)]
        question: Question,
        /// What stacks stand on
        #[arg(long, value_enum, default_value_t = Root::Service)]
        root: Root,
        /// Form of the output: folded, pprof, otlp, json, csv
        #[arg(long, default_value = "folded")]
        format: String,
        /// File to write; standard output without
        #[arg(short, long)]
        output: Option<PathBuf>,
    },
    /// Two versions of a service, function by function, with hosts as replicates
    Diff {
        #[command(flatten)]
        question: Question,
        /// Versions to compare: OLD..NEW; the last two without
        #[arg(long, value_name = "OLD..NEW")]
        versions: Option<Versions>,
        #[command(flatten)]
        judging: Judging,
        /// Show functions within the noise too
        #[arg(long)]
        all: bool,
        /// Form of the output: text, markdown, json, csv
        #[arg(long, default_value = "text")]
        format: String,
        /// Differential flame graph to write
        #[arg(short, long, value_name = "SVG")]
        output: Option<PathBuf>,
    },
    /// Functions that take more in the last version of each service than in the one before
    ///
    /// Hosts are replicates. Of all functions of all services that are named, at most 5 % are expected to be false findings. Exit status 3 if
    /// any is named.
    Regressions {
        #[command(flatten)]
        question: Question,
        #[command(flatten)]
        judging: Judging,
    },
    /// Answers a question in SQL, with the tables samples, stacks, locations, frames, images and hosts
    Sql {
        #[command(flatten)]
        question: Question,
        /// Question
        query: String,
        /// Form of the output
        #[arg(long, value_enum, default_value_t = Rows::Table)]
        format: Rows,
    },
    /// Puts the files of each hour together, and deletes those that were, after a time
    Compact {
        #[command(flatten)]
        data: Data,
        #[command(flatten)]
        time: Time,
        /// Time after which a file is deleted whose rows another one has, in seconds
        #[arg(long, default_value_t = 3_600, value_name = "SECONDS")]
        grace: u32,
        /// Time after an hour's end in which it is left alone, in seconds
        #[arg(long, default_value_t = 600, value_name = "SECONDS")]
        settle: u32,
    },
    /// Names what hosts could not name, by build-id
    Symbolize {
        #[command(flatten)]
        data: Data,
        #[command(flatten)]
        time: Time,
        /// Folder with .build-id/ab/cdef.debug, and images as .build-id/ab/cdef; may be given several times
        #[arg(long, value_name = "DIR")]
        debug_dir: Vec<PathBuf>,
        /// Ask the servers in DEBUGINFOD_URLS for what the folders lack
        #[arg(long)]
        debuginfod: bool,
    },
    /// Deletes the partitions of old dates
    Retain {
        #[command(flatten)]
        data: Data,
        /// Days to keep, besides today
        #[arg(long, value_name = "N")]
        days: u32,
        /// Only tell what would be deleted
        #[arg(long)]
        dry_run: bool,
    },
    /// Statements that make the tables known to another engine
    Schema {
        /// Engine
        #[arg(long, value_enum)]
        ddl: Dialect,
        /// Folder or bucket of the tables
        #[arg(long, default_value = "profiles")]
        data: String,
    },
    /// Lists the files whose rows count: for engines that cannot leave out the inputs of compacted ones
    Files {
        #[command(flatten)]
        data: Data,
        #[command(flatten)]
        time: Time,
    },
    /// Ballista's scheduler. It has no password: whoever reaches it, such as any local user, reads and writes files as the executors
    #[cfg(feature = "ballista")]
    Scheduler {
        /// Address to listen at
        #[arg(long, default_value = "127.0.0.1")]
        host: String,
        /// Port to listen at
        #[arg(long, default_value_t = 50050)]
        port: u16,
    },
    /// An executor of Ballista. Credentials of buckets are those of its own environment
    #[cfg(feature = "ballista")]
    Executor {
        /// Scheduler, as HOST:PORT
        #[arg(long, default_value = "127.0.0.1:50050")]
        scheduler: String,
        /// Address that scheduler, executors and clients reach it at
        #[arg(long, default_value = "127.0.0.1")]
        host: String,
        /// Port of results; tasks come in at the one behind it
        #[arg(long, default_value_t = 50051)]
        port: u16,
        /// Tasks at a time; as many as there are CPUs without
        #[arg(long)]
        tasks: Option<usize>,
        /// Folder of intermediate results; a temporary one without
        #[arg(long, value_name = "DIR")]
        work_dir: Option<PathBuf>,
    },
}

#[cfg(feature = "ballista")]
impl Command {
    /// Returns the engine, of commands that ask one.
    pub fn engine(&self) -> Option<&Engine> {
        match self {
            Command::Top { question, .. }
            | Command::Flamegraph { question, .. }
            | Command::Html { question, .. }
            | Command::Export { question, .. }
            | Command::Diff { question, .. }
            | Command::Regressions { question, .. }
            | Command::Sql { question, .. } => Some(&question.engine),
            _ => None,
        }
    }
}

#[derive(Args, Clone)]
pub struct Data {
    /// Folder of the tables, or s3://BUCKET/PREFIX
    #[arg(long, default_value = "profiles", value_name = "DIR|s3://…")]
    pub data: String,
}

#[derive(Args, Clone, Copy)]
pub struct Time {
    /// Time from which windows count: 2023-11-14, 2023-11-14T22:00 (UTC), or so long ago: 90m, 1h, 7d
    #[arg(long, value_parser = parse_moment, value_name = "TIME")]
    since: Option<i64>,
    /// Time up to which windows count
    #[arg(long, value_parser = parse_moment, value_name = "TIME")]
    until: Option<i64>,
}

impl Time {
    pub fn hours(self) -> Hours {
        Hours {
            since: self.since,
            until: self.until,
        }
    }
}

#[derive(Args, Clone)]
pub struct Question {
    #[command(flatten)]
    pub data: Data,
    #[command(flatten)]
    pub time: Time,
    /// Engine: embedded, or ballista=df://HOST:PORT
    #[arg(long, default_value = "embedded", value_name = "ENGINE")]
    pub engine: Engine,
    /// Service
    #[arg(long)]
    pub service: Option<String>,
    /// Version of the service
    #[arg(long = "service-version", value_name = "VERSION")]
    pub version: Option<String>,
    /// Host
    #[arg(long)]
    pub host: Option<String>,
    /// Event
    #[arg(long)]
    pub event: Option<String>,
}

impl Question {
    pub fn filter(&self) -> Filter {
        Filter {
            service: self.service.clone(),
            version: self.version.clone(),
            host: self.host.clone(),
            event: self.event.clone(),
            hours: self.time.hours(),
        }
    }
}

#[derive(Args, Clone)]
pub struct Judging {
    /// Divisor of amounts
    #[arg(long, value_enum, default_value_t = Per::Share)]
    pub per: Per,
    /// Smallest change that matters, in percent of a function's amount
    #[arg(long, default_value_t = 1.0, value_name = "PERCENT")]
    pub threshold: f64,
    /// Smallest change that matters, in percent of the service
    #[arg(long, default_value_t = 0.1, value_name = "PERCENT")]
    pub min_share: f64,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Lines and columns for people
    Table,
    /// CSV with headings
    Csv,
}

fn parse_moment(text: &str) -> Result<i64, String> {
    moment(text, Utc::now())
}
