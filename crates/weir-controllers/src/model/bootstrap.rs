//! What does bootstrap data mean?
//!
//! Bootstrap providers write the data anew whenever a join token runs out, and in whatever spelling
//! they like. Two texts mean the same if the machines made from them would differ in nothing but
//! the token they join with: tokens and hashes of the cluster's certificate are taken out, archives
//! and encodings opened, and the rest is put into one order.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use data_url::DataUrl;
use flate2::read::MultiGzDecoder;
use mail_parser::{MessageParser, MimeHeaders, PartType};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// How much text is looked at: Azure takes 64 KiB, and an archive may hold much more.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// How many wrappings are opened: nothing in use has more than base64 around gzip.
const WRAPPINGS_MAX: usize = 4;

/// What stands where a token or a hash was.
const ROTATES: &str = "<rotates>";

/// Returns a digest of what bootstrap data means; `None` for formats that are not understood.
pub(super) fn meaning(data: &[u8]) -> Option<String> {
    let value = document(&text(data.to_vec())?)?;
    let digest = Sha256::digest(value.to_string());
    Some(super::revision::hex(&digest[..16]))
}

/// Opens base64 and gzip until there is text that is neither.
fn text(mut data: Vec<u8>) -> Option<String> {
    for _ in 0..WRAPPINGS_MAX {
        if data.starts_with(&[0x1f, 0x8b]) {
            data = gunzip(&data)?;
            continue;
        }
        let packed: Vec<u8> = data
            .iter()
            .copied()
            .filter(|b| !b.is_ascii_whitespace())
            .collect();
        match BASE64.decode(&packed) {
            Ok(plain) if !plain.is_empty() => data = plain,
            _ => break,
        }
    }
    String::from_utf8(data).ok()
}

fn gunzip(data: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let mut reader = MultiGzDecoder::new(data).take(TEXT_BYTES_MAX);
    reader.read_to_end(&mut plain).ok()?;
    Some(plain)
}

/// Reads a text that a machine is started with, in one of the formats that are understood.
fn document(text: &str) -> Option<Value> {
    let start = text.trim_start();
    let first = start.lines().next().unwrap_or_default();
    let is_cloud_config = start
        .lines()
        .take_while(|line| line.starts_with('#'))
        .any(|line| line.trim_end() == "#cloud-config");
    if is_cloud_config {
        return Some(yaml(text).unwrap_or_else(|| plain(text)));
    }
    if first.starts_with("#!") {
        return Some(plain(text));
    }
    if start.starts_with('{') {
        let value: Value = serde_json::from_str(start).ok()?;
        return value.get("ignition").is_some().then(|| normal(value));
    }
    multipart(start)
}

/// The parts of a MIME message, each by its own format, in their order.
fn multipart(text: &str) -> Option<Value> {
    let message = MessageParser::default().parse(text)?;
    let is = |kind: &str| message.content_type().is_some_and(|t| t.ctype() == kind);
    if !is("multipart") {
        return None;
    }
    let parts = message.parts.iter().filter_map(|part| {
        let body = match &part.body {
            PartType::Text(text) | PartType::Html(text) => text.to_string(),
            PartType::Binary(data) | PartType::InlineBinary(data) => self::text(data.to_vec())?,
            PartType::Message(_) | PartType::Multipart(_) => return None,
        };
        let subtype = part.content_type().and_then(|t| t.subtype());
        let meaning = document(&body).unwrap_or_else(|| plain(&body));
        Some(json!([subtype.unwrap_or_default(), meaning]))
    });
    Some(Value::Array(parts.collect()))
}

fn yaml(text: &str) -> Option<Value> {
    let documents = serde_yaml::Deserializer::from_str(text)
        .map(|document| Value::deserialize(document).map(normal))
        .collect::<Result<Vec<_>, _>>();
    documents.ok().map(Value::Array)
}

/// Text in which only what rotates is taken out.
fn plain(text: &str) -> Value {
    Value::String(without_tokens(text.trim()))
}

/// What a file says: a configuration of kubeadm by its fields, anything else as text.
fn file(text: &str) -> Value {
    if let Some(known) = document(text) {
        return known;
    }
    let is_kubeadm = text.contains("kubeadm.k8s.io/");
    match is_kubeadm.then(|| yaml(text)).flatten() {
        Some(value) => value,
        None => plain(text),
    }
}

/// Opens the files in a configuration and takes out what rotates, at any depth.
fn normal(value: Value) -> Value {
    match value {
        Value::String(text) => plain(&text),
        Value::Array(items) => items.into_iter().map(normal).collect(),
        Value::Object(fields) => Value::Object(fields_normal(fields)),
        other => other,
    }
}

fn fields_normal(mut fields: Map<String, Value>) -> Map<String, Value> {
    let files = [
        ("content", "encoding", content_of(&fields)),
        ("source", "compression", source_of(&fields)),
    ];
    let mut opened = Map::new();
    for (name, packing, text) in files {
        let Some(text) = text else { continue };
        fields.remove(name);
        fields.remove(packing);
        opened.insert(name.to_owned(), file(&text));
    }
    fields.remove("caCertHashes");
    let others = fields
        .into_iter()
        .map(|(name, value)| (name, normal(value)));
    opened.into_iter().chain(others).collect()
}

/// The content of a file of cloud-init, which may be packed.
fn content_of(fields: &Map<String, Value>) -> Option<String> {
    let content = fields.get("content")?.as_str()?;
    fields.get("path")?;
    let encoding = fields.get("encoding").and_then(Value::as_str);
    match encoding.unwrap_or("text/plain") {
        "text/plain" => Some(content.to_owned()),
        _ => text(content.as_bytes().to_vec()).or_else(|| Some(content.to_owned())),
    }
}

/// The content of a file of Ignition, if it is in the URL itself.
fn source_of(fields: &Map<String, Value>) -> Option<String> {
    let source = fields.get("source")?.as_str()?;
    let (body, _) = DataUrl::process(source).ok()?.decode_to_vec().ok()?;
    let body = if body.starts_with(&[0x1f, 0x8b]) {
        gunzip(&body)?
    } else {
        body
    };
    String::from_utf8(body).ok()
}

/// Replaces join tokens and hashes of certificates, which look like nothing else.
fn without_tokens(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == ':';
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (found, after) = rest.split_at(word);
        plain.push_str(if rotates(found) { ROTATES } else { found });
        let gap = after.find(is_word).unwrap_or(after.len());
        plain.push_str(&after[..gap]);
        rest = &after[gap..];
    }
    plain
}

fn rotates(word: &str) -> bool {
    let is_low = |text: &str, length: usize| {
        text.len() == length
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    let token = |word: &str| {
        word.split_once('.')
            .is_some_and(|(id, secret)| is_low(id, 6) && is_low(secret, 16))
    };
    let hash = |word: &str| {
        word.strip_prefix("sha256:")
            .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    token(word) || hash(word)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const TOKEN_A: &str = "abcdef.0123456789abcdef";
    const TOKEN_B: &str = "ghijkl.fedcba9876543210";

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn join(token: &str, label: &str) -> String {
        format!(
            "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n  \
             bootstrapToken:\n    token: {token}\n    caCertHashes: [\"sha256:{}\"]\n\
             nodeRegistration:\n  kubeletExtraArgs: {{node-labels: {label}}}\n",
            "ab".repeat(32)
        )
    }

    fn cloud_config(token: &str, label: &str) -> String {
        let body = json!({
            "write_files": [{"path": "/run/kubeadm/kubeadm-join-config.yaml",
                "content": join(token, label)}],
            "runcmd": ["kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml"],
        });
        format!("## template: jinja\n#cloud-config\n\n{body}\n")
    }

    fn packed(token: &str, label: &str, encoding: &str) -> String {
        let content = match encoding {
            "b64" => BASE64.encode(join(token, label)),
            _ => BASE64.encode(gzip(&join(token, label))),
        };
        let body = json!({"write_files": [{"path": "/a", "encoding": encoding,
            "content": content}]});
        format!("#cloud-config\n{body}\n")
    }

    fn mime(token: &str, label: &str) -> String {
        format!(
            "Content-Type: multipart/mixed; boundary=\"X\"\nMIME-Version: 1.0\n\n--X\n\
             Content-Type: text/cloud-config; charset=\"utf-8\"\n\n{}\n--X\n\
             Content-Type: text/x-shellscript\nContent-Transfer-Encoding: base64\n\n{}\n--X--\n",
            cloud_config(token, label),
            BASE64.encode(format!(
                "#!/bin/sh\nkubeadm join --token {token} --label {label}\n"
            ))
        )
    }

    fn ignition(token: &str, label: &str) -> String {
        let script = BASE64.encode(gzip(&format!("kubeadm join --token {token} {label}")));
        json!({
            "ignition": {"version": "3.4.0"},
            "storage": {"files": [
                {"path": "/etc/kubeadm.yml", "contents": {
                    "source": format!("data:;base64,{}", BASE64.encode(join(token, label)))}},
                {"path": "/etc/kubeadm.sh", "contents": {"compression": "gzip",
                    "source": format!("data:;base64,{script}")}},
            ]},
        })
        .to_string()
    }

    #[test]
    fn a_rotated_token_changes_no_meaning_and_another_label_does() {
        type Make = fn(&str, &str) -> Vec<u8>;
        let rows: [(&str, Make); 10] = [
            ("cloud-config", |t, l| cloud_config(t, l).into_bytes()),
            ("cloud-config in base64", |t, l| {
                BASE64.encode(cloud_config(t, l)).into_bytes()
            }),
            ("cloud-config in gzip", |t, l| gzip(&cloud_config(t, l))),
            ("a file in base64", |t, l| packed(t, l, "b64").into_bytes()),
            ("a file in gzip and base64", |t, l| {
                packed(t, l, "gz+b64").into_bytes()
            }),
            ("MIME", |t, l| mime(t, l).into_bytes()),
            ("Ignition", |t, l| ignition(t, l).into_bytes()),
            ("a content that is no file's", |t, l| {
                format!("#cloud-config\ndata: {{content: 'join {t} {l}'}}\n").into_bytes()
            }),
            ("a source that is a URL", |t, l| {
                let source = format!("https://example.com/{l}?token={t}");
                json!({"ignition": {"config": {"merge": [{"source": source}]}}})
                    .to_string()
                    .into_bytes()
            }),
            ("a script", |t, l| {
                format!("#!/bin/sh\njoin {t} {l}").into_bytes()
            }),
        ];
        for (name, make) in rows {
            let one = meaning(&make(TOKEN_A, "a=b"));
            assert!(one.is_some(), "{name}");
            assert_eq!(one, meaning(&make(TOKEN_B, "a=b")), "{name}");
            assert_ne!(one, meaning(&make(TOKEN_A, "a=c")), "{name}");
        }
    }

    #[test]
    fn spelling_changes_no_meaning() {
        let plain = meaning(cloud_config(TOKEN_A, "a=b").as_bytes());
        assert_eq!(plain, meaning(&gzip(&cloud_config(TOKEN_A, "a=b"))));
        let one = "#cloud-config\nruncmd: [a]\nhostname: x\n";
        let two = "#cloud-config\nhostname: 'x'\nruncmd:\n  - a\n";
        assert_eq!(meaning(one.as_bytes()), meaning(two.as_bytes()));
        let (json, spaced) = (
            r#"{"ignition":{"version":"3.4.0"},"systemd":{}}"#,
            r#"{ "systemd": {}, "ignition": { "version": "3.4.0" } }"#,
        );
        assert_eq!(meaning(json.as_bytes()), meaning(spaced.as_bytes()));
    }

    #[test]
    fn cloud_config_that_is_no_yaml_is_judged_as_text() {
        let broken = |token: &str, rest: &str| format!("#cloud-config\na: {{{{ {token}\n{rest}");
        let one = meaning(broken(TOKEN_A, "b").as_bytes());
        assert!(one.is_some());
        assert_eq!(one, meaning(broken(TOKEN_B, "b").as_bytes()));
        assert_ne!(one, meaning(broken(TOKEN_A, "c").as_bytes()));
    }

    #[test]
    fn what_is_not_understood_has_no_meaning() {
        let rows: [(&str, &[u8]); 4] = [
            ("text", b"version = 1"),
            ("json", b"{\"a\": 1}"),
            ("bytes", &[0xff, 0xfe, 0x00]),
            ("nothing", b""),
        ];
        for (name, data) in rows {
            assert_eq!(meaning(data), None, "{name}");
        }
    }
}
