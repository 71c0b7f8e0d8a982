//! [`Client`]: one request and its [`Answer`].

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rprof_proxy::proxy_for;
use ureq::http::header::RETRY_AFTER;
use ureq::http::{Response, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

use crate::answer::Answer;
use crate::body::{body, headers};
use crate::credentials::{Credentials, read};
use crate::error::PushError;
use crate::labels::Label;
use crate::policy::retry_after;
use crate::target::Target;

/// Most bytes of an answer that are read.
const MOST_ANSWER: u64 = 64 << 10;

/// Server, and how it is spoken to.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Kind of the server.
    pub target: Target,
    /// Address of the server: see [`Target::address`].
    pub server: String,
    /// Headers out of files.
    pub credentials: Credentials,
    /// True if credentials may go to other machines without encryption.
    pub plain_http: bool,
    /// File of certificates (PEM) that are believed in place of the usual ones.
    pub authorities: Option<PathBuf>,
    /// Name of the tenant, where a server has several; empty for none.
    pub tenant: String,
    /// Longest time for a request and its answer.
    pub patience: Duration,
}

/// Client of one server.
pub struct Client {
    options: ClientOptions,
    address: String,
    agent: Agent,
}

impl Client {
    /// Makes a client, without any request.
    ///
    /// # Errors
    /// [`PushError`], if address, credentials or certificates are not what they are to be.
    pub fn new(options: ClientOptions) -> Result<Client, PushError> {
        let address = options.target.address(&options.server)?;
        if !options.plain_http {
            options.credentials.check(&address)?;
        }
        let agent = http_agent(
            &address,
            !options.credentials.is_empty(),
            options.patience,
            options.authorities.as_deref(),
        )?;
        Ok(Client {
            address,
            agent,
            options,
        })
    }

    /// Returns the address of requests.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the kind of the server.
    pub fn target(&self) -> Target {
        self.options.target
    }

    /// Returns the headers of requests as they may be shown: credentials by the file that they come from.
    pub fn shown_headers(&self) -> Vec<String> {
        let own = headers(self.options.target).iter();
        let own = own.map(|(name, value)| format!("{name}: {value}"));
        let tenant = self
            .tenant_header()
            .map(|tenant| format!("x-scope-orgid: {tenant}"));
        let secret = self.options.credentials.shown();
        let secret = secret.map(|(name, path)| format!("{name}: (from {})", path.display()));
        own.chain(tenant).chain(secret).collect()
    }

    /// Pyroscope, and what stands before collectors, tell tenants by a header; Parca by a field of the request.
    fn tenant_header(&self) -> Option<&str> {
        let options = &self.options;
        let is_header = options.target != Target::Parca && !options.tenant.is_empty();
        is_header.then_some(&*options.tenant)
    }

    /// Returns the body of the request that carries an encoded profile.
    pub fn body(&self, labels: &[Label], profile: Vec<u8>) -> Vec<u8> {
        body(self.options.target, labels, &self.options.tenant, profile)
    }

    /// Sends a body once.
    pub fn send(&self, body: &[u8]) -> Answer {
        let mut request = self.agent.post(&self.address);
        for (name, value) in headers(self.options.target) {
            request = request.header(*name, *value);
        }
        if let Some(tenant) = self.tenant_header() {
            request = request.header("x-scope-orgid", tenant);
        }
        for (name, value) in self.options.credentials.headers() {
            request = request.header(name, value);
        }
        match request.send(body) {
            Ok(response) => self.answer(response),
            Err(error) => self.without_answer(&error),
        }
    }

    /// Asks for the address of requests without sending any data, and returns the status of the answer: whichever it is, a server is
    /// there. No credentials are sent.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn probe(&self) -> Result<u16, String> {
        match self.agent.head(&self.address).call() {
            Ok(response) => Ok(response.status().as_u16()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn answer(&self, mut response: Response<Body>) -> Answer {
        let status = response.status().as_u16();
        let after = response.headers().get(RETRY_AFTER);
        let after = after.and_then(|text| retry_after(text.to_str().ok()?, SystemTime::now()));
        let body = response.body_mut().with_config().limit(MOST_ANSWER);
        match body.read_to_vec() {
            Ok(body) => Answer::of(self.options.target, status, after, &body),
            // The status came, and says enough, but for a server that broke off while it said what it took.
            Err(_) if status >= 300 => Answer::of(self.options.target, status, after, b""),
            Err(error) => self.without_answer(&error),
        }
    }

    fn without_answer(&self, error: &ureq::Error) -> Answer {
        let later = |why: String| Answer::Later { why, after: None };
        match error {
            ureq::Error::Timeout(_) => later(format!(
                "no answer within {} s",
                self.options.patience.as_secs_f64()
            )),
            ureq::Error::Rustls(_) | ureq::Error::Tls(_) | ureq::Error::Pem(_) => {
                Answer::Misconfigured {
                    why: error.to_string(),
                }
            }
            ureq::Error::Io(error) if is_certificate(error) => Answer::Misconfigured {
                why: error.to_string(),
            },
            ureq::Error::Http(_)
            | ureq::Error::BadUri(_)
            | ureq::Error::InvalidProxyUrl
            | ureq::Error::RequireHttpsOnly(_) => Answer::Misconfigured {
                why: error.to_string(),
            },
            // Answers beyond any measure, which will not be shorter later.
            ureq::Error::BodyExceedsLimit(_) | ureq::Error::LargeResponseHeader(..) => {
                Answer::Misconfigured {
                    why: "unexpected answer; is this the right kind of server?".to_owned(),
                }
            }
            error => later(error.to_string()),
        }
    }
}

/// Returns an HTTP client for the requests to one server. It follows no redirects, which would take credentials to another server.
/// It connects directly or through the proxy that the environment names for `address` ([`proxy_for`]). `patience` limits a request
/// and its answer. `authorities` is a file of certificates (PEM) that replace the usual ones.
///
/// # Errors
/// [`PushError::NotHttp`], [`PushError::Proxy`], [`PushError::Read`], [`PushError::BadFile`].
pub fn http_agent(
    address: &str,
    has_credentials: bool,
    patience: Duration,
    authorities: Option<&Path>,
) -> Result<Agent, PushError> {
    let uri: Uri = (address.parse()).map_err(|_| PushError::NotHttp(address.to_owned()))?;
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(proxy_for(&uri, has_credentials)?)
        .timeout_global(Some(patience))
        .user_agent(concat!("rprof/", env!("CARGO_PKG_VERSION")));
    if let Some(path) = authorities {
        let (pem, _) = read(path)?;
        let bad = |what| PushError::BadFile {
            path: path.to_owned(),
            what,
        };
        let mut certificates = Vec::new();
        for item in parse_pem(&pem) {
            match item {
                Ok(PemItem::Certificate(certificate)) => certificates.push(certificate),
                Ok(_) => {}
                Err(_) => return Err(bad("it is damaged")),
            }
        }
        if certificates.is_empty() {
            return Err(bad("it has no certificate in PEM format"));
        }
        let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&certificates));
        config = config.tls_config(tls.build());
    }
    Ok(Agent::new_with_config(config.build()))
}

/// Returns true for the errors that TLS hands on as errors of the connection: certificates that are not believed.
fn is_certificate(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// Passes on the head of the request on each connection, and closes it.
    fn listen(address: &str) -> (String, mpsc::Receiver<String>) {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                sender.send(head.join("\n").to_lowercase()).ok();
            }
        });
        (address, receiver)
    }

    fn client(server: &str, has_token: bool) -> Result<Client, PushError> {
        let mut credentials = Credentials::default();
        if has_token {
            let token = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(token.path(), "s3cret").unwrap();
            credentials.add_token(token.path()).unwrap();
        }
        Client::new(ClientOptions {
            target: Target::Otlp,
            server: server.to_owned(),
            credentials,
            plain_http: true,
            authorities: None,
            tenant: String::new(),
            patience: Duration::from_secs(20),
        })
    }

    #[test]
    fn credentials_pass_proxies_under_encryption_only() {
        let (proxy, seen) = listen("127.0.0.2");
        let proxy = format!("http://{proxy}");
        let name = "credentials_pass_proxies_under_encryption_only";
        let variables = [
            ("http_proxy", &*proxy),
            ("https_proxy", &*proxy),
            ("no_proxy", ""),
            ("NO_PROXY", "direct.example"),
        ];
        if !rprof_testing::in_environment(module_path!(), name, &variables) {
            // The proxy saw two requests of the other process: both name their host, and none a secret.
            let seen: Vec<String> = seen.try_iter().collect();
            assert_eq!(seen.len(), 2, "{seen:?}");
            assert!(seen[0].starts_with("connect a.example:443 "), "{seen:?}");
            assert!(seen[1].starts_with("connect 192.0.2.1:80 "), "{seen:?}");
            assert!(!seen.concat().contains("authorization"), "{seen:?}");
            return;
        }
        // This machine: directly, with credentials.
        let (server, requests) = listen("127.0.0.1");
        for host in [&*server, &server.replace("127.0.0.1", "localhost")] {
            let answer = client(&format!("http://{host}"), true).unwrap().send(b"x");
            assert!(matches!(answer, Answer::Later { .. }), "{answer:?}");
            let request = requests.recv().unwrap();
            assert!(
                request.contains("authorization: bearer s3cret"),
                "{request}"
            );
        }
        // Another machine (RFC 5737), without encryption.
        let Err(error) = client("http://192.0.2.1", true).map(drop) else {
            panic!("credentials go to a proxy");
        };
        let message = error.to_string();
        let parts = ["http_proxy", "https://", "192.0.2.1 to NO_PROXY"];
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        assert!(client("http://direct.example", true).is_ok());
        // With encryption, and without credentials.
        for (server, has_token) in [("https://a.example", true), ("http://192.0.2.1", false)] {
            let answer = client(server, has_token).unwrap().send(b"x");
            assert!(matches!(answer, Answer::Later { .. }), "{answer:?}");
        }
    }
}
