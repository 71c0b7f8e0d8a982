//! Runs Cargo to build the program, and finds it among the artifacts.

use std::ffi::OsString;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Error, bail};
use cargo_metadata::{Artifact, Message, Metadata, MetadataCommand};

use crate::args::CargoArgs;
use crate::profile::Profiles;
use crate::{choice, say};

/// Built program, and how to run it.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// Arguments before the user's arguments.
    pub(crate) args: Vec<OsString>,
    /// Variables that Cargo sets for programs that it runs.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Working directory, if not the user's.
    pub(crate) folder: Option<PathBuf>,
}

/// Subcommand of Cargo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Build,
    Test,
    Bench,
}

impl Kind {
    fn words(self) -> &'static [&'static str] {
        match self {
            Kind::Build => &["build"],
            Kind::Test => &["test", "--no-run"],
            Kind::Bench => &["bench", "--no-run"],
        }
    }
}

/// Builds the selected program.
///
/// # Errors
/// Cargo fails, or builds no such program, or several.
pub(crate) fn build(options: &CargoArgs) -> Result<Program, Error> {
    let here = std::env::current_dir().context("cannot get the working directory")?;
    let metadata = metadata(options)?;
    let folder = match &options.manifest_path {
        Some(path) => here
            .join(path)
            .parent()
            .map_or(here.clone(), Path::to_owned),
        None => here.clone(),
    };
    let (kind, mut words) = target(options, &metadata, &folder)?;
    let (profile, flags) = profile(options, kind);
    words.extend(flags);
    let mut command = cargo();
    command
        .args(kind.words())
        .args(words)
        .args(build_options(options));
    command.arg("--message-format=json-render-diagnostics");
    let profiles = Profiles::read(metadata.workspace_root.as_std_path(), &here);
    let additions = profiles.additions(&profile);
    for (name, value) in &additions {
        say(format_args!("with {name}={value}"));
        command.env(name, value);
    }
    if let Some((_, value)) = additions.iter().find(|(name, _)| name.ends_with("_DEBUG")) {
        say(format_args!(
            "profile `{profile}` has no debug information; `debug = {value}` below [profile.{profile}] in Cargo.toml adds \
             lines and inlined calls to every build, and avoids a second build"
        ));
    }
    let (artifacts, libraries) = run(&mut command)?;
    let (artifact, path) = the_one(kind, artifacts)?;
    Ok(program(kind, &artifact, path, libraries))
}

/// Returns the command for Cargo, from the variable that Cargo sets for subcommands.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn metadata(options: &CargoArgs) -> Result<Metadata, Error> {
    let mut command = MetadataCommand::new();
    command.no_deps();
    if let Some(path) = &options.manifest_path {
        command.manifest_path(path);
    }
    command.exec().map_err(|error| match error {
        // Cargo's message is complete.
        cargo_metadata::Error::CargoMetadata { stderr } => {
            let text = stderr.trim_start_matches("error: ").trim_end().to_owned();
            Error::msg(text)
        }
        other => other.into(),
    })
}

/// Returns the subcommand of Cargo, and its options for package and program.
fn target(
    options: &CargoArgs,
    metadata: &Metadata,
    folder: &Path,
) -> Result<(Kind, Vec<String>), Error> {
    let mut package = options.package.clone();
    let packages = choice::packages(metadata, package.as_deref(), folder);
    let given = &options.target;
    let named = [
        (Kind::Build, "--bin", &given.bin),
        (Kind::Build, "--example", &given.example),
        (Kind::Test, "--test", &given.test),
        (Kind::Bench, "--bench", &given.bench),
    ];
    let mut named = named
        .into_iter()
        .filter_map(|(kind, option, name)| Some((kind, vec![option.to_owned(), name.clone()?])));
    let units = [
        (Kind::Test, &given.unit_test),
        (Kind::Bench, &given.unit_bench),
    ];
    let mut units = units
        .into_iter()
        .filter_map(|(kind, name)| Some((kind, name.as_ref()?)));
    let (kind, mut words) = match (named.next(), units.next()) {
        (Some(named), _) => named,
        (None, Some((kind, name))) => (kind, choice::unit(&packages, name.as_deref())?),
        (None, None) => {
            let (of, name) = choice::binary(&packages)?;
            package.get_or_insert(of);
            (Kind::Build, vec!["--bin".to_owned(), name])
        }
    };
    words.extend(
        package
            .into_iter()
            .flat_map(|spec| ["--package".to_owned(), spec]),
    );
    Ok((kind, words))
}

/// Returns the name of the profile, and its options for Cargo.
fn profile(options: &CargoArgs, kind: Kind) -> (String, Vec<String>) {
    let build = &options.build;
    let (name, option): (&str, &[&str]) = match (&build.profile, build.dev, kind) {
        (Some(name), ..) => return (name.clone(), vec!["--profile".into(), name.clone()]),
        (None, true, Kind::Build) => ("dev", &[]),
        (None, true, Kind::Test) => ("test", &[]),
        (None, true, Kind::Bench) => ("dev", &["--profile", "dev"]),
        (None, false, Kind::Bench) => ("bench", &[]),
        (None, false, _) => ("release", &["--release"]),
    };
    (
        name.into(),
        option.iter().map(|&word| word.to_owned()).collect(),
    )
}

/// Returns the options to pass to Cargo unchanged.
fn build_options(options: &CargoArgs) -> Vec<OsString> {
    let build = &options.build;
    let mut words: Vec<OsString> = Vec::new();
    let mut valued = |option: &str, value: OsString| words.extend([option.into(), value]);
    let paths = [
        ("--manifest-path", &options.manifest_path),
        ("--target-dir", &build.target_dir),
    ];
    for (option, value) in paths {
        value.iter().for_each(|value| valued(option, value.into()));
    }
    let texts = [("--target", &build.triple), ("--jobs", &build.jobs)];
    for (option, value) in texts {
        value.iter().for_each(|value| valued(option, value.into()));
    }
    for (option, values) in [
        ("--features", &options.features),
        ("--config", &build.config),
    ] {
        values.iter().for_each(|value| valued(option, value.into()));
    }
    let flags = [
        (options.all_features, "--all-features"),
        (options.no_default_features, "--no-default-features"),
        (build.locked, "--locked"),
        (build.offline, "--offline"),
        (build.frozen, "--frozen"),
    ];
    let given = flags.into_iter().filter(|(given, _)| *given);
    words.extend(given.map(|(_, flag)| flag.into()));
    words
}

/// Runs Cargo, with diagnostics on standard error. Returns the artifacts, and library folders from
/// build scripts.
fn run(command: &mut Command) -> Result<(Vec<Artifact>, Vec<PathBuf>), Error> {
    let mut child = (command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn())
        .context("cannot run Cargo; is it in PATH?")?;
    let (mut artifacts, mut paths) = (Vec::new(), Vec::new());
    if let Some(out) = child.stdout.take() {
        for message in Message::parse_stream(BufReader::new(out)) {
            match message.context("cannot read the messages of Cargo")? {
                Message::CompilerArtifact(artifact) => artifacts.push(artifact),
                Message::BuildScriptExecuted(script) => {
                    // `native=/folder`, or a folder without a kind.
                    let folder =
                        |path: &str| path.split_once('=').map_or(path, |(_, path)| path).into();
                    paths.extend(script.linked_paths.iter().map(|path| folder(path.as_str())));
                }
                _ => {}
            }
        }
    }
    let status = child.wait().context("cannot wait for Cargo")?;
    match status.success() {
        true => Ok((artifacts, paths)),
        false => bail!("the build failed"),
    }
}

fn the_one(kind: Kind, artifacts: Vec<Artifact>) -> Result<(Artifact, PathBuf), Error> {
    // Cargo also builds the package's binaries for integration tests.
    let is_test = kind != Kind::Build;
    let programs = artifacts.into_iter().filter_map(|artifact| {
        let path = artifact.executable.clone()?.into_std_path_buf();
        (artifact.profile.test == is_test && !artifact.target.is_custom_build())
            .then_some((artifact, path))
    });
    let mut programs: Vec<_> = programs.collect();
    if programs.len() > 1 {
        let names: Vec<&str> = programs
            .iter()
            .map(|(artifact, _)| artifact.target.name.as_str())
            .collect();
        bail!(
            "several programs were built ({}); name a package with -p",
            names.join(", ")
        );
    }
    programs.pop().context("Cargo built no program")
}

/// Creates the program of an artifact, with the environment of `cargo run` or `cargo test`.
fn program(kind: Kind, artifact: &Artifact, path: PathBuf, libraries: Vec<PathBuf>) -> Program {
    let manifest = artifact.manifest_path.as_std_path();
    let folder = manifest.parent().map(Path::to_owned);
    let mut environment: Vec<(OsString, OsString)> = vec![
        ("CARGO".into(), cargo().get_program().into()),
        ("CARGO_MANIFEST_PATH".into(), manifest.into()),
    ];
    environment.extend(
        folder
            .iter()
            .map(|folder| ("CARGO_MANIFEST_DIR".into(), folder.into())),
    );
    // Before the user's libraries.
    let around = path
        .parent()
        .into_iter()
        .flat_map(|at| [at.join("deps"), at.to_owned()]);
    let known = std::env::var_os("LD_LIBRARY_PATH");
    let known = known.iter().flat_map(std::env::split_paths);
    if let Ok(all) = std::env::join_paths(libraries.into_iter().chain(around).chain(known)) {
        environment.push(("LD_LIBRARY_PATH".into(), all));
    }
    Program {
        path,
        args: match kind {
            Kind::Bench => vec!["--bench".into()],
            _ => Vec::new(),
        },
        environment,
        folder: folder.filter(|_| kind != Kind::Build),
    }
}
