//! [`PushClient`]: sends one request, and returns its [`Answer`].

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
use crate::credentials::{SenderCredentials, read};
use crate::error::PushError;
use crate::labels::Label;
use crate::policy::retry_after;
use crate::target::ServerKind;

/// Maximum bytes read of a response.
const MAX_ANSWER: u64 = 64 << 10;

/// Server and connection options.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Type of the server.
    pub target: ServerKind,
    /// Address of the server: see [`ServerKind::address`].
    pub server: String,
    /// Credentials read from files.
    pub credentials: SenderCredentials,
    /// True to allow sending credentials to other machines without encryption.
    pub plain_http: bool,
    /// File of trusted certificates (PEM), instead of the system's.
    pub authorities: Option<PathBuf>,
    /// Tenant on a multi-tenant server; may be empty.
    pub tenant: String,
    /// Timeout for a request and its response.
    pub patience: Duration,
}

/// Client of one server.
pub struct PushClient {
    options: ClientOptions,
    address: String,
    agent: Agent,
}

impl PushClient {
    /// Creates a client. Sends no request.
    ///
    /// # Errors
    /// Returns [`PushError`] if the address, credentials or certificates are invalid.
    pub fn new(options: ClientOptions) -> Result<PushClient, PushError> {
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
        Ok(PushClient {
            address,
            agent,
            options,
        })
    }

    /// Returns the URL of requests.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the type of the server.
    pub fn target(&self) -> ServerKind {
        self.options.target
    }

    /// Returns the headers of requests for display. Credentials show only their file.
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

    /// Pyroscope, and gateways of collectors, take the tenant from a header; Parca from a field of
    /// the request.
    fn tenant_header(&self) -> Option<&str> {
        let options = &self.options;
        let is_header = options.target != ServerKind::Parca && !options.tenant.is_empty();
        is_header.then_some(&*options.tenant)
    }

    /// Returns the request body for an encoded profile.
    pub fn body(&self, labels: &[Label], profile: Vec<u8>) -> Vec<u8> {
        body(self.options.target, labels, &self.options.tenant, profile)
    }

    /// Sends a body, without retries.
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

    /// Sends a HEAD request without credentials, and returns the status of the response. Any status
    /// proves that a server responds.
    ///
    /// # Errors
    /// Returns the reason if there is no response.
    pub fn probe(&self) -> Result<u16, String> {
        match self.agent.head(&self.address).call() {
            Ok(response) => Ok(response.status().as_u16()),
            Err(error) => Err(cause(&error)),
        }
    }

    fn answer(&self, mut response: Response<Body>) -> Answer {
        let status = response.status().as_u16();
        let after = response.headers().get(RETRY_AFTER);
        let after = after.and_then(|text| retry_after(text.to_str().ok()?, SystemTime::now()));
        let body = response.body_mut().with_config().limit(MAX_ANSWER);
        match body.read_to_vec() {
            Ok(body) => Answer::of(self.options.target, status, after, &body),
            // An error status suffices. A success without its body may have reported rejected
            // profiles.
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
            // Oversized responses, which a retry cannot fix.
            ureq::Error::BodyExceedsLimit(_) | ureq::Error::LargeResponseHeader(..) => {
                Answer::Misconfigured {
                    why: "unexpected answer; is this the right kind of server?".to_owned(),
                }
            }
            error => later(cause(error)),
        }
    }
}

/// Returns the cause of a failure. ureq puts `io: ` before an error of the system.
fn cause(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// Creates an HTTP client for one server. It follows no redirects, which could leak credentials to
/// another server. It connects directly, or through the proxy configured for `address`
/// ([`proxy_for`]). `patience` is the timeout for a request and its response. `authorities` is a
/// file of trusted certificates (PEM), instead of the system's.
///
/// # Errors
/// Returns [`PushError::NotHttp`], [`PushError::Proxy`], [`PushError::Read`],
/// [`PushError::BadFile`].
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

    /// Reports the head of each connection's request, and closes the connection.
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

    fn client(server: &str, has_token: bool) -> Result<PushClient, PushError> {
        let mut credentials = SenderCredentials::default();
        if has_token {
            let token = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(token.path(), "s3cret").unwrap();
            credentials.add_token(token.path()).unwrap();
        }
        PushClient::new(ClientOptions {
            target: ServerKind::Otlp,
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
            // The proxy saw two requests of the other process. Both contain the host, and neither
            // contains a secret.
            let seen: Vec<String> = seen.try_iter().collect();
            assert_eq!(seen.len(), 2, "{seen:?}");
            assert!(seen[0].starts_with("connect a.example:443 "), "{seen:?}");
            assert!(seen[1].starts_with("connect 192.0.2.1:80 "), "{seen:?}");
            assert!(!seen.concat().contains("authorization"), "{seen:?}");
            return;
        }
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
