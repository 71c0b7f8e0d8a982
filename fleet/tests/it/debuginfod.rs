//! Missing names, from debuginfod servers.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;
use std::path::Path;

use rprof_testing::needs;

use crate::hosts::Plan;
use crate::late_names::{nameless, numbers, program};
use crate::server::{Server, reply};
use crate::support::{Scene, finish};

/// Tables of a host without symbols, and an empty cache.
struct Late {
    scene: Scene,
    cache: tempfile::TempDir,
    build_id: String,
    /// Files of a server for the program, by request path.
    files: BTreeMap<String, Vec<u8>>,
}

impl Late {
    fn new() -> Late {
        let debug = tempfile::tempdir().expect("a folder");
        let program = program(debug.path());
        let scene = Scene::empty();
        nameless(&scene, &program, Plan::default().hour);
        let (first, rest) = program.build_id.split_at(2);
        let file = |name: String| {
            fs::read(debug.path().join(".build-id").join(first).join(name)).expect("a file")
        };
        let path = |kind: &str| format!("/buildid/{}/{kind}", program.build_id);
        let files = BTreeMap::from([
            (path("debuginfo"), file(format!("{rest}.debug"))),
            (path("executable"), file(rest.to_owned())),
        ]);
        Late {
            scene,
            cache: tempfile::tempdir().expect("a folder"),
            build_id: program.build_id,
            files,
        }
    }

    /// Symbolizes with these servers and a timeout of 1 s. Returns the messages.
    fn symbolize(&self, servers: &[&Server]) -> String {
        let urls: Vec<&str> = servers.iter().map(|server| server.url.as_str()).collect();
        let mut command = self.scene.command("symbolize --debuginfod");
        command
            .env("DEBUGINFOD_URLS", urls.join(" "))
            .env("DEBUGINFOD_CACHE_PATH", self.cache.path())
            .env("DEBUGINFOD_TIMEOUT", "1")
            .env_remove("DEBUGINFOD_MAXTIME");
        finish(&mut command).1
    }

    fn folded(&self) -> String {
        self.scene.run("export --format folded").0
    }

    /// Asserts that symbolizing with this server adds no names, reports the reason, and changes no
    /// file.
    #[track_caller]
    fn stays_nameless(&self, server: &Server, why: &str) {
        let before = (self.folded(), self.scene.files("frames"));
        let told = self.symbolize(&[server]);
        assert!(
            told.contains("0 of 3 addresses named") && told.contains("0 rows appended"),
            "{told}"
        );
        assert!(
            told.contains(why) && told.contains(&self.build_id),
            "{told}"
        );
        assert_eq!((self.folded(), self.scene.files("frames")), before);
        assert!(!server.asked().is_empty(), "the server was not asked");
        // The cache does not store a failed response.
        let kept = files_below(self.cache.path());
        assert!(kept.iter().all(|size| *size == 0), "{kept:?}");
    }
}

/// Returns the sizes of the files in a cache, without its settings.
fn files_below(folder: &Path) -> Vec<u64> {
    let mut sizes = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => sizes.extend(files_below(&path)),
            false
                if path.parent().is_some_and(|parent| {
                    parent.file_name().is_some_and(|name| name.len() == 40)
                }) =>
            {
                sizes.push(path.metadata().expect("a size").len());
            }
            false => {}
        }
    }
    sizes
}

/// Serves some files, and 404 for others.
fn with_files(
    files: &BTreeMap<String, Vec<u8>>,
) -> impl Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Clone + use<> {
    let files = files.clone();
    move |path: &str, stream: &mut TcpStream| match files.get(path) {
        Some(bytes) => reply(stream, "200 OK", bytes),
        None => reply(stream, "404 Not Found", b"none"),
    }
}

#[test]
fn names_of_a_server_change_no_numbers() {
    needs!(Tool("gcc"), Tool("objcopy"), Tool("readelf"), Tool("nm"));
    let late = Late::new();
    let before = late.folded();
    assert!(before.contains("app+0x"), "{before}");
    let server = Server::new(with_files(&late.files));
    let told = late.symbolize(&[&server]);
    assert!(
        told.contains("3 of 3 addresses named") && told.contains("3 rows appended"),
        "{told}"
    );
    let after = late.folded();
    assert_eq!(numbers(&after), numbers(&before));
    assert!(!after.contains("app+0x"), "{after}");
    let lines = late.scene.sql(
        "SELECT DISTINCT l['function'], l['line'] > 1 FROM (SELECT unnest(lines) AS l FROM frames) ORDER BY 1",
    );
    assert_eq!(
        lines.lines().skip(1).collect::<Vec<_>>(),
        ["deep,true", "main,true", "work,true"]
    );
    // Symbolized images are not requested again.
    server.asked();
    assert!(late.symbolize(&[&server]).contains("0 rows appended"));
    assert_eq!(server.asked(), Vec::<String>::new());
}

#[test]
fn a_server_that_lacks_the_file_is_told() {
    needs!(Tool("gcc"), Tool("objcopy"), Tool("readelf"), Tool("nm"));
    let server = Server::new(with_files(&BTreeMap::new()));
    Late::new().stays_nameless(&server, "debuginfod: no server has its executable");
}

#[test]
fn a_server_that_sends_garbage_is_told() {
    needs!(Tool("gcc"), Tool("objcopy"), Tool("readelf"), Tool("nm"));
    let server = Server::new(|_, stream| reply(stream, "200 OK", &[b'x'; 5000]));
    Late::new().stays_nameless(
        &server,
        "sent a file with another build-id; it was discarded",
    );
}

#[test]
fn a_server_that_fails_is_told() {
    needs!(Tool("gcc"), Tool("objcopy"), Tool("readelf"), Tool("nm"));
    let server = Server::new(|_, stream| reply(stream, "500 Oh no", b""));
    Late::new().stays_nameless(&server, "answered with HTTP status 500");
}

#[test]
fn a_server_that_hangs_is_told_and_another_one_is_asked() {
    needs!(Tool("gcc"), Tool("objcopy"), Tool("readelf"), Tool("nm"));
    let late = Late::new();
    let hanging = Server::new(|_, stream| {
        // Until the client disconnects.
        std::io::copy(stream, &mut std::io::sink()).map(drop)
    });
    late.stays_nameless(&hanging, "sent too little within 1 s");
    let whole = Server::new(with_files(&late.files));
    let told = late.symbolize(&[&hanging, &whole]);
    assert!(told.contains("3 of 3 addresses named"), "{told}");
}
