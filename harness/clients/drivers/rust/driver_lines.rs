// The line protocol of drivers in Rust: see docs/reference/client-drivers.md.
use serde_json::{json, Value};
use std::fmt::Display;
use std::future::Future;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncBufReadExt, BufReader};

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static BUSY_MS: AtomicU64 = AtomicU64::new(0);
static MESSAGES: AtomicU64 = AtomicU64::new(0);

pub type Outcome = Result<(), Box<dyn std::error::Error>>;

pub fn report(saw: &str, mut fields: Value) {
    let at = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos() as u64;
    fields["saw"] = saw.into();
    fields["at"] = at.into();
    let mut output = std::io::stdout().lock();
    let _ = writeln!(output, "{fields}").and_then(|_| output.flush());
}

pub fn report_error(problem: impl Display) {
    report("error", json!({"headers": {}, "body": problem.to_string()}));
}

/// Report a message, which the caller keeps before, and work on it for as long as was asked.
pub async fn report_message(headers: Value, body: &[u8]) {
    let number = MESSAGES.fetch_add(1, SeqCst) + 1;
    let mut fields = json!({"number": number, "headers": headers});
    match std::str::from_utf8(body) {
        Ok(text) => fields["body"] = text.into(),
        Err(_) => fields["base64"] = encoded(body).into(),
    }
    report("message", fields);
    let busy = BUSY_MS.swap(0, SeqCst);
    if busy > 0 {
        tokio::time::sleep(Duration::from_millis(busy)).await;
        report("worked", json!({"number": number}));
    }
}

/// A field of a command as text; empty if there is none.
pub fn text(asked: &Value, name: &str) -> String {
    asked[name].as_str().unwrap_or_default().to_string()
}

pub fn number(asked: &Value, name: &str) -> u64 {
    asked[name].as_u64().unwrap_or_default()
}

pub fn content(asked: &Value) -> Vec<u8> {
    match asked["base64"].as_str() {
        Some(coded) => decoded(coded),
        None => text(asked, "body").into_bytes(),
    }
}

/// Obey the commands on standard input, one after the other.
pub async fn serve<F: Future<Output = Outcome>>(client: &str, mut obey: impl FnMut(String, Value) -> F) {
    let built = include_str!("../Cargo.toml");
    let release = built.split(&format!("{client} = \"=")).nth(1).and_then(|rest| rest.split('"').next());
    report("ready", json!({"client": client, "version": release.unwrap_or("unknown")}));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let asked: Value = serde_json::from_str(&line).unwrap_or_default();
        let name = text(&asked, "do");
        let done = if name == "work" {
            BUSY_MS.store(number(&asked, "ms"), SeqCst);
            Ok(())
        } else {
            obey(name.clone(), asked).await
        };
        match done {
            Ok(()) => report("did", json!({"do": name})),
            Err(problem) => report("failed", json!({"do": name, "problem": problem.to_string()})),
        }
    }
    std::process::exit(0);
}

fn encoded(bytes: &[u8]) -> String {
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().enumerate().fold(0u32, |all, (i, one)| all | u32::from(*one) << (16 - 8 * i));
        for i in 0..4 {
            out.push(if i <= three.len() { LETTERS[(bits >> (18 - 6 * i) & 63) as usize] as char } else { '=' });
        }
    }
    out
}

fn decoded(coded: &str) -> Vec<u8> {
    let values = coded.bytes().filter_map(|letter| LETTERS.iter().position(|one| *one == letter));
    let (mut bits, mut held, mut out) = (0u32, 0, Vec::new());
    for value in values {
        bits = bits << 6 | value as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}
