//! Request bodies, according to the published protos.
//!
//! - Pyroscope: `api/push/v1/push.proto` and `api/types/v1/types.proto` of
//!   <https://github.com/grafana/pyroscope>.
//! - Parca: `proto/parca/profilestore/v1alpha1/profilestore.proto` of
//!   <https://github.com/parca-dev/parca>, as JSON with the field names of protobuf's JSON mapping.
//! - OTLP: the encoder's message is the whole body.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rprof_export::protobuf::{part, text};
use serde_json::json;

use crate::labels::Label;
use crate::target::ServerKind;

/// Returns the body for an encoded profile, which must be gzip-compressed.
pub(crate) fn body(
    target: ServerKind,
    labels: &[Label],
    tenant: &str,
    profile: Vec<u8>,
) -> Vec<u8> {
    match target {
        ServerKind::Pyroscope => push_request(labels, &profile),
        ServerKind::Parca => write_raw_request(labels, tenant, &profile),
        ServerKind::Otlp => profile,
    }
}

pub(crate) fn headers(target: ServerKind) -> &'static [(&'static str, &'static str)] {
    match target {
        // A unary call of the Connect protocol (https://connectrpc.com/docs/protocol).
        ServerKind::Pyroscope => &[
            ("content-type", "application/proto"),
            ("connect-protocol-version", "1"),
        ],
        ServerKind::Parca => &[("content-type", "application/json")],
        ServerKind::Otlp => &[
            ("content-type", "application/x-protobuf"),
            ("content-encoding", "gzip"),
        ],
    }
}

/// `push.v1.PushRequest`: one series with one profile.
fn push_request(labels: &[Label], profile: &[u8]) -> Vec<u8> {
    let mut series = Vec::with_capacity(profile.len() + 1024);
    for label in labels {
        let mut pair = Vec::new();
        text(1, &label.name, &mut pair);
        text(2, &label.value, &mut pair);
        part(1, &pair, &mut series);
    }
    let mut sample = Vec::with_capacity(profile.len() + 16);
    part(1, profile, &mut sample);
    part(2, &sample, &mut series);
    let mut request = Vec::with_capacity(series.len() + 16);
    part(1, &series, &mut request);
    request
}

/// `parca.profilestore.v1alpha1.WriteRawRequest`. Addresses are file offsets, so it is normalized.
fn write_raw_request(labels: &[Label], tenant: &str, profile: &[u8]) -> Vec<u8> {
    let pair = |label: &Label| json!({"name": label.name, "value": label.value});
    let labels: Vec<serde_json::Value> = labels.iter().map(pair).collect();
    let request = json!({
        "tenant": tenant,
        "series": [{
            "labels": {"labels": labels},
            "samples": [{"rawProfile": STANDARD.encode(profile)}],
        }],
        "normalized": true,
    });
    request.to_string().into_bytes()
}
