//! `--debuginfod` with Debian's server on loopback.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{Here, Shell, c_with, needs, wait_until};

struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Returns when the server has found `file`.
    fn start(here: &Here, folder: &Path, file: &str) -> Server {
        // If another process takes the port first, another is tried.
        loop {
            if let Some(server) = Server::try_start(here, folder, file) {
                return server;
            }
        }
    }

    fn try_start(here: &Here, folder: &Path, file: &str) -> Option<Server> {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
        let port = port.expect("a free port").port();
        let child = Command::new("debuginfod")
            .args(["-F", "-t", "1", "-d"])
            .arg(here.path("server.sqlite"))
            .args(["-p", &port.to_string()])
            .arg(folder)
            .env_remove("DEBUGINFOD_URLS")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("debuginfod runs");
        let url = format!("http://127.0.0.1:{port}");
        let mut server = Server { child, url };
        let mut has_ended = false;
        wait_until("the server has the file", || {
            has_ended = server.child.try_wait().expect("a child").is_some();
            if has_ended {
                return true;
            }
            let find = here.command("debuginfod-find").words("debuginfo").arg(file);
            let find = find.env("DEBUGINFOD_URLS", &server.url);
            let cache = here.path("first-cache");
            std::fs::remove_dir_all(&cache).ok();
            let find = find.env("DEBUGINFOD_CACHE_PATH", cache.to_str().expect("UTF-8"));
            find.run().code() == Some(0)
        });
        (!has_ended).then_some(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn stripped(here: &Here) -> (PathBuf, PathBuf) {
    let whole = c_with("shares.c", &["-g", "-Wl,--build-id"]);
    let served = here.path("served");
    std::fs::create_dir(&served).expect("a folder");
    let debug = served.join("shares.debug");
    let program = here.path("shares");
    let objcopy = |option: &str, to: &Path| {
        here.command("objcopy").arg(option).arg(&whole).arg(to).ok();
    };
    objcopy("--only-keep-debug", &debug);
    objcopy("--strip-all", &program);
    (program, served)
}

fn asking(here: &Here, shell: Shell, url: &str) -> Shell {
    let cache = here.path("cache");
    let shell = shell.env("DEBUGINFOD_URLS", url);
    shell.env("XDG_CACHE_HOME", cache.to_str().expect("UTF-8"))
}

#[test]
fn debuginfod_names_functions_of_stripped_programs() {
    needs!(PerfEvents, Debuginfod);
    let here = Here::new();
    let (program, served) = stripped(&here);
    here.record("-F 999 -g -e cpu-clock", &program, "0.1");
    here.rprof("report")
        .ok()
        .prints("stripped, no symbol table");
    let server = Server::start(&here, &served, program.to_str().expect("UTF-8"));
    let ask = |args: &str| asking(&here, here.rprof(args), &server.url);

    let report = ask("report --debuginfod --sort symbol,srcline").ok();
    report.prints("burn_seventy").prints("shares.c:").is_clean();
    report.says("debuginfod: fetched").says("for shares");

    let unknown = c_with("recursion.c", &["-s", "-Wl,--build-id"]);
    let unknown = here.copy(&unknown, "unknown");
    here.record("-o unknown.data -F 999 -g -e cpu-clock", &unknown, "5 0.1");
    let missing = ask("report -i unknown.data --debuginfod").ok();
    missing
        .says("debuginfod: no server has files for")
        .says("unknown");
    missing.prints("stripped, no symbol table");

    // The client of elfutils finds rprof's downloads.
    drop(server);
    let report = asking(
        &here,
        here.rprof("report --debuginfod"),
        "http://127.0.0.1:1",
    )
    .ok();
    report.prints("burn_seventy");
    assert!(!report.err().contains("fetched"), "{report}");
    let find = here
        .command("debuginfod-find")
        .words("debuginfo")
        .arg(&program);
    let find = asking(&here, find, "http://127.0.0.1:1").ok();
    let path = find.out();
    assert!(
        path.starts_with(here.path("cache").to_str().expect("UTF-8")),
        "{find}"
    );
}

#[test]
fn debuginfod_is_not_asked_without_the_option() {
    needs!(PerfEvents, Debuginfod);
    let here = Here::new();
    let (program, _) = stripped(&here);
    here.record("-F 999 -g -e cpu-clock", &program, "0.1");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    for args in [
        "report",
        "report --debuginfod --no-debuginfod",
        "script",
        "collapse",
    ] {
        asking(&here, here.rprof(args), &url).ok();
        assert!(listener.accept().is_err(), "{args}");
    }
    assert!(!here.path("cache").exists());
}

#[test]
fn debuginfod_failures_are_told_with_a_remedy() {
    needs!(PerfEvents, Debuginfod);
    let here = Here::new();
    let (program, _) = stripped(&here);
    here.record("-F 999 -g -e cpu-clock", &program, "0.1");
    let ask = |url: &str| asking(&here, here.rprof("report --debuginfod"), url);
    ask("").exits(2).says("DEBUGINFOD_URLS names no server");
    ask("file:///tmp")
        .exits(2)
        .says("not an http:// or https:// address");
    let report = ask("http://127.0.0.1:1").ok();
    report
        .says("debuginfod: no files for")
        .says("http://127.0.0.1:1")
        .is_clean();
    report.prints("stripped, no symbol table");
    let quiet = ask("http://127.0.0.1:1").arg("-q").ok();
    quiet.says_nothing();
}

#[test]
fn debuginfod_files_of_another_build_id_are_refused() {
    needs!(PerfEvents, Debuginfod);
    use std::io::{Read, Write};
    let here = Here::new();
    let (program, _) = stripped(&here);
    here.record("-F 999 -g -e cpu-clock", &program, "0.1");
    let other = c_with("recursion.c", &["-g", "-Wl,--build-id"]);
    let body = std::fs::read(other).expect("a program");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (mut request, mut byte) = (Vec::new(), [0]);
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
                request.push(byte[0]);
            }
            let len = body.len();
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n").ok();
            stream.write_all(&body).ok();
        }
    });
    let report = asking(&here, here.rprof("report --debuginfod"), &url).ok();
    report
        .says("a file with another build-id")
        .prints("stripped, no symbol table");
    let find = here.sh("find cache -name debuginfo -o -name 'debuginfo.*' -o -name 'executable*'");
    assert_eq!(find.ok().out(), "", "nothing of it is kept");
}
