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
/// Reads the tables of `rprof-agent` and `rprof-agent export` in a folder or a bucket.
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
        /// Maximum number of rows
        #[arg(short = 'n', long, default_value_t = 20)]
        limit: usize,
        /// Sort by total time instead of self
        #[arg(long)]
        children: bool,
        /// Output format: text, json, csv, markdown
        #[arg(long, default_value = "text")]
        format: String,
    },
    /// Flame graph as SVG
    Flamegraph {
        #[command(flatten)]
        question: Question,
        /// Root frame of all stacks
        #[arg(long, value_enum, default_value_t = Root::Service)]
        root: Root,
        /// File to write
        #[arg(short, long, default_value = "flamegraph.svg")]
        output: PathBuf,
        /// Title at the top
        #[arg(long)]
        title: Option<String>,
    },
    /// Interactive page in one file, which works offline
    Html {
        #[command(flatten)]
        question: Question,
        /// Root frame of all stacks
        #[arg(long, value_enum, default_value_t = Root::Service)]
        root: Root,
        /// File to write
        #[arg(short, long, default_value = "profile.html")]
        output: PathBuf,
    },
    /// Export for other tools: folded, pprof, otlp
    Export {
        #[command(flatten)]
        question: Question,
        /// Root frame of all stacks
        #[arg(long, value_enum, default_value_t = Root::Service)]
        root: Root,
        /// Output format: folded, pprof, otlp, json, csv
        #[arg(long, default_value = "folded")]
        format: String,
        /// Output file (default: standard output)
        #[arg(short, long)]
        output: Option<PathBuf>,
    },
    /// Compare two versions of a service by function, with hosts as replicates
    Diff {
        #[command(flatten)]
        question: Question,
        /// Versions to compare: OLD..NEW (default: the last two)
        #[arg(long, value_name = "OLD..NEW")]
        versions: Option<Versions>,
        #[command(flatten)]
        judging: Judging,
        /// Also show functions within the noise
        #[arg(long)]
        all: bool,
        /// Output format: text, markdown, json, csv
        #[arg(long, default_value = "text")]
        format: String,
        /// Differential flame graph to write
        #[arg(short, long, value_name = "SVG")]
        output: Option<PathBuf>,
    },
    /// Functions that are slower in the latest version of each service than in the previous one
    ///
    /// Hosts are replicates. At most 5 % of all reported functions, over all services, are expected
    /// to be false positives. Exits with status 3 if any is reported.
    Regressions {
        #[command(flatten)]
        question: Question,
        #[command(flatten)]
        judging: Judging,
    },
    /// Run an SQL query on the tables samples, stacks, locations, frames, images and hosts
    Sql {
        #[command(flatten)]
        question: Question,
        /// SQL query
        query: String,
        /// Output format
        #[arg(long, value_enum, default_value_t = Rows::Table)]
        format: Rows,
    },
    /// Merge the files of each hour, and delete merged inputs after a grace period
    Compact {
        #[command(flatten)]
        data: Data,
        #[command(flatten)]
        time: Time,
        /// Delete inputs this many seconds after the merge
        #[arg(long, default_value_t = 3_600, value_name = "SECONDS")]
        grace: u32,
        /// Skip hours that ended less than this many seconds ago
        #[arg(long, default_value_t = 600, value_name = "SECONDS")]
        settle: u32,
    },
    /// Add missing names, by build-id
    Symbolize {
        #[command(flatten)]
        data: Data,
        #[command(flatten)]
        time: Time,
        /// Folder with debug files .build-id/ab/cdef.debug and images .build-id/ab/cdef; repeatable
        #[arg(long, value_name = "DIR")]
        debug_dir: Vec<PathBuf>,
        /// Download files that the folders lack from the servers in DEBUGINFOD_URLS
        #[arg(long)]
        debuginfod: bool,
    },
    /// Delete the partitions of old dates
    Retain {
        #[command(flatten)]
        data: Data,
        /// Days to keep, besides today
        #[arg(long, value_name = "N")]
        days: u32,
        /// Only list the files to delete
        #[arg(long)]
        dry_run: bool,
    },
    /// Print SQL statements that define the tables in another engine
    Schema {
        /// Engine
        #[arg(long, value_enum)]
        ddl: Dialect,
        /// Folder or bucket of the tables
        #[arg(long, default_value = "profiles")]
        data: String,
    },
    /// List the current files, for engines that cannot skip the inputs of compacted ones
    Files {
        #[command(flatten)]
        data: Data,
        #[command(flatten)]
        time: Time,
    },
    /// Run a Ballista scheduler. It has no authentication: everyone who can connect, such as any
    /// local user, can read and write files as the executors
    #[cfg(feature = "ballista")]
    Scheduler {
        /// Address to listen on
        #[arg(long, default_value = "127.0.0.1")]
        host: String,
        /// Port to listen on
        #[arg(long, default_value_t = 50050)]
        port: u16,
    },
    /// Run a Ballista executor. Bucket credentials come from its own environment
    #[cfg(feature = "ballista")]
    Executor {
        /// Scheduler, as HOST:PORT
        #[arg(long, default_value = "127.0.0.1:50050")]
        scheduler: String,
        /// Address where the scheduler, executors and clients reach it
        #[arg(long, default_value = "127.0.0.1")]
        host: String,
        /// Port for results; tasks use the next port
        #[arg(long, default_value_t = 50051)]
        port: u16,
        /// Maximum number of concurrent tasks (default: number of CPUs)
        #[arg(long)]
        tasks: Option<usize>,
        /// Folder of intermediate results (default: a temporary folder)
        #[arg(long, value_name = "DIR")]
        work_dir: Option<PathBuf>,
    },
}

#[cfg(feature = "ballista")]
impl Command {
    /// Returns the engine, for commands that query one.
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
    /// Start of the time range: 2023-11-14, 2023-11-14T22:00 (UTC), or a time ago: 90m, 1h, 7d
    #[arg(long, value_parser = parse_moment, value_name = "TIME")]
    since: Option<i64>,
    /// End of the time range
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
    /// What to divide amounts by
    #[arg(long, value_enum, default_value_t = Per::Share)]
    pub per: Per,
    /// Minimum change, in percent of the function's amount
    #[arg(long, default_value_t = 1.0, value_name = "PERCENT")]
    pub threshold: f64,
    /// Minimum change, in percent of the service
    #[arg(long, default_value_t = 0.1, value_name = "PERCENT")]
    pub min_share: f64,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Aligned columns
    Table,
    /// CSV with a header line
    Csv,
}

fn parse_moment(text: &str) -> Result<i64, String> {
    moment(text, Utc::now())
}
