//! [`Bucket`]: uploads whole objects to S3, or to a compatible store.
//!
//! An upload is atomic. A duplicate upload has the same name and content.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rprof_proxy::is_loopback;
use rprof_push::{http_agent, retry_after};
use rusty_s3::actions::S3Action;
use rusty_s3::{Credentials, UrlStyle};
use ureq::Agent;
use ureq::http::header::RETRY_AFTER;

use super::SendOutcome;
use crate::config::To;

/// Validity of a request signature.
const SIGNED_FOR: Duration = Duration::from_secs(300);

/// Bytes read from a response.
const MAX_ANSWER: u64 = 16 << 10;

/// Bucket, with its credentials and HTTP client.
pub struct Bucket {
    bucket: rusty_s3::Bucket,
    prefix: String,
    credentials: PathBuf,
    agent: Agent,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket.name(), self.prefix)
    }
}

impl Bucket {
    /// Creates the client of a bucket, without any request.
    ///
    /// # Errors
    /// Describes an invalid address, credentials or certificates, without any secret.
    pub fn new(to: &To) -> Result<Bucket, String> {
        let url = to.url.as_deref().unwrap_or_default();
        let rest = url
            .strip_prefix("s3://")
            .ok_or_else(|| format!("url = {url:?}: give s3://BUCKET or s3://BUCKET/PREFIX"))?;
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if name.is_empty() || rest.contains(['?', '#', '@']) {
            return Err(format!(
                "url = {url:?}: give s3://BUCKET or s3://BUCKET/PREFIX"
            ));
        }
        let region = to.region.as_deref().unwrap_or("us-east-1");
        let aws = format!("https://s3.{region}.amazonaws.com");
        let endpoint = to.endpoint.as_deref().unwrap_or(&aws);
        let parsed = endpoint
            .parse::<ureq::http::Uri>()
            .map_err(|error| format!("endpoint = {endpoint:?}: {error}"))?;
        let host = parsed.host().unwrap_or_default();
        match parsed.scheme_str() {
            Some("https") => {}
            // The signature hides the key, but an eavesdropper could read and alter all profiles.
            Some("http") if is_loopback(host) || to.plain_http => {}
            Some("http") => {
                return Err(format!(
                    "endpoint = {endpoint:?}: give an https:// address, or plain-http = true"
                ));
            }
            _ => return Err(format!("endpoint = {endpoint:?}: give an https:// address")),
        }
        let style = match to.endpoint {
            // Most other stores than AWS do not support one host name per bucket.
            Some(_) => UrlStyle::Path,
            None => UrlStyle::VirtualHost,
        };
        let address = endpoint
            .parse()
            .map_err(|error| format!("endpoint = {endpoint:?}: {error}"))?;
        let bucket = rusty_s3::Bucket::new(address, style, name.to_owned(), region.to_owned())
            .map_err(|error| format!("url = {url:?}: {error}"))?;
        let credentials = to.credentials_file.clone().unwrap_or_default();
        read_credentials(&credentials)?;
        // The host name may contain the bucket name. A signature counts as a credential.
        let address = bucket.base_url().as_str();
        let agent = http_agent(address, true, to.timeout(), to.ca_file.as_deref())
            .map_err(|error| error.to_string())?;
        Ok(Bucket {
            bucket,
            prefix: prefix.trim_matches('/').to_owned(),
            credentials,
            agent,
        })
    }

    fn key(&self, name: &str) -> String {
        match &*self.prefix {
            "" => name.to_owned(),
            prefix => format!("{prefix}/{name}"),
        }
    }

    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> SendOutcome {
        // Keys may be rotated.
        let credentials = match read_credentials(&self.credentials) {
            Ok(credentials) => credentials,
            Err(why) => return super::later(why),
        };
        let key = self.key(name);
        let url = self
            .bucket
            .put_object(Some(&credentials), &key)
            .sign(SIGNED_FOR);
        // The URL contains the signature, so no message may contain it.
        match self.agent.put(url.as_str()).send(bytes) {
            Ok(mut response) => {
                let status = response.status().as_u16();
                let after = response.headers().get(RETRY_AFTER);
                let after =
                    after.and_then(|text| retry_after(text.to_str().ok()?, SystemTime::now()));
                let body = response.body_mut().with_config().limit(MAX_ANSWER);
                let body = body.read_to_vec().unwrap_or_default();
                outcome(status, after, &String::from_utf8_lossy(&body))
            }
            Err(error) => SendOutcome::Later {
                why: without_address(&error),
                after: None,
            },
        }
    }

    pub(super) fn probe(&self) -> Result<String, String> {
        let credentials = read_credentials(&self.credentials)?;
        let url = self.bucket.head_bucket(Some(&credentials)).sign(SIGNED_FOR);
        match self.agent.head(url.as_str()).call() {
            Ok(response) => match response.status().as_u16() {
                200..300 => Ok("the bucket answers".to_owned()),
                403 => Err("status 403: these credentials may not read the bucket".to_owned()),
                404 => Err("status 404: there is no such bucket".to_owned()),
                status => Err(format!("status {status}")),
            },
            Err(error) => Err(without_address(&error)),
        }
    }
}

fn without_address(error: &ureq::Error) -> String {
    match error {
        ureq::Error::BadUri(_) => "the address is invalid".to_owned(),
        error => error.to_string(),
    }
}

/// Maps a response to an outcome (Amazon S3 API, "Error responses").
fn outcome(status: u16, after: Option<Duration>, body: &str) -> SendOutcome {
    let tag = |name: &str| {
        let (_, rest) = body.split_once(&format!("<{name}>"))?;
        rest.split_once("</").map(|(text, _)| text)
    };
    let words = match (tag("Code"), tag("Message")) {
        (Some(code), Some(message)) => format!("status {status}: {code}: {message}"),
        (Some(code), None) => format!("status {status}: {code}"),
        _ => format!("status {status}"),
    };
    let why = rprof_export::clean::brief(&words);
    match status {
        200..300 => SendOutcome::Sent,
        408 | 429 | 500.. => SendOutcome::Later { why, after },
        // A wrong clock will be corrected.
        403 if body.contains("RequestTimeTooSkewed") => SendOutcome::Later { why, after },
        _ => SendOutcome::Refused(why),
    }
}

/// Reads AWS's format: `aws_access_key_id = …`, `aws_secret_access_key = …`, optionally
/// `aws_session_token = …`.
fn read_credentials(path: &Path) -> Result<Credentials, String> {
    let text = fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let find = |key: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once('=')?;
            (name.trim() == key).then(|| value.trim().to_owned())
        })
    };
    match (find("aws_access_key_id"), find("aws_secret_access_key")) {
        (Some(key), Some(secret)) if !key.is_empty() && !secret.is_empty() => {
            Ok(match find("aws_session_token") {
                Some(token) => Credentials::new_with_token(key, secret, token),
                None => Credentials::new(key, secret),
            })
        }
        _ => Err(format!(
            "{}: give a line aws_access_key_id = … and a line aws_secret_access_key = …",
            path.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_what_the_protocol_says() {
        let body = "<Error><Code>NoSuchBucket</Code><Message>no\u{1b} bucket</Message></Error>";
        let SendOutcome::Refused(why) = outcome(404, None, body) else {
            panic!("404 is final");
        };
        assert!(why.starts_with("status 404: NoSuchBucket: no") && !why.contains('\u{1b}'));
        assert_eq!(outcome(200, None, ""), SendOutcome::Sent);
        let after = Some(Duration::from_secs(7));
        for status in [429, 500, 503] {
            assert_eq!(
                outcome(status, after, ""),
                SendOutcome::Later {
                    why: format!("status {status}"),
                    after,
                }
            );
        }
        let skewed = outcome(403, None, "<Code>RequestTimeTooSkewed</Code>");
        assert!(matches!(skewed, SendOutcome::Later { .. }));
        assert!(matches!(outcome(403, None, ""), SendOutcome::Refused(_)));
    }

    fn to(text: &str) -> To {
        let text = format!("kind = \"s3\"\n{text}");
        basic_toml::from_str(&text).unwrap()
    }

    #[test]
    fn buckets_are_checked_before_anything_is_sent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let keys = format!("credentials-file = {path:?}");
        let new = |rest: &str| Bucket::new(&to(&format!("{rest}\n{keys}")));
        let error = new("url = \"s3://a/b\"").unwrap_err();
        assert!(error.contains("keys"), "{error}");
        fs::write(&path, "[default]\naws_access_key_id = K\n").unwrap();
        assert!(
            new("url = \"s3://a/b\"")
                .unwrap_err()
                .contains("aws_secret_access_key")
        );
        fs::write(&path, "aws_access_key_id=K\naws_secret_access_key=s3cret\n").unwrap();
        let bucket = new("url = \"s3://fleet/a/b/\"").unwrap();
        assert_eq!(bucket.key("samples/x"), "a/b/samples/x");
        assert!(!format!("{bucket:?}").contains("s3cret"));
        for (rest, words) in [
            ("url = \"https://a\"", "s3://BUCKET"),
            ("url = \"s3:///x\"", "s3://BUCKET"),
            (
                "url = \"s3://a\"\nendpoint = \"http://store.example\"",
                "plain-http",
            ),
            ("url = \"s3://a\"\nendpoint = \"store\"", "https"),
        ] {
            let error = new(rest).unwrap_err();
            assert!(error.contains(words), "{rest}: {error}");
        }
        assert!(new("url = \"s3://a\"\nendpoint = \"http://127.0.0.1:1\"").is_ok());
    }

    #[test]
    fn signed_requests_pass_proxies_under_encryption_only() {
        let name = "signed_requests_pass_proxies_under_encryption_only";
        let variables = [
            ("http_proxy", "http://127.0.0.2:1"),
            ("https_proxy", "http://127.0.0.2:1"),
            ("no_proxy", "direct.example"),
        ];
        if !rprof_testing::in_environment(module_path!(), name, &variables) {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        fs::write(&path, "aws_access_key_id=K\naws_secret_access_key=s3cret\n").unwrap();
        let proxy = |endpoint: &str| {
            let text = format!(
                "url = \"s3://b\"\nplain-http = true\ncredentials-file = {path:?}\n{endpoint}"
            );
            let bucket = Bucket::new(&to(&text))?;
            Ok::<_, String>(bucket.agent.config().proxy().map(|it| it.host().to_owned()))
        };
        let error = proxy("endpoint = \"http://store.example:9000\"").unwrap_err();
        assert!(error.contains("http_proxy"), "{error}");
        for direct in [
            "http://127.0.0.1:1",
            "http://localhost:1",
            "http://direct.example",
        ] {
            assert_eq!(
                proxy(&format!("endpoint = {direct:?}")),
                Ok(None),
                "{direct}"
            );
        }
        assert_eq!(proxy(""), Ok(Some("127.0.0.2".into())));
    }
}
