"""Headless browsers for benches: Chromium by WebDriver, Firefox by its own protocol, Marionette."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

SIZE = (1300, 800)

# Firefox without external connections.
SETTINGS = """user_pref("marionette.port", 0);
user_pref("browser.startup.page", 0);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
"""


class TooLate(Exception):
    """A page did not load in the time allowed."""


def processes():
    """Yields process id, command line and status of all processes."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            yield int(folder.name), (folder / "cmdline").read_bytes(), (folder / "status").read_text()
        except OSError:
            continue


def largest(mark):
    """Returns resident MB of the largest process with these bytes in its command line."""
    sizes = [int(status.split("VmRSS:")[1].split()[0]) for _, words, status in processes() if mark in words and "VmRSS:" in status]
    return max(sizes, default=0) / 1000


class Chromium:
    """A session of WebDriver."""

    def __init__(self, port=9519, size=SIZE):
        self.folder = tempfile.mkdtemp(prefix="rprof-chromium-")
        self.driver = subprocess.Popen(["chromedriver", f"--port={port}", "--silent"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.base = f"http://127.0.0.1:{port}/session"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--force-device-scale-factor=1", f"--window-size={size[0]},{size[1]}", f"--user-data-dir={self.folder}"]
        options = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": arguments}}}}
        for _ in range(100):
            try:
                made = self.post("", options)
                break
            except OSError:
                time.sleep(0.1)
        self.version = made["capabilities"]["browserVersion"]
        self.base += "/" + made["sessionId"]

    def post(self, path, body):
        request = urllib.request.Request(self.base + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=300) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            if "timeout" in text:
                raise TooLate from error
            raise RuntimeError(text) from error

    def allow(self, seconds):
        """Sets the timeout for page loads and scripts."""
        self.post("/timeouts", {"pageLoad": seconds * 1000, "script": seconds * 1000})

    def go(self, address):
        self.post("/url", {"url": address})

    def run(self, script, *arguments):
        return self.post("/execute/sync", {"script": script, "args": arguments})

    def wait_for(self, script, *arguments):
        return self.post("/execute/async", {"script": script, "args": arguments})

    def devtools(self, command, **parameters):
        return self.post("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def memory(self):
        """Returns resident MB of the largest renderer."""
        return largest(b"--type=renderer")

    def end(self):
        try:
            request = urllib.request.Request(self.base, method="DELETE")
            urllib.request.urlopen(request, timeout=30).close()
        except OSError:
            pass
        self.driver.terminate()
        self.driver.wait()
        # A hanging browser outlives its driver.
        for pid, words, _ in processes():
            if self.folder.encode() in words:
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


class Firefox:
    """A session of Marionette: length-prefixed JSON over TCP."""

    def __init__(self, size=SIZE):
        self.folder = tempfile.mkdtemp(prefix="rprof-firefox-")
        (Path(self.folder) / "user.js").write_text(SETTINGS)
        words = ["firefox-esr", "--headless", "--marionette", "--remote-allow-system-access", "--no-remote"]
        words += ["--width", str(size[0]), "--height", str(size[1]), "--profile", self.folder]
        environment = dict(os.environ, HOME=self.folder)
        self.firefox = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = Path(self.folder) / "MarionetteActivePort"
        while not (port.exists() and port.read_text().strip()):
            time.sleep(0.1)
        self.stream = socket.create_connection(("127.0.0.1", int(port.read_text()))).makefile("rwb")
        self.read()
        self.last = 0
        made = self.command("WebDriver:NewSession", {})
        self.version = made["capabilities"]["browserVersion"]

    def read(self):
        length = b""
        while (byte := self.stream.read(1)) != b":":
            length += byte
        return json.loads(self.stream.read(int(length)))

    def command(self, name, parameters):
        self.last += 1
        text = json.dumps([0, self.last, name, parameters])
        self.stream.write(f"{len(text)}:{text}".encode())
        self.stream.flush()
        _, _, error, result = self.read()
        if error:
            raise RuntimeError(error)
        return result

    def go(self, address):
        self.command("WebDriver:Navigate", {"url": address})

    def run(self, script, *arguments):
        return self.command("WebDriver:ExecuteScript", {"script": script, "args": arguments})["value"]

    def wait_for(self, script, *arguments):
        return self.command("WebDriver:ExecuteAsyncScript", {"script": script, "args": arguments})["value"]

    def memory(self):
        """Returns resident MB of the largest content process."""
        return largest(b"-contentproc")

    def end(self):
        self.firefox.terminate()
        self.firefox.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
