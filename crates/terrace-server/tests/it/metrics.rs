//! `GET /metrics`, and the dashboard that uses it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use crate::server::Server;

fn request(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn scrape(address: SocketAddr) -> String {
    request(address, &format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n"))
}

fn start(dir: &Path) -> Server {
    Server::start(dir, |config| config.metrics_port = Some(0))
}

#[test]
fn numbers_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let mut client = server.client();
    client.check(&[("SET a 1", "OK"), ("GET a", "'1'"), ("GET a", "'1'"), ("TERRACE.COMPACT", "OK")]);
    client.run("INCRBY a x");
    let response = scrape(server.addresses.metrics.unwrap());
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"), "{head}");
    assert!(body.ends_with("# EOF\n"));
    for line in [
        "terrace_commands_total{command=\"get\"} 2",
        "terrace_command_seconds_count{group=\"string\"} 4",
        "terrace_errors_total{kind=\"ERR\"} 1",
        "terrace_clients 1",
        "terrace_flush_seconds_count 1",
        "terrace_writes_refused 0",
    ] {
        assert!(body.lines().any(|found| found == line), "{line}\n{body}");
    }
    check_format(body);
}

/// Checks that each sample follows the type of its family, and that buckets grow.
fn check_format(body: &str) {
    let mut family = "";
    let mut last_bucket = (String::new(), 0.0);
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split(' ').next().unwrap();
        }
        if line.starts_with('#') {
            continue;
        }
        assert!(line.starts_with(family), "{line} in {family}");
        let (name, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        if let Some((labels, _)) = name.split_once("le=\"") {
            let is_same = labels == last_bucket.0;
            assert!(!is_same || value >= last_bucket.1, "{line}");
            last_bucket = (labels.to_owned(), value);
        }
    }
}

#[test]
fn other_requests() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let address = server.addresses.metrics.unwrap();
    assert!(address.ip().is_loopback());
    for (text, expected) in [
        ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "),
        ("POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 "),
        ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "HTTP/1.1 421 "),
        ("*1\r\n$4\r\nPING\r\n\r\n", "HTTP/1.1 400 "),
    ] {
        let response = request(address, text);
        assert!(response.starts_with(expected), "{text}: {response}");
    }
    // Clients that send nothing do not stop the others.
    let _silent: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert!(scrape(address).starts_with("HTTP/1.1 200"));
}

#[test]
fn names_of_the_dashboard() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/grafana.json"));
    let dashboard: serde_json::Value = serde_json::from_str(&text.unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    server.client().check(&[("SET a 1", "OK"), ("TERRACE.COMPACT", "OK")]);
    server.client().run("NOSUCH");
    let body = scrape(server.addresses.metrics.unwrap());
    let mut names = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            names.extend(words.filter(|word| word.starts_with("terrace_")).map(str::to_owned));
        }
    }
    for name in &names {
        let is_found = body
            .lines()
            .any(|line| line.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with(['{', ' '])));
        assert!(is_found, "{name} is not in the metrics");
    }
    // The dashboard shows every metric.
    for family in body.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let family = family.split(' ').next().unwrap();
        assert!(names.iter().any(|name| name.starts_with(family)), "{family} is not in the dashboard");
    }
}
