//! Choice of the default program, as in `cargo run`.

use std::path::Path;

use anyhow::{Error, bail};
use cargo_metadata::{Metadata, Package, Target, TargetKind};

/// Returns the packages to build: the named one, else the folder's, else the workspace's default
/// members.
pub(crate) fn packages<'a>(
    metadata: &'a Metadata,
    spec: Option<&str>,
    folder: &Path,
) -> Vec<&'a Package> {
    let members = || metadata.workspace_packages().into_iter();
    if let Some(spec) = spec {
        // Cargo parses longer specifications, such as path+file:///x#name@1.0.
        return members()
            .filter(|package| package.name.as_str() == spec)
            .collect();
    }
    let home = |package: &Package| {
        package
            .manifest_path
            .parent()
            .map(|at| at.as_std_path().to_owned())
    };
    let around = members().filter(|package| home(package).is_some_and(|at| folder.starts_with(at)));
    match around.max_by_key(|package| package.manifest_path.as_str().len()) {
        Some(package) => vec![package],
        None if metadata.workspace_default_members.is_available() => {
            metadata.workspace_default_packages()
        }
        None => metadata.workspace_packages(),
    }
}

/// Returns the package and the name of the default binary.
///
/// # Errors
/// There is no binary, or there are several without `default-run`.
pub(crate) fn binary(packages: &[&Package]) -> Result<(String, String), Error> {
    let named = |package: &Package, name: &str| (package.name.to_string(), name.to_owned());
    let of = |package: &Package| {
        let binaries =
            targets(package, &TargetKind::Bin).map(|target| named(package, &target.name));
        match &package.default_run {
            Some(name) => vec![named(package, name)],
            None => binaries.collect::<Vec<_>>(),
        }
    };
    let all: Vec<(String, String)> = packages.iter().flat_map(|package| of(package)).collect();
    match all.as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            let examples: Vec<&str> = (packages.iter())
                .flat_map(|package| targets(package, &TargetKind::Example))
                .map(|target| target.name.as_str())
                .collect();
            match examples.is_empty() {
                true => bail!(
                    "there is no binary to run here; name a test (--test, --unit-test) or benchmark (--bench), \
                     or another package (-p)"
                ),
                false => bail!(
                    "there is no binary to run here; there are examples: --example {}",
                    examples.join(", ")
                ),
            }
        }
        several => {
            let names: Vec<&str> = several.iter().map(|(_, name)| name.as_str()).collect();
            bail!(
                "there are several binaries; name one with --bin: {}",
                names.join(", ")
            )
        }
    }
}

/// Returns Cargo's options to build the unit tests of a library or binary.
///
/// # Errors
/// There is no such library or binary, or there are several binaries and no name.
pub(crate) fn unit(packages: &[&Package], name: Option<&str>) -> Result<Vec<String>, Error> {
    let libraries = || {
        packages
            .iter()
            .flat_map(|p| p.targets.iter())
            .filter(|t| is_library(t))
    };
    let is_lib = match name {
        None => libraries().next().is_some(),
        Some(name) => libraries().any(|target| target.name == name.replace('-', "_")),
    };
    match (is_lib, name) {
        (true, _) => Ok(vec!["--lib".into()]),
        (false, Some(name)) => Ok(vec!["--bin".into(), name.into()]),
        (false, None) => binary(packages).map(|(_, name)| vec!["--bin".into(), name]),
    }
}

fn is_library(target: &Target) -> bool {
    target.is_lib()
        || target.is_rlib()
        || target.is_dylib()
        || target.is_cdylib()
        || target.is_staticlib()
        || target.is_proc_macro()
}

fn targets<'a>(package: &'a Package, kind: &'a TargetKind) -> impl Iterator<Item = &'a Target> {
    package
        .targets
        .iter()
        .filter(move |target| target.kind.contains(kind))
}
