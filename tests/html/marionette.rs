//! Drives Firefox by its own protocol, Marionette: length-prefixed JSON over TCP
//! (<https://firefox-source-docs.mozilla.org/testing/marionette/Protocol.html>). geckodriver has no
//! Debian package.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::support::{Here, Running, wait_until};

/// Settings without external connections.
const SETTINGS: &str = "user_pref(\"marionette.port\", 0);
user_pref(\"browser.startup.page\", 0);
user_pref(\"browser.shell.checkDefaultBrowser\", false);
user_pref(\"datareporting.policy.dataSubmissionEnabled\", false);
user_pref(\"network.captive-portal-service.enabled\", false);
user_pref(\"network.connectivity-service.enabled\", false);
";

pub(super) struct Marionette {
    stream: RefCell<(BufReader<TcpStream>, u32)>,
    _firefox: Running,
}

impl Marionette {
    pub(super) fn start(here: &Here, width: u32, height: u32) -> Marionette {
        let profile = here.path("firefox");
        std::fs::create_dir(&profile).expect("a folder");
        std::fs::write(profile.join("user.js"), SETTINGS).expect("written");
        let text = profile.to_str().expect("paths here are UTF-8");
        let firefox = here
            .command("firefox-esr")
            .words("--headless --marionette --remote-allow-system-access --no-remote")
            .words(&format!("--width {width} --height {height} --profile"))
            .arg(text)
            .env("HOME", text)
            .start();
        let file = profile.join("MarionetteActivePort");
        let port = || {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            text.trim().parse::<u16>().ok()
        };
        wait_until("Firefox has a port", || port().is_some());
        let address = ("127.0.0.1", port().expect("it was there"));
        let stream = TcpStream::connect(address).expect("Firefox listens");
        let session = Marionette {
            stream: RefCell::new((BufReader::new(stream), 0)),
            _firefox: firefox,
        };
        let hello = session.read();
        assert_eq!(hello["marionetteProtocol"], 3, "{hello}");
        session.command("WebDriver:NewSession", &json!({}));
        session
    }

    pub(super) fn command(&self, name: &str, parameters: &Value) -> Value {
        let text = {
            let (stream, last) = &mut *self.stream.borrow_mut();
            *last += 1;
            let text = json!([0, *last, name, parameters]).to_string();
            let sent = stream
                .get_mut()
                .write_all(format!("{}:{text}", text.len()).as_bytes());
            sent.expect("Firefox reads");
            text
        };
        let answer = self.read();
        assert_eq!(answer[2], Value::Null, "{text}");
        answer[3].clone()
    }

    fn read(&self) -> Value {
        let (stream, _) = &mut *self.stream.borrow_mut();
        let mut length = Vec::new();
        stream.read_until(b':', &mut length).expect("a length");
        length.pop();
        let length = String::from_utf8_lossy(&length);
        let mut text = vec![0; length.parse().expect("a number")];
        stream.read_exact(&mut text).expect("a message");
        serde_json::from_slice(&text).expect("JSON")
    }

    pub(super) fn complaints(&self) -> Vec<Value> {
        self.command("Marionette:SetContext", &json!({ "value": "chrome" }));
        let script = "const messages = Services.console.getMessageArray();
            Services.console.reset();
            return messages.map(message => { try { return message.QueryInterface(Ci.nsIScriptError) } catch { return null } })
                .filter(error => error && (error.sourceName.startsWith('file:') || error.category.includes('CSP')))
                .map(error => `${error.category}: ${error.errorMessage}`)";
        let parameters = json!({ "script": script, "args": [] });
        let said = self.command("WebDriver:ExecuteScript", &parameters);
        self.command("Marionette:SetContext", &json!({ "value": "content" }));
        said["value"].as_array().cloned().unwrap_or_default()
    }
}
