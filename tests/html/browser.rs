//! A browser driven by WebDriver (<https://www.w3.org/TR/webdriver2/>), which is JSON over HTTP.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::marionette::Marionette;
use crate::support::{Here, Running, wait_until};

/// Special keys in WebDriver.
pub(crate) const ENTER: char = '\u{e007}';
pub(crate) const TAB: char = '\u{e004}';
pub(crate) const ESCAPE: char = '\u{e00c}';
pub(crate) const DOWN: char = '\u{e015}';

pub(crate) struct Browser(Link);

enum Link {
    Chromium(Chromium),
    Firefox(Marionette),
}

struct Chromium {
    agent: ureq::Agent,
    session: String,
    // Ends with its processes.
    _driver: Running,
}

impl Chromium {
    fn start(here: &Here, width: u32, height: u32) -> Chromium {
        let driver = here.command("chromedriver").arg("--port=0").env(
            "HOME",
            here.path("").to_str().expect("paths here are UTF-8"),
        );
        let mut driver = driver.start();
        let port = loop {
            let line = driver.line();
            if let Some((_, port)) = line.split_once("successfully on port ") {
                break port.trim_end_matches('.').to_owned();
            }
        };
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(120)))
            .build();
        let mut browser = Chromium {
            agent: config.into(),
            session: format!("http://127.0.0.1:{port}/session"),
            _driver: driver,
        };
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--force-device-scale-factor=1",
            &format!("--window-size={width},{height}"),
        ];
        let session = browser.post(
            "",
            &json!({"capabilities": {"alwaysMatch": {
                "goog:chromeOptions": {"args": arguments},
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            }}}),
        );
        let id = session["sessionId"].as_str().expect("a session");
        browser.session = format!("{}/{id}", browser.session);
        browser
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let request = self.agent.post(format!("{}{path}", self.session));
        let response = request
            .header("Content-Type", "application/json")
            .send(body.to_string().as_bytes());
        let mut response = response.unwrap_or_else(|e| panic!("{path}: {e}"));
        let reader = response.body_mut().with_config().limit(256 << 20);
        let text = reader.read_to_string().expect("a body");
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert!(response.status().is_success(), "{path} {body}: {text}");
        value["value"].clone()
    }
}

impl Browser {
    pub(crate) fn start(here: &Here, width: u32, height: u32) -> Browser {
        Browser(Link::Chromium(Chromium::start(here, width, height)))
    }

    pub(crate) fn start_firefox(here: &Here, width: u32, height: u32) -> Browser {
        Browser(Link::Firefox(Marionette::start(here, width, height)))
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let session = match &self.0 {
            Link::Chromium(session) => return session.post(path, body),
            Link::Firefox(session) => session,
        };
        let command = match path {
            "/url" => "WebDriver:Navigate",
            "/execute/sync" => "WebDriver:ExecuteScript",
            "/actions" => "WebDriver:PerformActions",
            "/refresh" => "WebDriver:Refresh",
            _ => panic!("{path} is not told to Firefox"),
        };
        session.command(command, body)["value"].clone()
    }

    pub(crate) fn go(&self, address: &str) {
        self.post("/url", &json!({ "url": address }));
    }

    /// Opens a page, and waits for its data.
    pub(crate) fn open(&self, page: &Path) {
        self.open_at(page, "");
    }

    /// Opens a page with `state` as URL fragment.
    pub(crate) fn open_at(&self, page: &Path, state: &str) {
        // Another page forces a reload.
        self.go("about:blank");
        self.go(&format!("file://{}#{state}", page.display()));
        self.wait_ready();
    }

    pub(crate) fn wait_ready(&self) {
        wait_until("the page shows its data", || {
            self.run("return document.documentElement.dataset.ready ?? null") != Value::Null
        });
        let ready = self.run("return document.documentElement.dataset.ready");
        assert_eq!(
            ready,
            "1",
            "{}",
            self.run("return document.body.textContent.slice(-2000)")
        );
    }

    /// Runs a function body in the page.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.run_with(script, &[])
    }

    pub(crate) fn run_with(&self, script: &str, arguments: &[Value]) -> Value {
        self.post(
            "/execute/sync",
            &json!({ "script": script, "args": arguments }),
        )
    }

    pub(crate) fn keys(&self, text: &str) {
        let each = text.chars().flat_map(|key| {
            ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() }))
        });
        let actions: Vec<Value> = each.collect();
        let keys = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.post("/actions", &json!({ "actions": [keys] }));
    }

    pub(crate) fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.post(
            "/goog/cdp/execute",
            &json!({ "cmd": command, "params": parameters }),
        )
    }

    /// Returns the log since the last call.
    pub(crate) fn log(&self, kind: &str) -> Vec<Value> {
        let log = self.post("/se/log", &json!({ "type": kind }));
        log.as_array().cloned().unwrap_or_default()
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        let events = self.log("performance").into_iter().filter_map(|entry| {
            let message: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let event = &message["message"];
            let is_it = event["method"] == "Network.requestWillBeSent";
            is_it.then(|| {
                event["params"]["request"]["url"]
                    .as_str()
                    .map(str::to_owned)
            })?
        });
        events.collect()
    }

    /// Returns errors and policy violations since the last call.
    pub(crate) fn complaints(&self) -> Vec<Value> {
        match &self.0 {
            Link::Chromium(_) => self.log("browser"),
            Link::Firefox(session) => session.complaints(),
        }
    }

    pub(crate) fn is_content(&self) {
        let log = self.complaints();
        assert!(log.is_empty(), "{log:#?}");
    }

    /// Returns self, total, name and object.
    pub(crate) fn functions(&self) -> Vec<(u64, u64, String, String)> {
        let table = self.run("return rprof.tsv()");
        let table = table.as_str().expect("a table");
        let rows = table.lines().skip(1).map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            let number = |at: usize| cells[at].parse().expect("a number");
            (number(0), number(1), cells[2].into(), cells[3].into())
        });
        rows.collect()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // The driver then ends its browser.
        drop(self.agent.delete(&self.session).call());
    }
}

impl Browser {
    pub(crate) fn post_refresh(&self) {
        self.post("/refresh", &json!({}));
        self.wait_ready();
    }

    pub(crate) fn enter_frame(&self) {
        self.post("/frame", &json!({ "id": 0 }));
    }
}
