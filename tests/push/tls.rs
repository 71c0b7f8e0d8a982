//! `rprof push` to an HTTPS server, with a certificate that is trusted only if the option names it.

use super::requests::recorded;
use crate::support::{Running, needs};

/// Serves requests over TLS, and prints the length of each body.
const SERVER: &str = r#"
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
        print(self.path, len(body), self.headers["authorization"], flush=True)
    def log_message(self, *words):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("certificate.pem", "key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

#[test]
fn certificates_are_checked_and_own_authorities_are_taken() {
    needs!(PerfEvents, Tool("python3"), File("/usr/bin/openssl"));
    let here = recorded();
    // The default extensions make a CA certificate.
    std::fs::write(
        here.path("openssl.cnf"),
        "[req]\ndistinguished_name = name\n[name]\n",
    )
    .expect("it can be written");
    here.command("openssl")
        .words("req -config openssl.cnf -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2")
        .words("-keyout key.pem -out certificate.pem -subj /CN=localhost")
        .words("-addext subjectAltName=DNS:localhost,IP:127.0.0.1")
        .ok();
    std::fs::write(here.path("token"), "s3cret").expect("it can be written");
    let mut server: Running = here.command("python3").arg("-c").arg(SERVER).start();
    let url = format!("https://localhost:{}", server.line());
    // Nothing is sent, without retries.
    let run = here
        .rprof("push --to pyroscope --token-file token")
        .arg(&url)
        .exits(1);
    run.says("not sent").says("certificate");
    assert!(!run.err().contains("retrying in"), "{run}");
    here.rprof("push --to pyroscope --token-file token --ca-file certificate.pem")
        .arg(&url)
        .ok();
    let line = server.line();
    assert!(line.starts_with("/push.v1.PusherService/Push "), "{line}");
    assert!(line.ends_with(" Bearer s3cret"), "{line}");
    here.rprof("push --to pyroscope --ca-file token")
        .arg(&url)
        .exits(2)
        .says("no certificate in PEM format");
}
