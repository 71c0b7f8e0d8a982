//! [`Answer`]: interpretation of a server's response.

use std::time::Duration;

use prost::bytes::Buf;
use prost::encoding::{DecodeContext, WireType, bytes, decode_key, int64, skip_field, string};
use rprof_export::clean::brief;
use serde_json::Value;

use crate::target::ServerKind;

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The server accepted it.
    Taken {
        /// Number of profiles in it that the server rejected.
        rejected: u64,
        /// Message of the server; usually empty.
        message: String,
    },
    /// Retry later: the server is overloaded or did not respond.
    Later {
        /// Cause.
        why: String,
        /// Delay requested by the server.
        after: Option<Duration>,
    },
    /// Too large. Smaller parts may be accepted.
    TooLarge {
        /// Cause.
        why: String,
    },
    /// Rejected permanently.
    Refused {
        /// Cause.
        why: String,
    },
    /// The address or the credentials are wrong, so all requests fail.
    Misconfigured {
        /// Cause.
        why: String,
    },
}

impl Answer {
    pub(crate) fn of(
        target: ServerKind,
        status: u16,
        after: Option<Duration>,
        body: &[u8],
    ) -> Answer {
        if (200..300).contains(&status) {
            let (rejected, message) = match target {
                ServerKind::Otlp => partial_success(body).unwrap_or_default(),
                _ => (0, String::new()),
            };
            return Answer::Taken {
                rejected,
                message: brief(&message),
            };
        }
        let message = brief(&message_of(target, body));
        let why = match message.is_empty() {
            true => format!("status {status}"),
            false => format!("status {status}: {message}"),
        };
        // gRPC's message for a size error. A gateway maps it to status 429.
        if status == 413 || message.contains("message larger than max") {
            return Answer::TooLarge { why };
        }
        match status {
            301..=308 | 401 | 403 | 404 | 405 | 407 | 415 | 501 => Answer::Misconfigured { why },
            429 | 502 | 503 | 504 => Answer::Later { why, after },
            // OTLP declares all others final (its specification, "Retryable Response Codes").
            408 | 500.. if target != ServerKind::Otlp => Answer::Later { why, after },
            _ => Answer::Refused { why },
        }
    }
}

/// Extracts an error message: from JSON of Connect and gRPC gateways, from OTLP's
/// `google.rpc.Status`, or from a line of text.
fn message_of(target: ServerKind, body: &[u8]) -> String {
    if let Ok(json) = serde_json::from_slice::<Value>(body) {
        let words = json.get("message").or_else(|| json.get("error"));
        if let Some(words) = words.and_then(Value::as_str) {
            return words.to_owned();
        }
    }
    let status = (target == ServerKind::Otlp)
        .then(|| rpc_status(body))
        .flatten();
    status.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(body);
        text.lines().next().unwrap_or_default().trim().to_owned()
    })
}

/// `google.rpc.Status`: field 2 is the message.
fn rpc_status(mut body: &[u8]) -> Option<String> {
    let mut message = None;
    while body.has_remaining() {
        let (tag, wire) = decode_key(&mut body).ok()?;
        match (tag, wire) {
            (2, WireType::LengthDelimited) => {
                let text = message.get_or_insert_default();
                string::merge(wire, text, &mut body, DecodeContext::default()).ok()?;
            }
            _ => skip_field(wire, tag, &mut body, DecodeContext::default()).ok()?,
        }
    }
    message
}

/// `ExportProfilesServiceResponse`: field 1 is a message with the number of rejected profiles (1)
/// and a text (2).
fn partial_success(mut body: &[u8]) -> Option<(u64, String)> {
    let mut inside = Vec::new();
    while body.has_remaining() {
        let (tag, wire) = decode_key(&mut body).ok()?;
        match (tag, wire) {
            (1, WireType::LengthDelimited) => {
                bytes::merge(wire, &mut inside, &mut body, DecodeContext::default()).ok()?;
            }
            _ => skip_field(wire, tag, &mut body, DecodeContext::default()).ok()?,
        }
    }
    let (mut rejected, mut message) = (0i64, String::new());
    let mut inside = &inside[..];
    while inside.has_remaining() {
        let (tag, wire) = decode_key(&mut inside).ok()?;
        let context = DecodeContext::default();
        match (tag, wire) {
            (1, WireType::Varint) => {
                int64::merge(wire, &mut rejected, &mut inside, context).ok()?;
            }
            (2, WireType::LengthDelimited) => {
                string::merge(wire, &mut message, &mut inside, context).ok()?;
            }
            _ => skip_field(wire, tag, &mut inside, context).ok()?,
        }
    }
    Some((u64::try_from(rejected).unwrap_or(0), message))
}

#[cfg(test)]
mod tests {
    use rprof_export::protobuf::{part, signed, text};

    use super::*;

    fn of(target: ServerKind, status: u16, body: &[u8]) -> Answer {
        Answer::of(target, status, None, body)
    }

    #[test]
    fn answers_are_what_the_protocols_say() {
        let why = |text: &str| text.to_owned();
        let connect = br#"{"code":"invalid_argument","message":"sample type contains -"}"#;
        assert_eq!(
            of(ServerKind::Pyroscope, 400, connect),
            Answer::Refused {
                why: why("status 400: sample type contains -")
            }
        );
        for status in [429, 502, 503, 504] {
            for target in ServerKind::ALL {
                assert!(
                    matches!(of(target, status, b""), Answer::Later { .. }),
                    "{target} {status}"
                );
            }
        }
        assert!(matches!(
            of(ServerKind::Parca, 500, b""),
            Answer::Later { .. }
        ));
        assert!(matches!(
            of(ServerKind::Otlp, 500, b""),
            Answer::Refused { .. }
        ));
        for status in [302, 401, 403, 404] {
            assert!(matches!(
                of(ServerKind::Otlp, status, b"<html>"),
                Answer::Misconfigured { .. }
            ));
        }
        let grpc = br#"{"code":8,"message":"grpc: received message larger than max (5 vs. 4)"}"#;
        assert!(matches!(
            of(ServerKind::Parca, 429, grpc),
            Answer::TooLarge { .. }
        ));
        assert!(matches!(
            of(ServerKind::Otlp, 413, b""),
            Answer::TooLarge { .. }
        ));
    }

    #[test]
    fn what_a_collector_rejects_is_known() {
        let mut partial = Vec::new();
        signed(1, 3, &mut partial);
        text(2, "too \u{1b}old", &mut partial);
        let mut response = Vec::new();
        part(1, &partial, &mut response);
        assert_eq!(
            of(ServerKind::Otlp, 200, &response),
            Answer::Taken {
                rejected: 3,
                message: "too \u{fffd}old".to_owned()
            }
        );
        // An invalid body is no reason to send the profile again.
        for body in [&b""[..], b"{}", b"\xff\xff\xff"] {
            assert_eq!(
                of(ServerKind::Otlp, 200, body),
                Answer::Taken {
                    rejected: 0,
                    message: String::new()
                }
            );
        }
        let mut status = Vec::new();
        text(2, "no such tenant", &mut status);
        assert_eq!(
            of(ServerKind::Otlp, 400, &status),
            Answer::Refused {
                why: "status 400: no such tenant".to_owned()
            }
        );
    }
}
