//! Tables in a bucket.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rprof_testing::{needs, oracles};

use crate::support::{PROGRAM, SUMS, Scene, finish};

/// An S3-compatible server on its own port, which stops with the test.
struct Server {
    child: Child,
    endpoint: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

const SERVER: &str = "
import logging
from werkzeug.serving import make_server
from moto.server import DomainDispatcherApplication, create_backend_app
logging.getLogger('werkzeug').setLevel(logging.ERROR)
server = make_server('127.0.0.1', 0, DomainDispatcherApplication(create_backend_app), threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
";

fn server() -> Server {
    let python = oracles().expect("it was asked for").join("python");
    let mut command = Command::new("python3");
    command
        .env("PYTHONPATH", python)
        .args(["-c", SERVER])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("it runs");
    let mut line = String::new();
    let out = child.stdout.take().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("a port");
    let endpoint = format!("http://127.0.0.1:{}", line.trim());
    Server { child, endpoint }
}

/// Uploads all files below a folder to a new bucket, and a damaged one, using Amazon's own library.
const UPLOAD: &str = "
import os, sys
import boto3
from botocore.config import Config
endpoint, folder = sys.argv[1:]
client = boto3.client('s3', endpoint_url=endpoint, config=Config(connect_timeout=10, read_timeout=10, proxies={}))
client.create_bucket(Bucket='profiles')
for place, _, names in os.walk(folder):
    for name in names:
        path = os.path.join(place, name)
        client.upload_file(path, 'profiles', 'fleet/' + os.path.relpath(path, folder))
client.put_object(Bucket='profiles', Key='fleet/samples/date=2023-11-14/hour=22/x.parquet', Body=b'PAR1')
";

impl Server {
    fn upload(&self, scene: &Scene) {
        let python = oracles().expect("it was asked for").join("python");
        let mut command = self.with_keys(Command::new("python3"));
        command
            .env("PYTHONPATH", python)
            .args(["-c", UPLOAD, &self.endpoint])
            .arg(scene.path());
        finish(&mut command);
    }

    fn with_keys(&self, mut command: Command) -> Command {
        command
            .env("AWS_ENDPOINT_URL", &self.endpoint)
            .env("AWS_ACCESS_KEY_ID", "x")
            .env("AWS_SECRET_ACCESS_KEY", "x")
            .env("AWS_REGION", "us-east-1")
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .env_remove("AWS_CA_BUNDLE");
        command
    }

    fn command(&self, words: &str) -> Command {
        let mut command = self.with_keys(Command::new(PROGRAM));
        command
            .args(words.split(' '))
            .args(["--data", "s3://profiles/fleet"]);
        command
    }
}

#[test]
fn a_bucket_is_as_a_folder() {
    needs!(Oracles, Tool("python3"));
    let scene = Scene::of_hosts(5, 1);
    let server = server();
    server.upload(&scene);
    let sql = |server: &Server| finish(server.command("sql --format csv").arg(SUMS));
    let (answer, told) = sql(&server);
    assert_eq!(answer, scene.sql(SUMS));
    assert!(
        told.contains("left out: samples/date=2023-11-14/hour=22/x.parquet"),
        "{told}"
    );
    let top = finish(&mut server.command("top -n 1000 --format csv")).0;
    assert_eq!(top, scene.run("top -n 1000 --format csv").0);
    finish(&mut server.command("compact"));
    assert_eq!(sql(&server).0, answer);
    let (_, told) = finish(&mut server.command("compact --grace 0"));
    assert!(told.contains("30 deleted"), "{told}");
    assert_eq!(sql(&server).0, answer);
    assert_eq!(
        finish(&mut server.command("top -n 1000 --format csv")).0,
        top
    );
    finish(&mut server.command("retain --days 30"));
    let output = server.command("top").output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
}
