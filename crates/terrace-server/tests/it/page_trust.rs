//! Trust of the page: other sites, other users, hostile requests.

use std::io::{BufReader, Write};
use std::time::{Duration, Instant};

use serde_json::json;
use terrace_server::{IfBusy, PageConfig, ServerConfig};

use crate::http_client::{Browser, connect, exchange, get, read_response, split_link};
use crate::page::wait_for;
use crate::server::Server;

/// Page with a free port, and the right to write.
pub(crate) fn page() -> PageConfig {
    PageConfig { port: 0, if_busy: IfBusy::Fail, host: None, writes: true }
}

/// Starts a server with a page.
pub(crate) fn start(dir: &std::path::Path) -> Server {
    Server::start(dir, |config| config.page = Some(page()))
}

#[test]
fn token_works_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let link = server.addresses.page.clone().unwrap();
    let (address, path) = split_link(&link);
    assert!(address.ip().is_loopback());
    let browser = Browser::open(&server);
    assert_eq!(browser.get("/").status, 200);
    let again = exchange(address, &get(address, path, "")).unwrap();
    assert_eq!((again.status, again.header("set-cookie")), (401, ""));
    let guess = exchange(address, &get(address, "/?token=00000000000000000000000000000000", "")).unwrap();
    assert_eq!(guess.status, 401);
    // An administrator gets another link.
    let reply = server.client().run("TERRACE.PAGE");
    let other = Browser::follow(reply.trim_matches('\''));
    assert_eq!((other.get("/").status, browser.get("/").status), (200, 200));
    assert_ne!(other.cookie, browser.cookie);
}

#[test]
fn every_request_needs_the_cookie() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let browser = Browser::open(&server);
    let address = browser.address;
    let cookie = format!("Cookie: {}0\r\n", browser.cookie);
    let name = browser.cookie.split('=').next().unwrap();
    for path in ["/", "/assets/app.js", "/api/v1/state", "/api/v1/events", "/api/v1/nothing"] {
        for headers in ["", "Cookie: a=b\r\n", &cookie, &format!("Cookie: {name}=\r\n")] {
            let response = exchange(address, &get(address, path, headers)).unwrap();
            assert_eq!(response.status, 401, "{path} {headers}");
        }
    }
    let request = format!(
        "POST /api/v1/value HTTP/1.1\r\nHost: {address}\r\nX-Terrace: 1\r\nOrigin: http://{address}\r\n\
         Content-Length: 2\r\n\r\n{{}}"
    );
    assert_eq!(exchange(address, request.as_bytes()).unwrap().status, 401);
}

#[test]
fn other_names_of_the_host() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| {
        config.page = Some(PageConfig { host: Some("db.example".into()), ..page() });
    });
    let browser = Browser::open(&server);
    let port = browser.address.port();
    let status = |host: &str| {
        let request = format!(
            "GET /api/v1/state HTTP/1.1\r\nHost: {host}\r\nCookie: {}\r\nConnection: close\r\n\r\n",
            browser.cookie
        );
        exchange(browser.address, request.as_bytes()).map_or(0, |response| response.status)
    };
    for (host, expected) in [
        (format!("127.0.0.1:{port}"), 200),
        (format!("localhost:{port}"), 200),
        (format!("[::1]:{port}"), 200),
        ("db.example".to_owned(), 200),
        // A name that its owner points at 127.0.0.1: DNS rebinding.
        (format!("rebind.example:{port}"), 421),
        (format!("127.0.0.1.evil.example:{port}"), 421),
        ("localhost.evil.example".to_owned(), 421),
        (String::new(), 421),
    ] {
        assert_eq!(status(&host), expected, "{host}");
    }
    // Without the header, and with two of them.
    let without = format!("GET / HTTP/1.0\r\nCookie: {}\r\n\r\n", browser.cookie);
    assert_eq!(exchange(browser.address, without.as_bytes()).unwrap().status, 421);
    let twice = format!("Host: evil.example\r\nCookie: {}\r\n", browser.cookie);
    let twice = exchange(browser.address, &get(browser.address, "/", &twice));
    assert!(twice.is_none_or(|response| response.status == 421 || response.status == 400));
}

#[test]
fn changes_by_other_sites() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let browser = Browser::open(&server);
    let own = format!("Origin: http://{}\r\n", browser.address);
    let body = json!({ "key": "61", "value": "31" }).to_string();
    for (headers, expected) in [
        (String::new(), 403),
        (own.clone(), 403),
        ("X-Terrace: 1\r\n".to_owned(), 403),
        ("X-Terrace: 1\r\nOrigin: http://evil.example\r\n".to_owned(), 403),
        ("X-Terrace: 1\r\nOrigin: null\r\n".to_owned(), 403),
        (format!("X-Terrace: 1\r\n{own}Origin: http://evil.example\r\n"), 403),
        (format!("X-Terrace: 0\r\n{own}"), 403),
        (format!("X-Terrace: 1\r\n{own}"), 200),
    ] {
        server.client().check(&[("DEL a", ":0")]);
        for (path, body) in [("value", body.as_str()), ("console", "{\"line\":\"SET a 1\"}")] {
            let response = browser.post_with(path, &headers, body);
            assert_eq!(response.status, expected, "{path} {headers}");
        }
        let stored = server.client().run("GET a");
        assert_eq!(stored == "'1'", expected == 200, "{headers}");
    }
    // A form cannot send a change by GET, and a script of another site gets no permission.
    assert_eq!(browser.get("/api/v1/delete?key=61").status, 405);
    let options = format!(
        "OPTIONS /api/v1/value HTTP/1.1\r\nHost: {}\r\nOrigin: http://evil.example\r\nCookie: {}\r\n\
         Access-Control-Request-Method: POST\r\nConnection: close\r\n\r\n",
        browser.address, browser.cookie
    );
    let response = exchange(browser.address, options.as_bytes()).unwrap();
    assert_eq!((response.status, response.header("access-control-allow-origin")), (405, ""));
    assert_eq!(server.client().run("GET a"), "'1'");
}

#[test]
fn changes_need_the_option() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| {
        config.page = Some(PageConfig { writes: false, ..page() });
    });
    server.client().check(&[("SET a 1", "OK")]);
    let browser = Browser::open(&server);
    assert_eq!(browser.api("state")["pageWrites"], false);
    for (path, body) in [
        ("value", json!({ "key": "61", "value": "32" })),
        ("delete", json!({ "key": "61" })),
        ("undo", json!({ "undo": "1" })),
    ] {
        let response = browser.post(path, &body);
        assert_eq!(response.status, 403, "{path}");
        assert_eq!(response.json()["error"], "The server was started without --page-writes.");
    }
    for line in [
        "SET a 2",
        "DEL a",
        "FLUSHALL",
        "CONFIG SET maxclients 1",
        "EVAL 'return 1' 0",
        "SHUTDOWN",
        "SCRIPT FLUSH",
        "CLIENT KILL TYPE normal",
        "PUBLISH c m",
        "SWAPDB 0 1",
        "TERRACE.CHECKPOINT c",
        "TERRACE.DELRANGE - +",
        "TERRACE.COMPACT",
        "PFCOUNT a b",
        "SORT a STORE b",
        "GETEX a EX 1",
        "SLOWLOG RESET",
        "LATENCY RESET",
        "DEBUG SLEEP 0",
        "ACL SETUSER x",
    ] {
        let reply = browser.post("console", &json!({ "line": line })).json();
        let error = reply["reply"]["error"].as_str().unwrap_or_default();
        assert!(error.contains("--page-writes"), "{line}: {reply}");
    }
    for line in [
        "GET a",
        "INFO",
        "TERRACE.EVENTS",
        "CONFIG GET port",
        "SLOWLOG GET",
        "CLIENT LIST",
        "KEYS *",
        "DBSIZE",
    ] {
        let reply = browser.post("console", &json!({ "line": line })).json();
        assert!(reply["reply"]["error"].is_null(), "{line}: {reply}");
    }
    assert_eq!(server.client().run("GET a"), "'1'");
}

#[test]
fn headers_of_every_response() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let browser = Browser::open(&server);
    let address = browser.address;
    let mut responses = vec![
        browser.get("/"),
        browser.get("/api/v1/state"),
        browser.get("/api/v1/nothing"),
        browser.get("/assets/nothing"),
        browser.post("value", &json!({})),
        exchange(address, &get(address, "/", "")).unwrap(),
        exchange(address, b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n").unwrap(),
    ];
    let tag = browser.get("/").header("etag").to_owned();
    let known = format!("Cookie: {}\r\nIf-None-Match: {tag}\r\n", browser.cookie);
    let unchanged = exchange(address, &get(address, "/", &known)).unwrap();
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    responses.push(unchanged);
    for response in &responses {
        let policy = response.header("content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "img-src 'self'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.split("; ").any(|found| found == part), "{part} in {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(response.header("x-content-type-options"), "nosniff");
        assert_eq!(response.header("x-frame-options"), "DENY");
        assert_eq!(response.header("referrer-policy"), "no-referrer");
        assert_eq!(response.header("access-control-allow-origin"), "");
    }
}

#[test]
fn no_request_takes_a_path() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let browser = Browser::open(&server);
    for path in [
        "/assets/../../../etc/passwd",
        "/assets/%2e%2e%2fetc%2fpasswd",
        "/assets//etc/passwd",
        "/assets/",
        "/../index.html",
        "/index.html",
        "//evil.example/",
        "/assets/index.html%00",
        "/CURRENT",
        "/api/v1/../state",
        "/api/v1/",
    ] {
        let response = browser.get(path);
        assert_eq!(response.status, 404, "{path}");
    }
}

#[test]
fn hostile_requests() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let browser = Browser::open(&server);
    let address = browser.address;
    let cookie = format!("Cookie: {}\r\n", browser.cookie);
    let many: String = (0..500).map(|index| format!("X-{index}: a\r\n")).collect();
    let long = format!("X-Long: {}\r\n", "a".repeat(1 << 20));
    let address_of_1_mib = format!("/api/v1/value?key={}", "a".repeat(1 << 20));
    let requests = [
        get(address, "/", &(many + &cookie)),
        get(address, "/", &(long + &cookie)),
        get(address, &address_of_1_mib, &cookie),
        b"\x16\x03\x01\x02\x00\x01\x00".to_vec(),
        b"*1\r\n$4\r\nPING\r\n".to_vec(),
        vec![0; 1 << 20],
        b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"
            .to_vec(),
    ];
    for request in requests {
        let response = exchange(address, &request);
        let status = response.map_or(0, |response| response.status);
        assert!(
            status == 0 || status >= 400,
            "{status}: {}",
            request[..40.min(request.len())].escape_ascii()
        );
    }
    for (path, status) in [
        ("keys?count=x", 400),
        ("keys?prefix=%zz", 400),
        ("keys?direction=up", 400),
        ("keys?db=16", 400),
        ("keys?fromId=77", 404),
        ("value", 400),
        ("value?key=nothing", 404),
        ("levels?edit=999999", 404),
        ("table?number=999", 404),
        ("history?range=year", 400),
        ("tree?separator=", 400),
        ("nothing", 404),
        ("console", 405),
    ] {
        let response = browser.get(&format!("/api/v1/{path}"));
        assert_eq!(response.status, status, "{path}");
        assert!(response.json()["error"].as_str().unwrap().ends_with('.'), "{path}");
    }
    let large = "x".repeat(5 << 20);
    let body = json!({ "line": large });
    assert_eq!(browser.post("console", &body).status, 413);
    for body in ["", "{", "[]", "{\"key\":1}", "{\"key\":\"zz\",\"value\":\"\"}", "{\"value\":\"00\"}"] {
        let own = format!("X-Terrace: 1\r\nOrigin: http://{address}\r\n");
        assert_eq!(browser.post_with("value", &own, body).status, 400, "{body}");
    }
    assert_eq!(browser.get("/").status, 200);
}

#[test]
fn slow_clients_do_not_stop_others() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let browser = Browser::open(&server);
    let mut slow: Vec<_> = (0..20).map(|_| connect(browser.address)).collect();
    for stream in &mut slow {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: loc").unwrap();
    }
    let began = Instant::now();
    assert_eq!(browser.get("/").status, 200);
    assert!(began.elapsed() < Duration::from_secs(5));
    // The server ends connections without a whole request.
    for stream in slow.drain(..2) {
        let response = read_response(&mut BufReader::new(stream));
        assert!(response.is_none_or(|response| response.status == 408), "a slow request has a response");
    }
}

#[test]
fn thousand_event_streams() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let browser = Browser::open(&server);
    let mut open = Vec::new();
    let mut refused = 0;
    for _ in 0..1000 {
        match browser.events() {
            Some(events) => open.push(events),
            None => refused += 1,
        }
    }
    assert_eq!((open.len(), refused), (64, 936));
    // Clients of the server and other requests go on, and a closed stream makes room.
    server.client().check(&[("PING", "PONG")]);
    wait_for(|| browser.api("sample")["clients"] == json!(browser.api("clients").as_array().unwrap().len()));
    let mut last = open.pop().unwrap();
    last.next("second");
    drop(open);
    wait_for(|| browser.events().is_some());
}

#[test]
fn busy_port() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let dir = tempfile::tempdir().unwrap();
    let with =
        |if_busy| move |config: &mut ServerConfig| config.page = Some(PageConfig { port, if_busy, ..page() });
    let error = Server::try_start(dir.path(), with(IfBusy::Fail)).err().unwrap().to_string();
    assert!(error.contains(&format!("listen on 127.0.0.1:{port} for the page")), "{error}");
    let server = Server::start(dir.path(), with(IfBusy::NoPage));
    assert_eq!((server.addresses.page.clone(), server.addresses.busy_page_port), (None, Some(port)));
    server.client().check(&[("PING", "PONG"), ("TERRACE.PAGE", "-ERR the server has no web page")]);
    drop(server);
    let server = Server::start(dir.path(), with(IfBusy::FreePort));
    assert_eq!(Browser::open(&server).get("/").status, 200);
}
