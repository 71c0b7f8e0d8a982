//! Files of a crate that import each other in a circle.
//!
//! An import is a `use` or a path in code. It leads to the file that defines the item, through
//! re-exports. Imports from a parent module (`mod.rs`, `lib.rs`) do not count, nor do tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::Visit;

/// Limit of steps through re-exports.
const MAX_REEXPORTS: usize = 8;

/// Path of a module from the root of its crate.
type ModulePath = Vec<String>;

#[derive(Default)]
struct Module {
    file: PathBuf,
    children: BTreeSet<String>,
    /// Names that `use` imports, with their paths.
    imports: Vec<(String, Vec<String>)>,
    globs: Vec<Vec<String>>,
    paths: Vec<Vec<String>>,
    items: BTreeSet<String>,
}

pub(crate) struct Modules {
    modules: BTreeMap<ModulePath, Module>,
}

pub(crate) fn roots(src: &Path) -> Vec<PathBuf> {
    let mut roots = vec![src.join("lib.rs"), src.join("main.rs")];
    for entry in fs::read_dir(src.join("bin"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let path = entry.path();
        roots.push(if path.is_dir() {
            path.join("main.rs")
        } else {
            path
        });
    }
    roots.retain(|path| path.exists());
    roots
}

impl Modules {
    /// Parses a root file and its modules, without tests.
    pub(crate) fn read(root: &Path) -> Self {
        let mut modules = Self {
            modules: BTreeMap::new(),
        };
        let folder = root.parent().expect("a file in a folder").to_owned();
        modules.add_file(root, &[], &folder);
        modules
    }

    pub(crate) fn len(&self) -> usize {
        self.modules.len()
    }

    fn add_file(&mut self, file: &Path, path: &[String], folder: &Path) {
        let source =
            fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let source =
            syn::parse_file(&source).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.add(file, path, folder, &source.items);
    }

    fn add(&mut self, file: &Path, path: &[String], folder: &Path, items: &[syn::Item]) {
        let mut module = Module {
            file: file.to_owned(),
            ..Module::default()
        };
        let mut below = Vec::new();
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            match item {
                syn::Item::Use(item) => module.add_use(Vec::new(), &item.tree),
                syn::Item::Mod(item) => {
                    let name = item.ident.to_string();
                    module.children.insert(name.clone());
                    let folder = folder.join(&name);
                    match &item.content {
                        Some((_, items)) => below.push((name, folder, Err(items.as_slice()))),
                        None => {
                            let file = path_attribute(&item.attrs).map_or_else(
                                || {
                                    let flat = folder.with_extension("rs");
                                    let exists = flat.exists();
                                    if exists { flat } else { folder.join("mod.rs") }
                                },
                                |path| file.with_file_name(path),
                            );
                            below.push((name, folder, Ok(file)));
                        }
                    }
                }
                other => {
                    module.items.extend(name_of(other));
                    module.visit_item(other);
                }
            }
        }
        self.modules.insert(path.to_vec(), module);
        for (name, folder, content) in below {
            let path = [path, &[name]].concat();
            match content {
                Ok(file) => self.add_file(&file, &path, &folder),
                Err(items) => self.add(file, &path, &folder, items),
            }
        }
    }

    /// Returns the path from the crate's root; `None` if it leads into another crate.
    fn absolute(&self, from: &ModulePath, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([from, rest].concat()),
            "super" => {
                let (_, parent) = from.split_last()?;
                self.absolute(&parent.to_vec(), &[&["self".to_owned()], rest].concat())
            }
            name => {
                let module = self.modules.get(from)?;
                module
                    .children
                    .contains(name)
                    .then(|| [from, path].concat())
            }
        }
    }

    /// Returns the module that defines a path's target.
    fn definition(&self, path: &[String], steps: usize) -> Option<ModulePath> {
        let depth = (0..=path.len())
            .rev()
            .find(|depth| self.modules.contains_key(&path[..*depth]))?;
        let at = path[..depth].to_vec();
        let module = &self.modules[&at];
        let Some(name) = path.get(depth).filter(|_| steps < MAX_REEXPORTS) else {
            return Some(at);
        };
        if module.items.contains(name) {
            return Some(at);
        }
        if let Some((_, target)) = module.imports.iter().find(|(alias, _)| alias == name) {
            let target = self.absolute(&at, target)?;
            return self.definition(&[&target[..], &path[depth + 1..]].concat(), steps + 1);
        }
        for glob in &module.globs {
            let target = self.absolute(&at, glob)?;
            let found = self.definition(&[&target[..], &path[depth..]].concat(), steps + 1)?;
            if self.modules[&found].items.contains(name) {
                return Some(found);
            }
        }
        Some(at)
    }

    fn imports(&self) -> BTreeMap<&Path, BTreeSet<&Path>> {
        let mut edges: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
        for (from, module) in &self.modules {
            let used = module.imports.iter().map(|(_, path)| path);
            for path in used.chain(&module.globs).chain(&module.paths) {
                let Some(path) = self.absolute(from, path) else {
                    continue;
                };
                let Some(to) = self.definition(&path, 0) else {
                    continue;
                };
                let file = self.modules[&to].file.as_path();
                if file != module.file && !from.starts_with(&to) {
                    edges.entry(&module.file).or_default().insert(file);
                }
            }
        }
        edges
    }

    pub(crate) fn circles(&self) -> Vec<String> {
        let edges = self.imports();
        let reachable = |from: &Path| {
            let mut seen: BTreeSet<&Path> = BTreeSet::new();
            let mut waiting: Vec<&Path> = edges.get(from).into_iter().flatten().copied().collect();
            while let Some(next) = waiting.pop() {
                if seen.insert(next) {
                    waiting.extend(edges.get(next).into_iter().flatten());
                }
            }
            seen
        };
        let reach: BTreeMap<&Path, BTreeSet<&Path>> =
            edges.keys().map(|file| (*file, reachable(file))).collect();
        let mut circles = BTreeSet::new();
        for (file, reached) in reach
            .iter()
            .filter(|(file, reached)| reached.contains(*file))
        {
            let circle = reached
                .iter()
                .filter(|other| reach.get(*other).is_some_and(|back| back.contains(file)));
            let names: Vec<String> = circle.map(|file| short(file)).collect();
            circles.insert(names.join(", "));
        }
        circles.into_iter().collect()
    }
}

fn short(file: &Path) -> String {
    let text = file.display().to_string();
    text.rsplit_once("/src/")
        .map_or(text.clone(), |(_, end)| end.to_owned())
}

impl Module {
    fn add_use(&mut self, mut path: Vec<String>, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                self.add_use(path, &tree.tree);
            }
            syn::UseTree::Name(tree) if tree.ident == "self" => {
                let alias = path.last().cloned().unwrap_or_default();
                self.imports.push((alias, path));
            }
            syn::UseTree::Name(tree) => {
                path.push(tree.ident.to_string());
                self.imports.push((tree.ident.to_string(), path));
            }
            syn::UseTree::Rename(tree) => {
                path.push(tree.ident.to_string());
                self.imports.push((tree.rename.to_string(), path));
            }
            syn::UseTree::Glob(_) => self.globs.push(path),
            syn::UseTree::Group(tree) => {
                for tree in &tree.items {
                    self.add_use(path.clone(), tree);
                }
            }
        }
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let segments = path
                .segments
                .iter()
                .map(|segment| segment.ident.to_string());
            self.paths.push(segments.collect());
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add_use(Vec::new(), &item.tree);
    }
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string() == "test")
    })
}

fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    let attribute = attributes
        .iter()
        .find(|attribute| attribute.path().is_ident("path"))?;
    let syn::Meta::NameValue(meta) = &attribute.meta else {
        return None;
    };
    let syn::Expr::Lit(literal) = &meta.value else {
        return None;
    };
    let syn::Lit::Str(text) = &literal.lit else {
        return None;
    };
    Some(text.value())
}

fn name_of(item: &syn::Item) -> Option<String> {
    let ident = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join("src").join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
        fs::write(path, text).expect("it can be written");
    }
    Modules::read(&folder.path().join("src/lib.rs")).circles()
}

#[test]
fn planted_circle_is_found() {
    let lib = ("lib.rs", "mod a; mod b; mod c; pub use a::A;");
    let direct = [
        lib,
        ("a.rs", "use crate::b::B; pub struct A(B);"),
        ("b.rs", "pub struct B(crate::c::C);"),
        ("c.rs", "pub struct C; fn f(_: &super::A) {}"),
    ];
    assert_eq!(circles_of(&direct), ["a.rs, b.rs, c.rs"]);
}

#[test]
fn parents_and_tests_are_no_circle() {
    let files = [
        ("lib.rs", "mod a; mod b; pub struct Root(b::B);"),
        ("a.rs", "use crate::Root; pub struct A; fn f(_: Root) {}"),
        ("b.rs", "use crate::a::A; pub struct B(A);"),
        ("b/mod.rs", ""),
    ];
    assert_eq!(circles_of(&files[..3]), [""; 0]);
    let tested = [
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }",
        ),
        ("b.rs", "use crate::a::A; pub struct B(A);"),
    ];
    assert_eq!(circles_of(&tested), [""; 0]);
}
